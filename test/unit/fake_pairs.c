/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See fake_verbs.h. Queue pairs: what becomes of the work requests of connections. */
#include "fake_objects.h"

/* ---- queue pairs ---- */

qp_t *fake_qps;

/* A model: a work request takes 64 bytes and its inline data, or the address of a datagram; a receive 16. */
static unsigned bytes_of(const struct ibv_qp_init_attr *attr, enum ibv_qp_type type)
{
    const unsigned more = IBV_QPT_UD == type ? 64 : attr->cap.max_inline_data;
    return attr->cap.max_send_wr * (64 + more)
           + (NULL == attr->srq ? attr->cap.max_recv_wr * 16 : 0);
}

qp_t *fake_qp_new(struct ibv_pd *pd, const struct ibv_qp_init_attr *attr, enum ibv_qp_type type, uint32_t number)
{
    qp_t *qp = calloc(1, sizeof(*qp));
    qp->qp = (struct ibv_qp){.context = pd->context,
                             .qp_context = attr->qp_context,
                             .pd = pd,
                             .send_cq = attr->send_cq,
                             .recv_cq = attr->recv_cq,
                             .srq = attr->srq,
                             .qp_type = type,
                             .qp_num = number};
    qp->max_recv = attr->cap.max_recv_wr;
    qp->bytes = bytes_of(attr, type);
    qp->next = fake_qps;
    fake_qps = qp;
    ++fake.queue_pairs;
    fake.queue_bytes += qp->bytes;
    return qp;
}

void fake_qp_free(qp_t *gone)
{
    fake.leaked += NULL != gone->qp.srq ? gone->posted.n : 0;
    fake_forget_events(gone);
    clear(&gone->posted);
    clear(&gone->waiting);
    for (qp_t **at = &fake_qps; NULL != *at;) {
        qp_t *qp = *at;
        qp->other = qp->other == gone ? NULL : qp->other;
        if (qp == gone) {
            *at = qp->next;
        } else {
            at = &qp->next;
        }
    }
    fake.queue_bytes -= gone->bytes;
    free(gone);
    --fake.queue_pairs;
}

qp_t *fake_qp_of(uint32_t number, enum ibv_qp_type type)
{
    qp_t *qp = fake_qps;
    while (NULL != qp && (qp->qp.qp_num != number || qp->qp.qp_type != type)) {
        qp = qp->next;
    }
    return qp;
}

void fake_break_pair(qp_t *qp)
{
    sending_t *s;
    receive_t *r;
    if (qp->is_broken) {
        return;
    }
    qp->is_broken = true;
    while (NULL != (s = take(&qp->waiting))) {
        fake_complete(qp->qp.send_cq, s->wr_id, qp->qp.qp_num, IBV_WC_WR_FLUSH_ERR, 0);
        free(s);
    }
    while (NULL != (r = take(&qp->posted))) {
        fake_complete(qp->qp.recv_cq, r->wr_id, qp->qp.qp_num, IBV_WC_WR_FLUSH_ERR, 0);
        free(r);
    }
    if (NULL != qp->qp.srq) {
        if (fake.takes_ahead && NULL != (r = fake_take_receive(qp))) {
            put(&qp->posted, &r->super);
        } else {
            fake_tell_last(qp);
        }
    }
}

void fake_finish_last(void)
{
    for (qp_t *qp = fake_qps; NULL != qp; qp = qp->next) {
        receive_t *r = NULL == qp->qp.srq ? NULL : take(&qp->posted);
        if (NULL != r) {
            fake_complete(qp->qp.recv_cq, r->wr_id, qp->qp.qp_num, IBV_WC_WR_FLUSH_ERR, 0);
            free(r);
            fake_tell_last(qp);
        }
    }
}

