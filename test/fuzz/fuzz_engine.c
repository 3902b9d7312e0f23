/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* libFuzzer: the input is a script for two engines that talk to each other - calls of the application,
 * passing time, faults, and datagrams that are nearly right (the connection, numbers and lengths fit,
 * the rest is anything). After each step everything the engines count must be consistent. */
#include "fuzz_script.h"
#include "iw_internal.h"
#include "iw_link.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMORY = 8192, BUFFER = 3000 };

/* Datagrams of one script: some thousand of them tell no more than these, and take as long as a thousand scripts. */
enum { ENOUGH = 4000 };

typedef struct world {
    link_t link;
    iw_peer_t *peer[2];
    uint32_t stag[2];
    uint32_t posted[2]; /* receives, not completed */
    uint32_t requests[2];
    bool injected;
    _Alignas(8) uint8_t memory[2][MEMORY];
    uint8_t buffer[2][BUFFER];
    uint8_t sink[2][MEMORY];
    uint8_t roomy[2][IW_HEADROOM_SIZE + MEMORY];
    bool has_roomy[2]; /* a message from there is under way */
} world_t;

static unsigned count(const spec_node_t *list)
{
    unsigned n = 0;
    for (const spec_node_t *l = list->next; l != list; l = l->next) {
        MUST(l->next->prev == l);
        ++n;
    }
    return n;
}

/* What must be true of a peer at any time. */
static unsigned check_peer(const iw_peer_t *p)
{
    uint64_t cost = 0, last = 0;
    unsigned resent = 0, out = 0, of_requests = 0;
    const spec_node_t *l;
    for (l = p->loss.in_flight.next; l != &p->loss.in_flight; l = l->next) {
        const iw_segment_t *s = SPEC_ENTRY(l, iw_segment_t, link);
        MUST(s->pn > last && s->pn < p->tx.next_pn);
        last = s->pn;
        cost += s->cost;
        resent += s->resent;
        out += NULL != s->request;
    }
    for (l = p->loss.lost.next; l != &p->loss.lost; l = l->next) {
        const iw_segment_t *s = SPEC_ENTRY(l, iw_segment_t, link);
        MUST(NULL != s->request);
        MUST(l->next == &p->loss.lost
             || spec_seq_before(s->ssn, SPEC_ENTRY(l->next, iw_segment_t, link)->ssn));
        ++out;
    }
    for (l = p->tx.requests.next; l != &p->tx.requests; l = l->next) {
        of_requests += SPEC_ENTRY(l, iw_request_t, all)->out;
    }
    for (l = p->rx.early.next; l != &p->rx.early; l = l->next) {
        uint32_t ssn = SPEC_ENTRY(l, iw_early_t, link)->ssn;
        MUST(spec_seq_before(p->rx.expected, ssn) && ssn - p->rx.expected < IW_SSN_WINDOW);
        MUST(l->next == &p->rx.early || spec_seq_before(ssn, SPEC_ENTRY(l->next, iw_early_t, link)->ssn));
    }
    MUST(out == of_requests);
    for (l = p->tx.atomics.next; l != &p->tx.atomics; l = l->next) {
        const iw_request_t *r = SPEC_ENTRY(l, iw_request_t, queue);
        MUST(IW_DO_ATOMIC == r->operation && !r->reported);
    }
    MUST(count(&p->tx.atomics) <= p->tx.reads_out);
    if (IW_ACTIVE == p->state) {
        MUST(cost == p->path.cc.in_flight && resent == p->loss.resent_out);
        MUST(p->tx.next_ssn - p->tx.una_ssn <= IW_SSN_WINDOW);
    } else if (IW_IDLE != p->state) {
        MUST(0 == out && spec_list_is_empty(&p->tx.requests) && spec_list_is_empty(&p->rx.early));
        MUST(0 == p->heap_at);
    }
    return count(&p->rx.messages);
}

static void check(world_t *w)
{
    for (unsigned i = 0; i < 2; ++i) {
        iw_engine_t *e = w->link.engine[i];
        unsigned messages = 0, received = 0;
        for (const spec_node_t *l = e->peers.next; l != &e->peers; l = l->next) {
            messages += check_peer(SPEC_ENTRY(l, iw_peer_t, known));
        }
        for (uint32_t k = 0; k < e->done_count; ++k) {
            unsigned what = e->done[(e->done_first + k) & (e->done_room - 1)].what;
            received += IW_RECEIVED == what;
        }
        /* A receive buffer is in one place. */
        MUST(w->posted[i] == e->receive_count + messages + received);
        MUST(messages == e->messages.in_use);
        MUST(e->done_count <= e->done_room);
        for (uint32_t k = 1; k < e->heap_size; ++k) {
            MUST(e->heap[(k - 1) / 2]->heap_key <= e->heap[k]->heap_key);
            MUST(e->heap[k]->heap_at == k + 1);
        }
    }
}

