/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Connecting with the verbs transport when librdmacm, memory or the peer do not do what they are asked: each step that can
 * fail does, once and for good. What passes is survived, what does not ends in words that name it. */
#include "verbs_faults.h"
#include "vb_internal.h"
#include "vb_rx.h"

#include <errno.h>

/* ---- what fails ---- */

FAULTY(int, rdma_create_id, -1,
       (struct rdma_event_channel *c, struct rdma_cm_id **id, void *x, enum rdma_port_space s),
       (c, id, x, s))
FAULTY(int, rdma_resolve_route, -1, (struct rdma_cm_id *id, int ms), (id, ms))

static struct {
    faulty_t resolve, connect, accept;
    unsigned elsewhere;    /* addresses are reached through this node's device */
    vb_answer_t odd_hello; /* in these hellos: */
    uint16_t credits;      /* is said, if not 0 */
    uint32_t buffer;       /* likewise */
    unsigned odd_events;   /* so many events of rdma_cm are of an unknown kind */
} kernel;

int __real_rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to,
                             int ms);
int __wrap_rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to,
                             int ms);
int __wrap_rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to,
                             int ms)
{
    if (faulty_now(&kernel.resolve)) {
        return -1;
    }
    const int rc = __real_rdma_resolve_addr(id, from, to, ms);
    if (0 != kernel.elsewhere) {
        id->verbs = context_of(kernel.elsewhere);
    }
    return rc;
}

/* The hello as the peer gets it. */
static struct rdma_conn_param tampered(const struct rdma_conn_param *param, vb_hello_wire_t *wire)
{
    struct rdma_conn_param mine = *param;
    vb_hello_t hello;
    if (0 != kernel.credits + kernel.buffer
        && vb_hello_read(&hello, param->private_data, param->private_data_len)
        && hello.answer == kernel.odd_hello) {
        hello.credits = 0 != kernel.credits ? kernel.credits : hello.credits;
        hello.buffer = 0 != kernel.buffer ? kernel.buffer : hello.buffer;
        vb_hello_write(wire, &hello);
        mine.private_data = wire;
    }
    return mine;
}

int __real_rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param);
int __wrap_rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param);
int __wrap_rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    vb_hello_wire_t wire;
    struct rdma_conn_param mine = tampered(param, &wire);
    return faulty_now(&kernel.connect) ? -1 : __real_rdma_connect(id, &mine);
}

int __real_rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param);
int __wrap_rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param);
int __wrap_rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    vb_hello_wire_t wire;
    struct rdma_conn_param mine = tampered(param, &wire);
    return faulty_now(&kernel.accept) ? -1 : __real_rdma_accept(id, &mine);
}

int __real_rdma_get_cm_event(struct rdma_event_channel *c, struct rdma_cm_event **event);
int __wrap_rdma_get_cm_event(struct rdma_event_channel *c, struct rdma_cm_event **event);
int __wrap_rdma_get_cm_event(struct rdma_event_channel *c, struct rdma_cm_event **event)
{
    const int rc = __real_rdma_get_cm_event(c, event);
    if (0 == rc && kernel.odd_events > 0) {
        --kernel.odd_events;
        (*event)->event = RDMA_CM_EVENT_TIMEWAIT_EXIT;
    }
    return rc;
}

static faulty_t create_qp;

int __real_rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int __wrap_rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int __wrap_rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    return faulty_now(&create_qp) ? -1 : __real_rdma_create_qp(id, pd, attr);
}

static int setup_errors(void **state)
{
    memset(&kernel, 0, sizeof(kernel));
    return setup_faults(state);
}

/* ---- connecting ---- */

/* Each step of connecting that can fail: once, and the connection is made after all; for good, and both it and what
 * it was about are named. */
typedef struct weak {
    faulty_t *what;
    int error;
    size_t size; /* of an allocation */
    const char *words;
} weak_t;

static void weak_once(const weak_t *w)
{
    *w->what = (faulty_t){.times = 1, .error = w->error, .size = w->size};
    meet(1, 2);
    (void) say(1, 2, 0);
    until(1, 2, VB_OPEN);
    until(2, 1, VB_OPEN);
    assert_int_equal(w->what->hits, 1);
    assert_int_equal(say(1, 2, 42), VB_OK);
    assert_int_equal(say(2, 1, 43), VB_OK);
    settle();
    assert_int_equal(process[2].got[0], 42);
    assert_int_equal(process[1].got[0], 43);
    assert_int_equal(process[1].lost + process[2].lost, 0);
}

static void weak_for_good(const weak_t *w)
{
    *w->what = (faulty_t){.times = UINT32_MAX, .error = w->error, .size = w->size};
    meet(1, 2);
    (void) say(1, 2, 0);
    until(1, 2, VB_DEAD);
    assert_int_equal(process[1].lost, 1);
    if (NULL == strstr(process[1].why, w->words)) {
        fail_msg("'%s' is not in '%s'", w->words, process[1].why);
    }
    assert_int_equal(say(1, 2, 0), VB_LOST);
    w->what->times = 0;
}

