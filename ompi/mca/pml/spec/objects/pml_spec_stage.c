/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Host memory that stands in for device buffers, and the copies between both. */
#include "pml_spec_stage.h"

#include "pml_spec_device.h"

#include <sys/mman.h>

static opal_mutex_t lock; /* innermost; covers all of these */
static spec_stage_t stage;
static spec_stage_costs_t costs;

static void *map(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return MAP_FAILED == p ? NULL : p;
}

static void unmap(void *memory, size_t size)
{
    (void) munmap(memory, size);
}

void mca_pml_spec_stage_init(void)
{
    OBJ_CONSTRUCT(&lock, opal_mutex_t);
    spec_stage_init(&stage, mca_pml_spec.staging_max, MCA_PML_SPEC_STAGE_KEEP, map, unmap);
    costs = (spec_stage_costs_t){.known = false};
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

static char *device_of(const mca_pml_base_request_t *base)
{
    return mca_pml_spec_flat_base(base->req_addr, base->req_datatype);
}

bool mca_pml_spec_stage_send(mca_pml_spec_send_request_t *sendreq)
{
    const size_t length = sendreq->req_send.req_bytes_packed;
    char *memory = take(length);
    if (NULL == memory) {
        return false;
    }
    measure(memory, device_of(&sendreq->req_send.req_base));
    sendreq->staged = true;
    sendreq->is_flat = true;
    sendreq->flat = memory;
    MCA_PML_SPEC_COUNT(staged);
    return true;
}

size_t mca_pml_spec_stage_piece(const mca_pml_spec_send_request_t *sendreq)
{
    mca_pml_spec_lock(&lock);
    const size_t piece = spec_stage_piece(&costs, sendreq->req_send.req_bytes_packed);
    mca_pml_spec_unlock(&lock);
    return piece;
}

bool mca_pml_spec_stage_bring(mca_pml_spec_send_request_t *sendreq, uint64_t offset, size_t n)
{
    mca_pml_base_request_t *base = &sendreq->req_send.req_base;
    return mca_pml_spec_device_move(base, sendreq->flat + offset, device_of(base) + offset, n);
}

void mca_pml_spec_stage_end(mca_pml_spec_send_request_t *sendreq)
{
    put(sendreq->flat, sendreq->req_send.req_bytes_packed);
    sendreq->staged = false;
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
    MCA_PML_SPEC_COUNT(staged);
    return true;
}

void mca_pml_spec_stage_deliver(mca_pml_spec_recv_request_t *recvreq, size_t length)
{
    mca_pml_base_request_t *base = &recvreq->req_recv.req_base;
    length = length < recvreq->capacity ? length : recvreq->capacity;
    if (length > 0) {
        (void) mca_pml_spec_device_move(base, device_of(base), recvreq->flat, length);
    }
    put(recvreq->flat, recvreq->capacity);
    recvreq->staged = false;
}