static void poll_all(world_t *w, unsigned i)
{
    iw_completion_t c;
    while (1 == iw_engine_poll(w->link.engine[i], &c, 1)) {
        if (IW_RECEIVED == c.what) {
            MUST(c.length <= BUFFER);
            --w->posted[i];
        } else if (IW_PEER_SILENT == c.what) {
            MUST(NULL == c.peer || 1 <= c.length);
        } else if (IW_SENT == c.what || IW_WRITTEN == c.what || IW_READ == c.what || IW_ATOMIC == c.what) {
            MUST(w->requests[i]-- > 0);
            if (NULL != c.context) {
                *(bool *) c.context = false;
            }
        }
    }
}

static bool had_enough(const world_t *w)
{
    return w->link.sent > ENOUGH;
}

static void run(world_t *w, uint64_t ns)
{
    const uint64_t until = w->link.now + ns;
    while (!had_enough(w) && link_step(&w->link, until)) {}
    link_drain(&w->link);
    if (w->link.now < until && !had_enough(w)) {
        w->link.now = until;
    }
}

static void post(world_t *w, unsigned i, script_t *s)
{
    iw_peer_t *p = w->peer[i];
    unsigned kind = next(s), length = next16(s) % MEMORY, to = next16(s) % (MEMORY + 16);
    const bool writes = 3 == kind % 8 || 4 == kind % 8;
    unsigned flags = (kind >> 4 & 3) == 1                    ? IW_FENCE
                     : (kind >> 4 & 3) == 2 && kind % 8 <= 4 ? (writes ? IW_BULK : IW_BEHIND)
                                                             : 0;
    struct iovec piece[2] = {{w->memory[i], length / 2},
                             {w->memory[i] + length / 2, length - length / 2}};
    iw_status_t status;
    switch (kind % 8) {
    case 0:
        status = iw_post_send(p, piece, 2, flags, NULL);
        break;
    case 1:
        piece[0] = (struct iovec){w->roomy[i] + IW_HEADROOM_SIZE, length};
        if (w->has_roomy[i]) {
            return; /* headers of one message only */
        }
        status = iw_post_send(p, piece, 1, flags | IW_HEADROOM, &w->has_roomy[i]);
        w->has_roomy[i] = IW_OK == status;
        break;
    case 2:
        status = iw_post_send(p, piece, 1, flags | IW_INLINE, NULL);
        break;
    case 3:
    case 4:
        status = iw_post_write(p, piece, 2, w->stag[1 - i], to, flags, NULL);
        break;
    case 7:
        status = iw_post_atomic(p, (iw_atomic_op_t) (length % IW_ATOMIC_OPS), 0 != (length & 16), w->stag[1 - i], to, length,
                                to, w->sink[i], flags, NULL);
        break;
    default:
        status = iw_post_read(p, w->sink[i], length, w->stag[1 - i], to, flags, NULL);
        break;
    }
    w->requests[i] += IW_OK == status;
}

/* A datagram that gets far: what follows the head comes from the script. */
static void inject(world_t *w, unsigned i, script_t *s)
{
    uint8_t bytes[2048];
    iw_engine_t *e = w->link.engine[i];
    iw_peer_t *p = w->peer[i];
    unsigned type = 1 + next(s) % 6, flags = next(s) & IW_FLAGS;
    size_t length = sizeof(iw_head_t), seq = 0;
    uint64_t pn = p->rx.seen.end + next(s) % 4;
    iw_head_t h = {.version_type = (uint8_t) (IW_VERSION << 4 | type),
                   .flags = (uint8_t) flags,
                   .floor = iw_be16((uint16_t) (next(s) % 8)),
                   .conn = iw_be32(p->conn),
                   .pn = iw_be64(pn),
                   .tag = iw_be64(flags & IW_F_HELLO ? 0 : p->generation)};
    memcpy(bytes, &h, sizeof(h));
    w->injected = true;
    for (unsigned blocks = next(s) % 5; blocks > 0; --blocks) {
        unsigned n = next(s);
        if (255 == n && 0 == seq && IW_SEGMENT == type) {
            iw_seq_t q = {.ssn = iw_be32(p->rx.expected + next(s) % 4)};
            seq = length;
            memcpy(bytes + length, &q, sizeof(q));
            length += sizeof(q);
            bytes[length++] = (uint8_t) next(s);
            bytes[length++] = (uint8_t) (IW_RDMAP_VERSION | next(s) % 16);
            continue;
        }
        for (n %= 64; n > 0; --n) {
            bytes[length++] = (uint8_t) next(s);
        }
    }
    if (0 != seq) {
        iw_be16_t left = iw_be16((uint16_t) (length - seq - sizeof(iw_seq_t)));
        memcpy(bytes + seq + 4, &left, sizeof(left));
    }
    uint8_t *exact = malloc(length);
    MUST(NULL != exact);
    memcpy(exact, bytes, length);
    iw_engine_input(e, w->link.now, exact, length);
    free(exact);
}

