/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Memory that UDP peers may reach; puts, gets and atomic operations as RDMA Writes, Reads and atomic operations of the engine. */
#include "udp/btl_ibx_udp_module.h"

#include "btl_ibx_atomic.h"
#include "btl_ibx_fault.h"
#include "iwarp/iw_memory.h"
#include "udp/btl_ibx_udp_endpoint.h"

#include "opal/include/spec/class.h"

/* An RDMA Read or Write has a length of 32 bits; longer ones are several. */
#define PART_MAX (UINT64_C(1) << 30)

/* ---- the cache: repeated use of memory costs a lookup ---- */

static int make(void *context, void *base, size_t size, mca_rcache_base_registration_t *reg)
{
    mca_btl_ibx_udp_module_t *module = context;
    mca_btl_ibx_reg_t *cached = (mca_btl_ibx_reg_t *) reg;
    cached->pinned = (struct mca_btl_base_registration_handle_t){0};
    cached->is_reached = true;
    iw_uses_init(&cached->uses, 0);
    unsigned rights = 0;
    rights |= reg->access_flags & MCA_RCACHE_ACCESS_REMOTE_READ ? IW_REMOTE_READ : 0;
    rights |= reg->access_flags & MCA_RCACHE_ACCESS_REMOTE_WRITE ? IW_REMOTE_WRITE : 0;
    rights |= reg->access_flags & MCA_RCACHE_ACCESS_REMOTE_ATOMIC ? IW_REMOTE_READ | IW_REMOTE_WRITE : 0;
    if (OPAL_UNLIKELY(mca_btl_ibx_fault_registration())) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    mca_btl_ibx_udp_lock(module);
    const uint32_t stag = iw_register(module->engine, base, size, rights, &cached->uses);
    mca_btl_ibx_udp_unlock(module);
    cached->handle = (struct mca_btl_base_registration_handle_t){.base = (uint64_t) (uintptr_t) base, .stag = stag};
    return 0 == stag ? OPAL_ERR_OUT_OF_RESOURCE : OPAL_SUCCESS;
}

static int end(void *context, mca_rcache_base_registration_t *reg)
{
    mca_btl_ibx_udp_module_t *module = context;
    mca_btl_ibx_udp_lock(module);
    (void) iw_deregister(module->engine, ((mca_btl_ibx_reg_t *) reg)->handle.stag);
    mca_btl_ibx_udp_unlock(module);
    return OPAL_SUCCESS;
}

void mca_btl_ibx_udp_rcache_open(mca_btl_ibx_udp_module_t *module)
{
    char name[64];
    /* The protocol stack is this process: its memory is reached, not pinned. */
    snprintf(name, sizeof(name), "unpinned.ibx.%s", module->base.interface.name);
    mca_rcache_base_resources_t resources = {.cache_name = name,
                                             .reg_data = module,
                                             .sizeof_reg = sizeof(mca_btl_ibx_reg_t),
                                             .register_mem = make,
                                             .deregister_mem = end};
    mca_btl_ibx_open_cache(&module->base, &resources);
    module->base.public.promises |= mca_btl_ibx_promises_of_cache(module->base.rcache);
}

/* ---- registered memory ---- */

mca_btl_base_registration_handle_t *mca_btl_ibx_udp_register_mem(mca_btl_base_module_t *btl,
                                                             mca_btl_base_endpoint_t *endpoint,
                                                             void *base, size_t size,
                                                             uint32_t flags)
{
    mca_btl_ibx_udp_module_t *module = (mca_btl_ibx_udp_module_t *) btl;
    (void) endpoint;
    if (size >= MCA_BTL_IBX_UDP_BULK) {
        iw_agent_expect_bulk(module->agent); /* by the peer that is told of it */
    }
    if (OPAL_LIKELY(NULL != module->base.rcache)) {
        /* All rights at once: most buffers are sent from and received into in turn, and would be
         * registered a second time for the other direction. */
        return mca_btl_ibx_register(&module->base, base, size, MCA_RCACHE_ACCESS_ANY, flags, 0);
    }
    mca_btl_ibx_reg_t *reg = calloc(1, sizeof(*reg));
    if (NULL == reg) {
        return NULL;
    }
    reg->base.access_flags = (int32_t) (flags & MCA_BTL_REG_FLAG_ACCESS_ANY); /* the same bits */
    if (OPAL_SUCCESS != make(module, base, size, &reg->base)) {
        free(reg);
        return NULL;
    }
    iw_use_begins(&reg->uses);
    return &reg->handle;
}

int mca_btl_ibx_udp_deregister_mem(mca_btl_base_module_t *btl,
                               mca_btl_base_registration_handle_t *handle)
{
    mca_btl_ibx_udp_module_t *module = (mca_btl_ibx_udp_module_t *) btl;
    if (OPAL_LIKELY(NULL != module->base.rcache)) {
        return mca_btl_ibx_deregister_mem(btl, handle);
    }
    mca_btl_ibx_reg_t *reg = mca_btl_ibx_reg_of(handle);
    (void) end(module, &reg->base);
    free(reg);
    return OPAL_SUCCESS;
}

/* ---- put, get and atomic operations ---- */

SPEC_CLASS(mca_btl_ibx_udp_job_t, mca_btl_ibx_job_t, NULL, NULL);