static void every_step_of_connecting(void **state)
{
    const weak_t steps[] = {
        {&faulty_rdma_create_id, ENOMEM, 0, "rdma_create_id"},
        {&kernel.resolve, EADDRNOTAVAIL, 0, "cannot be resolved"},
        {&faulty_rdma_resolve_route, EINVAL, 0, "no route"},
        {&kernel.connect, ECONNREFUSED, 0, "rdma_connect"},
        {&kernel.accept, EINVAL, 0, "nobody listens"},
        {&out, ENOMEM, sizeof(struct vb_link), "out of memory"},
        {&out, ENOMEM, 128 * sizeof(vb_request_t), strerror(ENOMEM)},
    };
    for (unsigned i = 0; i < 2 * sizeof(steps) / sizeof(steps[0]); ++i) {
        begin(2);
        (i % 2 ? weak_for_good : weak_once)(&steps[i / 2]);
        (void) teardown_faults(state);
        (void) setup_errors(state);
    }
}

/* Without inline data control messages leave from memory of the link's own; and each link has its own queue. */
/* The adapter took as much into a work request before, so that is not why it has no queue pair now. */
static void a_queue_pair_that_is_refused_once(void **state)
{
    (void) state;
    begin(3);
    open_up(1, 2);
    create_qp = (faulty_t){.times = 1, .error = ENOMEM};
    open_up(1, 3);
    assert_int_equal(create_qp.times, 0);
    assert_int_equal(vb_inline_max(process[1].peer[3]), VB_INLINE_MAX);
}

static void every_step_without_inline_data(void **state)
{
    const weak_t steps[] = {
        {&out, ENOMEM, 128 * sizeof(vb_hdr_t), "control messages"},
        {&out, ENOMEM, sizeof(vb_rx_t), "out of memory"},
    };
    for (unsigned i = 0; i < 2 * sizeof(steps) / sizeof(steps[0]); ++i) {
        fake.is_iwarp = true;
        fake.has_atomics = false;
        fake.max_inline = 0;
        begin(2);
        (i % 2 ? weak_for_good : weak_once)(&steps[i / 2]);
        (void) teardown_faults(state);
        (void) setup_errors(state);
    }
}

/* The tables that find a link cannot grow, one after the other. */
static void tables_that_cannot_be_had(void **state)
{
    for (unsigned skip = 0; skip < 5; ++skip) {
        begin(2);
        out = (faulty_t){
            .skip = skip, .times = 1, .error = ENOMEM, .size = 16 * sizeof(struct vb_map_slot)};
        for (unsigned node = 1; node <= 2; ++node) {
            process_t *p = &process[node], *q = &process[3 - node];
            const struct sockaddr_in address = fake_address(q->node, vb_port_number(q->port));
            vb_port_lock(p->port);
            p->peer[q->node] = vb_peer_add(p->port, q->name, &address, 1000 + q->node, p);
            if (NULL == p->peer[q->node]) { /* told so, and nothing is half there */
                p->peer[q->node] = vb_peer_add(p->port, q->name, &address, 1000 + q->node, p);
            }
            vb_port_unlock(p->port);
            assert_non_null(p->peer[q->node]);
        }
        (void) say(1, 2, 0);
        until(1, 2, VB_OPEN);
        until(2, 1, VB_OPEN);
        assert_int_equal(out.hits, 1);
        assert_int_equal(say(1, 2, 42), VB_OK);
        settle();
        assert_int_equal(process[2].received, 1);
        (void) teardown_faults(state);
        (void) setup_errors(state);
    }
}

/* Who is asked by a process it was never told of has no memory for it: busy, and later not. */
static void no_memory_for_a_stranger(void **state)
{
    (void) state;
    begin(2);
    process_t *p = &process[1];
    const struct sockaddr_in address = fake_address(2, vb_port_number(process[2].port));
    vb_port_lock(p->port);
    p->peer[2] = vb_peer_add(p->port, process[2].name, &address, 1002, p);
    vb_port_unlock(p->port);
    out = (faulty_t){.times = 1, .error = ENOMEM, .size = sizeof(struct vb_peer)};
    (void) say(1, 2, 0);
    until(1, 2, VB_OPEN);
    assert_int_equal(out.hits, 1);
    assert_true(vb_port_counters(p->port)->retried > 0);
}

static void through_another_device(void **state)
{
    (void) state;
    begin(3);
    kernel.elsewhere = 3;
    meet(1, 2);
    (void) say(1, 2, 0);
    until(1, 2, VB_DEAD);
    assert_non_null(strstr(process[1].why, "another device"));
}

/* Without an address it can be asked, but not ask. */
static void an_address_that_is_not_known(void **state)
{
    (void) state;
    begin(2);
    process_t *p = &process[1];
    vb_port_lock(p->port);
    p->peer[2] = vb_peer_add(p->port, process[2].name, NULL, 0, p);
    vb_port_unlock(p->port);
    (void) say(1, 2, 0);
    until(1, 2, VB_DEAD);
    assert_non_null(strstr(p->why, "not known"));
}

