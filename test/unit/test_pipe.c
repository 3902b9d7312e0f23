/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Pipelines (core/spec_pipe.h): each byte once, one driver at a time, one end, and more slots where both what brings pieces and the
 * transport had to wait. */
#include "spec_unit.h"

#include "spec_pipe.h"
#include "spec_stage.h"

#include <pthread.h>

#define KIB UINT64_C(1024)

/* Takes the next piece; it is there. */
static spec_pipe_piece_t begun(spec_pipe_t *p)
{
    spec_pipe_piece_t piece;
    assert_int_equal(SPEC_PIPE_PIECE, spec_pipe_next(p, &piece));
    return piece;
}

/* The same, and it is brought within the call. */
static spec_pipe_piece_t taken(spec_pipe_t *p)
{
    const spec_pipe_piece_t piece = begun(p);
    spec_pipe_brought(p, piece.slot);
    return piece;
}

static spec_pipe_step_t next(spec_pipe_t *p)
{
    spec_pipe_piece_t piece;
    const spec_pipe_step_t step = spec_pipe_next(p, &piece);
    if (SPEC_PIPE_PIECE == step) {
        spec_pipe_brought(p, piece.slot);
    }
    return step;
}

static void pieces_are_moved_in_their_order_by_two(void **state)
{
    (void) state;
    spec_pipe_t p;
    spec_pipe_init(&p, 250, 100, 2);
    const spec_pipe_piece_t a = taken(&p), b = taken(&p);
    assert_true(0 == a.offset && 100 == a.length && 0 == a.slot);
    assert_true(100 == b.offset && 100 == b.length && 1 == b.slot);
    assert_int_equal(SPEC_PIPE_LEAVE, next(&p));
    assert_int_equal(SPEC_PIPE_DRIVE, spec_pipe_done(&p, b.slot));
    const spec_pipe_piece_t c = taken(&p);
    assert_true(200 == c.offset && 50 == c.length && b.slot == c.slot);
    assert_int_equal(SPEC_PIPE_LEAVE, next(&p)); /* nothing is left to take */
    assert_int_equal(SPEC_PIPE_LEAVE, spec_pipe_done(&p, c.slot));
    assert_int_equal(SPEC_PIPE_OVER, spec_pipe_done(&p, a.slot));
}

static void a_range_may_be_one_piece(void **state)
{
    (void) state;
    spec_pipe_t p;
    spec_pipe_init(&p, 100, 100, 2);
    const spec_pipe_piece_t a = taken(&p);
    assert_int_equal(100, a.length);
    assert_int_equal(SPEC_PIPE_LEAVE, next(&p));
    assert_int_equal(SPEC_PIPE_OVER, spec_pipe_done(&p, a.slot));
}

/* A transport may be done with a piece inside the call that it gets it with: one slot does, and nobody else drives. */
static void what_is_done_at_once_is_driven_on_by_the_same(void **state)
{
    (void) state;
    spec_pipe_t p;
    spec_pipe_init(&p, 1000, 100, 2);
    for (int i = 0; i < 10; ++i) {
        const spec_pipe_piece_t piece = taken(&p);
        assert_int_equal(0, piece.slot);
        assert_int_equal(SPEC_PIPE_LEAVE, spec_pipe_done(&p, piece.slot));
    }
    assert_int_equal(SPEC_PIPE_OVER, next(&p));
}

/* While one drives whoever completes a piece leaves it to that one, which sees the slot. */
static void only_one_drives(void **state)
{
    (void) state;
    spec_pipe_t p;
    spec_pipe_init(&p, 1000, 100, 3);
    const spec_pipe_piece_t a = taken(&p), b = taken(&p), c = taken(&p);
    assert_int_equal(SPEC_PIPE_LEAVE, next(&p));
    assert_int_equal(SPEC_PIPE_DRIVE, spec_pipe_done(&p, b.slot));
    assert_int_equal(SPEC_PIPE_LEAVE, spec_pipe_done(&p, a.slot));
    assert_int_equal(a.slot, taken(&p).slot);
    assert_int_equal(b.slot, taken(&p).slot);
    assert_int_equal(SPEC_PIPE_LEAVE, next(&p));
    assert_int_equal(SPEC_PIPE_DRIVE, spec_pipe_done(&p, c.slot));
}