/* Of a job to this peer: n bytes from `issued` on. */
static iw_status_t post_part(mca_btl_ibx_job_t *job, iw_peer_t *peer, uint32_t n)
{
    const mca_btl_ibx_udp_job_t *own = (const mca_btl_ibx_udp_job_t *) job;
    char *const local = NULL == job->local ? NULL : job->local + job->issued;
    const struct iovec piece = {.iov_base = local, .iov_len = n};
    const uint64_t to = job->remote + job->issued;
    switch (job->type) {
    case MCA_BTL_IBX_PUT:
        return iw_post_write(peer, &piece, 1, job->stag, to, IW_BULK, job);
    case MCA_BTL_IBX_GET:
        return iw_post_read(peer, local, n, job->stag, to, 0, job);
    default:
        return iw_post_atomic(peer, (iw_atomic_op_t) own->op, sizeof(uint32_t) == n, job->stag, to, own->operand,
                              own->compare, local, 0, job);
    }
}

static int post(mca_btl_ibx_job_t *job, uint32_t n)
{
    iw_peer_t *peer = mca_btl_ibx_udp_peer(job->endpoint);
    return mca_btl_ibx_udp_rc(NULL == peer ? IW_DEAD : post_part(job, peer, n));
}

bool mca_btl_ibx_udp_job_issue(mca_btl_ibx_job_t *job)
{
    return mca_btl_ibx_job_issue(job, PART_MAX, post);
}

/* Between processes of one host the kernel copies. False: it cannot. */
static bool copied(mca_btl_ibx_udp_module_t *module, const mca_btl_ibx_job_t *job)
{
    const mca_btl_ibx_udp_endpoint_t *endpoint = (const mca_btl_ibx_udp_endpoint_t *) job->endpoint;
    if (0 == endpoint->memory.pid || endpoint->base.is_dead) {
        return false;
    }
    const bool is_done = MCA_BTL_IBX_PUT == job->type
                             ? iw_cma_put(&endpoint->memory, job->local, job->remote, job->length)
                             : iw_cma_get(&endpoint->memory, job->local, job->remote, job->length);
    if (is_done) {
        atomic_fetch_add_explicit(&module->single_copies, 1, memory_order_relaxed);
    }
    return is_done;
}

/* To send so much takes the caller several times what it takes to wake a thread that has a processor of its own. */
#define LEFT_LEAST ((size_t) 128 << 10)

/* By the alternate path only a call of the PML carries datagrams. */
static bool may_be_left(const mca_btl_ibx_job_t *job)
{
    const iw_peer_t *peer = mca_btl_ibx_udp_peer(job->endpoint);
    return MCA_BTL_IBX_PUT == job->type && job->length >= LEFT_LEAST && NULL != peer && !iw_peer_is_alternate(peer);
}

/* Issues it, or queues it: its memory at the peer is in this region. lock is not held. */
static void start(mca_btl_ibx_udp_module_t *module, mca_btl_ibx_job_t *job,
                  const mca_btl_base_registration_handle_t *remote_handle)
{
    bool ended = false, gathers = false;
    job->stag = remote_handle->stag;
    job->remote -= remote_handle->base;
    mca_btl_ibx_udp_lock(module);
    if (OPAL_LIKELY(opal_list_is_empty(&module->waiting) && mca_btl_ibx_udp_job_issue(job))) {
        gathers = job->more;
        ended = mca_btl_ibx_job_part_done(job, OPAL_SUCCESS);
    } else {
        opal_list_append(&module->waiting, (opal_list_item_t *) job);
    }
    if (may_be_left(job)) {
        iw_agent_leave(module->agent);
    }
    if (gathers) {
        iw_agent_gather(module->agent);
    } else {
        iw_agent_flush(module->agent);
    }
    mca_btl_ibx_udp_unlock_sent(module);
    if (OPAL_UNLIKELY(ended)) { /* nothing could be issued */
        mca_btl_ibx_job_end(&module->base, job);
    }
}

int mca_btl_ibx_udp_job_starts(mca_btl_ibx_module_t *base, mca_btl_ibx_job_t *job,
                               const mca_btl_base_registration_handle_t *remote_handle, int order)
{
    mca_btl_ibx_udp_module_t *module = mca_btl_ibx_udp_of(base);
    (void) order;
    if (copied(module, job)) {
        mca_btl_ibx_job_end(base, job);
        return OPAL_SUCCESS;
    }
    if (job->length >= MCA_BTL_IBX_UDP_BULK) {
        iw_agent_expect_bulk(module->agent);
    }
    start(module, job, remote_handle);
    return OPAL_SUCCESS;
}

int mca_btl_ibx_udp_atomic_starts(mca_btl_ibx_module_t *base, mca_btl_ibx_job_t *job, const mca_btl_ibx_atomic_ask_t *ask,
                                  const mca_btl_base_registration_handle_t *remote_handle, int order)
{
    mca_btl_ibx_udp_job_t *own = (mca_btl_ibx_udp_job_t *) job;
    (void) order;
    if (job->endpoint->is_self) {
        mca_btl_ibx_atomic_here(base, job, ask);
        return OPAL_SUCCESS;
    }
    job->type = MCA_BTL_IBX_UDP_ATOMIC;
    own->op = ask->op;
    own->operand = ask->operand;
    own->compare = ask->compare;
    start(mca_btl_ibx_udp_of(base), job, remote_handle);
    return OPAL_SUCCESS;
}
