/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Flow control for unexpected messages (core/spec_flow.h): each rule, and random interleavings of several
 * senders with packets that overtake each other. */
#include "spec_unit.h"

#include "spec_flow.h"
#include "spec_slab.h"

enum { SMALL = SPEC_FLOW_MESSAGE, SENDERS = 4, WINDOW = 3 * SPEC_FLOW_LEAST };

static spec_store_t store;
static spec_flow_in_t a, b;

static int setup(void **state)
{
    (void) state;
    store = (spec_store_t){.limit = 4 * WINDOW, .window = WINDOW};
    a = b = (spec_flow_in_t){.arrived = 0};
    spec_flow_begin(&a, WINDOW);
    spec_flow_begin(&b, WINDOW);
    return 0;
}

/* A message of so much comes and is unexpected. True: more credit was given. */
static bool keep(spec_flow_in_t *in, uint32_t cost)
{
    const bool needs = spec_flow_arrived(in, cost);
    spec_flow_kept(&store, in, cost);
    return needs && spec_flow_give(&store, in, false);
}

static uint32_t left(const spec_flow_in_t *in)
{
    return in->told - in->arrived;
}

/* What the component takes for a message: an object that holds packets of up to 192 bytes (pml_spec_flow.c checks that
 * it is no larger than SPEC_FLOW_MESSAGE), and for larger ones a part of a slab. */
static void *map_slab(void)
{
    return aligned_alloc(SPEC_SLAB_SIZE, SPEC_SLAB_SIZE);
}

static void a_message_costs_what_it_takes(void **state)
{
    (void) state;
    assert_int_equal(spec_flow_cost(0), SPEC_FLOW_MESSAGE);
    assert_int_equal(spec_flow_cost(SPEC_FLOW_INSIDE), SPEC_FLOW_MESSAGE);
    uint32_t last = 0;
    for (uint32_t data = 0; data <= SPEC_FLOW_DATA_MAX; data += 7) {
        const uint32_t cost = spec_flow_cost(data);
        assert_true(cost >= last && cost <= SPEC_FLOW_STEP);
        last = cost;
        if (data > SPEC_FLOW_INSIDE && data + 64 <= SPEC_SLAB_MAX) {
            spec_slabs_t slabs;
            spec_slabs_init(&slabs, map_slab, free);
            char *first = spec_slab_take(&slabs, data + 64),
                 *second = spec_slab_take(&slabs, data + 64);
            assert_non_null(first);
            /* The parts of a slab follow each other, unless only one fits: that takes the slab. */
            const bool same = second > first && second < first + SPEC_SLAB_SIZE;
            const size_t takes = same ? (size_t) (second - first) : SPEC_SLAB_SIZE;
            assert_true(takes + SPEC_FLOW_MESSAGE <= cost + 256);
            spec_slab_put(&slabs, second, data + 64);
            spec_slab_put(&slabs, first, data + 64);
            spec_slabs_give_back(&slabs);
        }
    }
}

static void limit_and_window_follow_from_the_memory(void **state)
{
    (void) state;
    const uint64_t gib = UINT64_C(1) << 30;
    assert_int_equal(spec_flow_limit(64 * gib, 2), 8 * gib);
    assert_int_equal(spec_flow_limit(64 * gib, 0), 16 * gib);
    assert_int_equal(spec_flow_limit(1 * gib, 64), 64 * SPEC_FLOW_LEAST);
    assert_int_equal(spec_flow_limit(0, 1), 64 * SPEC_FLOW_LEAST);
    assert_int_equal(spec_flow_window(0, 5), SPEC_FLOW_MOST);
    assert_int_equal(spec_flow_window(8 * gib, 1), SPEC_FLOW_MOST);
    assert_int_equal(spec_flow_window(8 * gib, 64), 128 * SPEC_FLOW_LEAST);
    assert_int_equal(spec_flow_window(64 * SPEC_FLOW_LEAST, 1000), SPEC_FLOW_LEAST);
    assert_int_equal(spec_flow_window(1, 0), SPEC_FLOW_LEAST);
}

/* The sender may have begun with the least window, so the first time comes early. */
static void one_packet_in_a_quarter_of_the_window(void **state)
{
    (void) state;
    uint32_t told = 0;
    const uint32_t n = 100000;
    for (uint32_t i = 0; i < n; ++i) {
        if (spec_flow_arrived(&a, SMALL)) {
            assert_true(told > 0 || a.arrived < SPEC_FLOW_STEP + SMALL);
            assert_true(spec_flow_give(&store, &a, false));
            assert_int_equal(left(&a), WINDOW);
            ++told;
        }
        assert_true(left(&a) >= WINDOW - WINDOW / 4);
    }
    assert_in_range(told, n / (WINDOW / 4 / SMALL), 1 + n / (WINDOW / 4 / SMALL));
}

