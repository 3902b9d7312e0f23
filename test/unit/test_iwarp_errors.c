/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What the engine does when something fails (iw_engine.h): memory that is out at each place where it is asked for, a
 * port that gives datagrams back, an interface that takes smaller ones. Whatever it is, each request ends once, and a connection that goes on is unharmed. */
#include "spec_unit.h"

#include "iw_nomem.h"

#define S UINT64_C(1000000000)

static int setup(void **state)
{
    (void) state;
    out = (faulty_t){.times = 0};
    link_tune = NULL;
    return 0;
}

/* ---- memory that is out ---- */

enum {
    SENDS = 300,
    WRITES = 8,
    READS = 24,
    PART = 30000,
    POSTED = 100,
    ALL = SENDS + WRITES + READS
};

typedef struct story {
    link_t link;
    iw_peer_t *peer[2];
    uint8_t ended[2][ALL]; /* times each request completed */
    uint32_t posted[2], complete[2], received[2];
    uint32_t again; /* calls that said there is no memory, and were made once more */
    bool down[2];
    uint8_t note[2][POSTED][16];
    uint8_t source[PART], target[PART], sink[PART];
    uint32_t stag;
} story_t;

static void begin_story(story_t *s, uint64_t seed)
{
    const iw_fault_rates_t rates = {.drop = 50000, .reorder = 200000, .delay_ns = MS};
    s->link = (link_t){.engines = 2, .now = MS, .latency = 5000, .ns_for_kib = 100};
    iw_fault_init(&s->link.fault, &rates, seed);
    for (unsigned i = 0; i < 2; ++i) {
        iw_config_t c;
        link_config(i, &c);
        while (NULL == (s->link.engine[i] = iw_engine_create(&c))) {
            ++s->again;
        }
    }
    for (unsigned i = 0; i < 2; ++i) {
        while (NULL == (s->peer[i] = link_peer(&s->link, i, 1 - i, s))) {
            ++s->again;
        }
        assert_ptr_equal(iw_peer_user(s->peer[i]), s);
        for (int b = 0; b < POSTED; ++b) {
            while (IW_OK != iw_post_receive(s->link.engine[i], s->note[i][b], 16, s->note[i][b])) {
                ++s->again;
            }
        }
        assert_int_equal(iw_receives_free(s->link.engine[i]), POSTED);
    }
    while (0
           == (s->stag = iw_register(s->link.engine[1], s->target, PART,
                                     IW_REMOTE_WRITE | IW_REMOTE_READ, NULL))) {
        ++s->again;
    }
}

/* Request number n of an end. */
static iw_status_t post_next(story_t *s, unsigned i, uint32_t n)
{
    void *context = &s->ended[i][n];
    struct iovec piece = {&n, sizeof(n)};
    if (n < SENDS || 1 == i) {
        return iw_post_send(s->peer[i], &piece, 1, IW_INLINE, context);
    }
    if (n < SENDS + WRITES) {
        piece = (struct iovec){s->source, PART};
        return iw_post_write(s->peer[i], &piece, 1, s->stag, 0, 0, context);
    }
    return iw_post_read(s->peer[i], s->sink, PART, s->stag, 0, IW_FENCE, context);
}

static void take_completions(story_t *s, unsigned i)
{
    iw_completion_t c;
    while (1 == iw_engine_poll(s->link.engine[i], &c, 1)) {
        if (IW_PEER_DOWN == c.what) {
            assert_false(s->down[i]);
            /* Who waits for one that is down hears nothing. */
            assert_true(IW_NO_MEMORY == c.status || IW_PROTOCOL == c.status
                        || IW_REMOTE_ERROR == c.status || (IW_DEAD == c.status && s->down[1 - i]));
            s->down[i] = true;
        } else if (IW_RECEIVED == c.what) {
            uint32_t n;
            memcpy(&n, c.context, sizeof(n));
            assert_int_equal(n, s->received[i]++);
            while (IW_OK != iw_post_receive(s->link.engine[i], c.context, 16, c.context)) {
                ++s->again;
            }
        } else {
            ++*(uint8_t *) c.context;
            ++s->complete[i];
        }
    }
}

