/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The verbs transport when the adapter does not do what it is asked: it refuses work requests, some or all, tells of
 * events and completions that cannot be, writes garbage. What passes is survived, what does not ends in words that name
 * it, and no buffer, credit or place in a queue is lost. */
#include "verbs_faults.h"
#include "vb_internal.h"
#include "vb_rx.h"

#include <errno.h>
#include <unistd.h>

/* ---- what fails ---- */

static struct {
    struct ibv_async_event async; /* with has_async: comes next */
    bool has_async;
    faulty_t post, post_recv; /* of work requests */
    unsigned recv_good;       /* with post_recv: so many of the chain are taken */
    bool if_waiting;          /* post: only while others are outstanding */
    struct ibv_wc wc;         /* with has_wc: is found in the completion queue */
    bool has_wc;
} kernel;

int __real_ibv_get_async_event(struct ibv_context *c, struct ibv_async_event *event);
int __wrap_ibv_get_async_event(struct ibv_context *c, struct ibv_async_event *event);
int __wrap_ibv_get_async_event(struct ibv_context *c, struct ibv_async_event *event)
{
    if (kernel.has_async) {
        kernel.has_async = false;
        *event = kernel.async;
        return 0;
    }
    return __real_ibv_get_async_event(c, event);
}

/* The adapter's own functions. */
static __typeof__(((struct ibv_context *) 0)->ops) ops;

static bool is_waiting(const struct ibv_qp *qp)
{
    for (unsigned i = 1; i <= FAKE_NODES; ++i) {
        for (unsigned k = 1; k <= FAKE_NODES; ++k) {
            const vb_link_t *link = NULL == process[i].peer[k] ? NULL : process[i].peer[k]->link;
            if (NULL != link && qp == link->qp) {
                return vb_sendq_outstanding(&link->sendq) > 0;
            }
        }
    }
    return false;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    if ((!kernel.if_waiting || is_waiting(qp)) && faulty_now(&kernel.post)) {
        *bad = wr;
        return kernel.post.error;
    }
    return ops.post_send(qp, wr, bad);
}

/* A chain of which a part is taken. */
static int take_part(struct ibv_recv_wr *wr, struct ibv_recv_wr **bad, unsigned good)
{
    for (*bad = wr; good > 0 && NULL != (*bad)->next; --good) {
        *bad = (*bad)->next;
    }
    return ENOMEM;
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    if (!faulty_now(&kernel.post_recv)) {
        return ops.post_srq_recv(srq, wr, bad);
    }
    const int rc = take_part(wr, bad, kernel.recv_good);
    for (struct ibv_recv_wr *w = wr, *next, *none; w != *bad; w = next) {
        next = w->next;
        w->next = NULL;
        (void) ops.post_srq_recv(srq, w, &none);
    }
    return rc;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    if (faulty_now(&kernel.post_recv)) {
        *bad = wr;
        return ENOMEM;
    }
    return ops.post_recv(qp, wr, bad);
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
    if (kernel.has_wc) {
        kernel.has_wc = false;
        *wc = kernel.wc;
        return 1;
    }
    return ops.poll_cq(cq, n, wc);
}

/* The node's adapter does as `kernel` says. */
static void meddle(unsigned node)
{
    struct ibv_context *c = context_of(node);
    if (c->ops.post_send != post_send) {
        ops = c->ops;
        c->ops.post_send = post_send;
        c->ops.post_srq_recv = post_srq_recv;
        c->ops.post_recv = post_recv;
        c->ops.poll_cq = poll_cq;
    }
}

static struct ibv_context *meddled[FAKE_NODES + 1];

static void begin_meddled(unsigned n)
{
    begin(n);
    for (unsigned i = 1; i <= n; ++i) {
        meddled[i] = context_of(i);
        meddle(i);
    }
}

static int setup_errors(void **state)
{
    memset(&kernel, 0, sizeof(kernel));
    memset(meddled, 0, sizeof(meddled));
    return setup_faults(state);
}