static void a_transport_that_waits_gets_more(void **state)
{
    (void) state;
    spec_pipe_t p;
    spec_pipe_init(&p, UINT64_MAX, 100, SPEC_PIPE_FEW);
    (void) taken(&p), (void) taken(&p);
    assert_int_equal(SPEC_PIPE_LEAVE, next(&p));
    assert_int_equal(SPEC_PIPE_DRIVE, spec_pipe_done(&p, 0)); /* it has another */
    (void) taken(&p);
    assert_int_equal(SPEC_PIPE_LEAVE, next(&p));
    assert_int_equal(SPEC_PIPE_FEW, p.slots);
    for (uint32_t slots = SPEC_PIPE_FEW; slots < SPEC_PIPE_MOST + 3; ++slots) {
        for (uint32_t slot = 0; slot < p.slots; ++slot) {
            const spec_pipe_step_t step = spec_pipe_done(&p, slot);
            assert_int_equal(0 == slot ? SPEC_PIPE_DRIVE : SPEC_PIPE_LEAVE, step);
        }
        while (SPEC_PIPE_PIECE == next(&p)) {}
        assert_int_equal(slots < SPEC_PIPE_MOST ? slots + 1 : SPEC_PIPE_MOST, p.slots);
    }
    spec_pipe_init(&p, 1000, 100, SPEC_PIPE_MOST + 1); /* what is asked for is bounded, too */
    assert_int_equal(SPEC_PIPE_MOST, p.slots);
}

/* Pieces are brought while others are moved: only where both had to wait a slot more helps. */
static void what_brings_and_what_moves_are_kept_busy(void **state)
{
    (void) state;
    spec_pipe_t p;
    /* The transport is faster: it waits for each piece, and what brings never does. */
    spec_pipe_init(&p, UINT64_MAX, 100, 2);
    spec_pipe_piece_t a = begun(&p), b = begun(&p);
    for (int i = 0; i < 10; ++i) {
        assert_int_equal(SPEC_PIPE_LEAVE, next(&p));
        spec_pipe_brought(&p, a.slot);
        assert_int_equal(SPEC_PIPE_DRIVE, spec_pipe_done(&p, a.slot));
        a = b;
        b = begun(&p);
    }
    assert_int_equal(2, p.slots);
    /* What brings is faster, and waits; the transport has always one more. */
    spec_pipe_init(&p, UINT64_MAX, 100, 2);
    a = begun(&p), b = begun(&p);
    spec_pipe_brought(&p, a.slot);
    for (int i = 0; i < 10; ++i) {
        spec_pipe_brought(&p, b.slot);
        assert_int_equal(SPEC_PIPE_LEAVE, next(&p));
        assert_int_equal(SPEC_PIPE_DRIVE, spec_pipe_done(&p, a.slot));
        a = b;
        b = begun(&p);
    }
    assert_int_equal(2, p.slots);
    /* Now the transport is through before the next is brought. */
    assert_int_equal(SPEC_PIPE_LEAVE, next(&p));
    assert_int_equal(SPEC_PIPE_DRIVE, spec_pipe_done(&p, a.slot));
    (void) begun(&p), (void) begun(&p);
    assert_int_equal(3, p.slots);
    /* Both marks are gone. */
    assert_int_equal(SPEC_PIPE_LEAVE, next(&p));
    spec_pipe_brought(&p, b.slot);
    assert_int_equal(SPEC_PIPE_DRIVE, spec_pipe_done(&p, b.slot));
    (void) begun(&p);
    assert_int_equal(SPEC_PIPE_LEAVE, next(&p));
    assert_int_equal(3, p.slots);
}

/* A piece that is being brought when the last one is taken is one of those that are waited for; one that failed on its way, too. */
static void what_is_on_its_way_is_waited_for(void **state)
{
    (void) state;
    spec_pipe_t p;
    spec_pipe_init(&p, 200, 100, 2);
    const spec_pipe_piece_t a = begun(&p), b = begun(&p);
    assert_int_equal(SPEC_PIPE_LEAVE, next(&p));
    spec_pipe_brought(&p, b.slot);
    assert_int_equal(SPEC_PIPE_LEAVE, spec_pipe_done(&p, b.slot));
    assert_int_equal(SPEC_PIPE_OVER, spec_pipe_done(&p, a.slot));
    spec_pipe_init(&p, 1000, 100, 2);
    const spec_pipe_piece_t c = begun(&p), d = begun(&p);
    assert_int_equal(SPEC_PIPE_LEAVE, next(&p));
    assert_int_equal(SPEC_PIPE_DRIVE, spec_pipe_done(&p, c.slot));
    spec_pipe_brought(&p, d.slot); /* it was the last */
    assert_int_equal(200, begun(&p).offset);
    assert_int_equal(3, p.slots);
}

