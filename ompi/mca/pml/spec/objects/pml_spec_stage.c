/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Host memory that stands in for buffers on devices and with gaps, and the copies between both. */
#include "pml_spec_stage.h"

#include "../core/spec_pipe.h"
#include "pml_spec_device.h"

#include "opal/include/spec/promises.h"

#include <sys/mman.h>

static opal_mutex_t lock; /* innermost; covers all of these */
static spec_stage_t stage;
static spec_stage_costs_t costs;
static uint32_t slots; /* pieces at a time: core/spec_pipe.h */

static void *map(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (MAP_FAILED == p) {
        return NULL;
    }
    mca_pml_spec_device_pin(p, size);
    return p;
}

static void unmap(void *memory, size_t size)
{
    mca_pml_spec_device_unpin(memory, size);
    (void) munmap(memory, size);
}

void mca_pml_spec_stage_init(void)
{
    OBJ_CONSTRUCT(&lock, opal_mutex_t);
    spec_stage_init(&stage, mca_pml_spec.staging_max, MCA_PML_SPEC_STAGE_KEEP, map, unmap);
    costs = (spec_stage_costs_t){.known = false};
    slots = SPEC_PIPE_FEW;
}

void mca_pml_spec_stage_fini(void)
{
    spec_stage_give_back(&stage);
    OBJ_DESTRUCT(&lock);
}

static char *take(size_t size)
{
    mca_pml_spec_lock(&lock);
    char *memory = spec_stage_take(&stage, size);
    mca_pml_spec_unlock(&lock);
    return memory;
}

/* For what is complete before its memory comes back: half is left to messages that somebody waits for. */
static char *take_half(size_t size)
{
    mca_pml_spec_lock(&lock);
    char *memory = stage.in_use + size > stage.most / 2 ? NULL : spec_stage_take(&stage, size);
    mca_pml_spec_unlock(&lock);
    return memory;
}

static void put(void *memory, size_t size)
{
    mca_pml_spec_lock(&lock);
    spec_stage_put(&stage, memory, size);
    mca_pml_spec_unlock(&lock);
}

static uint64_t copy_ns(void *to, const void *from, size_t n)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 3; ++i) {
        const uint64_t start = spec_now();
        if (OPAL_SUCCESS != mca_pml_spec_device_copy(to, from, n)) {
            return 0;
        }
        const uint64_t took = spec_now() - start;
        best = took < best ? took : best;
    }
    return best;
}

/* By the first message, once in a process; two threads that come here first both measure. */
static void measure(void *to, const void *from)
{
    enum { LITTLE = 64, MUCH = SPEC_STAGE_LEAST };
    mca_pml_spec_lock(&lock);
    const bool known = costs.known;
    mca_pml_spec_unlock(&lock);
    if (known) {
        return;
    }
    const uint64_t little = copy_ns(to, from, LITTLE), much = copy_ns(to, from, MUCH);
    if (0 == little || 0 == much) {
        return; /* the message will meet the same */
    }
    const spec_stage_costs_t fresh = spec_stage_costs(little, much, MUCH - LITTLE);
    mca_pml_spec_lock(&lock);
    costs = fresh;
    mca_pml_spec_unlock(&lock);
    MCA_PML_SPEC_VERBOSE(20, "a copy from the accelerator takes %llu ns and %u ps for each byte",
                         (unsigned long long) fresh.call_ns, fresh.ps);
}

mca_pml_spec_stage_plan_t mca_pml_spec_stage_plan(size_t length, uint32_t wire_ps)
{
    mca_pml_spec_lock(&lock);
    const mca_pml_spec_stage_plan_t plan = {.piece = spec_stage_piece(&costs, wire_ps, length),
                                            .slots = slots};
    mca_pml_spec_unlock(&lock);
    return plan;
}

void mca_pml_spec_stage_learn(uint32_t n)
{
    mca_pml_spec_lock(&lock);
    slots = n > slots ? n : slots;
    mca_pml_spec_unlock(&lock);
}