/* More credits than anybody gives, from either side, are a fault of the peer, and called so. */
static void too_many_credits(void **state)
{
    static const vb_answer_t kinds[] = {VB_ASK, VB_WELCOME};
    for (unsigned i = 0; i < 2; ++i) {
        begin(2);
        kernel.credits = VB_CREDITS_MAX + 1;
        kernel.odd_hello = kinds[i];
        meet(1, 2);
        (void) say(1, 2, 0);
        until(1, 2, VB_DEAD);
        assert_int_equal(process[1].lost, 1);
        assert_int_equal(vb_port_counters(process[1].port)->connected, 0);
        assert_int_equal(vb_port_counters(process[2].port)->connected, 0);
        const char *why = VB_ASK == kinds[i] ? process[2].peer[1]->why : process[1].why;
        assert_non_null(strstr(why, "more than can be"));
        (void) teardown_faults(state);
        (void) setup_errors(state);
    }
}

/* The answer of who has buffers of another size: the hint is in the words. */
static void an_answer_of_another_size(void **state)
{
    (void) state;
    begin(2);
    kernel.buffer = 2 * SIZE;
    kernel.odd_hello = VB_WELCOME;
    meet(1, 2);
    (void) say(1, 2, 0);
    until(1, 2, VB_DEAD);
    assert_non_null(strstr(process[1].why, "btl_ibx_verbs_max_send_size"));
}

/* A process in the place of one that said goodbye is let in; in the place of one that was lost it is not: what was
 * sent to that one is lost. */
static void another_process_of_that_name(void **state)
{
    for (int killed = 0; killed < 2; ++killed) {
        begin(2);
        open_up(1, 2);
        if (killed) {
            fake_kill(2);
            until(1, 2, VB_DEAD);
        }
        stop_process(2);
        settle();
        const vb_config_t c = config_of(&process[2]);
        assert_true(start(2, &c, NULL));
        process[2].lost = 0;
        meet(1, 2);
        (void) say(2, 1, 0);
        until(2, 1, killed ? VB_DEAD : VB_OPEN);
        assert_true(killed == (vb_port_counters(process[1].port)->rejected > 0));
        if (killed) {
            assert_non_null(strstr(process[2].why, "busy"));
        } else {
            assert_int_equal(say(2, 1, 3), VB_OK);
            settle();
            assert_int_equal(process[1].got[0], 3);
        }
        (void) teardown_faults(state);
        (void) setup_errors(state);
    }
}

static unsigned traced;
static vb_conn_state_t traced_from[16];
static void on_trace(void *context, const vb_peer_t *peer, vb_conn_state_t from,
                     vb_conn_event_t event, const char *why)
{
    (void) context, (void) peer, (void) event;
    assert_non_null(why);
    assert_true(traced < 16);
    traced_from[traced++] = from;
}

/* For people: every step, in its order. And not more inline data is asked for than is wanted. */
static void steps_can_be_watched(void **state)
{
    (void) state;
    fake.max_inline = 16;
    static const vb_conn_state_t steps[] = {VB_IDLE, VB_RESOLVING, VB_ROUTING, VB_CONNECTING};
    for (unsigned i = 1; i <= 2; ++i) {
        vb_config_t c = config_of(&process[i]);
        c.trace = 1 == i ? on_trace : NULL;
        c.inline_max = 32;
        assert_true(start(i, &c, NULL));
    }
    traced = 0;
    open_up(1, 2);
    assert_int_equal(traced, 4);
    assert_memory_equal(traced_from, steps, sizeof(steps));
    assert_int_equal(vb_inline_max(process[1].peer[2]), 0);
    assert_int_equal(say(1, 2, 4), VB_OK);
    settle();
    assert_int_equal(process[2].got[0], 4);
}

/* An event that nobody knows means nothing; what it came in place of is missed, and tried again. */
static void events_that_nobody_knows(void **state)
{
    (void) state;
    begin(2);
    kernel.odd_events = 1;
    open_up(1, 2);
    assert_int_equal(vb_port_counters(process[1].port)->timed_out, 1);
    assert_int_equal(process[1].lost + process[2].lost, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_errors, teardown_faults)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_step_of_connecting),
        TEST(a_queue_pair_that_is_refused_once),
        TEST(every_step_without_inline_data),
        TEST(tables_that_cannot_be_had),
        TEST(no_memory_for_a_stranger),
        TEST(through_another_device),
        TEST(an_address_that_is_not_known),
        TEST(too_many_credits),
        TEST(an_answer_of_another_size),
        TEST(another_process_of_that_name),
        TEST(steps_can_be_watched),
        TEST(events_that_nobody_knows),
    };
    return cmocka_run_group_tests_name("verbs_connect_errors", tests, NULL, NULL);
}