static void add_peer(world_t *w, unsigned i)
{
    w->peer[i] = link_peer(&w->link, i, 1 - i, NULL);
    MUST(NULL != w->peer[i]);
}

static void step(world_t *w, script_t *s)
{
    unsigned code = next(s), i = code >> 7;
    switch (code % 16) {
    case 0:
    case 1:
    case 2:
        post(w, i, s);
        break;
    case 3:
    case 4:
        w->posted[i] += IW_OK == iw_post_receive(w->link.engine[i], w->buffer[i], BUFFER, NULL);
        break;
    case 5:
        poll_all(w, i);
        break;
    case 6:
    case 7:
        inject(w, i, s);
        break;
    case 8:
        run(w, (uint64_t) next(s) * 10000);
        break;
    case 9:
        run(w, (uint64_t) next(s) * 10000000);
        break;
    case 10:
        iw_arm_limit(w->link.engine[i], next(s) % 8);
        break;
    case 11:
        iw_peer_remove(w->peer[i]);
        add_peer(w, i);
        break;
    case 12:
        if (iw_deregister(w->link.engine[i], w->stag[i])) {
            w->stag[i] = iw_register(w->link.engine[i], w->memory[i], MEMORY,
                                     IW_REMOTE_READ | IW_REMOTE_WRITE, NULL);
        }
        break;
    case 13: { /* a process is stopped, ends without a word, or is there again; and what the network says, true or not */
        const unsigned how = next(s);
        w->link.cut[i] = 0 != (how & 1);
        w->link.gone[i] = 0 != (how & 2);
        if (how & 4) {
            iw_address_t address;
            link_address(1 - i, &address);
            iw_engine_unreachable(w->link.engine[i], &address);
        }
        break;
    }
    default:
        for (unsigned n = 1 + next(s) % 16; n > 0; --n) {
            (void) link_step(&w->link, w->link.now + 1000000000);
        }
        break;
    }
}

/* Nothing more can happen: nothing is under way or waits, and no timer runs. */
static bool is_over(const world_t *w)
{
    bool over = 0 == w->requests[0] && 0 == w->requests[1] && 0 == w->link.count;
    for (unsigned i = 0; over && i < 2; ++i) {
        const iw_engine_t *e = w->link.engine[i];
        over = 0 == e->done_count && UINT64_MAX == iw_engine_deadline(e) && !iw_engine_has_output(e);
    }
    return over;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    script_t s = {data, size};
    world_t *w = calloc(1, sizeof(*w));
    MUST(NULL != w);
    unsigned loss = next(&s);
    const iw_fault_rates_t rates = {.drop = loss % 4 * 100000,
                                    .duplicate = loss / 4 % 4 * 100000,
                                    .reorder = loss / 16 % 4 * 100000,
                                    .delay_ns = 1000000};
    link_init(&w->link, 2, &rates, next(&s));
    for (unsigned i = 0; i < 2; ++i) {
        iw_config_t c;
        iw_engine_destroy(w->link.engine[i]);
        link_config(i, &c);
        c.auth = IW_AUTH_OFF;
        c.quota = 1 + next(&s) % 8;
        c.requests_max = 1 + next(&s) % 64;
        c.early_max = 1 + next(&s) % 64;
        c.reads = (uint8_t) (1 + next(&s) % 4);
        c.peer_timeout_ns = UINT64_C(1000000000);
        c.silent_timeout_ns = UINT64_C(5000000000);
        w->link.engine[i] = iw_engine_create(&c);
        MUST(NULL != w->link.engine[i]);
        add_peer(w, i);
        w->stag[i] =
            iw_register(w->link.engine[i], w->memory[i], MEMORY, IW_REMOTE_READ | IW_REMOTE_WRITE, NULL);
    }
    while (s.left > 0 && !had_enough(w)) {
        step(w, &s);
        check(w);
    }
    /* In bounded time everything is over: done, refused, or the peer is dead. */
    for (int n = 0; n < 100 && !is_over(w) && !had_enough(w); ++n) {
        for (unsigned i = 0; i < 2; ++i) {
            poll_all(w, i);
            while (w->posted[i] < 8) {
                MUST(IW_OK == iw_post_receive(w->link.engine[i], w->buffer[i], BUFFER, NULL));
                ++w->posted[i];
            }
        }
        run(w, 1000000000);
        check(w);
    }
    poll_all(w, 0);
    poll_all(w, 1);
    /* A forged acknowledgement can make one wait for ever: who has the key could as well say nothing. */
    MUST(w->injected || had_enough(w) || (0 == w->requests[0] && 0 == w->requests[1]));
    link_fini(&w->link);
    free(w);
    return 0;
}
