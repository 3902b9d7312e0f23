/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* libFuzzer: the input is a script for two processes that talk over adapters that are not there - what they are to do, time
 * that passes, what breaks, and what a wicked peer says in between. After each step everything a port counts must be
 * consistent; in the end everything is over, and what was promised has been kept (verbs_world.h). */
#include "verbs_wicked.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- what must be true of a port at any time ---- */

static void check_receives(const vb_rx_t *rx, const queue_t *posted)
{
    uint32_t buffers = 0, idle = 0;
    for (unsigned i = 0; i < VB_SLABS && buffers < rx->buffers; ++i) {
        const vb_slab_t *slab = &rx->slab[i];
        if (NULL != slab->memory) {
            MUST(slab->idle <= slab->n);
            buffers += slab->n;
            idle += slab->idle;
        }
    }
    MUST(buffers == rx->buffers && buffers == idle + rx->posted + rx->taken);
    MUST(posted->n <= rx->posted && rx->posted + rx->taken <= rx->entries);
    MUST(rx->window.current <= rx->window.max && rx->posted + rx->taken <= rx->window.max + rx->spare);
}

/* Returns the entries of the completion queue that the link holds. */
static uint32_t check_link(const vb_link_t *link)
{
    uint32_t reads = 0;
    if (NULL == link->requests) {
        return 0;
    }
    MUST(vb_sendq_outstanding(&link->sendq) <= link->sendq.depth);
    for (uint32_t i = link->sendq.una; i != link->sendq.nxt; ++i) {
        const vb_request_t *request = &link->requests[i % link->sendq.depth];
        reads += VB_SENT_READ == request->sent.kind && !request->is_done;
    }
    MUST(reads == link->reads);
    MUST(link->credit.have <= VB_CREDITS_MAX);
    MUST(!link->credit.is_counted
         || (uint16_t) (link->credit.control_sent - link->credit.control_seen) <= VB_CONTROL_MAX);
    if (NULL != link->rx) {
        check_receives(link->rx, &((qp_t *) link->qp)->posted);
    }
    return vb_sendq_outstanding(&link->sendq) + (NULL == link->rx ? 0 : link->rx->entries);
}

static void check(const process_t *p)
{
    const vb_port_t *port = p->port;
    uint32_t links = 0, deadlines = 0, attempts = 0, resuming = 0, queued = 0, places = 0, entries = 0;
    vb_datagram_use_t use;
    if (NULL == port) {
        return;
    }
    for (const vb_peer_t *peer = port->peers; NULL != peer; peer = peer->next) {
        deadlines += 0 != peer->conn.deadline;
        attempts += vb_conn_is_first_attempt(&peer->conn);
        resuming += vb_conn_is_resuming(&peer->conn);
        queued += spec_node_is_queued(&peer->turn);
        places += peer->has_slot;
        MUST(NULL == peer->link || peer->link->peer == peer);
        MUST((VB_OPEN != peer->conn.state && VB_ACCEPTING != peer->conn.state)
             || NULL != peer->link);
        if (NULL != peer->link) {
            links += peer->link->is_counted;
            entries += check_link(peer->link);
        }
    }
    for (const vb_link_t *link = port->graveyard; NULL != link; link = link->next) {
        entries += check_link(link);
        MUST(NULL == link->qp || 0 == vb_sendq_outstanding(&link->sendq));
    }
    if (NULL != port->rx) {
        check_receives(port->rx, &((srq_t *) port->srq)->posted);
        entries += port->rx->entries;
    }
    SPEC_LIST_EACH (n, &port->queue) {
        MUST(queued-- > 0);
    }
    SPEC_LIST_EACH (n, &port->broken) {
        MUST(queued-- > 0);
    }
    MUST(resuming == port->resuming && resuming <= port->config.resuming);
    MUST(0 == queued && attempts == port->attempts);
    MUST(links == port->links && deadlines == port->deadlines);
    MUST(entries == port->entries.used && entries <= port->entries.limit);
    MUST(port->counters.strangers >= strangers[p->index]);
    MUST(port->config.part_max > 0 || port->counters.accepted <= welcomed[p->index]);
    if (vb_port_datagram_use(port, &use)) {
        MUST(use.connections == places && places <= port->config.datagram.max_connections);
    }
    /* Windows of the port or of its links; slabs are of whole pages. */
    const uint64_t each = (uint64_t) 2 * port->config.window_max * port->config.buffer_size + 65536;
    MUST(port->counters.registered <= (links + 8) * each);
    MUST(p->world->is_wicked || (0 == fake.overflows && 0 == fake.torn));
}