/* Sends, writes and reads one way, as many sends the other, one allocation after the nth failing `times` times. */
static void run_story(story_t *s, unsigned n, unsigned times)
{
    memset(s, 0, sizeof(*s));
    memset(s->source, 0x3c, PART);
    out = (faulty_t){.skip = n, .times = times, .error = ENOMEM};
    begin_story(s, 1);
    const uint64_t until = s->link.now + 100 * S;
    bool done = false;
    unsigned still = 0;
    while (!done) {
        bool retry = false;
        done = true;
        for (unsigned i = 0; i < 2; ++i) {
            const uint32_t all = 0 == i ? ALL : SENDS;
            iw_status_t status = IW_OK;
            while (s->posted[i] < all && !s->down[i]
                   && IW_OK == (status = post_next(s, i, s->posted[i]))) {
                ++s->posted[i];
            }
            retry |= IW_OK != status && !s->down[i];
            s->again += IW_OK != status;
            take_completions(s, i);
            done &= s->complete[i] == s->posted[i] && (s->down[i] || s->posted[i] == all);
            done &= s->down[i] || s->down[1 - i] || s->received[i] == SENDS;
        }
        still = done || retry || link_step(&s->link, until) ? 0 : still + 1;
        if (still > 1) { /* the first time it may just have ended */
            fail_msg("allocation %u: nothing happens any more: %u of %u, %u of %u", n,
                     s->complete[0], s->posted[0], s->complete[1], s->posted[1]);
        }
        if (s->down[0] != s->down[1] && s->link.now > 50 * S) {
            break; /* the other end hears nothing, and finds out in its own time */
        }
    }
    for (unsigned i = 0; i < 2; ++i) {
        for (uint32_t k = 0; k < s->posted[i]; ++k) {
            assert_true(s->ended[i][k] <= 1);
            assert_true(1 == s->ended[i][k] || s->down[1 - i]);
        }
        assert_int_equal(iw_engine_counters(s->link.engine[i])->peers_down, s->down[i]);
    }
    if (!s->down[0] && !s->down[1]) {
        assert_memory_equal(s->target, s->source, PART);
        assert_memory_equal(s->sink, s->source, PART);
    }
}

static void memory_is_out_at_each_allocation(void **state)
{
    (void) state;
    story_t *s = must_alloc(sizeof(*s));
    uint32_t again = 0, downs = 0, refused = 0, n = 0;
    for (bool hit = true; hit; ++n) {
        for (unsigned times = 1; times <= 3; times += 2) {
            run_story(s, n, times);
            hit = out.hits > 0;
            again += s->again;
            downs += s->down[0] + s->down[1];
            refused += (uint32_t) (iw_engine_counters(s->link.engine[0])->refused_memory
                                   + iw_engine_counters(s->link.engine[1])->refused_memory);
            out.times = 0;
            link_fini(&s->link);
        }
        assert_true(n < 1000);
    }
    print_message("%u allocations; %u calls refused, %u datagrams, %u connections\n", n - 1, again,
                  refused, downs);
    assert_true(n > 30 && again > 10 && refused > 0 && downs > 0);
    free(s);
}

/* A connection that cannot begin: its requests end with the reason, once, and those of others are as they were. */
static void a_connection_that_cannot_begin(void **state)
{
    (void) state;
    link_t l;
    uint8_t buffer[8];
    iw_completion_t c;
    struct iovec piece = {"hi", 3};
    link_init(&l, 3, NULL, 1);
    iw_peer_t *one = link_peer(&l, 0, 1, NULL), *two = link_peer(&l, 0, 2, NULL);
    (void) link_peer(&l, 1, 0, NULL);
    iw_post_receive(l.engine[1], buffer, sizeof(buffer), buffer);
    assert_int_equal(iw_post_send(two, &piece, 1, IW_INLINE, two), IW_OK);
    out = (faulty_t){.times = 1, .error = ENOMEM};
    link_drain(&l);
    assert_int_equal(out.hits, 1);
    assert_int_equal(iw_engine_poll(l.engine[0], &c, 1), 1);
    assert_ptr_equal(c.context, two);
    assert_int_equal(c.status, IW_NO_MEMORY);
    assert_int_equal(iw_engine_poll(l.engine[0], &c, 1), 1);
    assert_int_equal(c.what, IW_PEER_DOWN);
    assert_ptr_equal(c.peer, two);
    assert_int_equal(iw_engine_poll(l.engine[0], &c, 1), 0);
    assert_int_equal(iw_post_send(two, &piece, 1, IW_INLINE, two),
                     IW_NO_MEMORY); /* the same reason */
    assert_int_equal(iw_post_send(one, &piece, 1, IW_INLINE | IW_QUIET, NULL), IW_OK);
    link_run(&l, l.now + MS);
    assert_int_equal(iw_engine_poll(l.engine[1], &c, 1), 1);
    assert_string_equal((char *) buffer, "hi");
    link_fini(&l);
}