/* At the end it does not wait. */
static void the_last_piece_is_not_waited_for(void **state)
{
    (void) state;
    spec_pipe_t p;
    spec_pipe_init(&p, 200, 100, 2);
    (void) taken(&p), (void) taken(&p);
    assert_int_equal(SPEC_PIPE_LEAVE, next(&p));
    (void) spec_pipe_done(&p, 0);
    assert_int_equal(SPEC_PIPE_OVER, spec_pipe_done(&p, 1));
    assert_int_equal(2, p.slots);
}

static void what_cannot_be_brought_takes_the_rest_along(void **state)
{
    (void) state;
    spec_pipe_t p;
    spec_pipe_init(&p, 1050, 100, 2);
    const spec_pipe_piece_t a = taken(&p);
    spec_pipe_piece_t b = taken(&p);
    spec_pipe_divert(&p, &b);
    assert_true(100 == b.offset && 950 == b.length);
    assert_int_equal(SPEC_PIPE_LEAVE, spec_pipe_done(&p, b.slot));
    assert_int_equal(SPEC_PIPE_LEAVE, next(&p));
    assert_int_equal(SPEC_PIPE_OVER, spec_pipe_done(&p, a.slot));
}

static uint32_t random_below(uint64_t *seed, uint32_t most)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t) (*seed >> 33) % most;
}

static void all_pieces_begin_at_once_where_nothing_is_copied(void **state)
{
    (void) state;
    static const uint64_t lengths[] = {1, 4096, 32768, 32769, 100001, 8 * SPEC_PIPE_LONG};
    for (unsigned i = 0; i < sizeof(lengths) / sizeof(*lengths); ++i) {
        spec_pipe_t p;
        spec_pipe_piece_t piece;
        spec_pipe_init(&p, lengths[i], spec_pipe_at_once(lengths[i], 4096), SPEC_PIPE_MOST);
        uint64_t begun = 0;
        while (SPEC_PIPE_PIECE == spec_pipe_next(&p, &piece)) {
            assert_true(piece.length >= 4096 || piece.offset + piece.length == lengths[i]);
            begun += piece.length;
        }
        assert_int_equal(lengths[i], begun);
    }
    assert_int_equal(4096, spec_pipe_at_once(32768, 100));
    assert_int_equal(8192, spec_pipe_at_once(32769, 100));
    assert_int_equal(16384, spec_pipe_at_once(32769, 12289));
    assert_int_equal(SPEC_PIPE_LONG, spec_pipe_at_once(100 * SPEC_PIPE_LONG, 100));
    assert_int_equal(2 * SPEC_PIPE_LONG,
                     spec_pipe_at_once(100 * SPEC_PIPE_LONG, 2 * SPEC_PIPE_LONG));
    assert_true(0 == spec_pipe_at_once(UINT64_MAX, 100) % SPEC_PIPE_PAGE);
}

/* Any order in which pieces are brought and complete, some inside the call: each byte once, in slots that nobody has, and one end. */
static void any_order_moves_each_byte_once(void **state)
{
    (void) state;
    uint64_t seed = 40;
    for (int run = 0; run < 2000; ++run) {
        uint32_t slot[SPEC_PIPE_MOST], n = 0, used = 0, coming = 0, over = 0;
        uint64_t moved = 0;
        spec_pipe_t p;
        const uint64_t length = 1 + random_below(&seed, 5000);
        const uint64_t piece_size = 1 + random_below(&seed, 500);
        spec_pipe_init(&p, length, piece_size, 1 + random_below(&seed, SPEC_PIPE_MOST));
        bool drives = true;
        while (0 == over) {
            spec_pipe_step_t step;
            if (drives && (0 == n || random_below(&seed, 3) > 0)) {
                spec_pipe_piece_t piece;
                step = spec_pipe_next(&p, &piece);
                if (SPEC_PIPE_PIECE == step) {
                    assert_int_equal(moved, piece.offset);
                    assert_true(piece.length > 0 && piece.slot < p.slots);
                    assert_false(used >> piece.slot & 1);
                    used |= 1u << piece.slot;
                    coming |= 1u << piece.slot;
                    slot[n++] = piece.slot;
                    moved += piece.length;
                    continue;
                }
                drives = false;
            } else {
                assert_true(n > 0);
                const uint32_t i = random_below(&seed, n), one = slot[i];
                if (coming >> one & 1) {
                    spec_pipe_brought(&p, one);
                    coming &= ~(1u << one);
                    continue;
                }
                slot[i] = slot[--n];
                used &= ~(1u << one);
                step = spec_pipe_done(&p, one);
                assert_true(!drives || SPEC_PIPE_LEAVE == step);
                drives |= SPEC_PIPE_DRIVE == step;
            }
            over += SPEC_PIPE_OVER == step;
        }
        assert_int_equal(length, moved);
        assert_true(0 == n && !drives);
    }
}