static int teardown_errors(void **state)
{
    for (unsigned i = 1; i <= FAKE_NODES; ++i) {
        if (NULL != meddled[i]) {
            meddled[i]->ops = ops;
        }
    }
    return teardown_faults(state);
}

/* ---- the adapter ---- */

static void adapter_tells_it(unsigned node)
{
    const uint64_t one = 1;
    kernel.has_async = true;
    assert_int_equal(write(context_of(node)->async_fd, &one, sizeof(one)), sizeof(one));
    settle();
    assert_false(kernel.has_async);
}

static void adapter_tells(unsigned node, enum ibv_event_type type, struct ibv_qp *qp)
{
    kernel.async = (struct ibv_async_event){.event_type = type, .element.qp = qp};
    adapter_tells_it(node);
}

/* That all connections use. One of another port of the device is nothing to this one. */
static void a_queue_that_fails(void **state)
{
    for (unsigned shared = 0; shared < 2; ++shared) {
        struct ibv_cq another_cq = {.cq_context = &process[2]};
        struct ibv_srq another_srq = {.srq_context = &process[2]};
        begin(2);
        open_up(1, 2);
        for (unsigned of_port = 0; of_port < 2; ++of_port) {
            assert_int_equal(process[1].lost, 0);
            kernel.async = (struct ibv_async_event){.event_type = shared ? IBV_EVENT_SRQ_ERR : IBV_EVENT_CQ_ERR};
            if (shared) {
                kernel.async.element.srq = of_port ? process[1].port->srq : &another_srq;
            } else {
                kernel.async.element.cq = of_port ? process[1].port->cq : &another_cq;
            }
            adapter_tells_it(1);
        }
        until(1, 2, VB_DEAD);
        assert_int_equal(process[1].lost, 1);
        assert_int_equal(teardown_errors(state), 0);
        assert_int_equal(setup_errors(state), 0);
    }
}

static void a_queue_pair_that_fails(void **state)
{
    (void) state;
    begin(3);
    open_up(1, 2);
    open_up(1, 3);
    struct ibv_qp unknown = {.qp_num = 1u << 30};
    struct ibv_qp another = {.qp_num =
                                 process[1].peer[2]->link->qp->qp_num}; /* of another adapter */
    adapter_tells(1, IBV_EVENT_PORT_ERR, NULL);                         /* may come up again */
    adapter_tells(1, IBV_EVENT_QP_FATAL, &unknown);
    adapter_tells(1, IBV_EVENT_QP_FATAL, &another);
    assert_int_equal(process[1].lost, 0);
    assert_int_equal(say(1, 2, 7), VB_OK);
    settle();
    assert_int_equal(process[2].received, 1);
    adapter_tells(1, IBV_EVENT_QP_FATAL, process[1].peer[2]->link->qp);
    until(1, 2, VB_DEAD);
    assert_int_equal(process[1].lost, 1);
    assert_non_null(strstr(process[1].why, "event of the adapter"));
    assert_int_equal(say(1, 3, 8), VB_OK); /* the others' are as they were */
    settle();
    assert_int_equal(process[3].received, 1);
}

/* ---- posting ---- */