/* True: delivered, or it never will be. */
static bool deliver(qp_t *qp, sending_t *s)
{
    qp_t *to = qp->other;
    if (to->is_broken) {
        fake_complete(qp->qp.send_cq, s->wr_id, qp->qp.qp_num, IBV_WC_RETRY_EXC_ERR, 0);
        fake_break_pair(qp);
        return true;
    }
    receive_t *r = fake_take_receive(to);
    if (NULL == r && fake.is_iwarp) {
        ++fake.torn;
        fake_complete(qp->qp.send_cq, s->wr_id, qp->qp.qp_num, IBV_WC_REM_OP_ERR, 0);
        fake_break_pair(qp);
        fake_break_pair(to);
        return true;
    }
    if (NULL == r) {
        return false;
    }
    const bool fits = s->size <= r->sge.length
                      && fake_is_allowed(r->sge.lkey, r->sge.addr, s->size, IBV_ACCESS_LOCAL_WRITE);
    if (fits) {
        memcpy((void *) (uintptr_t) r->sge.addr, s->data, fake_moved(s->size));
        guard(&r->sge, s->size);
    }
    fake_complete(to->qp.recv_cq, r->wr_id, to->qp.qp_num,
                  fits ? IBV_WC_SUCCESS : IBV_WC_LOC_LEN_ERR, s->size);
    free(r);
    if (s->is_signalled) {
        fake_complete(qp->qp.send_cq, s->wr_id, qp->qp.qp_num, IBV_WC_SUCCESS, s->size);
    }
    return true;
}

/* Buffers were posted on the node: messages that wait for them are repeated. */
void fake_go_on(struct ibv_context *context)
{
    if (fake.is_timed) {
        return;
    }
    for (qp_t *qp = fake_qps; NULL != qp; qp = qp->next) {
        while (!qp->is_broken && NULL != qp->other && qp->other->qp.context == context
               && NULL != qp->waiting.first) {
            sending_t *s = (sending_t *) qp->waiting.first;
            if (!deliver(qp, s)) {
                break;
            }
            free(take(&qp->waiting));
        }
    }
}

sending_t *fake_gather(const struct ibv_send_wr *wr)
{
    size_t size = 0;
    for (int i = 0; i < wr->num_sge; ++i) {
        size += wr->sg_list[i].length;
    }
    sending_t *s = malloc(sizeof(*s) + fake_moved(size));
    *s = (sending_t){.wr_id = wr->wr_id,
                     .size = size,
                     .is_signalled = 0 != (wr->send_flags & IBV_SEND_SIGNALED)};
    size = 0;
    for (int i = 0; i < wr->num_sge; ++i) {
        const struct ibv_sge *sge = &wr->sg_list[i];
        if (!(wr->send_flags & IBV_SEND_INLINE)
            && !fake_is_allowed(sge->lkey, sge->addr, sge->length, 0)) {
            free(s);
            return NULL;
        }
        const size_t now = fake_moved(size + sge->length);
        if (now > size) {
            memcpy(s->data + size, fake_memory(sge->lkey, sge->addr), now - size);
        }
        size += sge->length;
    }
    return s;
}

/* Write, read, atomics: now. */
/* What a torn write left out. */
typedef struct {
    item_t super;
    uint64_t at;
    uint32_t rkey; /* it may be gone meanwhile */
    size_t size;
    char data[];
} rest_t;
static queue_t rests;

void fake_finish_writes(void)
{
    rest_t *r;
    while (NULL != (r = take(&rests))) {
        if (fake_is_allowed(r->rkey, r->at, r->size, IBV_ACCESS_REMOTE_WRITE)) {
            memcpy((void *) (uintptr_t) r->at, r->data, r->size);
        }
        free(r);
    }
}