char *mca_pml_spec_stage_take(mca_pml_spec_send_request_t *sendreq, size_t size)
{
    char *memory = take(size);
    if (NULL != memory && sendreq->on_device && size >= SPEC_STAGE_LEAST
        && mca_pml_spec_use(&sendreq->life)) {
        measure(memory, mca_pml_spec_device_at(&sendreq->req_send.req_base));
        mca_pml_spec_send_leave(sendreq);
    }
    return memory;
}

void mca_pml_spec_stage_put(char *memory, size_t size)
{
    put(memory, size);
}

/* Each transport by which it may be announced, got, or put. */
static bool all_move(const mca_bml_base_btl_array_t *array, uint32_t needs)
{
    for (size_t i = 0; i < array->arr_size; ++i) {
        const mca_bml_base_btl_t *bml_btl = &array->bml_btls[i];
        if (!(mca_btl_ibx_promises(bml_btl->btl) & MCA_BTL_IBX_ASYNC)
            || needs != (bml_btl->btl_flags & needs)) {
            return false;
        }
    }
    return true;
}

bool mca_pml_spec_moves_by_itself(const mca_pml_spec_peer_t *peer)
{
    return mca_pml_spec.has_agent
           || (!mca_pml_spec_outlives() /* where nobody gets: pml_spec_rts.c */
               && all_move(&peer->endpoint->btl_eager, MCA_BTL_FLAGS_GET)
               && all_move(&peer->endpoint->btl_rdma, MCA_BTL_FLAGS_GET | MCA_BTL_FLAGS_PUT));
}

void mca_pml_spec_stage_pack(mca_pml_spec_send_request_t *sendreq)
{
    const size_t length = sendreq->req_send.req_bytes_packed;
    const uint64_t start = spec_now();
    char *memory = take_half(length);
    if (NULL == memory) {
        return;
    }
    mca_pml_spec_send_pack(sendreq, memory);
    spec_stage_gaps_packed(&sendreq->peer->gaps, length, spec_now() - start);
    mca_pml_spec_send_packed(sendreq, memory);
    sendreq->packed = memory;
    sendreq->packed_at = start;
    MCA_PML_SPEC_COUNT(staged);
    if (MCA_PML_BASE_SEND_SYNCHRONOUS != sendreq->req_send.req_send_mode
        && mca_pml_spec_moves_by_itself(sendreq->peer)) {
        (void) mca_pml_spec_add32(&mca_pml_spec.packed, 1);
        sendreq->told = true;
        mca_pml_spec_send_set_status(sendreq, MPI_SUCCESS);
        mca_pml_spec_complete(&sendreq->req_send.req_base.req_ompi);
    }
}

void mca_pml_spec_stage_unpack(mca_pml_spec_send_request_t *sendreq)
{
    const size_t length = sendreq->req_send.req_bytes_packed;
    if (OMPI_SUCCESS == sendreq->status) {
        spec_stage_gaps_moved(&sendreq->peer->gaps, length, spec_now() - sendreq->packed_at);
    }
    put(sendreq->packed, length);
    sendreq->packed = NULL;
    if (sendreq->told) {
        (void) mca_pml_spec_add32(&mca_pml_spec.packed, -1);
    }
    if (sendreq->req_send.req_base.req_ompi.req_persistent) {
        mca_pml_spec_send_unpacked(sendreq);
    }
}

bool mca_pml_spec_stage_recv(mca_pml_spec_recv_request_t *recvreq)
{
    if (recvreq->staged) {
        return true;
    }
    char *memory = take(recvreq->capacity);
    if (NULL == memory) {
        return false;
    }
    recvreq->staged = true;
    recvreq->is_flat = true;
    recvreq->flat = memory;
    recvreq->delivered = 0;
    MCA_PML_SPEC_COUNT(staged);
    return true;
}