/* All places for regions are taken; one that is given back can be had again. */
static void every_region_is_taken(void **state)
{
    (void) state;
    enum { PLACES = 1 << 20 };
    iw_memory_t m;
    uint8_t byte, *at;
    iw_memory_init(&m, 1);
    uint32_t stag = 0;
    for (uint32_t i = 0; i < PLACES; ++i) {
        stag = iw_memory_add(&m, &byte, 1, IW_REMOTE_READ, NULL, NULL, NULL);
        assert_true(0 != stag);
    }
    assert_int_equal(iw_memory_add(&m, &byte, 1, IW_REMOTE_READ, NULL, NULL, NULL), 0);
    assert_int_equal(iw_memory_check(&m, stag, NULL, IW_REMOTE_READ, 0, 1, &at, NULL),
                     IW_ACCESS_OK);
    assert_true(iw_memory_remove(&m, stag));
    assert_int_equal(iw_memory_check(&m, stag, NULL, IW_REMOTE_READ, 0, 1, &at, NULL),
                     IW_ACCESS_STAG);
    const uint32_t again = iw_memory_add(&m, &byte, 1, IW_REMOTE_READ, NULL, NULL, NULL);
    assert_true(0 != again && stag != again);
    iw_memory_fini(&m);
}

/* ---- a port that cannot ---- */

/* As link_drain, but the port gives datagrams back: at random (percent), and probes of the path as long as `probes`
 * lasts; and those longer than `limit` as too big. */
static void poor_drain(link_t *l, rng_t *rng, uint32_t percent, unsigned *probes, uint16_t limit)
{
    static iw_packet_t k[64];
    for (unsigned i = 0; i < l->engines; ++i) {
        /* As a port does: what cannot leave now is for another time. */
        for (unsigned round = 0; round < 8 && iw_engine_has_output(l->engine[i]); ++round) {
            unsigned n = iw_engine_output(l->engine[i], l->now, k, 64);
            for (unsigned j = 0; j < n; ++j) {
                const bool is_probe = k[j].probe && *probes > 0;
                if (is_probe || rng_percent(rng, percent)) {
                    *probes -= is_probe;
                    iw_engine_unsent(l->engine[i], &k[j], n - j);
                    round = 8;
                    break;
                }
                if (0 == i && k[j].length > limit && !k[j].may_fragment) {
                    iw_engine_too_big(l->engine[i], &k[j], limit);
                } else {
                    link_send(l, i, &k[j]);
                }
            }
        }
    }
}

static bool poor_step(link_t *l, rng_t *rng, uint32_t percent, unsigned *probes, uint16_t limit)
{
    poor_drain(l, rng, percent, probes, limit);
    uint64_t next = l->count > 0 ? l->heap[0].at : UINT64_MAX;
    for (unsigned i = 0; i < l->engines; ++i) {
        uint64_t at = iw_engine_deadline(l->engine[i]);
        next = iw_engine_has_output(l->engine[i]) ? l->now + 1000 : at < next ? at : next;
    }
    if (UINT64_MAX == next) {
        return false;
    }
    l->now = next > l->now ? next : l->now;
    if (l->count > 0 && l->heap[0].at <= l->now) {
        link_packet_t p = link_pop(l);
        iw_engine_input(l->engine[p.to], l->now, p.data, p.length);
        free(p.data);
    }
    for (unsigned i = 0; i < l->engines; ++i) {
        iw_engine_timers(l->engine[i], l->now);
    }
    return true;
}

enum { LARGE = 200000 };