/* The queue is full, says the adapter, though it should not be: later. With and without credits. */
static void work_requests_that_must_wait(void **state)
{
    enum { MANY = 400 };
    for (int own = 0; own < 2; ++own) {
        fake.is_iwarp = own;
        fake.has_atomics = !own;
        begin_meddled(2);
        open_up(1, 2);
        rng_t rng = {5};
        unsigned sent[3] = {0};
        kernel.if_waiting = true; /* with nothing outstanding there would be nothing to wait for */
        while (sent[1] + sent[2] < 2 * MANY) {
            for (unsigned node = 1; node <= 2; ++node) {
                kernel.post = (faulty_t){.times = rng_percent(&rng, 30), .error = ENOMEM};
                if (sent[node] < MANY
                    && VB_OK
                           == send_flags(node, 3 - node, (uint8_t) sent[node], 64,
                                         rng_percent(&rng, 50) ? VB_INLINE : 0)) {
                    ++sent[node];
                }
                progress(node);
            }
        }
        kernel.post.times = 0;
        assert_int_equal(process[1].lost + process[2].lost, 0);
        settle();
        for (unsigned node = 1; node <= 2; ++node) {
            assert_int_equal(process[node].received, MANY);
            for (unsigned i = 0; i < MANY; ++i) {
                assert_int_equal(process[node].got[i], (uint8_t) i);
            }
            /* No place in the completion queue is lost. */
            const vb_link_t *link = process[node].peer[3 - node]->link;
            const vb_rx_t *rx = own ? link->rx : process[node].port->rx;
            assert_int_equal(process[node].port->entries.used,
                             rx->entries + vb_sendq_outstanding(&link->sendq));
        }
        assert_true(vb_port_counters(process[1].port)->no_room > 0);
        assert_true(process[1].ready > 1);
        (void) teardown_errors(state);
        (void) setup_errors(state);
    }
}

/* Refused though nothing is outstanding, or for another reason: it never would be taken. */
static void work_requests_that_are_refused(void **state)
{
    static const int errors[] = {ENOMEM, EINVAL, EFAULT};
    for (unsigned i = 0; i < 3; ++i) {
        begin_meddled(2);
        open_up(1, 2);
        settle();
        /* So that nothing silent is outstanding. */
        assert_int_equal(send_flags(1, 2, 5, 64, VB_SIGNAL), VB_OK);
        settle();
        assert_int_equal(vb_sendq_outstanding(&process[1].peer[2]->link->sendq), 0);
        kernel.post = (faulty_t){.times = 1, .error = errors[i]};
        assert_int_equal(say(1, 2, 6), VB_AGAIN);
        assert_int_equal(say(1, 2, 6), VB_AGAIN); /* until the end is told */
        until(1, 2, VB_DEAD);
        assert_int_equal(process[1].lost, 1);
        assert_non_null(strstr(process[1].why, strerror(errors[i])));
        assert_int_equal(say(1, 2, 6), VB_LOST);
        until(2, 1, VB_DEAD);
        assert_int_equal(process[2].received, 1); /* what was sent before has arrived */
        (void) teardown_errors(state);
        (void) setup_errors(state);
    }
}

/* An operation that the device does not have: this request fails, and only it. */
static void operations_that_are_not_there(void **state)
{
    (void) state;
    static const int errors[] = {EOPNOTSUPP, EINVAL};
    begin_meddled(2);
    open_up(1, 2);
    process_t *p = &process[1], *q = &process[2];
    struct ibv_sge piece = {.addr = (uintptr_t) p->memory, .length = 8, .lkey = p->mr->lkey};
    for (unsigned i = 0; i < 2; ++i) {
        kernel.post = (faulty_t){.times = 1, .error = errors[i]};
        vb_port_lock(p->port);
        assert_int_equal(vb_post_atomic(p->peer[2], &piece, (uintptr_t) q->memory, q->mr->rkey, 1,
                                        NULL, VB_SIGNAL, p),
                         VB_FAULT);
        vb_port_unlock(p->port);
        settle();
    }
    assert_int_equal(p->done, 0); /* nobody waits for it */
    assert_int_equal(vb_port_counters(p->port)->atomics, 0);
    assert_int_equal(say(1, 2, 6), VB_OK);
    settle();
    assert_int_equal(q->received, 1);
    assert_int_equal(p->lost, 0);
    /* The connection is lost, or cut: neither write, read nor atomic is taken. */
    fake_kill(2);
    vb_port_events(p->port, 0);
    vb_port_lock(p->port);
    assert_int_equal(
        vb_post_atomic(p->peer[2], &piece, (uintptr_t) q->memory, q->mr->rkey, 1, NULL, 0, p),
        VB_AGAIN);
    assert_int_equal(vb_post_rdma(p->peer[2], &piece, (uintptr_t) q->memory, q->mr->rkey, 0, p),
                     VB_AGAIN);
    vb_port_unlock(p->port);
    until(1, 2, VB_DEAD);
    vb_port_lock(p->port);
    assert_int_equal(
        vb_post_atomic(p->peer[2], &piece, (uintptr_t) q->memory, q->mr->rkey, 1, NULL, 0, p),
        VB_LOST);
    assert_int_equal(vb_post_rdma(p->peer[2], &piece, (uintptr_t) q->memory, q->mr->rkey, VB_READ, p),
                     VB_LOST);
    vb_port_unlock(p->port);
}

