/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Atomic operations on a process's own memory by its adapter: the port's connection to itself, and who chooses the way. */
#include "verbs_processes.h"

#include "vb_atomics.h"

/* The process as its own peer is in peer[0]. */
static void meet_self(unsigned node)
{
    process_t *p = &process[node];
    vb_port_lock(p->port);
    p->peer[0] = vb_peer_add_self(p->port, p);
    vb_port_unlock(p->port);
    assert_non_null(p->peer[0]);
}

static uint64_t word_of(unsigned node)
{
    uint64_t word;
    memcpy(&word, process[node].memory + 8, sizeof(word));
    return word;
}

/* Adds to the word of `at` as memory of `of`, by the connection to peer[to]; the value before goes to *before when it is done. */
static vb_status_t add_as(unsigned from, unsigned to, unsigned at, unsigned of, uint64_t operand,
                          char *before)
{
    process_t *p = &process[from];
    struct ibv_sge piece = {.addr = (uintptr_t) before, .length = 8, .lkey = p->mr->lkey};
    vb_port_lock(p->port);
    const vb_status_t status =
        vb_post_atomic(p->peer[to], &piece, (uintptr_t) (process[at].memory + 8),
                       process[of].mr->rkey, operand, NULL, VB_SIGNAL, p);
    vb_port_unlock(p->port);
    return status;
}

static vb_status_t add(unsigned from, unsigned to, unsigned at, uint64_t operand, char *before)
{
    return add_as(from, to, at, at, operand, before);
}

static uint64_t value_at(const char *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof(value));
    return value;
}

static vb_conn_state_t state_of_self(unsigned node)
{
    return vb_peer_connection(process[node].peer[0])->state;
}

/* Own and others' operations on one word; nothing is made before the first, which is not put off. */
static void both_by_the_adapter(void **state)
{
    (void) state;
    for (unsigned kind = 0; kind < 4; ++kind) {
        fake.has_srq = 0 == (kind & 1);
        fake.is_infiniband = 0 != (kind & 2);
        begin(2);
        process_t *p = &process[1];
        const unsigned queue_pairs = fake.queue_pairs;
        meet_self(1);
        settle();
        assert_int_equal(fake.queue_pairs, queue_pairs);
        assert_int_equal(state_of_self(1), VB_IDLE);
        assert_int_equal(add(1, 0, 1, 3, p->memory + 64), VB_OK);
        assert_int_equal(state_of_self(1), VB_OPEN);
        assert_int_equal(fake.queue_pairs, queue_pairs + 1);
        assert_int_equal(vb_port_counters(p->port)->connected, 1);
        assert_int_equal(vb_port_counters(p->port)->credit_messages, 1); /* its first word */
        settle();
        open_up(2, 1);
        assert_int_equal(add(2, 1, 1, 4, process[2].memory + 64), VB_OK);
        assert_int_equal(add(1, 0, 1, 5, p->memory + 72), VB_OK);
        settle();
        assert_int_equal(value_at(p->memory + 64), 0);
        assert_int_equal(value_at(process[2].memory + 64), 3);
        assert_int_equal(value_at(p->memory + 72), 7);
        assert_int_equal(word_of(1), 12);
        assert_int_equal(p->done, 2);
        assert_int_equal(p->failed, 0);
        assert_int_equal(p->received, 0); /* what the connection says to itself is no message */
        assert_int_equal(vb_port_counters(p->port)->bad_messages, 0);
        stop_process(1);
        stop_process(2);
        assert_int_equal(process[1].lost + process[2].lost, 0);
        (void) setup(NULL);
    }
}

/* As the first connection, whatever else is being made: one that is its turn later is made then. */
static void it_waits_for_its_turn(void **state)
{
    (void) state;
    vb_config_t c = config_of(&process[1]);
    process_t *p = &process[1];
    c.attempts = 1;
    assert_true(start(1, &c, NULL));
    const vb_config_t other = config_of(&process[2]);
    assert_true(start(2, &other, NULL));
    meet(1, 2);
    meet_self(1);
    assert_int_equal(say(1, 2, 1), VB_AGAIN);
    assert_int_equal(add(1, 0, 1, 1, p->memory + 64), VB_AGAIN);
    const unsigned before = p->ready;
    until(1, 2, VB_OPEN);
    settle();
    assert_int_equal(state_of_self(1), VB_OPEN);
    assert_true(p->ready > before + 1);
    assert_int_equal(add(1, 0, 1, 1, p->memory + 64), VB_OK);
    settle();
    assert_int_equal(word_of(1), 1);
}