/* ---- in virtual time ---- */

/* The end of a message of `length` bytes, ns from its beginning, whose pieces an engine brings, a wire moves and another engine copies
 * away, each one after the other; each copy and each piece costs the processors as much as spec_stage_piece reckons with. MB/s.
 * It begins with so many slots, and says with how many it ends. */
static double pipeline_ns(uint64_t length, double engine, double wire, uint32_t *slots)
{
    const spec_stage_costs_t costs = {
        .known = true, .call_ns = 1000, .ps = (uint32_t) (1e6 / engine)};
    double brought[SPEC_PIPE_MOST], moved[SPEC_PIPE_MOST], now = 0, end = 0;
    double engine_free = 0, wire_free = 0, far_free = 0;
    uint64_t size[SPEC_PIPE_MOST];
    uint32_t coming = 0, moving = 0;
    spec_pipe_t p;
    spec_pipe_init(&p, length, spec_stage_piece(&costs, (uint32_t) (1e6 / wire), length), *slots);
    for (bool drives = true; true;) {
        spec_pipe_piece_t piece;
        while (drives && SPEC_PIPE_PIECE == spec_pipe_next(&p, &piece)) {
            now += costs.call_ns;
            engine_free =
                (engine_free > now ? engine_free : now) + (double) piece.length * 1000 / engine;
            brought[piece.slot] = engine_free;
            size[piece.slot] = piece.length;
            coming |= 1u << piece.slot;
        }
        /* What is next? */
        uint32_t next = SPEC_PIPE_MOST;
        for (uint32_t i = 0; i < SPEC_PIPE_MOST; ++i) {
            const double at = coming >> i & 1 ? brought[i] : moving >> i & 1 ? moved[i] : 1e18;
            const double first = SPEC_PIPE_MOST == next ? 1e18
                                 : coming >> next & 1   ? brought[next]
                                                        : moved[next];
            next = at < first ? i : next;
        }
        assert_true(next < SPEC_PIPE_MOST);
        drives = false;
        if (coming >> next & 1) {
            now = (brought[next] > now ? brought[next] : now) + SPEC_STAGE_PACKET_NS;
            wire_free = (wire_free > now ? wire_free : now) + (double) size[next] * 1000 / wire;
            moved[next] = wire_free;
            coming &= ~(1u << next);
            moving |= 1u << next;
            spec_pipe_brought(&p, next);
            continue;
        }
        now = moved[next] > now ? moved[next] : now;
        far_free = (far_free > now ? far_free : now) + (double) size[next] * 1000 / engine;
        end = far_free;
        moving &= ~(1u << next);
        switch (spec_pipe_done(&p, next)) {
        case SPEC_PIPE_OVER:
            *slots = p.slots;
            return end;
        case SPEC_PIPE_DRIVE:
            drives = true;
            break;
        default:
            break;
        }
    }
}

/* 0.8 of the slower of copy and wire, less where pieces cost as much as their bytes: the price of pieces, the first copy and the last are
 * what is missing. */
static void copies_and_transfers_overlap(void **state)
{
    (void) state;
    static const double wires[] = {120, 1000, 2000, 10000}, engines[] = {0.5, 0.9, 1, 1.1, 2};
    for (size_t i = 0; i < sizeof(wires) / sizeof(*wires); ++i) {
        for (size_t j = 0; j < sizeof(engines) / sizeof(*engines); ++j) {
            const double wire = wires[i], engine = wire * engines[j],
                         slower = engine < wire ? engine : wire;
            const double best = 4.0 * 1024 * 1024 * 1000 / slower;
            uint32_t slots = SPEC_PIPE_FEW; /* messages before have found how many are of use */
            for (int message = 0; message < 8; ++message) {
                (void) pipeline_ns(4 * 1024 * KIB, engine, wire, &slots);
            }
            const double ratio = best / pipeline_ns(4 * 1024 * KIB, engine, wire, &slots);
            if (NULL != getenv("SPEC_SHOW")) {
                printf("wire %.0f engine %.0f: %.3f\n", wire, engine, ratio);
            }
            assert_true(ratio <= 1);
            assert_true(ratio >= (wire > 5000 ? 0.5 : 0.8));
        }
    }
}