/* A goodbye that has no room yet is said when there is some. */
static void a_goodbye_that_must_wait(void **state)
{
    (void) state;
    begin_meddled(2);
    open_up(1, 2);
    assert_int_equal(say(1, 2, 1), VB_OK);
    kernel.if_waiting = true;
    kernel.post = (faulty_t){.times = 3, .error = ENOMEM};
    vb_port_lock(process[1].port);
    vb_peer_close(process[1].peer[2]);
    vb_port_unlock(process[1].port);
    assert_int_equal(kernel.post.hits, 1);
    settle();
    assert_int_equal(kernel.post.hits, 3);
    assert_int_equal(process[2].received, 1);
    assert_int_equal(vb_peer_connection(process[2].peer[1])->state, VB_CLOSED);
    assert_int_equal(process[2].lost, 0); /* it is no loss */
}

/* What is in the queue cannot go out, because nobody over there takes anything: the end comes nevertheless, and what
 * was posted is told to have failed. */
static void a_goodbye_that_cannot_go_out(void **state)
{
    (void) state;
    fake.is_timed = true;
    begin(2);
    open_up(1, 2);
    process[2].holds = true;
    for (unsigned i = 0; i < 200 && !fake_is_waiting(1); ++i) {
        (void) send_flags(1, 2, 1, 64, VB_SIGNAL);
        settle();
    }
    assert_true(fake_is_waiting(1));
    const unsigned done = process[1].done;
    vb_port_quiesce(process[1].port, 3000000);
    assert_true(process[1].done > done);
    assert_int_equal(process[1].last, VB_ENDED);
    assert_int_equal(vb_port_links(process[1].port), 0);
    vb_port_lock(process[2].port);
    vb_port_return(process[2].port, process[2].held, (int) process[2].held_n);
    vb_port_unlock(process[2].port);
}

/* ---- receive queues ---- */

/* Of a chain only a part is posted: the rest later, and no buffer is lost. */
static void receives_that_are_refused(void **state)
{
    for (int own = 0; own < 2; ++own) {
        fake.is_iwarp = own;
        fake.has_atomics = !own;
        begin_meddled(2);
        open_up(1, 2);
        kernel.recv_good = 3;
        unsigned n = 0;
        rng_t rng = {8};
        for (unsigned tries = 0; n < 300 && tries < 100000; ++tries) {
            if (VB_OK == say(1, 2, (uint8_t) n)) {
                ++n;
            }
            /* Not always, or there would be no buffer at all in the end. */
            kernel.post_recv = (faulty_t){.times = !own && rng_percent(&rng, 20), .error = ENOMEM};
            progress(2);
            kernel.post_recv.times = 0;
            progress(1);
        }
        settle();
        assert_int_equal(process[2].received, 300);
        for (unsigned i = 0; i < 300; ++i) {
            assert_int_equal(process[2].got[i], (uint8_t) i);
        }
        assert_int_equal(process[1].lost + process[2].lost, 0);
        if (!own) {
            assert_int_equal(process[2].port->rx->buffers, process[2].port->rx->window.current);
        }
        (void) teardown_errors(state);
        (void) setup_errors(state);
    }
}