/* One write with a message behind it. Returns when it has all arrived. */
static void poor_transfer(link_t *l, iw_peer_t *from, uint32_t stag, const uint8_t *source,
                          const uint8_t *target, rng_t *rng, uint32_t percent, unsigned *probes,
                          uint16_t limit)
{
    uint8_t note[8];
    iw_completion_t c;
    struct iovec piece = {(void *) (uintptr_t) source, LARGE};
    iw_post_receive(l->engine[1], note, sizeof(note), note);
    assert_int_equal(iw_post_write(from, &piece, 1, stag, 0, IW_QUIET, NULL), IW_OK);
    piece = (struct iovec){"there", 6};
    assert_int_equal(iw_post_send(from, &piece, 1, IW_INLINE, NULL), IW_OK);
    bool arrived = false, sent = false;
    for (const uint64_t until = l->now + 60 * S; !arrived || !sent;) {
        assert_true(l->now < until);
        assert_true(poor_step(l, rng, percent, probes, limit));
        if (1 == iw_engine_poll(l->engine[1], &c, 1)) {
            assert_int_equal(c.what, IW_RECEIVED);
            assert_memory_equal(target, source, LARGE);
            arrived = true;
        }
        if (1 == iw_engine_poll(l->engine[0], &c, 1)) {
            assert_int_equal(c.what, IW_SENT);
            assert_int_equal(c.status, IW_OK);
            sent = true;
        }
    }
}

typedef struct poor {
    link_t link;
    iw_peer_t *peer;
    uint8_t *source, *target;
    uint32_t stag;
    rng_t rng;
    unsigned probes;
} poor_t;

static void poor_init(poor_t *t)
{
    *t = (poor_t){.source = must_alloc(LARGE), .target = must_alloc(LARGE), .rng = {3}};
    for (size_t i = 0; i < LARGE; ++i) {
        t->source[i] = (uint8_t) rng_next(&t->rng);
    }
    link_init(&t->link, 2, NULL, 1);
    t->peer = link_peer(&t->link, 0, 1, NULL);
    (void) link_peer(&t->link, 1, 0, NULL);
    t->stag = iw_register(t->link.engine[1], t->target, LARGE, IW_REMOTE_WRITE, NULL);
}

static void poor_go(poor_t *t, uint32_t percent, uint16_t limit)
{
    memset(t->target, 0, LARGE);
    poor_transfer(&t->link, t->peer, t->stag, t->source, t->target, &t->rng, percent, &t->probes,
                  limit);
}

static void poor_fini(poor_t *t)
{
    link_fini(&t->link);
    free(t->source);
    free(t->target);
}

/* The kernel has no room now and then: nothing is lost, nobody is blamed. */
static void datagrams_given_back_leave_later(void **state)
{
    (void) state;
    poor_t t;
    poor_init(&t);
    const uint64_t window = IW_CC_INITIAL;
    for (int round = 0; round < 10; ++round) {
        poor_go(&t, 30, UINT16_MAX);
    }
    const iw_counters_t *c = iw_engine_counters(t.link.engine[0]);
    assert_true(c->unsent > 0);
    assert_int_equal(c->peers_down, 0);
    assert_int_equal(c->lost_by_number + c->lost_by_time, 0);
    assert_true(t.peer->path.cc.window >= window); /* it was not the network */
    assert_int_equal(iw_engine_counters(t.link.engine[1])->segments_twice, 0);
    assert_true(0 == t.peer->path.cc.in_flight);
    poor_fini(&t);
}

/* Probes of the path that never left say nothing about it. */
static void probes_given_back_are_not_lost(void **state)
{
    (void) state;
    poor_t t;
    poor_init(&t);
    t.probes = 2 * IW_PATH_TRIES;
    for (int round = 0; round < 10; ++round) {
        poor_go(&t, 0, UINT16_MAX);
    }
    assert_int_equal(t.probes, 0);
    assert_int_equal(t.peer->path.mtu.size, 9000);
    poor_fini(&t);
}