/* A message that waits for a receive buffer, of an adapter without a shared queue: as many as there are credits for. */
static void many(void **state)
{
    (void) state;
    begin(1);
    process_t *p = &process[1];
    meet_self(1);
    for (unsigned i = 0; i < 1000; ++i) {
        while (VB_OK != add(1, 0, 1, 1, p->memory + 64)) {
            progress(1);
        }
    }
    settle();
    assert_int_equal(word_of(1), 1000);
    assert_int_equal(p->done, 1000);
    assert_int_equal(p->failed, 0);
}

/* What may not be is done to nobody, and the way to oneself is lost: told once. */
static void it_breaks(void **state)
{
    (void) state;
    begin(2);
    process_t *p = &process[1];
    meet_self(1);
    open_up(1, 2);
    assert_int_equal(add_as(1, 0, 2, 1, 1, p->memory + 64),
                     VB_OK); /* not in the memory that the key names */
    settle();
    assert_int_equal(state_of_self(1), VB_DEAD);
    assert_int_equal(p->lost, 1);
    assert_int_equal(p->failed, 1);
    assert_int_equal(p->last, VB_LOST);
    assert_int_equal(add(1, 0, 1, 1, p->memory + 64), VB_LOST);
    assert_int_equal(say(1, 2, 1), VB_OK); /* others are not touched */
    settle();
    assert_int_equal(process[2].received, 1);
    assert_int_equal(word_of(1), 0);
}

/* With operations outstanding it is not made anew, since nobody knows whether they were done; without, it is. */
static void it_is_resumed_when_idle(void **state)
{
    (void) state;
    for (unsigned outstanding = 0; outstanding < 2; ++outstanding) {
        vb_config_t c = config_of(&process[1]);
        process_t *p = &process[1];
        c.rules.resume_ns = UINT64_C(1000000000);
        c.rules.breaks = 8;
        assert_true(start(1, &c, NULL));
        meet_self(1);
        assert_int_equal(add(1, 0, 1, 1, p->memory + 64), VB_OK);
        settle();
        fake.requests_left = 0;
        fake.is_unheard = true;
        if (outstanding > 0) {
            assert_int_equal(add(1, 0, 1, 1, p->memory + 64), VB_OK);
        } else {
            vb_port_lock(p->port);
            vb_peer_cut(p->peer[0]);
            vb_port_unlock(p->port);
            fake.requests_left = -1;
        }
        for (unsigned i = 0; i < 100 && 0 == vb_port_counters(p->port)->resumed && 0 == p->lost;
             ++i) {
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
            settle();
        }
        assert_int_equal(p->lost, outstanding);
        assert_int_equal(vb_port_counters(p->port)->resumed, 1 - outstanding);
        assert_int_equal(add(1, 0, 1, 1, p->memory + 64), outstanding > 0 ? VB_LOST : VB_OK);
        settle();
        assert_int_equal(word_of(1), 2);
        stop_process(1);
        assert_int_equal(fake.queue_pairs, 0);
        (void) setup(NULL);
    }
}

/* A step of making it fails: once, and it is made at the next try; for good, and it is told. */
static void it_cannot_be_made(void **state)
{
    (void) state;
    for (unsigned i = 0; i < 4; ++i) { /* no queue pair; none of its three states */
        const bool no_pair = 0 == i;
        begin(1);
        process_t *p = &process[1];
        meet_self(1);
        fake.queue_pairs_left = no_pair ? 0 : -1;
        fake.modifies_left = no_pair ? -1 : (int) i - 1;
        assert_int_equal(add(1, 0, 1, 1, p->memory + 64), VB_AGAIN);
        settle();
        assert_int_equal(state_of_self(1), VB_WAITING);
        fake.queue_pairs_left = fake.modifies_left = -1;
        for (unsigned k = 0; k < 1000 && VB_OPEN != state_of_self(1); ++k) {
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
            settle();
        }
        assert_int_equal(add(1, 0, 1, 1, p->memory + 64), VB_OK);
        settle();
        assert_int_equal(word_of(1), 1);
        stop_process(1);
        assert_int_equal(fake.queue_pairs, 0);
        (void) setup(NULL);
    }
    begin(1);
    process_t *p = &process[1];
    meet_self(1);
    fake.queue_pairs_left = 0;
    assert_int_equal(add(1, 0, 1, 1, p->memory + 64), VB_AGAIN);
    for (unsigned k = 0; k < 1000 && 0 == p->lost; ++k) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        settle();
    }
    assert_int_equal(p->lost, 1);
    assert_non_null(strstr(p->why, "no queue pair"));
    assert_int_equal(state_of_self(1), VB_DEAD);
}

