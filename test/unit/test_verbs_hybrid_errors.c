/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The scalable mode when memory, libibverbs or the adapter do not do what they are asked: a port goes without datagrams,
 * a peer is talked to by connection only, and what is lost by the way is sent again. */
#include "verbs_faults.h"
#include "vb_internal.h"
#include "vb_hybrid.h"

#undef ibv_query_port

/* ---- what fails ---- */

FAULTY(int, ibv_query_device, EIO, (struct ibv_context * c, struct ibv_device_attr *attr),
       (c, attr))
FAULTY(int, ibv_query_port, EIO,
       (struct ibv_context * c, uint8_t n, struct _compat_ibv_port_attr *attr), (c, n, attr))
FAULTY(struct ibv_cq *, ibv_create_cq, NULL,
       (struct ibv_context * c, int n, void *x, struct ibv_comp_channel *e, int v), (c, n, x, e, v))
FAULTY(struct ibv_ah *, ibv_create_ah, NULL, (struct ibv_pd * pd, struct ibv_ah_attr *attr),
       (pd, attr))
FAULTY(iw_engine_t *, iw_engine_create, NULL, (const iw_config_t *config), (config))
FAULTY(iw_peer_t *, iw_peer_add, NULL,
       (iw_engine_t * e, uint64_t name, const iw_address_t *to, const iw_key_t *key, void *user),
       (e, name, to, key, user))
FAULTY(iw_status_t, iw_post_receive, IW_NO_MEMORY,
       (iw_engine_t * e, void *buffer, uint32_t length, void *context),
       (e, buffer, length, context))
FAULTY(void *, realloc, NULL, (void *at, size_t size), (at, size))

/* Why the engine takes no message. */
static faulty_t posting;
static iw_status_t no_post;

iw_status_t __real_iw_post_send(iw_peer_t *peer, const struct iovec *piece, unsigned count,
                                unsigned flags, void *context);
iw_status_t __wrap_iw_post_send(iw_peer_t *peer, const struct iovec *piece, unsigned count,
                                unsigned flags, void *context);
iw_status_t __wrap_iw_post_send(iw_peer_t *peer, const struct iovec *piece, unsigned count,
                                unsigned flags, void *context)
{
    return faulty_now(&posting) ? no_post : __real_iw_post_send(peer, piece, count, flags, context);
}

static struct ibv_context_ops ops;

/* Of datagrams, not of what goes by connection. */
static struct {
    faulty_t post_send, wrong_key, odd_number, bad_status, short_one;
    unsigned ways; /* changes that were told of */
} adapter;

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    if (IBV_QPT_UD == qp->qp_type && faulty_now(&adapter.post_send)) {
        *bad = wr;
        return ENOMEM;
    }
    if (IBV_QPT_UD == qp->qp_type && faulty_now(&adapter.wrong_key)) {
        wr->sg_list[0].lkey = 0;
        wr->send_flags |= IBV_SEND_SIGNALED;
    }
    return ops.post_send(qp, wr, bad);
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
    const int got = ops.poll_cq(cq, n, wc);
    for (int i = 0; i < got; ++i) {
        if (!vb_wr_is_receive(wc[i].wr_id)) {
            continue;
        }
        if (faulty_now(&adapter.odd_number)) {
            wc[i].wr_id |= UINT64_C(0xffffffff) << 32;
        } else if (faulty_now(&adapter.bad_status)) {
            wc[i].status = IBV_WC_LOC_LEN_ERR;
        } else if (faulty_now(&adapter.short_one)) {
            wc[i].byte_len = VB_UD_GRH;
        }
    }
    return got;
}

static int setup_errors(void **state)
{
    memset(&adapter, 0, sizeof(adapter));
    posting = (faulty_t){.times = 0};
    no_post = IW_NO_MEMORY;
    return setup_faults(state);
}

/* ---- two processes ---- */

static void on_way(void *context, const vb_peer_t *peer, vb_switch_state_t from, vb_switch_event_t event)
{
    (void) context, (void) peer, (void) from, (void) event;
    ++adapter.ways;
}

static uint32_t window; /* at first; 0: the usual one */

static vb_config_t hybrid_of(process_t *p, uint32_t after)
{
    vb_config_t c = config_of(p);
    c.window_initial = 0 == window ? c.window_initial : window;
    c.datagram.after = after;
    c.datagram.receives = 256;
    c.datagram.qkey = 70 + p->node;
    c.datagram.seed = 90 + p->node;
    c.datagram.start = p->node;
    c.switch_trace = on_way;
    memset(c.datagram.key, 1 + (int) p->node, sizeof(c.datagram.key));
    return c;
}