/* ---- what is done ---- */

static void one_round(world_t *w, uint64_t ns)
{
    for (unsigned i = 0; i < PROCESSES; ++i) {
        process_t *p = &w->process[i];
        if (NULL != p->port) {
            vb_port_events(p->port, 0);
            (void) poll_once(p, 16);
            carry(p);
        }
    }
    pass(ns);
}

static void want_some(process_t *p, unsigned code, script_t *s)
{
    const unsigned flags = next(s);
    op_t op = {.kind = code % 16 < 2    ? SEND
                       : 2 == code % 16 ? PUT
                       : code & 16      ? ADD
                                        : GET,
               .flags = flags & (VB_FENCE | VB_SIGNAL | WANT_TWO_PIECES | WANT_INLINE)};
    op.flags |= ADD == op.kind ? VB_SIGNAL : 0;
    op.size = flags & 1 ? next16(s) : next(s) % 128;
    op.at = PUT == op.kind || GET == op.kind ? next16(s) : 0;
    for (unsigned n = flags & 8 ? next(s) % 32 : 0; n > 0; --n) {
        want(p, &op);
    }
    want(p, &op);
}

static void break_something(world_t *w, process_t *p, script_t *s)
{
    vb_link_t *link = NULL == p->peer ? NULL : p->peer->link;
    const unsigned how = next(s);
    w->may_lose = true;
    if (how % 8 < 5 && (NULL == link || NULL == link->qp)) {
        return;
    }
    qp_t *qp = how % 8 < 5 ? (qp_t *) link->qp : NULL;
    async_t *a;
    switch (how % 8) {
    case 0:
        fake_break_pair(qp);
        break;
    case 1:
        if (NULL != qp->other) {
            fake_break_pair(qp->other);
        }
        fake_break_pair(qp);
        break;
    case 2:
    case 3:
        (void) rdma_disconnect(link->id);
        break;
    case 4:
        a = calloc(1, sizeof(*a));
        MUST(NULL != a);
        a->event.event_type = IBV_EVENT_QP_FATAL;
        a->event.element.qp = link->qp;
        put(&fake_nodes[p->index + 1].async, &a->super);
        ring(fake_nodes[p->index + 1].context.async_fd);
        break;
    case 5:
        p->is_mute = p->is_killed = true;
        fake_kill(p->index + 1);
        break;
    case 6: /* nothing comes or goes any more */
        p->is_mute = true;
        fake_kill(p->index + 1);
        fake_device_fatal(p->index + 1);
        fake_mute(p->index + 1);
        break;
    default:
        part(p);
        break;
    }
}

/* What goes wrong from now on. */
static void set_faults(world_t *w, script_t *s)
{
    const unsigned what = next(s), flags = next(s);
    switch (what % 4) {
    case 0: /* connecting */
        w->may_lose |= 0 != flags;
        fake.no_address = flags & 1;
        fake.no_route = flags & 2;
        fake.no_connect = flags & 4;
        fake.silent = flags & 8;
        break;
    case 1:
        w->may_lose = true;
        fake.registrations_left = flags & 128 ? -1 : (int) (flags % 8);
        fake.queue_pairs_left = what & 128 ? (int) (what >> 2 & 3) : -1;
        break;
    case 2: /* datagrams: the engine sends again, until it takes the peer for dead */
        w->may_lose |= 0 != (flags & 15);
        fake.lost = flags % 16 * 2;
        fake.twice = (flags >> 4) % 8 * 8;
        fake.late = (what >> 2) % 8 * 8;
        fake.seed = flags;
        break;
    default:
        fake.torn_writes = flags & 1;
        break;
    }
}

static void be_wicked(world_t *w, process_t *p, script_t *s)
{
    const unsigned what = next(s);
    w->is_wicked = true;
    switch (what % 6) {
    case 0:
        forge_hello(p, s);
        break;
    case 1:
    case 2:
        forge_message(p, s);
        break;
    case 3:
    case 4:
        if (p->config.part_max > 0) {
            forge_part(p, s);
        } else {
            forge_in_datagrams(p, s);
        }
        break;
    default:
        forge_datagram(p, s);
        break;
    }
}