/* A spare buffer, which control messages need, could not be posted again: when it is, it is no credit. */
static void a_spare_buffer_that_is_refused(void **state)
{
    (void) state;
    fake.is_iwarp = true;
    fake.has_atomics = false;
    begin_meddled(2);
    open_up(1, 2);
    const uint64_t *credits = &vb_port_counters(process[2].port)->credit_messages;
    unsigned refused_n = 0;
    for (unsigned i = 0; i < 400; ++i) {
        const uint64_t before = *credits;
        (void) say(1, 2, 1);
        progress(2);
        /* Only a control message is on its way to the first. */
        kernel.post_recv = (faulty_t){.times = *credits > before && 0 == i % 3, .error = ENOMEM};
        progress(1);
        refused_n += kernel.post_recv.hits;
        kernel.post_recv.times = 0;
        if (0 == i % 10) {
            (void) say(2, 1, 2);
            progress(1);
        }
    }
    assert_true(refused_n > 3);
    (void) say(2, 1, 2);
    settle();
    for (unsigned node = 1; node <= 2; ++node) {
        const vb_link_t *from = process[3 - node].peer[node]->link,
                        *to = process[node].peer[3 - node]->link;
        assert_int_equal(from->credit.have + to->credit.owed, to->rx->window.current);
        assert_int_equal(to->rx->posted, to->rx->window.current + to->rx->spare);
    }
    assert_int_equal(process[1].lost + process[2].lost, 0);
}

/* Memory for more buffers is out: as many as there are, and later more. */
static void no_memory_for_buffers(void **state)
{
    (void) state;
    begin_meddled(2);
    const vb_rx_t *rx = process[2].port->rx;
    vb_rx_starved(process[2].port->rx, spec_now());
    vb_entries_t *entries = &process[2].port->entries;
    const uint32_t left = entries->limit - entries->used;
    assert_true(vb_entries_take(entries, left)); /* not more than the completion queue holds */
    assert_int_equal(vb_rx_fill(process[2].port->rx), 0);
    vb_entries_give(entries, left);
    out = (faulty_t){.times = UINT32_MAX, .error = ENOMEM, .size = (8 * SIZE + 4095) / 4096 * 4096};
    assert_int_equal(vb_rx_fill(process[2].port->rx), 0);
    assert_true(out.hits > 0);
    out.times = 0;
    /* Of a chain those in front are taken; they are not posted a second time. */
    kernel.recv_good = 3;
    kernel.post_recv = (faulty_t){.times = 1, .error = ENOMEM};
    assert_int_equal(vb_rx_fill(process[2].port->rx), 3);
    assert_int_equal(rx->posted, 8 + 3);
    assert_int_equal(vb_rx_fill(process[2].port->rx), rx->window.current - 8 - 3);
    open_up(1, 2);
    assert_int_equal(say(1, 2, 5), VB_OK);
    settle();
    assert_int_equal(process[2].received, 1);
}

/* ---- completions that cannot be ---- */

static void find(unsigned node, struct ibv_wc wc)
{
    kernel.wc = wc;
    kernel.has_wc = true;
    settle();
    (void) node;
    assert_false(kernel.has_wc);
}

