/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What the files of the fake (fake_verbs.h) share: the objects behind those of libibverbs and librdmacm. */
#ifndef FAKE_OBJECTS_H
#define FAKE_OBJECTS_H

#include "fake_verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#undef ibv_reg_mr
#undef ibv_query_port

/* ---- queues of anything ---- */

typedef struct item {
    struct item *next;
} item_t;
typedef struct queue {
    item_t *first, **last;
    unsigned n;
} queue_t;

static inline void put(queue_t *q, item_t *i)
{
    i->next = NULL;
    if (NULL == q->first) {
        q->last = &q->first;
    }
    *q->last = i;
    q->last = &i->next;
    ++q->n;
}
static inline void *take(queue_t *q)
{
    item_t *i = q->first;
    if (NULL != i) {
        q->first = i->next;
        --q->n;
    }
    return i;
}
static inline void clear(queue_t *q)
{
    item_t *i;
    while (NULL != (i = take(q))) {
        free(i);
    }
}
/* ---- objects ---- */

typedef struct {
    item_t super;
    uint64_t wr_id;
    struct ibv_sge sge;
} receive_t;
typedef struct {
    item_t super;
    uint64_t wr_id;
    bool is_signalled;
    size_t size;
    char data[];
} sending_t;
typedef struct {
    item_t super;
    struct rdma_cm_event event;
    char private_data[256];
} cm_event_t;
typedef struct {
    item_t super;
    struct ibv_async_event event;
} async_t;

typedef struct {
    struct ibv_context context;
    struct ibv_device device;
    queue_t async;
    unsigned free_number; /* that the next queue pair gets, with fake.reuses_numbers */
} node_t;
typedef struct {
    struct ibv_srq srq;
    queue_t posted;
    unsigned limit, max;
    bool is_armed;
} srq_t;
typedef struct qp {
    struct ibv_qp qp;
    struct qp *other;
    queue_t posted;     /* receives */
    queue_t waiting;    /* sends without a receive over there */
    uint8_t rnr_timer;  /* told to who found no buffer here */
    uint64_t repeat_at; /* of what waits, with fake.is_timed */
    unsigned max_recv, bytes;
    unsigned sends;
    bool is_broken;
    struct qp *next; /* of all */
    uint32_t qkey;
    enum ibv_qp_state state; /* if rdma_cm does not see to it */
    uint16_t pkey_index;
    /* RC, likewise. */
    uint32_t sq_psn, rq_psn;
    enum ibv_mtu path_mtu;
} qp_t;
typedef struct {
    struct rdma_event_channel channel;
    queue_t events;
} channel_t;
typedef struct id {
    struct rdma_cm_id id;
    struct id *next; /* of all */
    struct id *other;
    channel_t *channel;
    struct sockaddr_in here, there;
    bool is_listening, is_accepted;
} cm_id_t;
typedef struct mr {
    struct ibv_mr mr;
    int access;
    char *device; /* of a dma-buf: where the adapter finds the byte at mr.addr; else NULL */
    struct mr *next;
} mr_t;
extern node_t fake_nodes[FAKE_NODES + 1];
extern cm_id_t *fake_ids;
extern qp_t *fake_qps;
extern unsigned fake_next_port, fake_next_number;

/* Which datagrams are lost, doubled and late begins anew: the same in every run. */
void fake_datagrams_reset(void);

static inline void ring(int fd)
{
    const uint64_t one = 1;
    (void) !write(fd, &one, sizeof(one));
}
static inline void silence(int fd)
{
    uint64_t n;
    (void) !read(fd, &n, sizeof(n));
}

/* With AddressSanitizer: what lies in a posted receive buffer behind the bytes that arrived may not be read until it is
 * posted again. */
#if defined(__SANITIZE_ADDRESS__)
#    define FAKE_GUARDS 1
#elif defined(__has_feature)
#    if __has_feature(address_sanitizer)
#        define FAKE_GUARDS 1
#    endif
#endif
#ifdef FAKE_GUARDS
#    include <sanitizer/asan_interface.h>
static inline void guard(const struct ibv_sge *buffer, size_t arrived)
{
    ASAN_UNPOISON_MEMORY_REGION((void *) (uintptr_t) buffer->addr, buffer->length);
    if (arrived < buffer->length) {
        ASAN_POISON_MEMORY_REGION((char *) (uintptr_t) buffer->addr + arrived,
                                  buffer->length - arrived);
    }
}
#else
static inline void guard(const struct ibv_sge *buffer, size_t arrived)
{
    (void) buffer, (void) arrived;
}
#endif

enum { FAKE_PARTITION = 2 }; /* its place in the P_Key table */

/* ---- fake_verbs.c: devices, memory, completions, receive queues ---- */

int fake_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int fake_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
void fake_complete(struct ibv_cq *to, uint64_t wr_id, uint32_t qp_num, enum ibv_wc_status status,
                   size_t size);
bool fake_is_allowed(uint32_t key, uint64_t at, size_t length, int access);

/* Where the adapter finds the byte that work requests name so: elsewhere for memory of a dma-buf. */
void *fake_memory(uint32_t key, uint64_t at);
/* What the processor moves of so many bytes, where adapters do it by themselves. */
size_t fake_moved(size_t size);
receive_t *fake_take_receive(qp_t *qp);

/* No more buffers are taken out of the shared queue for it. */
void fake_tell_last(qp_t *qp);
void fake_forget_events(const qp_t *qp);

/* ---- fake_pairs.c: what work requests do ---- */

int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
void fake_break_pair(qp_t *qp);
/* Buffers were posted on the node: messages that wait for them are repeated. */
void fake_go_on(struct ibv_context *context);
/* The pieces of a message, one behind the other; NULL: some memory is not registered. */
sending_t *fake_gather(const struct ibv_send_wr *wr);
/* A queue pair with this number, into the list of all; and out of it. */
qp_t *fake_qp_new(struct ibv_pd *pd, const struct ibv_qp_init_attr *attr, enum ibv_qp_type type, uint32_t number);
void fake_qp_free(qp_t *qp);
qp_t *fake_qp_of(uint32_t number, enum ibv_qp_type type);

/* ---- fake_datagrams.c: queue pairs that belong to no connection ---- */

int fake_post_datagrams(qp_t *qp, struct ibv_send_wr *wr);

/* ---- fake_cm.c: connections ---- */

void fake_disconnect(cm_id_t *id, bool tell_both);

#endif