static void step(world_t *w, script_t *s)
{
    const unsigned code = next(s);
    process_t *p = &w->process[code >> 7];
    switch (code % 16) {
    case 0:
    case 1:
    case 2:
    case 3:
        want_some(p, code, s);
        break;
    case 4:
        (void) poll_once(p, 1 + (int) (code >> 4 & 7));
        break;
    case 5:
        vb_port_events(p->port, 0);
        break;
    case 6:
    case 7:
        for (unsigned n = 1 + (code >> 4 & 7); n > 0; --n) {
            one_round(w, 100000);
        }
        break;
    case 8:
        pass((uint64_t) next(s) * 10000);
        break;
    case 9: /* who waits for an answer may take the other for dead */
        w->may_lose |= NULL != p->port->hybrid
                       || w->process[0].port->deadlines + w->process[1].port->deadlines > 0;
        pass((uint64_t) next(s) * 10000000);
        break;
    case 10:
        vb_port_lock(p->port);
        vb_port_check(p->port, spec_now());
        vb_port_unlock(p->port);
        break;
    case 11:
        p->holds = code & 16;
        p->carries_none = code & 64;
        vb_port_lock(p->port);
        for (unsigned n = code & 32 ? next(s) : 0; n > 0 && p->helds > 0; --n) {
            give_back(p, next(s) % p->helds);
        }
        vb_port_unlock(p->port);
        break;
    case 12:
        if (code & 16) {
            p->is_closed = false;
        }
        meet(p);
        break;
    case 13:
        set_faults(w, s);
        break;
    case 14:
        break_something(w, p, s);
        break;
    default:
        be_wicked(w, p, s);
        break;
    }
}

/* ---- from beginning to end ---- */

static void set_up(world_t *w, script_t *s)
{
    const unsigned fabric = next(s), sizes = next(s), depths = next(s),
                   hybrid = next(s), more = next(s);
    fake.is_iwarp = 2 == fabric % 4;
    fake.is_infiniband = 1 == fabric % 4;
    fake.has_srq = 3 != fabric % 4;
    fake.has_atomics = !fake.is_iwarp;
    fake.max_inline = fabric & 4 ? 16 : 256;
    fake.torn_writes = fabric & 8;
    fake.is_timed = fabric & 16;
    fake.deaf = fake.is_iwarp && fabric & 32 ? 1 : 0;
    w->has_stalled = fake.deaf > 0;
    fuzz_now = UINT64_C(1000000000);
    for (unsigned i = 0; i < PROCESSES; ++i) {
        process_t *p = &w->process[i];
        vb_config_t *c = &p->config;
        p->world = w;
        p->index = i;
        vb_config_default(c);
        c->address = fake_address(i + 1, 0);
        c->name = fabric & 64 ? 90 + i : 90 - i;
        c->key = 1000 + i;
        c->buffer_size = sizes & 1 ? 2112 : sizes & 2 ? 520 : 256;
        c->window_initial = 2 + (sizes >> 2) % 16;
        c->window_max = 16 + (sizes >> 6) * 16;
        c->link_window_max = c->window_max;
        c->window_quiet_ns = sizes & 32 ? 10000000 : 0;
        c->send_depth = 4 + depths % 32;
        c->entries = 64 + (depths >> 5) * 16;
        c->rnr_timer = 1;
        c->rules.attempt_ns = 1000000000;
        c->rules.backoff_ns = 1000000;
        c->rules.tries = 1 + (more >> 1) % 4;
        c->rules.word_ns = 1000000;
        c->rules.resume_ns = more & 16 ? 0 : UINT64_C(2000000000);
        c->rules.breaks = more;
        c->rules.trial_ns = 1000000000;
        c->rules.return_ns = 2000000000;
        c->part_max = hybrid & 128 ? 200 : 0;
        c->copy = copy_registered;
        c->datagram.after = hybrid & 1 ? 1 + (hybrid >> 1) % 8 : 0;
        c->datagram.max_connections = (hybrid >> 4) % 4;
        c->datagram.auth = hybrid & 64 ? IW_AUTH_TAG : IW_AUTH_OFF;
        c->datagram.receives = 64;
        c->datagram.qkey = 77 + i;
        c->datagram.seed = 99 + i;
        c->datagram.start = 1 + i;
        c->datagram.peer_timeout_ns = UINT64_C(2000000000);
        memset(c->datagram.key, 1 + (int) i, sizeof(c->datagram.key));
        c->thread = false;
        c->context = p;
        c->done = on_done;
        c->ready = on_ready;
        c->down = on_down;
        c->stranger = on_stranger;
        c->trace = NULL == getenv("FUZZ_TRACE") ? NULL : on_trace;
        c->switch_trace = NULL == c->trace ? NULL : on_way_trace;
    }
    start(&w->process[0]);
    start(&w->process[1]);
    for (unsigned i = 0; i < 2; ++i) {
        if (more >> 4 & 1u << i) {
            meet(&w->process[i]);
        }
    }
}