/* Memory for a probe is out: the search goes on when there is some. */
static void the_search_survives_want_of_memory(void **state)
{
    (void) state;
    poor_t t;
    poor_init(&t);
    struct iovec piece = {"x", 1};
    uint8_t note[8];
    iw_completion_t c;
    iw_post_receive(t.link.engine[1], note, sizeof(note), note);
    assert_int_equal(iw_post_send(t.peer, &piece, 1, IW_INLINE, NULL), IW_OK);
    link_run(&t.link, t.link.now + MS);
    assert_int_equal(iw_engine_poll(t.link.engine[1], &c, 1), 1);
    assert_int_equal(iw_engine_poll(t.link.engine[0], &c, 1), 1);
    /* Every segment there is room for is out. */
    iw_pool_t *pool = &t.link.engine[0]->segments;
    const uint32_t max = pool->max;
    void *taken[256];
    uint32_t n = 0;
    pool->max = pool->made;
    while (n < 256 && NULL != (taken[n] = iw_pool_get(pool))) {
        ++n;
    }
    piece = (struct iovec){t.source, LARGE};
    assert_int_equal(iw_post_write(t.peer, &piece, 1, t.stag, 0, 0, NULL), IW_OK);
    t.peer->tx.large = true;
    link_run(&t.link, t.link.now + 10 * MS);
    assert_int_equal(iw_engine_poll(t.link.engine[0], &c, 1), 0);
    pool->max = max;
    while (n > 0) {
        iw_pool_put(pool, taken[--n]);
    }
    link_run(&t.link, t.link.now + 100 * MS); /* by itself: nothing is posted any more */
    assert_int_equal(iw_engine_poll(t.link.engine[0], &c, 1), 1);
    assert_int_equal(c.status, IW_OK);
    assert_memory_equal(t.target, t.source, LARGE);
    assert_int_equal(t.peer->path.mtu.size, 9000);
    poor_fini(&t);
}

/* The interface takes less than the path might: what it says is believed at once, and no more is tried. */
static void the_interface_limits_the_datagram(void **state)
{
    (void) state;
    poor_t t;
    poor_init(&t);
    poor_go(&t, 0, 3000);
    poor_go(&t, 0, 3000);
    assert_int_equal(t.peer->path.mtu.size, 3000);
    assert_int_equal(iw_engine_counters(t.link.engine[0])->unsent, 1);
    poor_fini(&t);
    /* Lowered while it runs: segments that have been cut already go in datagrams that IP may cut. */
    poor_init(&t);
    for (int round = 0; round < 3; ++round) {
        poor_go(&t, 0, UINT16_MAX);
    }
    assert_int_equal(t.peer->path.mtu.size, 9000);
    for (int round = 0; round < 3; ++round) {
        poor_go(&t, 0, 2000);
    }
    assert_true(t.peer->path.mtu.size <= 2000 && t.peer->path.mtu.size >= IW_DATAGRAM_MIN);
    assert_int_equal(iw_engine_counters(t.link.engine[0])->peers_down, 0);
    assert_true(0 == t.peer->path.cc.in_flight);
    poor_fini(&t);
}

/* A kernel that has room for one train each DRAIN_NS and refuses what comes between. `late`: the last datagram of a train is overtaken by the
 * first of the next. */
enum { TRAIN = 44, ROUNDS = 50 };
#define DRAIN_NS (MS / 2)

typedef struct slow {
    poor_t poor;
    uint64_t next;
    bool late;
    unsigned kept; /* bytes of the one that is late */
    uint8_t data[9000];
} slow_t;

static void slow_drain(slow_t *t)
{
    static iw_packet_t k[128];
    link_t *l = &t->poor.link;
    iw_engine_t *e = l->engine[0];
    if (iw_engine_has_output(e)) {
        const unsigned n = iw_engine_output(e, l->now, k, 128);
        const unsigned taken = l->now < t->next ? 0 : n < TRAIN ? n : TRAIN;
        const bool more = t->late && n > taken;
        for (unsigned i = 0; i < taken; ++i) {
            if (more && i + 1 == taken && 0 == t->kept) {
                for (unsigned j = 0; j < k[i].count; ++j) {
                    memcpy(t->data + t->kept, k[i].piece[j].iov_base, k[i].piece[j].iov_len);
                    t->kept += (unsigned) k[i].piece[j].iov_len;
                }
                break;
            }
            link_send(l, 0, &k[i]);
            if (0 == i && t->kept > 0) {
                link_push(l, 1, t->data, t->kept, l->free_at[0] + l->latency + 1, false, false);
                t->kept = 0;
            }
        }
        t->next = taken > 0 ? l->now + DRAIN_NS : t->next;
        iw_engine_not_taken(e, k + taken, n - taken);
    }
    while (iw_engine_has_output(l->engine[1])) {
        const unsigned n = iw_engine_output(l->engine[1], l->now, k, 128);
        for (unsigned i = 0; i < n; ++i) {
            link_send(l, 1, &k[i]);
        }
    }
}