/* Of links and buffers that are gone, or never were: counted, and everything goes on. */
static void completions_of_what_is_gone(void **state)
{
    for (int own = 0; own < 2; ++own) {
        fake.is_iwarp = own;
        fake.has_atomics = !own;
        begin(2);
        meddled[2] = context_of(2);
        meddle(2);
        open_up(1, 2);
        const vb_link_t *link = process[2].peer[1]->link;
        vb_rx_t *rx = own ? link->rx : process[2].port->rx;
        const uint64_t *stale = &vb_port_counters(process[2].port)->stale;
        const uint32_t qp = link->qp->qp_num;
        const uint32_t posted = rx->posted;
        assert_int_equal(*stale, 0);
        find(2, (struct ibv_wc){.wr_id = vb_wr_id(true, rx->generation + 1, 0), .qp_num = qp});
        find(2, (struct ibv_wc){.wr_id = vb_wr_id(true, rx->generation, 0xfff), .qp_num = qp});
        find(2, (struct ibv_wc){.wr_id = vb_wr_id(true, rx->generation, UINT32_MAX), .qp_num = qp});
        find(2,
             (struct ibv_wc){.wr_id = vb_wr_id(true, rx->generation, 0xfff), .qp_num = 1u << 30});
        find(2,
             (struct ibv_wc){.wr_id = vb_wr_id(false, link->generation, 77), .qp_num = 1u << 30});
        assert_int_equal(*stale, 5);
        find(2, (struct ibv_wc){.wr_id = vb_wr_id(false, link->generation + 1, 0), .qp_num = qp});
        find(2, (struct ibv_wc){.wr_id = vb_wr_id(false, link->generation, link->sendq.nxt),
                                .qp_num = qp});
        assert_int_equal(rx->posted, posted);
        /* Nor does it end what is outstanding. */
        assert_int_equal(send_flags(2, 1, 3, 64, VB_SIGNAL), VB_OK);
        kernel.wc = (struct ibv_wc){
            .wr_id = vb_wr_id(false, link->generation, link->sendq.nxt - 1 + link->sendq.depth),
            .qp_num = qp};
        kernel.has_wc = true;
        vb_received_t none[1];
        int events;
        vb_port_lock(process[2].port);
        const int n = vb_port_poll(process[2].port, none, 1, &events);
        vb_port_unlock(process[2].port);
        assert_int_equal(n + (int) process[2].done, 0);
        settle();
        assert_int_equal(process[2].done, 1);
        vb_rx_return(rx, 0xfff);
        vb_rx_repost(rx, 0xfff);
        assert_int_equal(rx->posted, posted);
        assert_int_equal(rx->taken, 0);
        for (unsigned i = 0; i < 50; ++i) {
            (void) say(1, 2, 5);
            settle();
        }
        assert_true(process[2].received >= 49);
        assert_int_equal(process[1].lost + process[2].lost, 0);
        (void) teardown_errors(state);
        (void) setup_errors(state);
    }
}

/* A buffer of the shared queue that a connection used which is gone: it is posted again. */
static void a_buffer_of_a_link_that_is_gone(void **state)
{
    (void) state;
    begin(3);
    open_up(1, 2);
    open_up(3, 2);
    assert_int_equal(say(1, 2, 5), VB_OK);
    vb_port_lock(process[2].port);
    vb_peer_step(process[2].peer[1], VB_ON_FAILED); /* before the completion is read */
    vb_port_unlock(process[2].port);
    const vb_rx_t *rx = process[2].port->rx;
    settle();
    assert_int_equal(process[2].received, 0);
    assert_true(vb_port_counters(process[2].port)->stale > 0);
    assert_int_equal(rx->posted, rx->window.current);
    assert_int_equal(rx->taken, 0);
    assert_int_equal(say(3, 2, 6), VB_OK);
    settle();
    assert_int_equal(process[2].got[0], 6);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_errors, teardown_errors)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_queue_that_fails),
        TEST(a_queue_pair_that_fails),
        TEST(work_requests_that_must_wait),
        TEST(work_requests_that_are_refused),
        TEST(operations_that_are_not_there),
        TEST(a_goodbye_that_must_wait),
        TEST(a_goodbye_that_cannot_go_out),
        TEST(receives_that_are_refused),
        TEST(a_spare_buffer_that_is_refused),
        TEST(no_memory_for_buffers),
        TEST(completions_of_what_is_gone),
        TEST(a_buffer_of_a_link_that_is_gone),
    };
    return cmocka_run_group_tests_name("verbs_adapter_errors", tests, NULL, NULL);
}