static void begin_hybrid(unsigned n, uint32_t after)
{
    for (unsigned i = 1; i <= n; ++i) {
        const vb_config_t c = hybrid_of(&process[i], after);
        assert_true(start(i, &c, NULL));
        assert_true(vb_port_abilities(process[i].port)->datagrams);
        struct ibv_context *context = context_of(i);
        if (context->ops.post_send != post_send) {
            ops = context->ops;
            context->ops.post_send = post_send;
            context->ops.poll_cq = poll_cq;
        }
    }
}

/* One is told where the other takes datagrams. */
static bool tell(unsigned node, unsigned other)
{
    process_t *p = &process[node];
    vb_dgram_address_t there;
    uint8_t key[16];
    assert_true(vb_port_datagrams(process[other].port, &there, key));
    vb_port_lock(p->port);
    const bool is_told = vb_peer_add_datagrams(p->peer[other], &there, key);
    vb_port_unlock(p->port);
    return is_told;
}

static void meet_by_datagrams(unsigned a, unsigned b)
{
    meet(a, b);
    assert_true(tell(a, b));
    assert_true(tell(b, a));
}

static vb_datagram_use_t use_of(unsigned node)
{
    vb_datagram_use_t use;
    assert_true(vb_port_datagram_use(process[node].port, &use));
    return use;
}