/* Closed with operations under way, and before the first. */
static void it_ends(void **state)
{
    (void) state;
    begin(2);
    meet_self(1);
    meet_self(2);
    assert_int_equal(add(1, 0, 1, 1, process[1].memory + 64), VB_OK);
    stop_process(1);
    stop_process(2);
    assert_int_equal(process[1].done, 1);
    assert_int_equal(process[1].failed, 0);
    assert_int_equal(process[1].lost + process[2].lost, 0);
    assert_int_equal(word_of(1), 1);
}

/* What a port says about it; where there is none the process is no peer of itself. */
static void who_has_none(void **state)
{
    (void) state;
    for (unsigned kind = 0; kind < 4; ++kind) {
        static const char *const why[] = {
            "no atomic operation needs it", "no atomic operation needs it",
            "it has no GID of its IPv4 address", "no atomic operation needs it"};
        vb_config_t c = config_of(&process[1]);
        fake.has_atomics = 0 != kind;
        fake.is_coherent = 1 == kind;
        fake.no_gid = 2 == kind;
        c.datagram.after = 3 == kind ? 5 : 0;
        assert_true(start(1, &c, NULL));
        process_t *p = &process[1];
        assert_string_equal(vb_port_abilities(p->port)->loop_why, why[kind]);
        assert_int_equal(vb_port_abilities(p->port)->atomics_coherent, fake.is_coherent);
        vb_port_lock(p->port);
        assert_null(vb_peer_add_self(p->port, p));
        vb_port_unlock(p->port);
        stop_process(1);
        assert_int_equal(fake.queue_pairs, 0);
        (void) setup(NULL);
    }
}

/* ---- who chooses ---- */

static vb_atomics_t choice(vb_atomics_wish_t wish, vb_atomics_facts_t facts)
{
    const char *why = "";
    const vb_atomics_t way = vb_atomics_choose(wish, &facts, &why);
    assert_int_equal(VB_BY_ADAPTER == way, NULL == why);
    return way;
}

static void the_owner_chooses(void **state)
{
    (void) state;
    const vb_atomics_facts_t good = {.devices = 1};
    vb_atomics_facts_t none = good, datagrams = good, alone = good, several = good, coherent = good;
    none.why_none = "none";
    datagrams.by_datagrams = true;
    alone.why_no_loop = "no way";
    several.devices = 2;
    coherent = alone;
    coherent.are_coherent = true;
    coherent.devices = 2;
    for (vb_atomics_wish_t wish = VB_ATOMICS_AUTO; wish <= VB_ATOMICS_MESSAGES; ++wish) {
        const vb_atomics_t unless_refused =
            VB_ATOMICS_MESSAGES == wish ? VB_BY_MESSAGES : VB_BY_ADAPTER;
        assert_int_equal(choice(wish, good), unless_refused);
        assert_int_equal(choice(wish, coherent), unless_refused);
        assert_int_equal(choice(wish, several),
                         VB_ATOMICS_ADAPTER == wish ? VB_BY_ADAPTER : VB_BY_MESSAGES);
        assert_int_equal(choice(wish, none), VB_BY_MESSAGES);
        assert_int_equal(choice(wish, datagrams), VB_BY_MESSAGES);
        assert_int_equal(choice(wish, alone), VB_BY_MESSAGES);
    }
    datagrams.are_coherent = true;
    assert_int_equal(choice(VB_ATOMICS_ADAPTER, datagrams), VB_BY_MESSAGES);
}

static void others_obey(void **state)
{
    (void) state;
    assert_int_equal(vb_atomics_of(VB_BY_MESSAGES, true), VB_BY_MESSAGES);
    assert_int_equal(vb_atomics_of(VB_BY_MESSAGES, false), VB_BY_MESSAGES);
    assert_int_equal(vb_atomics_of(VB_BY_ADAPTER, true), VB_BY_ADAPTER);
    assert_int_equal(vb_atomics_of(VB_BY_ADAPTER, false), VB_IN_NO_WAY);
    for (unsigned unknown = 2; unknown < 256; ++unknown) {
        assert_int_equal(vb_atomics_of((uint8_t) unknown, true), VB_IN_NO_WAY);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(both_by_the_adapter),
        TEST(it_waits_for_its_turn),
        TEST(many),
        TEST(it_breaks),
        TEST(it_is_resumed_when_idle),
        TEST(it_cannot_be_made),
        TEST(it_ends),
        TEST(who_has_none),
        TEST(the_owner_chooses),
        TEST(others_obey),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