static void slow_step(slow_t *t)
{
    link_t *l = &t->poor.link;
    slow_drain(t);
    uint64_t next = iw_engine_has_output(l->engine[0]) ? l->now + 20000 : UINT64_MAX;
    next = l->count > 0 && l->heap[0].at < next ? l->heap[0].at : next;
    for (unsigned i = 0; i < 2; ++i) {
        const uint64_t at = iw_engine_deadline(l->engine[i]);
        next = at < next ? at : next;
    }
    assert_true(UINT64_MAX != next);
    l->now = next > l->now ? next : l->now;
    while (l->count > 0 && l->heap[0].at <= l->now) {
        link_packet_t p = link_pop(l);
        iw_engine_input(l->engine[p.to], l->now, p.data, p.length);
        free(p.data);
    }
    for (unsigned i = 0; i < 2; ++i) {
        iw_engine_timers(l->engine[i], l->now);
    }
}

/* Nothing is lost, so nothing is sent again, whatever the kernel does not take at first; and what is overtaken by one only is not taken for
 * lost. */
static void a_kernel_that_is_full(void **state)
{
    (void) state;
    for (unsigned late = 0; late < 2; ++late) {
        slow_t *t = must_alloc(sizeof(*t));
        *t = (slow_t){.late = false};
        poor_init(&t->poor);
        for (int round = 0; round < 3; ++round) { /* what the path carries is known then */
            poor_go(&t->poor, 0, UINT16_MAX);
        }
        link_t *l = &t->poor.link;
        iw_engine_t *e = l->engine[0];
        const iw_counters_t *count = iw_engine_counters(e);
        const uint64_t resent = count->segments_resent, unsent = count->unsent;
        const struct iovec piece = {t->poor.source, LARGE};
        l->latency = 2 * MS; /* an answer takes longer than a train waits */
        t->late = late > 0;
        unsigned posted = 0;
        for (unsigned done = 0; done < 5 * ROUNDS;) {
            iw_completion_t c;
            for (; posted < 5 * ROUNDS && posted < done + 20; ++posted) {
                assert_int_equal(iw_post_write(t->poor.peer, &piece, 1, t->poor.stag, 0, 0, NULL), IW_OK);
            }
            slow_step(t);
            while (1 == iw_engine_poll(e, &c, 1)) {
                assert_int_equal(c.status, IW_OK);
                ++done;
            }
        }
        assert_true(count->unsent > unsent);
        assert_true(late > 0 || count->segments_resent == resent);
        assert_int_equal(count->lost_by_number, 0);
        assert_true(t->poor.peer->path.cc.in_flight == 0);
        poor_fini(&t->poor);
        free(t);
    }
}

/* What was for a connection that has ended, or is no segment, is counted and nothing else. */
static void given_back_when_all_is_over(void **state)
{
    (void) state;
    poor_t t;
    iw_packet_t k[8];
    iw_completion_t c;
    poor_init(&t);
    poor_go(&t, 0, UINT16_MAX);
    struct iovec piece = {t.source, 100};
    assert_int_equal(iw_post_send(t.peer, &piece, 1, 0, NULL), IW_OK);
    iw_engine_t *e = t.link.engine[0];
    unsigned n = iw_engine_output(e, t.link.now, k, 8);
    assert_true(n > 0);
    const uint64_t before = iw_engine_counters(e)->unsent;
    iw_peer_down(t.peer, IW_DEAD, NULL);
    iw_engine_unsent(e, k, n);
    iw_engine_too_big(e, k, 1500);
    k[0].peer = NULL; /* a good-bye's is gone */
    iw_engine_unsent(e, k, 1);
    iw_engine_too_big(e, k, 1500);
    assert_int_equal(iw_engine_counters(e)->unsent, before + n + 3);
    assert_int_equal(iw_engine_poll(e, &c, 1), 1);
    assert_int_equal(c.status, IW_DEAD);
    assert_true(e->segments.in_use == 0);
    poor_fini(&t);
}