/* Until so many messages have come; time passes, for what is sent again. */
static void await(unsigned node, unsigned messages)
{
    for (unsigned i = 0; i < 4000 && process[node].received < messages; ++i) {
        settle();
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_int_equal(process[node].received, messages);
}

/* ---- opening ---- */

static void goes_without(const char *words)
{
    const vb_config_t c = hybrid_of(&process[1], UINT32_MAX);
    assert_true(start(1, &c, NULL));
    const vb_abilities_t *able = vb_port_abilities(process[1].port);
    assert_false(able->datagrams);
    if (NULL == strstr(able->datagrams_why, words)) {
        fail_msg("'%s' is not in '%s'", words, able->datagrams_why);
    }
    stop_process(1);
    assert_int_equal(fake.memory_regions + fake.queue_pairs + fake.ids, 0);
    assert_int_equal(descriptors(), open_before);
}

static void ports_without_datagrams(void **state)
{
    (void) state;
    /* The port asks first, of what connections need. */
    faulty_ibv_query_device = (faulty_t){.skip = 1, .times = 1, .error = EIO};
    goes_without("does not say");
    faulty_ibv_query_port = (faulty_t){.skip = 1, .times = 1, .error = EIO};
    goes_without("does not say");
    faulty_ibv_create_cq = (faulty_t){.skip = 1, .times = 1, .error = ENOMEM};
    goes_without("completion queue");
    faulty_iw_engine_create = (faulty_t){.times = 1};
    goes_without("out of memory");
}

/* Fewer buffers for messages than the window wants: they are made when there is memory. */
static void few_buffers(void **state)
{
    (void) state;
    const vb_config_t c = hybrid_of(&process[1], UINT32_MAX);
    out = (faulty_t){.skip = 2, .times = 1, .error = ENOMEM, .size = c.buffer_size};
    begin_hybrid(2, UINT32_MAX);
    assert_int_equal(out.hits, 1);
    meet_by_datagrams(1, 2);
    for (unsigned i = 0; i < 6; ++i) {
        assert_int_equal(say(2, 1, (uint8_t) i), VB_OK);
    }
    await(1, 6);
    /* One that the engine has no memory for is one less. */
    faulty_iw_post_receive = (faulty_t){.times = 1};
    assert_int_equal(say(2, 1, 7), VB_OK);
    await(1, 7);
    settle();
    assert_int_equal(faulty_iw_post_receive.hits, 1);
    for (unsigned i = 0; i < 30; ++i) {
        assert_int_equal(say(2, 1, (uint8_t) i), VB_OK);
    }
    await(1, 37);
    stop_process(1);
    faulty_iw_post_receive = (faulty_t){.times = 1};
    assert_true(start(1, &c, NULL));
    assert_int_equal(faulty_iw_post_receive.hits, 1);
}

/* Its number is what the others know; what was under way is sent again. */
static void a_queue_pair_that_breaks_is_renewed(void **state)
{
    (void) state;
    begin_hybrid(2, UINT32_MAX);
    meet_by_datagrams(1, 2);
    for (unsigned i = 0; i < 4; ++i) {
        assert_int_equal(say(1, 2, (uint8_t) i), VB_OK);
        assert_int_equal(say(2, 1, (uint8_t) i), VB_OK);
        fake_break_datagrams(1 + i % 2);
        assert_int_equal(say(1, 2, (uint8_t) i), VB_OK);
        assert_int_equal(say(2, 1, (uint8_t) i), VB_OK);
        await(1, 2 * i + 2);
        await(2, 2 * i + 2);
    }
    assert_int_equal(process[1].lost + process[2].lost, 0);
}

/* ---- peers ---- */

static void peers_by_connection_only(void **state)
{
    (void) state;
    begin_hybrid(2, UINT32_MAX);
    meet(1, 2);
    out = (faulty_t){.times = 1, .error = ENOMEM, .size = sizeof(vb_mate_t)};
    assert_false(tell(1, 2));
    faulty_realloc = (faulty_t){.times = 1, .error = ENOMEM};
    assert_false(tell(1, 2));
    faulty_ibv_create_ah = (faulty_t){.times = 1, .error = ENOMEM};
    assert_false(tell(1, 2));
    faulty_iw_peer_add = (faulty_t){.times = 1, .error = ENOMEM};
    assert_false(tell(1, 2));
    assert_int_equal(use_of(1).peers, 0);
    assert_int_equal(say(1, 2, 0), VB_AGAIN); /* begins to connect */
    until(1, 2, VB_OPEN);
    assert_int_equal(say(1, 2, 5), VB_OK);
    await(2, 1);
    /* And once more; the address that was of no use is used again. */
    vb_port_lock(process[1].port);
    vb_peer_close(process[1].peer[2]);
    vb_port_unlock(process[1].port);
    until(1, 2, VB_CLOSED);
    meet(1, 2);
    assert_true(tell(1, 2));
    assert_int_equal(fake.address_handles, 1);
}

/* Who is not known speaks, and what it said is not kept until it is: it says it again. */
static void said_before_it_is_known(void **state)
{
    (void) state;
    begin_hybrid(2, UINT32_MAX);
    meet(1, 2);
    assert_true(tell(1, 2));
    assert_int_equal(say(1, 2, 9), VB_OK);
    progress(2);
    assert_int_equal(process[2].received, 0);
    assert_true(tell(2, 1));
    await(2, 1);
    assert_int_equal(process[2].got[0], 9);
}

/* ---- datagrams ---- */

/* What one adapter does wrong once costs a datagram, which is sent again, and is counted. */
static void datagrams_are_sent_again(void **state)
{
    (void) state;
    faulty_t *const faults[] = {&adapter.post_send, &adapter.wrong_key, &adapter.odd_number,
                                &adapter.bad_status, &adapter.short_one};
    begin_hybrid(2, UINT32_MAX);
    meet_by_datagrams(1, 2);
    assert_int_equal(say(1, 2, 1), VB_OK);
    await(2, 1);
    for (unsigned i = 0; i < sizeof(faults) / sizeof(*faults); ++i) {
        const uint64_t before = use_of(1).errors + use_of(2).errors;
        *faults[i] = (faulty_t){.times = 1};
        assert_int_equal(say(1, 2, (uint8_t) (2 + i)), VB_OK);
        await(2, 2 + i);
        assert_int_equal(faults[i]->hits, 1);
        assert_int_equal(process[2].got[1 + i], 2 + i);
        assert_int_equal(use_of(1).errors + use_of(2).errors, before + 1);
    }
}

/* Messages that nobody has taken when the port is closed. */
static void messages_that_nobody_took(void **state)
{
    (void) state;
    window = 64;
    begin_hybrid(2, UINT32_MAX);
    window = 0;
    meet_by_datagrams(1, 2);
    assert_int_equal(say(1, 2, 1), VB_OK);
    await(2, 1);
    /* More than are taken by one poll of the side that closes it. */
    for (unsigned i = 0; i < 40; ++i) {
        assert_int_equal(say(1, 2, 2), VB_OK);
    }
    vb_port_lock(process[2].port);
    vb_hybrid_tick(process[2].port); /* as the port's thread does */
    vb_hybrid_tick(process[2].port);
    vb_port_unlock(process[2].port);
    vb_port_quiesce(process[2].port, 0);
    (void) ibv_dereg_mr(process[2].mr);
    vb_port_close(process[2].port);
    process[2].port = NULL;
}

/* Memory is named for datagrams as long as it is registered. */
static void memory_that_is_hidden(void **state)
{
    (void) state;
    process_t *p = &process[1], *q = &process[2];
    iw_uses_t uses;
    iw_uses_init(&uses, 1);
    begin_hybrid(2, UINT32_MAX);
    meet_by_datagrams(1, 2);
    vb_port_lock(q->port);
    const uint32_t stag = vb_port_expose(q->port, q->memory + 32768, 4096, true, true, &uses);
    assert_int_not_equal(stag, 0);
    vb_port_hide(q->port, stag);
    vb_port_hide(q->port, 0); /* nothing */
    vb_port_unlock(q->port);
    const struct ibv_sge piece = {
        .addr = (uintptr_t) p->memory, .length = 100, .lkey = p->mr->lkey};
    vb_port_lock(p->port);
    assert_int_equal(vb_post_datagram_rdma(p->peer[2], &piece, stag, 0, VB_SIGNAL, p), VB_OK);
    vb_port_unlock(p->port);
    for (unsigned i = 0; i < 4000 && 0 == p->done; ++i) {
        settle();
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_int_equal(p->failed, 1);
}

/* What cannot be posted says why, and what may be posted later is told of. */
static void what_is_not_posted(void **state)
{
    (void) state;
    process_t *p = &process[1];
    static char large[sizeof(vb_hdr_t) + 2 * IW_INLINE_MAX];
    static const struct {
        iw_status_t from;
        vb_status_t to;
    } known[] = {{IW_NO_MEMORY, VB_AGAIN},
                 {IW_AGAIN, VB_AGAIN},
                 {IW_TOO_LONG, VB_FAULT},
                 {IW_CLOSED, VB_ENDED},
                 {IW_DEAD, VB_LOST}};
    struct ibv_sge piece = {.addr = (uintptr_t) large, .length = sizeof(large), .lkey = 1};
    begin_hybrid(2, UINT32_MAX);
    meet_by_datagrams(1, 2);
    for (unsigned i = 0; i < sizeof(known) / sizeof(*known); ++i) {
        posting = (faulty_t){.times = 1};
        no_post = known[i].from;
        assert_int_equal(say(1, 2, 1), known[i].to);
    }
    assert_int_equal(vb_port_counters(p->port)->no_room, 2);
    vb_port_lock(p->port);
    /* Its memory would be used again before it has left. */
    assert_int_equal(vb_post_send(p->peer[2], (vb_hdr_t *) large, 1, &piece, 1, VB_INLINE, NULL),
                     VB_FAULT);
    /* A write by a connection, which it does not have. */
    assert_int_equal(vb_post_rdma(p->peer[2], &piece, 0, 1, 0, NULL), VB_AGAIN);
    assert_int_equal(vb_inline_put_max(p->peer[2]), 0);
    assert_false(vb_peer_is_over(p->peer[2]));
    vb_port_unlock(p->port);
    assert_int_equal(say(1, 2, 1), VB_OK);
    await(2, 1);
    assert_true(p->ready > 0);
}

/* ---- changing over ---- */

/* Control messages that there is no memory for wait. */
static void a_leave_that_waits(void **state)
{
    (void) state;
    begin_hybrid(2, 4);
    meet_by_datagrams(1, 2);
    for (unsigned i = 0; i < 4; ++i) {
        assert_int_equal(say(1, 2, (uint8_t) i), VB_OK);
    }
    posting = (faulty_t){.times = 3};
    await(2, 4);
    for (unsigned i = 0; i < 4000 && vb_peer_is_by_datagrams(process[1].peer[2]); ++i) {
        settle();
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_false(vb_peer_is_by_datagrams(process[1].peer[2]));
    assert_int_equal(posting.hits, 3);
    assert_true(adapter.ways > 0);
    assert_int_equal(say(1, 2, 7), VB_OK);
    await(2, 5);
    assert_int_equal(process[2].got[4], 7);
}

/* The first process says something by datagrams, of round 1. */
static void say_of_the_way(vb_type_t type)
{
    process_t *p = &process[1];
    static char nobody;
    vb_hdr_t hdr;
    const struct iovec piece = {.iov_base = &hdr, .iov_len = sizeof(hdr)};
    vb_hdr_write(&hdr, type, 0, 0, 1);
    vb_port_lock(p->port);
    assert_int_equal(iw_post_send(p->peer[2]->mate->peer, &piece, 1, IW_INLINE | IW_QUIET, &nobody), IW_OK);
    vb_port_unlock(p->port);
}

/* It is lost for that; bad: because it must not. */
static void is_lost_for(vb_type_t type, unsigned times, const char *words, bool bad)
{
    process_t *q = &process[2];
    begin_hybrid(2, UINT32_MAX);
    meet_by_datagrams(1, 2);
    for (unsigned i = 0; i < times; ++i) {
        say_of_the_way(type);
    }
    for (unsigned i = 0; i < 4000 && 0 == q->lost; ++i) {
        settle();
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_int_equal(q->lost, 1);
    if (NULL == strstr(q->why, words)) {
        fail_msg("'%s' is not in '%s'", words, q->why);
    }
    assert_int_equal(vb_port_counters(q->port)->bad_messages, bad);
    const struct ibv_sge data = {.addr = (uintptr_t) q->memory, .length = 9, .lkey = q->mr->lkey};
    vb_port_lock(q->port);
    vb_hybrid_lose(q->peer[1], VB_LOST); /* it is */
    assert_true(vb_peer_is_over(q->peer[1]));
    assert_int_equal(vb_post_datagram_rdma(q->peer[1], &data, 1, 0, 0, NULL), VB_LOST);
    assert_int_equal(vb_post_datagram_rdma(q->peer[1], &data, 1, 0, VB_READ, NULL), VB_LOST);
    vb_port_unlock(q->port);
    assert_int_equal(q->lost, 1);
    assert_int_equal(say(2, 1, 1), VB_LOST);
}

static void leaving_twice(void **state)
{
    (void) state;
    is_lost_for(VB_LEAVE, 2, "when it could not", true);
    /* And hears of it. */
    assert_int_equal(process[1].lost, 1);
}

static void a_message_that_cannot_be(void **state)
{
    (void) state;
    is_lost_for(VB_CREDIT, 1, "no message of this version", true);
}

static void a_peer_that_gives_up(void **state)
{
    (void) state;
    is_lost_for(VB_GAVE_UP, 1, "broke in use", false);
}

static void until_connected(unsigned a, unsigned b, bool connected)
{
    for (unsigned i = 0; i < 4000 && connected == vb_peer_is_by_datagrams(process[a].peer[b]); ++i) {
        settle();
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_true(connected != vb_peer_is_by_datagrams(process[a].peer[b]));
}

/* The fabric says nothing of it, but the peer does. */
static void a_connection_that_broke_over_there(void **state)
{
    (void) state;
    begin_hybrid(2, 4);
    meet_by_datagrams(1, 2);
    for (unsigned i = 0; i < 4; ++i) {
        assert_int_equal(say(1, 2, (uint8_t) i), VB_OK);
    }
    until_connected(1, 2, true);
    until_connected(2, 1, true);
    say_of_the_way(VB_BROKE);
    until_connected(1, 2, false);
    until_connected(2, 1, false);
    settle();
    assert_int_equal(process[1].lost + process[2].lost, 0);
    assert_int_equal(say(1, 2, 7), VB_OK);
    await(2, 5);
    assert_int_equal(say(2, 1, 8), VB_OK);
    await(1, 1);
}

/* When its engine has given the peer up, too, there is no way left. */
static void no_way_back(void **state)
{
    (void) state;
    begin_hybrid(2, 4);
    meet_by_datagrams(1, 2);
    for (unsigned i = 0; i < 4; ++i) {
        assert_int_equal(say(1, 2, (uint8_t) i), VB_OK);
    }
    until_connected(1, 2, true);
    until_connected(2, 1, true);
    posting = (faulty_t){.times = 1};
    no_post = IW_DEAD;
    vb_port_lock(process[1].port);
    vb_peer_cut(process[1].peer[2]);
    vb_port_unlock(process[1].port);
    settle();
    assert_int_equal(process[1].lost, 1);
    assert_int_equal(say(1, 2, 7), VB_LOST);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_errors, teardown_faults)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ports_without_datagrams),  TEST(few_buffers),
        TEST(a_queue_pair_that_breaks_is_renewed),
        TEST(peers_by_connection_only), TEST(said_before_it_is_known),
        TEST(datagrams_are_sent_again), TEST(messages_that_nobody_took),
        TEST(memory_that_is_hidden),    TEST(what_is_not_posted),
        TEST(a_leave_that_waits),       TEST(leaving_twice),
        TEST(a_message_that_cannot_be),
        TEST(a_peer_that_gives_up),     TEST(a_connection_that_broke_over_there),
        TEST(no_way_back),
    };
    return cmocka_run_group_tests_name("verbs_hybrid_errors", tests, NULL, NULL);
}