/* Also of the least that is ever told. */
static void more_than_a_step_of_little_credit_is_left(void **state)
{
    (void) state;
    store.window = 2 * SPEC_FLOW_STEP;
    for (int i = 0; i < 10000; ++i) {
        if (spec_flow_arrived(&a, SMALL)) {
            assert_true(spec_flow_give(&store, &a, false));
            assert_int_equal(left(&a), 2 * SPEC_FLOW_STEP);
        }
        assert_true(left(&a) > SPEC_FLOW_STEP);
    }
}

static void within_the_limit_all_get_more(void **state)
{
    (void) state;
    a.arrived = UINT32_MAX - WINDOW; /* through the wrap */
    spec_flow_begin(&a, WINDOW);
    while (store.bytes <= store.limit) {
        keep(&a, SMALL);
        assert_true(left(&a) >= SPEC_FLOW_STEP);
        assert_false(a.is_low);
    }
    assert_int_equal(store.most, store.bytes);
}

static void beyond_the_limit_one_window_at_most(void **state)
{
    (void) state;
    uint32_t n = 0;
    while (left(&a) >= SMALL) {
        keep(&a, SMALL);
        ++n;
    }
    assert_true(a.is_low);
    assert_true(store.bytes > store.limit && store.bytes <= store.limit + WINDOW);
    assert_int_equal(a.bytes, (uint64_t) n * SMALL);
    /* Another one, of whom nothing is held yet, gets along with its own. */
    while (left(&b) >= SMALL) {
        keep(&b, SMALL);
    }
    assert_true(b.is_low);
    assert_true(b.bytes <= WINDOW && b.bytes > WINDOW - SMALL);
}

static void room_gives_credit_again(void **state)
{
    (void) state;
    while (left(&a) >= SMALL) {
        keep(&a, SMALL);
    }
    while (store.bytes > store.limit) {
        assert_false(spec_flow_give(&store, &a, false));
        spec_flow_taken(&store, &a, SMALL);
    }
    assert_true(spec_flow_give(&store, &a, false));
    assert_false(a.is_low);
    assert_int_equal(left(&a), WINDOW);
    assert_false(spec_flow_give(&store, &a, false)); /* once */
}

static void one_of_whom_little_is_held_gets_more(void **state)
{
    (void) state;
    store.bytes = 10 * store.limit; /* others' */
    while (left(&a) >= SMALL) {
        keep(&a, SMALL);
    }
    assert_true(a.is_low);
    while (a.bytes > WINDOW - 2 * SPEC_FLOW_STEP) {
        assert_false(spec_flow_give(&store, &a, false));
        spec_flow_taken(&store, &a, SMALL);
    }
    assert_true(spec_flow_give(&store, &a, false));
    assert_int_equal(left(&a) + a.bytes, WINDOW);
}

static void one_who_is_waited_for_gets_more(void **state)
{
    (void) state;
    for (int i = 0; i < 10; ++i) {
        while (left(&a) >= SMALL) {
            keep(&a, SMALL);
        }
        assert_true(a.is_low);
        assert_true(spec_flow_give(&store, &a, true));
        assert_false(a.is_low);
        assert_int_equal(left(&a), WINDOW);
        assert_false(spec_flow_give(&store, &a, true)); /* that is enough */
    }
}

static void no_limit(void **state)
{
    (void) state;
    store.limit = 0;
    for (int i = 0; i < 100000; ++i) {
        keep(&a, SMALL);
        assert_false(a.is_low);
    }
}

static void a_sender_spends_what_it_has(void **state)
{
    (void) state;
    spec_flow_out_t out = {.told = WINDOW};
    assert_true(spec_flow_lets(&out, WINDOW));
    assert_false(spec_flow_lets(&out, WINDOW + 1));
    out.spent = WINDOW - 10;
    assert_true(spec_flow_lets(&out, 10));
    assert_false(spec_flow_lets(&out, 11));
    assert_true(spec_flow_learn(&out, WINDOW + 1000));
    assert_true(spec_flow_lets(&out, 1010));
    assert_false(spec_flow_learn(&out, WINDOW + 999)); /* it was overtaken */
    assert_false(spec_flow_learn(&out, WINDOW + 1000));
    assert_true(spec_flow_lets(&out, 1010));
    out = (spec_flow_out_t){.told = UINT32_MAX, .spent = UINT32_MAX - 100};
    assert_true(spec_flow_learn(&out, 5));
    assert_true(spec_flow_lets(&out, 106));
}

/* ---- senders, a receiver, and channels in any order between them ---- */

enum { MESSAGES = 4000, TAGS = 3, LINE = 4096 };

typedef struct message {
    uint32_t no, cost;
    uint8_t tag;
} message_t;