void mca_pml_spec_stage_undo(mca_pml_spec_recv_request_t *recvreq)
{
    const mca_pml_base_request_t *base = &recvreq->req_recv.req_base;
    if (recvreq->on_device) { /* whose copies are dear if they are short */
        return;
    }
    spec_stage_gaps_useless(&recvreq->peer->gaps);
    mca_pml_spec_recv_drop_keys(recvreq);
    put(recvreq->flat, recvreq->capacity);
    recvreq->staged = recvreq->is_flat = false;
    recvreq->flat = mca_pml_spec_flat_base(base->req_addr, base->req_datatype);
}

/* Into a buffer with gaps, which a convertor takes in order: all bytes up to this one have arrived. The receive is in use. */
static void unpack(mca_pml_spec_recv_request_t *recvreq, uint64_t end)
{
    const uint64_t offset = (uint64_t) recvreq->delivered, n = end - offset;
    const mca_btl_base_segment_t seg = {.seg_addr.pval = recvreq->flat + offset, .seg_len = n};
    const mca_pml_spec_packet_t packet = {.seg = &seg, .nseg = 1, .size = n};
    const uint64_t start = spec_now();
    mca_pml_spec_recv_unpack(recvreq, &packet, 0, offset, n);
    spec_stage_gaps_packed(&recvreq->peer->gaps, n, spec_now() - start);
    recvreq->delivered = (int64_t) end;
}

/* A piece that overtook others stays until all have arrived. */
static void unpack_piece(mca_pml_spec_recv_request_t *recvreq, uint64_t offset, uint64_t n)
{
    mca_pml_spec_lock(&recvreq->convert_lock);
    if (offset == (uint64_t) recvreq->delivered) {
        unpack(recvreq, offset + n);
    }
    mca_pml_spec_unlock(&recvreq->convert_lock);
    mca_pml_spec_recv_leave(recvreq);
    mca_pml_spec_recv_account(recvreq, n, OMPI_SUCCESS);
}

/* The device has them. */
static void delivered(const mca_pml_spec_device_job_t *job, bool is_there)
{
    mca_pml_spec_recv_request_t *recvreq = job->object;
    (void) is_there; /* it says so itself */
    (void) mca_pml_spec_add64(&recvreq->delivered, (int64_t) job->n);
    mca_pml_spec_recv_leave(recvreq);
    mca_pml_spec_recv_account(recvreq, job->n, OMPI_SUCCESS);
}

void mca_pml_spec_stage_copy_in(mca_pml_spec_recv_request_t *recvreq, uint64_t offset, uint64_t n)
{
    mca_pml_base_request_t *base = &recvreq->req_recv.req_base;
    MCA_PML_SPEC_COUNT(staged_pieces);
    if (!recvreq->on_device) {
        unpack_piece(recvreq, offset, n);
        return;
    }
    mca_pml_spec_device_begin(
        &(mca_pml_spec_device_job_t){.base = base,
                                     .to_device = true,
                                     .to = mca_pml_spec_device_at(base) + offset,
                                     .from = recvreq->flat + offset,
                                     .n = n,
                                     .ended = delivered,
                                     .object = recvreq});
}

void mca_pml_spec_stage_deliver(mca_pml_spec_recv_request_t *recvreq, size_t length)
{
    mca_pml_base_request_t *base = &recvreq->req_recv.req_base;
    length = length < recvreq->capacity ? length : recvreq->capacity;
    if (length > 0 && length != (uint64_t) recvreq->delivered && mca_pml_spec_use(&recvreq->life)) {
        if (recvreq->on_device) {
            (void) mca_pml_spec_device_move(base, mca_pml_spec_device_at(base), recvreq->flat,
                                            length);
        } else {
            unpack(recvreq, length);
        }
        mca_pml_spec_recv_leave(recvreq);
    }
    put(recvreq->flat, recvreq->capacity);
    recvreq->staged = false;
}