/* Nonsense is counted as such, unless one of the two has lost the other before: forged datagrams without a tag can part them, and
 * then what was posted never arrives. */
static bool owes_refusal(const process_t *p)
{
    const world_t *w = p->world;
    return p->has_heard_nonsense && 0 == p->port->counters.bad_messages
           && 0 == p->lost + other(p)->lost && !w->may_lose && !w->is_parted && !w->has_stalled;
}

static bool is_over(const world_t *w)
{
    bool over = true;
    for (unsigned i = 0; i < 2; ++i) {
        const process_t *p = &w->process[i];
        over &= (p->is_killed || 0 == p->ops + p->awaited) && p->got == other(p)->sent
                && !owes_refusal(p);
    }
    return over;
}

/* Until everything is over, or nothing has happened for long enough that all who wait must have given up. */
static void settle(world_t *w, bool (*is_done)(const world_t *))
{
    unsigned before = w->happened;
    for (unsigned round = 0; round < 64 && !is_done(w); ++round) {
        one_round(w, UINT64_C(1000000) << (round < 7 ? round : 7));
        for (unsigned i = 0; i < PROCESSES; ++i) {
            check(&w->process[i]);
        }
        round = before == w->happened ? round : 0;
        before = w->happened;
    }
}

/* Nothing goes wrong any more: in a bounded time without progress everything posted is done, or has failed and somebody was told. */
static void finish(world_t *w)
{
    fake.no_address = fake.no_route = fake.no_connect = fake.silent = false;
    fake.registrations_left = fake.queue_pairs_left = -1;
    fake.lost = fake.late = 0;
    for (unsigned i = 0; i < 2; ++i) {
        process_t *p = &w->process[i];
        p->holds = p->carries_none = false;
        vb_port_lock(p->port);
        while (p->helds > 0) {
            give_back(p, 0);
        }
        vb_port_unlock(p->port);
    }
    for (unsigned round = 0; round < 4; ++round) {
        one_round(w, 1000000);
    }
    settle(w, is_over);
    for (unsigned i = 0; i < 2; ++i) {
        MUST(!owes_refusal(&w->process[i]));
    }
    if (w->is_wicked || w->has_stalled) {
        return;
    }
    process_t *p = &w->process[0], *q = &w->process[1];
    for (unsigned i = 0; i < 2; ++i) {
        const process_t *one = &w->process[i];
        MUST(one->is_killed || 0 == one->ops + one->awaited);
        MUST(w->may_lose || 0 == one->failed + one->lost);
    }
    if (p->got != q->sent || q->got != p->sent) {
        MUST(w->is_parted || (w->may_lose && p->lost + q->lost > 0));
    }
    if (!w->may_lose) {
        MUST(p->added == p->adds && q->added == q->adds);
        MUST(*sum_of(p) == q->adds && *sum_of(q) == p->adds);
    }
}

static bool has_third(const world_t *w)
{
    return w->third > 0;
}

/* Whatever it was told: another process can still talk to it. */
static void check_usable(world_t *w)
{
    process_t *p = &w->process[0], *third = &w->process[2];
    const op_t op = {.kind = SEND, .size = 40};
    if (p->is_mute) {
        return;
    }
    fake.deaf = 0;
    w->may_lose = w->is_wicked = true;
    memset(forged, 0, sizeof(forged));
    w->third = 0; /* somebody may have taken its name before */
    start(third);
    meet_other(p, third);
    meet_other(third, p);
    want(third, &op);
    settle(w, has_third);
    MUST(1 == w->third);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    script_t s = {data, size};
    world_t *w = calloc(1, sizeof(*w));
    MUST(NULL != w);
    fake_reset();
    wicked_begin(w);
    set_up(w, &s);
    while (s.left > 0) {
        step(w, &s);
        check(&w->process[0]);
        check(&w->process[1]);
    }
    finish(w);
    if (w->is_wicked) {
        check_usable(w);
    }
    for (unsigned i = 0; i < PROCESSES; ++i) {
        stop(&w->process[i]);
    }
    wicked_end();
    MUST(0 == fake.memory_regions && 0 == fake.queue_pairs && 0 == fake.ids);
    MUST(0 == fake.address_handles && 0 == fake.too_long);
    for (unsigned i = 0; i < PROCESSES; ++i) {
        free(w->process[i].memory);
    }
    free(w);
    return 0;
}