typedef struct pair {
    spec_flow_out_t out;
    spec_flow_in_t in;
    uint32_t sent, nxt;   /* issued; processed */
    message_t line[LINE]; /* under way, in any order */
    uint32_t line_n;
    message_t early[LINE]; /* here, before their turn */
    uint32_t early_n;
    uint64_t early_cost;
    message_t kept[MESSAGES]; /* unexpected, oldest first */
    uint32_t kept_n;
    uint32_t credit[LINE]; /* CREDITs under way */
    uint32_t credits;
    message_t all[MESSAGES];
    uint32_t received;
} pair_t;

typedef struct world {
    rng_t rng;
    spec_store_t store;
    pair_t pair[SENDERS];
    uint32_t senders;
    int wants_of,
        wants_tag; /* the receive that waits: of whom (or -1: none), with which tag (-1: any) */
    bool in_order; /* the program receives each sender's messages in their order */
    uint32_t lowest;
    uint64_t
        windows; /* the larger of what each sender and the receiver take for its window, all together */
} world_t;

static void tell(pair_t *p)
{
    assert_true(p->credits < LINE);
    p->credit[p->credits++] = p->in.told;
}

static bool is_wanted(const world_t *w, const pair_t *p, const message_t *m)
{
    return w->wants_of == (int) (p - w->pair) && (w->wants_tag < 0 || w->wants_tag == m->tag);
}

/* As the component does: when it is low, whether a receive waits; later each receive says so. */
static void consider(world_t *w, pair_t *p, bool waits)
{
    const bool was_low = p->in.is_low;
    bool given = spec_flow_give(&w->store, &p->in, waits);
    if (!given && !was_low && p->in.is_low && w->wants_of == (int) (p - w->pair)) {
        given = spec_flow_give(&w->store, &p->in, true);
    }
    w->lowest += p->in.is_low;
    if (given) {
        tell(p);
    }
}

static void process(world_t *w, pair_t *p, const message_t *m)
{
    ++p->nxt;
    const bool needs = spec_flow_arrived(&p->in, m->cost);
    if (is_wanted(w, p, m)) {
        w->wants_of = -1;
        ++p->received;
    } else {
        p->kept[p->kept_n++] = *m;
        spec_flow_kept(&w->store, &p->in, m->cost);
    }
    if (needs) {
        consider(w, p, false);
    }
}

static void arrives(world_t *w, pair_t *p)
{
    const uint32_t i = rng_below(&w->rng, p->line_n);
    message_t m = p->line[i];
    p->line[i] = p->line[--p->line_n];
    if (m.no != p->nxt) {
        p->early[p->early_n++] = m;
        p->early_cost += m.cost;
        return;
    }
    process(w, p, &m);
    for (uint32_t k = 0; k < p->early_n;) {
        if (p->early[k].no != p->nxt) {
            ++k;
            continue;
        }
        m = p->early[k];
        p->early[k] = p->early[--p->early_n];
        p->early_cost -= m.cost;
        process(w, p, &m);
        k = 0;
    }
}

/* The program receives one more. */
static void posts(world_t *w)
{
    uint32_t s = rng_below(&w->rng, w->senders);
    while (MESSAGES == w->pair[s].received) {
        s = (s + 1) % w->senders;
    }
    pair_t *p = &w->pair[s];
    int tag = -1;
    if (!w->in_order) { /* the tag of some message that it has not got yet: so it comes */
        uint32_t i = rng_percent(&w->rng, 50) || 0 == p->kept_n
                         ? p->nxt + rng_below(&w->rng, 1 + (MESSAGES - p->nxt) / 2)
                         : MESSAGES;
        tag = i < MESSAGES ? p->all[i].tag : p->kept_n > 0 ? p->kept[0].tag : -1;
    }
    for (uint32_t k = 0; k < p->kept_n; ++k) {
        if (tag < 0 || tag == p->kept[k].tag) {
            const uint32_t cost = p->kept[k].cost;
            memmove(&p->kept[k], &p->kept[k + 1], (--p->kept_n - k) * sizeof(*p->kept));
            ++p->received;
            spec_flow_taken(&w->store, &p->in, cost);
            if (p->in.is_low) {
                consider(w, p, false);
            }
            return;
        }
    }
    w->wants_of = (int) s;
    w->wants_tag = tag;
    if (p->in.is_low) {
        consider(w, p, true);
    }
}

static bool step(world_t *w, pair_t *p)
{
    bool moved = false;
    if (p->sent < MESSAGES && p->line_n < LINE && spec_flow_lets(&p->out, p->all[p->sent].cost)
        && rng_percent(&w->rng, 90)) {
        p->out.spent += p->all[p->sent].cost;
        p->line[p->line_n++] = p->all[p->sent++];
        moved = true;
    }
    if (p->line_n > 0 && rng_percent(&w->rng, 50)) {
        arrives(w, p);
        moved = true;
    }
    if (p->credits > 0 && rng_percent(&w->rng, 20)) {
        const uint32_t i = rng_below(&w->rng, p->credits);
        spec_flow_learn(&p->out, p->credit[i]);
        p->credit[i] = p->credit[--p->credits];
        moved = true;
    }
    return moved;
}