static void what_is_known_of_a_path(void **state)
{
    (void) state;
    iw_path_t p;
    iw_path_init(&p, 1200, 9000);
    assert_int_equal(iw_path_next(&p), 9000);
    iw_path_too_big(&p, 5000,
                    4000); /* another one's datagram; the probe on its way cannot pass either */
    assert_int_equal(iw_path_next(&p), 4000);
    iw_path_acked(&p, 9000); /* not the probe on its way */
    iw_path_lost(&p, 9000);
    assert_int_equal(p.size, 1200);
    iw_path_too_big(&p, 9000, 2000); /* lowered again, and then the probe arrives after all */
    iw_path_acked(&p, 4000);
    assert_true(p.size <= p.ceiling);
    assert_int_equal(p.size, 4000);
    assert_int_equal(iw_path_next(&p), 0); /* found */
    assert_true(iw_path_black_hole(&p, 1200));
    assert_false(iw_path_black_hole(&p, 1200));
    /* Lost so often that it is too large, but it has been found to pass meanwhile. */
    iw_path_init(&p, 1200, 1300);
    for (int i = 0; i < IW_PATH_TRIES; ++i) {
        assert_int_equal(iw_path_next(&p), 1300);
        p.size = 1300;
        iw_path_lost(&p, 1300);
        p.size = i + 1 < IW_PATH_TRIES ? 1200 : 1300;
    }
    assert_int_equal(p.ceiling, 1300);
}

static void numbers_that_cannot_be(void **state)
{
    (void) state;
    static const iw_seen_t none;
    assert_int_equal(iw_seen_check(&none, 4, UINT64_MAX), IW_SEEN_FAR); /* its floor is above it */
    assert_int_equal(iw_seen_check(&none, 5 + IW_SEEN, 5), IW_SEEN_FAR);
    assert_int_equal(iw_seen_check(&none, IW_SEEN, 0), IW_SEEN_FAR);
    assert_int_equal(iw_seen_check(&none, IW_SEEN - 1, 0), IW_SEEN_NEW);
    uint64_t largest;
    iw_range_t range[2];
    assert_int_equal(iw_seen_ranges(&none, range, 2, &largest), 0); /* nothing to say */
}

/* However much is acknowledged, the window has an end. */
static void the_window_has_an_end(void **state)
{
    (void) state;
    iw_cc_t c;
    iw_cc_init(&c, 0);
    for (int i = 0; i < 20; ++i) {
        iw_cc_sent(&c, c.window);
        iw_cc_acked(&c, c.in_flight, 1, 9000, true, false);
    }
    assert_true(c.window == IW_CC_MAX);
}

/* ---- completions come once ---- */

/* Lost are the first datagram that brings data of a read, and with it the acknowledgement of the request, and all with
 * which the acknowledgement is asked for again. */
static unsigned asked, answered;

static void lose_acknowledgement(void *context, unsigned from, const uint8_t *data, size_t length)
{
    link_t *l = context;
    (void) length;
    const bool is_segment = IW_SEGMENT == (data[0] & 0x0f);
    asked += 0 == from;
    answered += 1 == from && is_segment;
    l->cut[from] = 0 == from ? asked > 1 : is_segment && 1 == answered;
    l->cut[1 - from] = false;
}

/* The data is here before the acknowledgement of what asked for it, and then the peer dies: the read has been told
 * as complete, and is not told as failed. */