/* ---- threads ---- */

enum { THREADS = 3, PIECES = 20000 };

static struct {
    spec_pipe_t pipe;
    uint32_t coming;    /* a bit for each slot that a thread may bring */
    uint32_t under_way; /* and for each that one may complete */
    uint32_t drivers, overs;
    uint64_t moved;
} shared;

static void drive(void)
{
    spec_pipe_piece_t piece;
    spec_pipe_step_t step;
    assert_int_equal(1, __atomic_add_fetch(&shared.drivers, 1, __ATOMIC_SEQ_CST));
    while (true) {
        /* Down before the step that leaves: from then on another may drive. */
        __atomic_sub_fetch(&shared.drivers, 1, __ATOMIC_SEQ_CST);
        step = spec_pipe_next(&shared.pipe, &piece);
        if (SPEC_PIPE_PIECE != step) {
            break;
        }
        assert_int_equal(1, __atomic_add_fetch(&shared.drivers, 1, __ATOMIC_SEQ_CST));
        shared.moved += piece.length; /* plain: the pipeline hands it from driver to driver */
        __atomic_or_fetch(&shared.coming, 1u << piece.slot, __ATOMIC_SEQ_CST);
    }
    if (SPEC_PIPE_OVER == step) {
        __atomic_add_fetch(&shared.overs, 1, __ATOMIC_SEQ_CST);
    }
}

/* One of the bits, which is the caller's then; 0: none. */
static uint32_t take_one(uint32_t *bits)
{
    const uint32_t some = __atomic_load_n(bits, __ATOMIC_SEQ_CST), bit = some & -some;
    return __atomic_fetch_and(bits, ~bit, __ATOMIC_SEQ_CST) & bit;
}

static void *completes(void *arg)
{
    (void) arg;
    while (0 == __atomic_load_n(&shared.overs, __ATOMIC_SEQ_CST)) {
        uint32_t bit = take_one(&shared.coming);
        if (0 != bit) {
            spec_pipe_brought(&shared.pipe, (uint32_t) __builtin_ctz(bit));
            __atomic_or_fetch(&shared.under_way, bit, __ATOMIC_SEQ_CST);
            continue;
        }
        bit = take_one(&shared.under_way);
        if (0 == bit) {
            (void) sched_yield();
            continue;
        }
        switch (spec_pipe_done(&shared.pipe, (uint32_t) __builtin_ctz(bit))) {
        case SPEC_PIPE_DRIVE:
            drive();
            break;
        case SPEC_PIPE_OVER:
            __atomic_add_fetch(&shared.overs, 1, __ATOMIC_SEQ_CST);
            break;
        default:
            break;
        }
    }
    return NULL;
}

static void threads_hand_it_on(void **state)
{
    (void) state;
    for (uint32_t slots = 1; slots <= 4; ++slots) {
        pthread_t thread[THREADS];
        shared.coming = shared.under_way = shared.drivers = shared.overs = 0;
        shared.moved = 0;
        spec_pipe_init(&shared.pipe, PIECES * KIB, KIB, slots);
        for (int i = 0; i < THREADS; ++i) {
            assert_int_equal(0, pthread_create(&thread[i], NULL, completes, NULL));
        }
        drive();
        for (int i = 0; i < THREADS; ++i) {
            assert_int_equal(0, pthread_join(thread[i], NULL));
        }
        assert_int_equal(1, shared.overs);
        assert_int_equal(PIECES * KIB, shared.moved);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_moved_in_their_order_by_two),
        cmocka_unit_test(all_pieces_begin_at_once_where_nothing_is_copied),
        cmocka_unit_test(a_range_may_be_one_piece),
        cmocka_unit_test(what_is_done_at_once_is_driven_on_by_the_same),
        cmocka_unit_test(only_one_drives),
        cmocka_unit_test(a_transport_that_waits_gets_more),
        cmocka_unit_test(what_brings_and_what_moves_are_kept_busy),
        cmocka_unit_test(what_is_on_its_way_is_waited_for),
        cmocka_unit_test(the_last_piece_is_not_waited_for),
        cmocka_unit_test(what_cannot_be_brought_takes_the_rest_along),
        cmocka_unit_test(any_order_moves_each_byte_once),
        cmocka_unit_test(copies_and_transfers_overlap),
        cmocka_unit_test(threads_hand_it_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