/* Everything that can happen, happens at some time; if nothing can, it is a deadlock. */
static void play(world_t *w, uint64_t *most)
{
    const uint64_t bound = w->store.limit + w->windows;
    uint32_t idle = 0, received = 0;
    while (received < w->senders * MESSAGES) {
        bool moved = false;
        uint64_t memory = 0;
        received = 0;
        for (uint32_t s = 0; s < w->senders; ++s) {
            moved |= step(w, &w->pair[s]);
            memory += w->pair[s].in.bytes + w->pair[s].early_cost;
            received += w->pair[s].received;
        }
        if (w->wants_of < 0 && received < w->senders * MESSAGES && rng_percent(&w->rng, 30)) {
            posts(w);
            moved = true;
        }
        *most = memory > *most ? memory : *most;
        if (w->in_order && memory > bound) {
            fail_msg("%llu bytes are held, %llu are allowed", (unsigned long long) memory,
                     (unsigned long long) bound);
        }
        idle = moved ? 0 : idle + 1;
        if (idle > 1000) {
            fail_msg("nothing moves after %u messages", received);
        }
    }
    assert_int_equal(w->store.bytes, 0);
}

static void play_rounds(bool in_order, uint32_t rounds)
{
    const char *seed = getenv("SPEC_SEED");
    world_t *w = must_alloc(sizeof(*w));
    uint32_t low = 0;
    uint64_t most = 0;
    for (uint32_t round = 0; round < rounds; ++round) {
        memset(w, 0, sizeof(*w));
        w->rng.state = (NULL == seed ? 1 : strtoull(seed, NULL, 0)) * 100000 + round;
        w->senders = 1 + round % SENDERS;
        w->store.limit = 1 + rng_below(&w->rng, 3 * SPEC_FLOW_LEAST);
        w->store.window = spec_flow_window(w->store.limit, w->senders);
        w->in_order = in_order;
        w->wants_of = -1;
        for (uint32_t s = 0; s < w->senders; ++s) {
            pair_t *p = &w->pair[s];
            /* The sender goes by its own host's memory. */
            const uint32_t window =
                SPEC_FLOW_LEAST
                + (rng_percent(&w->rng, 50) ? rng_below(&w->rng, SPEC_FLOW_LEAST) : 0);
            p->in.arrived = p->out.spent = (uint32_t) rng_next(&w->rng);
            spec_flow_begin(&p->in, 0);
            p->out.told = p->out.spent + window;
            w->windows += window > w->store.window ? window : w->store.window;
            const uint32_t big = rng_below(&w->rng, 30); /* percent */
            for (uint32_t i = 0; i < MESSAGES; ++i) {
                p->all[i] = (message_t){
                    .no = i,
                    .cost = spec_flow_cost(rng_percent(&w->rng, big) ? rng_below(
                                               &w->rng, SPEC_FLOW_DATA_MAX / (1 + i % 64))
                                                                     : rng_below(&w->rng, 200)),
                    .tag = (uint8_t) (rng_percent(&w->rng, 80) ? 0 : rng_below(&w->rng, TAGS))};
            }
        }
        play(w, &most);
        low += w->lowest;
    }
    free(w);
    assert_true(low > 0); /* somebody was throttled */
    assert_true(most > SPEC_FLOW_LEAST);
}

static void memory_is_bounded(void **state)
{
    (void) state;
    play_rounds(true, 40);
}

static void every_receive_gets_its_message(void **state)
{
    (void) state;
    play_rounds(false, 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_message_costs_what_it_takes, setup),
        cmocka_unit_test_setup(limit_and_window_follow_from_the_memory, setup),
        cmocka_unit_test_setup(one_packet_in_a_quarter_of_the_window, setup),
        cmocka_unit_test_setup(more_than_a_step_of_little_credit_is_left, setup),
        cmocka_unit_test_setup(within_the_limit_all_get_more, setup),
        cmocka_unit_test_setup(beyond_the_limit_one_window_at_most, setup),
        cmocka_unit_test_setup(room_gives_credit_again, setup),
        cmocka_unit_test_setup(one_of_whom_little_is_held_gets_more, setup),
        cmocka_unit_test_setup(one_who_is_waited_for_gets_more, setup),
        cmocka_unit_test_setup(no_limit, setup),
        cmocka_unit_test_setup(a_sender_spends_what_it_has, setup),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(every_receive_gets_its_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