/* The pieces one behind the other. */
static enum ibv_wc_status write_remote(const struct ibv_send_wr *wr)
{
    char data[65536], *at = fake_memory(wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
    size_t size = 0, now = 0;
    for (int i = 0; i < wr->num_sge; ++i) {
        const struct ibv_sge *sge = &wr->sg_list[i];
        if (!(wr->send_flags & IBV_SEND_INLINE)
            && !fake_is_allowed(sge->lkey, sge->addr, sge->length, 0)) {
            return IBV_WC_LOC_PROT_ERR;
        }
        if (size + sge->length > sizeof(data)) { /* large ones are of one piece */
            break;
        }
        memcpy(data + size, fake_memory(sge->lkey, sge->addr), sge->length);
        size += sge->length;
    }
    if (1 == wr->num_sge) {
        memcpy(at, fake_memory(wr->sg_list->lkey, wr->sg_list->addr), wr->sg_list->length);
        return IBV_WC_SUCCESS;
    }
    if (!fake_is_allowed(wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, (uint32_t) size,
                         IBV_ACCESS_REMOTE_WRITE)) {
        return IBV_WC_REM_ACCESS_ERR;
    }
    if (fake.torn_writes) {
        now = size > 16 ? size - 16 : 0;
        rest_t *r = calloc(1, sizeof(*r) + now);
        r->at = (uintptr_t) at;
        r->rkey = wr->wr.rdma.rkey;
        r->size = now;
        memcpy(r->data, data, now);
        put(&rests, &r->super);
    }
    memcpy(at + now, data + now, size - now);
    return IBV_WC_SUCCESS;
}

static enum ibv_wc_status remote(const struct ibv_send_wr *wr)
{
    const struct ibv_sge *sge = wr->sg_list;
    void *local = fake_memory(sge->lkey, sge->addr);
    const bool is_atomic = IBV_WR_RDMA_WRITE != wr->opcode && IBV_WR_RDMA_READ != wr->opcode;
    const uint64_t at = is_atomic ? wr->wr.atomic.remote_addr : wr->wr.rdma.remote_addr;
    const uint32_t key = is_atomic ? wr->wr.atomic.rkey : wr->wr.rdma.rkey;
    const int access = is_atomic                         ? IBV_ACCESS_REMOTE_ATOMIC
                       : IBV_WR_RDMA_WRITE == wr->opcode ? IBV_ACCESS_REMOTE_WRITE
                                                         : IBV_ACCESS_REMOTE_READ;
    if (!fake_is_allowed(key, at, sge->length, access)) {
        return IBV_WC_REM_ACCESS_ERR;
    }
    if (!fake_is_allowed(sge->lkey, sge->addr, sge->length,
                         IBV_WR_RDMA_WRITE == wr->opcode ? 0 : IBV_ACCESS_LOCAL_WRITE)
        && !(wr->send_flags & IBV_SEND_INLINE)) {
        return IBV_WC_LOC_PROT_ERR;
    }
    uint64_t *word = fake_memory(key, at), before;
    switch (wr->opcode) {
    case IBV_WR_RDMA_WRITE:
        return fake.hands_off ? IBV_WC_SUCCESS : write_remote(wr);
    case IBV_WR_RDMA_READ:
        memcpy(local, word, fake.hands_off ? 0 : sge->length);
        break;
    default:
        before = *word;
        *word = IBV_WR_ATOMIC_FETCH_AND_ADD == wr->opcode ? before + wr->wr.atomic.compare_add
                : before == wr->wr.atomic.compare_add     ? wr->wr.atomic.swap
                                                          : before;
        memcpy(local, &before, sizeof(before));
    }
    return IBV_WC_SUCCESS;
}

/* A read that is not done yet: one at a time. */
typedef struct {
    qp_t *qp;
    struct ibv_send_wr wr;
    struct ibv_sge sge;
} late_t;
static late_t late;

void fake_finish_reads(void)
{
    late.wr.sg_list = &late.sge;
    fake_complete(late.qp->qp.send_cq, late.wr.wr_id, late.qp->qp.qp_num, remote(&late.wr),
                  late.sge.length);
}

/* There was no buffer for the first message that waits. */
static void refuse(qp_t *qp)
{
    ++fake.rnr;
    qp->repeat_at = fake.now + fake_rnr_ns(qp->other->rnr_timer);
}

void fake_repeat(void)
{
    for (qp_t *qp = fake_qps; NULL != qp; qp = qp->next) {
        while (!qp->is_broken && NULL != qp->other && NULL != qp->waiting.first
               && qp->repeat_at <= fake.now) {
            if (deliver(qp, (sending_t *) qp->waiting.first)) {
                free(take(&qp->waiting));
            } else {
                refuse(qp);
            }
        }
    }
}

uint64_t fake_next_repeat(void)
{
    uint64_t first = UINT64_MAX;
    for (const qp_t *qp = fake_qps; NULL != qp; qp = qp->next) {
        if (NULL != qp->waiting.first && qp->repeat_at < first) {
            first = qp->repeat_at;
        }
    }
    return first;
}

bool fake_is_waiting(unsigned node)
{
    for (const qp_t *qp = fake_qps; NULL != qp; qp = qp->next) {
        if (qp->qp.context == &fake_nodes[node].context && NULL != qp->waiting.first) {
            return true;
        }
    }
    return false;
}

/* The table of the InfiniBand specification, in units of 10 us. */
uint64_t fake_rnr_ns(uint8_t code)
{
    static const uint32_t units[32] = {65536, 1,    2,    3,     4,     6,     8,     12,
                                       16,    24,   32,   48,    64,    96,    128,   192,
                                       256,   384,  512,  768,   1024,  1536,  2048,  3072,
                                       4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152};
    return units[code & 31] * UINT64_C(10000);
}

/* Would the other side take its packets? Of one that rdma_cm connected it does. */
static bool is_known_there(const qp_t *qp)
{
    const qp_t *to = qp->other;
    return IBV_QPS_RESET == qp->state
           || (IBV_QPS_RTS == qp->state && to->state >= IBV_QPS_RTR && to->other == qp && to->rq_psn == qp->sq_psn
               && to->path_mtu == qp->path_mtu && to->pkey_index == qp->pkey_index);
}

/* Does this request break its connection? Then it is done, if its sender only does not hear of it. */
static bool breaks(qp_t *qp, struct ibv_send_wr *wr)
{
    const bool it_does = 0 == fake.requests_left;
    fake.requests_left -= fake.requests_left >= 0;
    if (!it_does) {
        return false;
    }
    if (fake.is_unheard && IBV_WR_SEND != wr->opcode) {
        (void) remote(wr);
    } else if (fake.is_unheard && NULL == qp->waiting.first) {
        sending_t *s = fake_gather(wr);
        s->is_signalled = false;
        (void) deliver(qp, s);
        free(s);
    }
    fake_complete(qp->qp.send_cq, wr->wr_id, qp->qp.qp_num, IBV_WC_RETRY_EXC_ERR, 0);
    fake_break_pair(qp);
    return true;
}

int fake_post_send(struct ibv_qp *to, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    qp_t *qp = (qp_t *) to;
    (void) bad;
    if (IBV_QPT_UD == to->qp_type) {
        return fake_post_datagrams(qp, wr);
    }
    ++fake.posted;
    fake.fences += 0 != (wr->send_flags & IBV_SEND_FENCE);
    fake.inlined += 0 != (wr->send_flags & IBV_SEND_INLINE);
    fake.signalled += 0 != (wr->send_flags & IBV_SEND_SIGNALED);
    if (qp->is_broken || NULL == qp->other || qp->other->is_broken || !is_known_there(qp)) {
        fake_complete(to->send_cq, wr->wr_id, to->qp_num,
                      qp->is_broken ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR, 0);
        fake_break_pair(qp);
        return 0;
    }
    if (breaks(qp, wr)) {
        return 0;
    }
    if (IBV_WR_RDMA_READ == wr->opcode && fake.late_reads) {
        late = (late_t){.qp = qp, .wr = *wr, .sge = *wr->sg_list};
        return 0;
    }
    if (IBV_WR_SEND != wr->opcode) {
        const enum ibv_wc_status status = remote(wr);
        if (IBV_WC_SUCCESS != status || wr->send_flags & IBV_SEND_SIGNALED) {
            fake_complete(to->send_cq, wr->wr_id, to->qp_num, status, wr->sg_list->length);
        }
        if (IBV_WC_SUCCESS != status) {
            fake_break_pair(qp);
        }
        return 0;
    }
    fake_finish_writes();
    sending_t *s = fake_gather(wr);
    if (NULL == s) {
        fake_complete(to->send_cq, wr->wr_id, to->qp_num, IBV_WC_LOC_PROT_ERR, 0);
        fake_break_pair(qp);
        return 0;
    }
    if (qp->sends++ < fake.deaf) {
        put(&qp->waiting, &s->super);
    } else if (fake.deaf > 0) {
        put(&qp->waiting, &s->super);
        fake_go_on(qp->other->qp.context);
    } else if (NULL == qp->waiting.first && deliver(qp, s)) {
        free(s);
    } else {
        if (NULL == qp->waiting.first) {
            refuse(qp);
        }
        put(&qp->waiting, &s->super);
    }
    return 0;
}
/* What each state of a queue pair needs to be told (InfiniBand specification, table 91). */
static bool is_enough(const qp_t *qp, enum ibv_qp_state state, int mask)
{
    static const int ud[] = {[IBV_QPS_INIT] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, [IBV_QPS_RTS] = 0};
    static const int rc[] = {[IBV_QPS_INIT] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
                             [IBV_QPS_RTR] = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN
                                             | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                             [IBV_QPS_RTS] = IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY
                                             | IBV_QP_MAX_QP_RD_ATOMIC};
    const bool is_ud = IBV_QPT_UD == qp->qp.qp_type;
    if (state < IBV_QPS_INIT || state > IBV_QPS_RTS || !(mask & IBV_QP_STATE)) {
        return false;
    }
    /* One behind the other; a UD queue pair may stay ready. */
    const bool is_next = state == qp->state + 1 || (is_ud && state == qp->state);
    const int needed = is_ud ? ud[state] : rc[state];
    return (is_ud || is_next) && needed == (mask & needed);
}

/* RC without rdma_cm: the way to the other side, which has to know this one, too. */
static int change_pair(qp_t *qp, const struct ibv_qp_attr *attr, int mask)
{
    if (!is_enough(qp, attr->qp_state, mask)) {
        return EINVAL;
    }
    qp->state = attr->qp_state;
    qp->pkey_index = mask & IBV_QP_PKEY_INDEX ? attr->pkey_index : qp->pkey_index;
    if (IBV_QPS_RTR == attr->qp_state) {
        qp->other = fake_qp_of(attr->dest_qp_num, IBV_QPT_RC);
        qp->rq_psn = attr->rq_psn;
        qp->path_mtu = attr->path_mtu;
        qp->rnr_timer = attr->min_rnr_timer;
        fake.service_level = attr->ah_attr.sl;
        fake.traffic_class = attr->ah_attr.is_global ? attr->ah_attr.grh.traffic_class : 0;
        fake.reads_answered = attr->max_dest_rd_atomic;
        fake.path_mtu = attr->path_mtu;
    }
    if (IBV_QPS_RTS == attr->qp_state) {
        qp->sq_psn = attr->sq_psn;
        fake.reads_asked = attr->max_rd_atomic;
        fake.rnr_retry = attr->rnr_retry;
    }
    return 0;
}

int ibv_modify_qp(struct ibv_qp *which, struct ibv_qp_attr *attr, int mask)
{
    qp_t *qp = (qp_t *) which;
    if (0 == fake.modifies_left) {
        return EINVAL;
    }
    fake.modifies_left -= fake.modifies_left > 0;
    if (IBV_QPT_UD == which->qp_type) {
        if (IBV_QP_STATE == mask && IBV_QPS_RESET == attr->qp_state) {
            qp->state = IBV_QPS_RESET;
            qp->is_broken = false;
            clear(&qp->posted);
            return 0;
        }
        if (qp->is_broken || !is_enough(qp, attr->qp_state, mask)) {
            return EINVAL;
        }
        qp->state = attr->qp_state;
        qp->qkey = mask & IBV_QP_QKEY ? attr->qkey : qp->qkey;
        qp->pkey_index = mask & IBV_QP_PKEY_INDEX ? attr->pkey_index : qp->pkey_index;
        return 0;
    }
    if (IBV_QP_STATE == mask && IBV_QPS_ERR == attr->qp_state) {
        fake_break_pair(qp);
        return 0;
    }
    if (IBV_QP_MIN_RNR_TIMER != mask) {
        return change_pair(qp, attr, mask);
    }
    qp->rnr_timer = attr->min_rnr_timer;
    return 0;
}
