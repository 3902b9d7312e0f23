/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Connections that datagrams make (vb_ud_cm.c), over adapters that are not there: what strangers say, and everything that can fail
 * on the way. */
#include "verbs_mailboxes.h"

/* ---- what strangers say ---- */

/* Writes to the mailbox of node 2 from node 1, as nobody would. */
typedef struct {
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_ah *ah;
    vb_dgram_address_t to;
} forger_t;

static forger_t forger_new(void)
{
    forger_t f;
    struct ibv_pd *pd = vb_port_pd(process[1].port);
    f.cq = ibv_create_cq(pd->context, 64, NULL, NULL, 0);
    struct ibv_qp_init_attr attr = {
        .send_cq = f.cq, .recv_cq = f.cq, .cap = {.max_send_wr = 8}, .qp_type = IBV_QPT_UD};
    f.qp = ibv_create_qp(pd, &attr);
    struct ibv_qp_attr state = {.qp_state = IBV_QPS_INIT};
    assert_int_equal(
        ibv_modify_qp(f.qp, &state, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
        0);
    for (state.qp_state = IBV_QPS_RTR; state.qp_state <= IBV_QPS_RTS; ++state.qp_state) {
        assert_int_equal(ibv_modify_qp(f.qp, &state, IBV_QP_STATE), 0);
    }
    struct ibv_ah_attr way = {.is_global = 1};
    f.ah = ibv_create_ah(pd, &way);
    assert_true(vb_port_mailbox(process[2].port, &f.to));
    return f;
}

static void forger_free(forger_t *f)
{
    (void) ibv_destroy_qp(f->qp);
    (void) ibv_destroy_cq(f->cq);
    (void) ibv_destroy_ah(f->ah);
}

static void forge_one(const forger_t *f, const void *bytes, uint32_t length)
{
    struct ibv_sge sge = {.addr = (uintptr_t) bytes, .length = length};
    struct ibv_send_wr wr = {
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = IBV_WR_SEND,
        .send_flags = IBV_SEND_INLINE,
        .wr.ud = {.ah = f->ah, .remote_qpn = f->to.number, .remote_qkey = f->to.qkey}};
    struct ibv_send_wr *bad;
    assert_int_equal(ibv_post_send(f->qp, &wr, &bad), 0);
}

static void forge_bytes(const forger_t *f, const void *bytes, uint32_t length)
{
    forge_one(f, bytes, length);
    settle();
}

static vb_cm_message_t request(uint64_t number)
{
    vb_dgram_address_t own;
    assert_true(vb_port_mailbox(process[1].port, &own));
    vb_cm_message_t message = {
        .hello = {.credits = VB_UNCOUNTED, .buffer = SIZE, .name = NOBODY, .key = 1002},
        .number = number,
        .key = 1001,
        .pair = 77,
        .psn = 5,
        .mailbox = own.number,
        .qkey = own.qkey,
        .mtu = IBV_MTU_1024,
        .resources = 16,
        .depth = 16,
        .is_mine = true};
    memcpy(message.gid, own.gid, sizeof(message.gid));
    return message;
}

static void forge(const forger_t *f, const vb_cm_message_t *message)
{
    vb_cm_wire_t wire;
    vb_cm_write(&wire, message);
    forge_bytes(f, &wire, sizeof(wire));
}

/* Of another process than the last; not heard yet. */
static void forge_of(const forger_t *f, uint64_t name, vb_answer_t what, uint64_t number)
{
    vb_cm_wire_t wire;
    vb_cm_message_t message = request(number);
    message.hello.name = name;
    message.hello.answer = what;
    vb_cm_write(&wire, &message);
    forge_one(f, &wire, sizeof(wire));
}

/* While a request waits, what is newer of its process takes its place, and what says that it is given up ends it. */
static void requests_that_wait_can_be_ended(void **state)
{
    (void) state;
    open_ports(2);
    forger_t f = forger_new();
    forge_of(&f, NOBODY, VB_ASK, 10);
    forge_of(&f, NOBODY, VB_ASK, 11);
    forge_of(&f, NOBODY, VB_ASK, 10);
    forge_of(&f, NOBODY + 1, VB_ASK, 1);
    forge_of(&f, NOBODY + 2, VB_ASK, 1);
    forge_of(&f, NOBODY + 2, VB_GONE, 1);
    vb_port_events(process[2].port, 0);
    assert_int_equal(counters_of(2)->accepted, 1); /* one at a time */
    settle();
    assert_int_equal(counters_of(2)->accepted, 2);
    assert_int_equal(fake.queue_pairs, 5);
    assert_true(11 == vb_peer_add(process[2].port, NOBODY, NULL, 0, NULL)->handshake.theirs);
    assert_int_equal(counters_of(2)->strangers, 0);
    forger_free(&f);
}

static void more_requests_than_can_wait(void **state)
{
    (void) state;
    open_ports(2);
    forger_t f = forger_new();
    for (unsigned i = 0; i < 300; ++i) {
        forge_of(&f, 1000 + i, VB_ASK, 1);
    }
    for (unsigned i = 0; i < 8; ++i) {
        settle();
    }
    assert_int_equal(counters_of(2)->accepted, 256);
    forge_of(&f, 1299, VB_ASK, 1); /* said again */
    settle();
    assert_int_equal(counters_of(2)->accepted, 257);
    forger_free(&f);
}

static void nonsense_is_counted_and_answered_by_nobody(void **state)
{
    (void) state;
    open_ports(2);
    forger_t f = forger_new();
    vb_cm_wire_t wire = {.is_mine = 0};
    vb_cm_message_t message = request(1);
    unsigned expected = 0;
    for (uint32_t length = 0; length < sizeof(wire); length += 8, ++expected) {
        vb_cm_write(&wire, &message);
        forge_bytes(&f, &wire, length);
        assert_int_equal(counters_of(2)->strangers, expected + 1);
    }
    message.hello.key = 4711;
    forge(&f, &message);
    message = request(2);
    message.hello.name = process[2].name;
    forge(&f, &message);
    for (vb_answer_t answer = VB_WELCOME; answer < VB_ANSWERS;
         ++answer) { /* of whom nobody knows */
        message = request(3);
        message.is_mine = false;
        message.hello.answer = answer;
        forge(&f, &message);
    }
    assert_int_equal(counters_of(2)->strangers, expected + 2 + VB_ANSWERS - 1);
    assert_int_equal(fake.datagrams, expected + 2 + VB_ANSWERS - 1); /* the forger's alone */
    assert_int_equal(fake.queue_pairs, 3);
    forger_free(&f);
}

/* Of the job, but with other buffers. */
static void who_cannot_be_talked_to_gives_up(void **state)
{
    (void) state;
    open_ports(1);
    vb_config_t c = without_address(&process[2]);
    c.buffer_size = SIZE / 2;
    assert_true(start(2, &c, NULL));
    know_each_other(1, 2);
    (void) say(1, 2, 0);
    wait_for(1, 2, VB_DEAD);
    assert_non_null(strstr(process[1].why, "does not know this process"));
    assert_int_equal(counters_of(2)->strangers, 1);
    assert_int_equal(counters_of(1)->asked, 1);
}

/* Its number is what the others know. */
static void a_mailbox_that_breaks_is_renewed(void **state)
{
    vb_dgram_address_t before, after;
    (void) state;
    open_ports(3);
    assert_true(vb_port_mailbox(process[2].port, &before));
    fake_break_datagrams(2);
    settle();
    assert_true(vb_port_mailbox(process[2].port, &after));
    assert_memory_equal(&before, &after, sizeof(after));
    connect_two(1, 2);
    fake_break_datagrams(2);
    settle();
    connect_two(2, 3);
}

static void a_mailbox_that_breaks_for_ever_is_left(void **state)
{
    (void) state;
    fake.no_addresses = true;
    for (unsigned i = 1; i <= 2; ++i) {
        vb_config_t c = without_address(&process[i]);
        c.rules.attempt_ns = 60 * MS;
        assert_true(start(i, &c, NULL));
    }
    for (unsigned i = 0; i < 17; ++i) {
        fake_break_datagrams(2);
        settle();
    }
    know_each_other(1, 2);
    (void) say(1, 2, 0);
    wait_for(1, 2, VB_DEAD);
    assert_string_equal(process[1].why, "no answer");
}

/* Processes that were met, and are parted from, cost no address handle; and are met again. */
static void who_parted_costs_nothing(void **state)
{
    (void) state;
    open_ports(3);
    for (unsigned i = 0; i < 3; ++i) {
        connect_two(1, 2);
        know_each_other(1, 3); /* and are never connected */
        assert_int_equal(fake.address_handles, 4);
        for (unsigned node = 2; node <= 3; ++node) {
            vb_port_lock(process[1].port);
            vb_peer_close(process[1].peer[node]);
            vb_port_unlock(process[1].port);
            settle();
        }
        vb_port_lock(process[3].port); /* the second has heard a goodbye */
        vb_peer_close(process[3].peer[1]);
        vb_port_unlock(process[3].port);
        assert_int_equal(fake.address_handles, 0);
    }
}

/* It has no way back; then it has. */
static void who_is_nowhere_may_be_somewhere_later(void **state)
{
    (void) state;
    open_ports(2);
    forger_t f = forger_new();
    vb_cm_message_t message = request(1);
    fake.no_ways = true;
    for (; message.number < 4; ++message.number) {
        message.mailbox = 100 + (uint32_t) message.number;
        forge(&f, &message);
    }
    fake.no_ways = false;
    assert_int_equal(counters_of(2)->strangers, 3);
    const unsigned before = fake.datagrams;
    message.mailbox = request(1).mailbox;
    forge(&f, &message);
    assert_int_equal(counters_of(2)->accepted, 1);
    assert_true(fake.datagrams > before + 1);
    assert_true(counters_of(1)->strangers > 0); /* the answer came to whom it does not concern */
    forger_free(&f);
}

/* More than there are receive buffers. */
static void a_mailbox_is_never_full_for_long(void **state)
{
    (void) state;
    open_ports(2);
    forger_t f = forger_new();
    for (unsigned i = 0; i < 1500; ++i) {
        forge_one(&f, "?", 1);
        progress(2);
    }
    assert_int_equal(fake.unheard, 0);
    assert_int_equal(counters_of(2)->strangers, 1500);
    forger_free(&f);
}

/* The first message waits in the queue of a program that takes it when it is done computing; its attempt has a deadline. */
static void who_computes_for_long_is_not_lost(void **state)
{
    (void) state;
    fake.no_addresses = true;
    for (unsigned i = 1; i <= 2; ++i) {
        vb_config_t c = without_address(&process[i]);
        c.rules.attempt_ns = 1500 * MS;
        assert_true(start(i, &c, NULL));
    }
    know_each_other(1, 2);
    (void) say(1, 2, 0);
    vb_port_events(process[2].port, 0); /* says welcome */
    fake.lost = 100;
    progress(1); /* that it is ready is lost */
    fake.lost = 0;
    const uint64_t end = spec_now() + 1700 * MS;
    while (spec_now() < end) {
        progress(1);
        vb_port_events(process[2].port, 0);
        nanosleep(&(struct timespec){.tv_nsec = MS}, NULL);
    }
    assert_int_equal(state_of(1, 2), VB_OPEN);
    assert_int_equal(state_of(2, 1), VB_ACCEPTING);
    assert_int_equal(say(1, 2, 9), VB_OK);
    settle();
    assert_int_equal(process[2].got[0], 9);
    assert_int_equal(process[1].lost + process[2].lost, 0);
    assert_int_equal(counters_of(2)->timed_out, 0);
}

/* A request is answered each time, old ones are nobody's, and one that ends is over. */
static void requests_are_answered_as_often_as_they_come(void **state)
{
    (void) state;
    open_ports(2);
    forger_t f = forger_new();
    vb_cm_message_t message = request(10);
    forge(&f, &message);
    assert_int_equal(counters_of(2)->accepted, 1);
    message.hello.answer = VB_READY; /* so that the welcome is not said again for want of it */
    forge(&f, &message);
    const unsigned before = fake.datagrams;
    message = request(10);
    forge(&f, &message);
    assert_int_equal(counters_of(2)->accepted, 1);
    assert_int_equal(fake.datagrams, before + 2);
    assert_int_equal(vb_peer_add(process[2].port, NOBODY, NULL, 0, NULL)->handshake.answer,
                     VB_WELCOME);
    message = request(9);
    forge(&f, &message);
    assert_int_equal(fake.datagrams, before + 3);
    message = request(11); /* given up for another: gone, and welcome */
    forge(&f, &message);
    assert_int_equal(counters_of(2)->accepted, 2);
    assert_true(fake.datagrams >= before + 6);
    assert_int_equal(fake.queue_pairs, 4);
    message.hello.answer = VB_GONE;
    forge(&f, &message);
    assert_int_equal(fake.queue_pairs, 3);
    message = request(12);
    message.hello.buffer = SIZE / 2;
    forge(&f, &message);
    assert_int_equal(vb_peer_add(process[2].port, NOBODY, NULL, 0, NULL)->handshake.answer,
                     VB_STRANGER);
    forger_free(&f);
}

static void a_queue_pair_that_is_nowhere(void **state)
{
    (void) state;
    fake.is_infiniband = true;
    open_ports(2);
    forger_t f = forger_new();
    vb_cm_message_t message = request(10);
    message.lid = 0xc001;
    forge(&f, &message);
    assert_int_equal(counters_of(2)->accepted, 0);
    assert_int_equal(counters_of(2)->strangers, 1);
    know_each_other(1, 2); /* then there is a way to the mailbox, and none to the queue pair */
    message.hello.name = process[1].name;
    forge(&f, &message);
    assert_int_equal(counters_of(2)->accepted, 0);
    assert_int_equal(counters_of(2)->strangers, 2);
    assert_int_equal(fake.queue_pairs, 3);
    forger_free(&f);
}

/* ---- what fails ---- */

static void a_port_does_not_open(const char *words)
{
    char why[256];
    vb_config_t c = without_address(&process[1]);
    fake.no_addresses = true;
    assert_false(start(1, &c, why));
    if (NULL == strstr(why, words)) {
        fail_msg("'%s' is not in '%s'", words, why);
    }
    assert_int_equal(fake.opened, 0);
    assert_int_equal(fake.queue_pairs, 0);
    assert_int_equal(fake.memory_regions, 0);
    fake_reset();
}

static void what_a_port_needs(void **state)
{
    (void) state;
    fake.no_open = true;
    a_port_does_not_open("cannot be opened");
    fake.no_gid = true;
    a_port_does_not_open("no GID");
    fake.no_ways = true;
    a_port_does_not_open("no way leads to its GID");
    fake.no_datagrams = true;
    a_port_does_not_open("no UD queue pair");
    fake.no_channel = true;
    a_port_does_not_open("no channel for notices");
    fake.no_notices = true;
    a_port_does_not_open("that tells");
    fake.registrations_left = 1; /* the shared queue has its buffers */
    a_port_does_not_open("cannot be registered");
    for (int n = 0; n < 3; ++n) {
        fake.modifies_left = n;
        a_port_does_not_open("no UD queue pair");
    }
    vb_config_t c = without_address(&process[1]);
    snprintf(c.device, sizeof(c.device), "fake77");
    char why[256];
    assert_false(start(1, &c, why));
    assert_non_null(strstr(why, "fake77"));
}

/* The states of a queue pair: INIT of who asks, INIT, RTR and RTS of who is asked, RTR and RTS of who asks. */
static void a_queue_pair_that_cannot_be_connected(void **state)
{
    (void) state;
    for (int n = 0; n < 6; ++n) {
        open_ports(2);
        know_each_other(1, 2);
        fake.modifies_left = n;
        (void) say(1, 2, 0);
        for (unsigned i = 0; i < 2; ++i) {
            settle();
        }
        assert_int_not_equal(state_of(1, 2), VB_OPEN);
        fake.modifies_left = -1;
        (void) say(1, 2, 0);
        connected(1, 2);
        assert_int_equal(process[1].lost + process[2].lost, 0);
        assert_int_equal(teardown_all(state), 0);
        (void) setup(state);
    }
}

static void ports_are_listed(void **state)
{
    vb_device_port_t found[8];
    (void) state;
    assert_int_equal(vb_device_ports(found, 8), FAKE_NODES);
    assert_string_equal(found[1].device, "fake2");
    assert_int_equal(found[1].port, 1);
    assert_string_equal(found[1].interface, "lo");
    assert_int_equal(vb_device_ports(found, 2), 2);
    assert_true(vb_has_rdma_cm());
    fake.no_rdma_cm = true;
    assert_false(vb_has_rdma_cm());
    assert_int_equal(vb_device_ports(found, 2), 2);
    fake.is_down = true;
    assert_int_equal(vb_device_ports(found, 8), 0);
    fake.is_down = false;
    fake.no_open = true;
    assert_int_equal(vb_device_ports(found, 8), 0);
    assert_int_equal(fake.opened, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(requests_that_wait_can_be_ended),
        TEST(more_requests_than_can_wait),
        TEST(nonsense_is_counted_and_answered_by_nobody),
        TEST(who_cannot_be_talked_to_gives_up),
        TEST(a_mailbox_that_breaks_is_renewed),
        TEST(a_mailbox_that_breaks_for_ever_is_left),
        TEST(who_parted_costs_nothing),
        TEST(who_is_nowhere_may_be_somewhere_later),
        TEST(a_mailbox_is_never_full_for_long),
        TEST(who_computes_for_long_is_not_lost),
        TEST(requests_are_answered_as_often_as_they_come),
        TEST(a_queue_pair_that_is_nowhere),
        TEST(what_a_port_needs),
        TEST(a_queue_pair_that_cannot_be_connected),
        TEST(ports_are_listed),
    };
    return cmocka_run_group_tests_name("verbs_ud_cm_errors", tests, NULL, NULL);
}
