/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Measures what it costs an adapter to send a payload as a second piece from the user's memory instead of a copy, without
 * a peer: a queue pair in the error state takes work requests as any does, and completes each as flushed. */
#include "vb_internal.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 9, REQUESTS = 16, PIECE = 64, MEMORY = 4096, WAITS = 50, WAIT_US = 20 };

typedef struct bench {
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    void *memory;
} bench_t;

static bool set_up(bench_t *b, vb_port_t *port)
{
    b->cq = ibv_create_cq(port->context, REQUESTS, NULL, NULL, 0);
    if (NULL == b->cq || 0 != posix_memalign(&b->memory, MEMORY, MEMORY)) {
        return false;
    }
    memset(b->memory, 0, MEMORY);
    struct ibv_qp_init_attr attr = {
        .send_cq = b->cq,
        .recv_cq = b->cq,
        .cap = {.max_send_wr = REQUESTS, .max_recv_wr = 1, .max_send_sge = 2, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
    };
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
    b->mr = ibv_reg_mr(port->pd, b->memory, MEMORY, IBV_ACCESS_LOCAL_WRITE);
    b->qp = ibv_create_qp(port->pd, &attr);
    return NULL != b->mr && NULL != b->qp && 0 == ibv_modify_qp(b->qp, &error, IBV_QP_STATE);
}

static void tear_down(bench_t *b)
{
    if (NULL != b->qp) {
        (void) ibv_destroy_qp(b->qp);
    }
    if (NULL != b->cq) {
        (void) ibv_destroy_cq(b->cq);
    }
    if (NULL != b->mr) {
        (void) ibv_dereg_mr(b->mr);
    }
    free(b->memory);
}

/* ns for one work request of so many pieces, and for one completion. False: the device does not do
 * it this way. */
static bool once(const bench_t *b, int pieces, double *post, double *poll)
{
    struct ibv_sge sge[2];
    struct ibv_wc wc[REQUESTS];
    for (int i = 0; i < 2; ++i) {
        sge[i] = (struct ibv_sge){.addr = (uintptr_t) b->memory + (uintptr_t) i * MEMORY / 2,
                                  .length = PIECE,
                                  .lkey = b->mr->lkey};
    }
    struct ibv_send_wr wr = {.sg_list = sge,
                             .num_sge = pieces,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;
    uint64_t start = vb_now();
    for (int i = 0; i < REQUESTS; ++i) {
        wr.wr_id = (uint64_t) i;
        if (0 != ibv_post_send(b->qp, &wr, &bad)) {
            return false;
        }
    }
    *post = (double) (vb_now() - start) / REQUESTS;
    /* What is asked for is what taking a completion costs, not what waiting for it does. */
    *poll = -1;
    int n = 0;
    for (int wait = 0; n < REQUESTS && wait < WAITS; ++wait) {
        (void) usleep(wait > 0 ? WAIT_US : 1);
        start = vb_now();
        const int got = ibv_poll_cq(b->cq, REQUESTS - n, wc);
        const double each = got > 0 ? (double) (vb_now() - start) / got : 0;
        if (got < 0) {
            return false;
        }
        n += got;
        if (got > REQUESTS / 2) {
            *poll = each;
        }
    }
    return n == REQUESTS;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

static double median(double *samples, int n)
{
    qsort(samples, (size_t) n, sizeof(*samples), by_value);
    return samples[n / 2];
}

double vb_port_cost_of_pieces(vb_port_t *port)
{
    bench_t b = {.cq = NULL};
    double one[ROUNDS], two[ROUNDS], poll[2 * ROUNDS];
    int polls = 0, rounds = 0;
    if (set_up(&b, port)) {
        for (; rounds < ROUNDS; ++rounds) {
            double got[2];
            if (!once(&b, 1, &one[rounds], &got[0]) || !once(&b, 2, &two[rounds], &got[1])) {
                break;
            }
            for (int i = 0; i < 2; ++i) {
                if (got[i] >= 0) {
                    poll[polls++] = got[i];
                }
            }
        }
    }
    tear_down(&b);
    if (rounds < ROUNDS || 0 == polls) {
        return -1;
    }
    const double more = median(two, ROUNDS) - median(one, ROUNDS);
    return (more > 0 ? more : 0) + median(poll, polls);
}