static void a_read_that_is_complete_does_not_fail(void **state)
{
    (void) state;
    link_t l;
    uint8_t source[64], sink[64] = {0};
    iw_completion_t c;
    memset(source, 0x42, sizeof(source));
    link_init(&l, 2, NULL, 1);
    iw_peer_t *a = link_peer(&l, 0, 1, NULL);
    (void) link_peer(&l, 1, 0, NULL);
    const uint32_t stag = iw_register(l.engine[1], source, sizeof(source), IW_REMOTE_READ, NULL);
    asked = answered = 0;
    l.tap = lose_acknowledgement;
    l.tap_context = &l;
    assert_int_equal(iw_post_read(a, sink, sizeof(sink), stag, 0, 0, sink), IW_OK);
    while (0 == iw_engine_poll(l.engine[0], &c, 1)) {
        assert_true(link_step(&l, 10 * S));
    }
    assert_int_equal(c.what, IW_READ);
    assert_int_equal(c.status, IW_OK);
    assert_memory_equal(sink, source, sizeof(sink));
    assert_false(spec_list_is_empty(&a->tx.requests)); /* not acknowledged: or this test shows nothing */
    iw_peer_down(a, IW_DEAD, NULL);
    assert_int_equal(iw_engine_poll(l.engine[0], &c, 1), 1);
    assert_int_equal(c.what, IW_PEER_DOWN);
    assert_int_equal(iw_engine_poll(l.engine[0], &c, 1), 0);
    link_fini(&l);
}

/* Data of a read never comes through. */
static void lose_responses(void *context, unsigned from, const uint8_t *data, size_t length)
{
    link_t *l = context;
    (void) length;
    l->cut[1] = 1 == from && IW_SEGMENT == (data[0] & 0x0f);
}

/* Memory is taken back while a read of it is served, and its data was lost: it cannot be sent again. That is an error at
 * both ends, not silence. */
static void a_read_of_what_is_gone_ends(void **state)
{
    (void) state;
    link_t l;
    uint8_t source[64] = {1}, sink[64] = {0};
    iw_completion_t c;
    link_init(&l, 2, NULL, 1);
    iw_peer_t *a = link_peer(&l, 0, 1, NULL);
    (void) link_peer(&l, 1, 0, NULL);
    const uint32_t stag = iw_register(l.engine[1], source, sizeof(source), IW_REMOTE_READ, NULL);
    l.tap = lose_responses;
    l.tap_context = &l;
    assert_int_equal(iw_post_read(a, sink, sizeof(sink), stag, 0, 0, sink), IW_OK);
    while (0 == iw_engine_counters(l.engine[1])->segments_out) {
        assert_true(link_step(&l, 10 * S));
    }
    assert_true(iw_deregister(l.engine[1], stag));
    link_run(&l, l.now + 5 * S); /* half of what it takes until a peer is dead */
    assert_int_equal(iw_engine_poll(l.engine[0], &c, 1), 1);
    assert_int_equal(c.what, IW_READ);
    assert_int_equal(c.status, IW_REMOTE_ACCESS);
    assert_int_equal(iw_engine_poll(l.engine[0], &c, 1), 1);
    assert_int_equal(c.what, IW_PEER_DOWN);
    assert_int_equal(iw_engine_poll(l.engine[1], &c, 1), 1);
    assert_int_equal(c.what, IW_PEER_DOWN);
    assert_int_equal(c.status, IW_PROTOCOL);
    link_fini(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(memory_is_out_at_each_allocation, setup),
        cmocka_unit_test_setup(a_connection_that_cannot_begin, setup),
        cmocka_unit_test_setup(every_region_is_taken, setup),
        cmocka_unit_test_setup(datagrams_given_back_leave_later, setup),
        cmocka_unit_test_setup(probes_given_back_are_not_lost, setup),
        cmocka_unit_test_setup(the_search_survives_want_of_memory, setup),
        cmocka_unit_test_setup(the_interface_limits_the_datagram, setup),
        cmocka_unit_test_setup(a_kernel_that_is_full, setup),
        cmocka_unit_test_setup(given_back_when_all_is_over, setup),
        cmocka_unit_test_setup(what_is_known_of_a_path, setup),
        cmocka_unit_test_setup(numbers_that_cannot_be, setup),
        cmocka_unit_test_setup(the_window_has_an_end, setup),
        cmocka_unit_test_setup(a_read_that_is_complete_does_not_fail, setup),
        cmocka_unit_test_setup(a_read_of_what_is_gone_ends, setup),
    };
    return cmocka_run_group_tests_name("iw_errors", tests, NULL, NULL);
}
