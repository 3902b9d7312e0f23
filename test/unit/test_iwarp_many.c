/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Dozens of processes send to one through a switch, in virtual time (iw_fan.h): what must be so however the network behaves, and
 * what a peer costs. test/bench/incast has the same with a thousand. */
#include "spec_unit.h"

#include "iw_counted.h"

#include <inttypes.h>

/* A fast network with a switch that buffers so much. */
static fan_plan_t cluster(unsigned senders, uint64_t queue_ns, uint64_t mark_ns)
{
    fan_plan_t plan = fan_plan;
    plan.senders = senders;
    plan.bursts = 4;
    plan.size = 65536;
    plan.mbit = 10000;
    plan.latency_ns = 2000;
    plan.stagger_ns = FAN_MS / 10;
    plan.queue_ns = queue_ns;
    plan.mark_ns = mark_ns;
    return plan;
}

static fan_result_t run(const fan_plan_t *plan)
{
    fan_result_t r;
    counted_reset();
    assert_true(fan_run(plan, &r));
    const fan_events_t *e = &r.events;
    print_message("%u send %u times %u bytes, the queue keeps %.2f ms and marks from %.2f ms on: %.2f of the ideal time, %" PRIu64
                  " segments, %" PRIu64 " again, %" PRIu64 " needless, %" PRIu64 " dropped, %" PRIu64 " timeouts, %" PRIu64
                  " marked, %zu bytes a peer\n",
                  plan->senders, plan->bursts, plan->size, (double) plan->queue_ns / 1e6, (double) plan->mark_ns / 1e6,
                  (double) r.ns / (double) r.ideal_ns, e->segments, e->resent, e->needless, e->dropped, e->timeouts, e->marked,
                  (counted_most[0] - r.memory_before) / plan->senders);
    return r;
}

/* From a queue that keeps everything to one that keeps a few dozen datagrams. */
static void all_arrives_once_and_whole(void **state)
{
    (void) state;
    static const uint64_t queue_ns[] = {20 * FAN_MS, FAN_MS, FAN_MS / 20};
    for (unsigned k = 0; k < 2 * 3 * 2; ++k) {
        const uint64_t queue = queue_ns[k / 2 % 3];
        fan_plan_t plan = cluster(k < 6 ? 32 : 64, queue, k % 2 ? queue / 5 : 0);
        plan.seed = 1 + k;
        const fan_result_t r = run(&plan);
        assert_int_equal(r.arrived, (uint64_t) plan.bursts * plan.senders);
        assert_int_equal(r.wrong, 0);
        assert_true(r.events.needless <= r.events.resent);
    }
}

/* A switch that only drops shows the senders by that how much it holds, each time anew. To one that marks they hold, from some
 * bursts on, and nothing is lost. */
static void marks_save_what_is_lost(void **state)
{
    (void) state;
    for (unsigned senders = 32; senders <= 64; senders *= 2) {
        fan_plan_t plan = cluster(senders, FAN_MS, 0);
        plan.warm = 4;
        const fan_result_t dropping = run(&plan);
        assert_true(100 * dropping.events.resent > dropping.events.segments);
        plan.mark_ns = FAN_MS / 5;
        const fan_result_t marking = run(&plan);
        assert_true(marking.events.marked > 0);
        assert_int_equal(marking.events.dropped, 0);
        assert_true(500 * marking.events.resent <= marking.events.segments);
        assert_true(marking.trip_ns < dropping.trip_ns);
    }
}

/* Hundreds with two datagrams each would overfill the switch's queue, so only some are served at a time (iw_share.h): nothing is lost
 * by those who have met, but what shows the receiver now and then that there is no more room. */
static void the_queue_is_shared_by_hundreds(void **state)
{
    (void) state;
    for (unsigned k = 0; k < 2; ++k) {
        fan_plan_t plan = cluster(256, FAN_MS, k > 0 ? FAN_MS / 5 : 0);
        plan.warm = 1;
        const fan_result_t r = run(&plan);
        assert_int_equal(r.wrong, 0);
        assert_true(500 * r.events.resent <= r.events.segments);
        assert_true(100 * r.ns <= 125 * r.ideal_ns);
    }
}

static void the_same_seed_is_the_same_run(void **state)
{
    (void) state;
    fan_plan_t plan = cluster(32, FAN_MS, FAN_MS / 5);
    const fan_result_t first = run(&plan), second = run(&plan);
    assert_memory_equal(&first, &second, sizeof(first));
    plan.seed = 2;
    const fan_result_t other = run(&plan);
    assert_int_not_equal(first.trace, other.trace);
}

/* Processes that could send and do not: nothing is different, not a byte. */
static void a_silent_process_costs_nothing(void **state)
{
    (void) state;
    fan_plan_t plan = cluster(32, FAN_MS, 0);
    const fan_result_t alone = run(&plan);
    const size_t most = counted_most[0];
    plan.silent = 32;
    const fan_result_t among = run(&plan);
    assert_memory_equal(&alone, &among, sizeof(alone));
    assert_int_equal(counted_most[0], most);
    const size_t sender = counted_most[1], silent = counted_most[1 + plan.senders];
    assert_true(silent < sender);
    for (unsigned i = 1; i <= plan.silent; ++i) {
        assert_int_equal(counted_most[plan.senders + i], silent);
    }
}

/* The bound of iw_engine.h, beside what is under way; and iw_engine_memory says what was allocated. */
static void memory_of_a_peer_is_bounded(void **state)
{
    (void) state;
    for (unsigned k = 0; k < 4; ++k) {
        fan_plan_t plan = cluster(k % 2 ? 64 : 32, k < 2 ? 20 * FAN_MS : FAN_MS / 2, 0);
        const fan_result_t r = run(&plan);
        assert_true(k < 2 || r.pools > 0);
        assert_true(counted_most[0] >= r.memory);
        assert_true(counted_most[0] <= r.memory + r.memory / 64 + 4096);
        assert_true(counted_most[0] - r.memory_before - r.pools <= plan.senders * IW_PEER_MEMORY);
        for (unsigned i = 0; i <= plan.senders; ++i) {
            assert_int_equal(counted_now[i], 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_arrives_once_and_whole),
        cmocka_unit_test(marks_save_what_is_lost),
        cmocka_unit_test(the_queue_is_shared_by_hundreds),
        cmocka_unit_test(the_same_seed_is_the_same_run),
        cmocka_unit_test(a_silent_process_costs_nothing),
        cmocka_unit_test(memory_of_a_peer_is_bounded),
    };
    return cmocka_run_group_tests_name("iwarp_many", tests, NULL, NULL);
}
