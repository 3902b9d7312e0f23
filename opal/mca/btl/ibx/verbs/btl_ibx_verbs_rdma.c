/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Memory that adapters may reach; puts, gets and the adapter's own atomic operations. */
#include "verbs/btl_ibx_verbs_inplace.h"

#include "btl_ibx_atomic.h"
#include "btl_ibx_fault.h"

#include "opal/include/spec/class.h"

SPEC_CLASS(mca_btl_ibx_verbs_job_t, mca_btl_ibx_job_t, NULL, NULL);

/* ---- registered memory ---- */

/* Access rights as the cache has them (and the PML, with the same bits) for ibv_reg_mr. */
static int rights(const mca_btl_ibx_verbs_module_t *module, int32_t access)
{
    int r = 0;
    r |= access & MCA_RCACHE_ACCESS_LOCAL_WRITE ? IBV_ACCESS_LOCAL_WRITE : 0;
    r |= access & MCA_RCACHE_ACCESS_REMOTE_READ ? IBV_ACCESS_REMOTE_READ : 0;
    r |= access & MCA_RCACHE_ACCESS_REMOTE_WRITE ? IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE
                                                 : 0;
    if (access & MCA_RCACHE_ACCESS_REMOTE_ATOMIC && module->base.has_atomics) {
        r |= IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE;
    }
    /* Of a window (osc/rdma asks for atomic operations, too) the program sees words before it hears of them. */
    return access & MCA_RCACHE_ACCESS_REMOTE_ATOMIC ? r : vb_port_relaxed(module->port, r);
}

int32_t mca_btl_ibx_verbs_access(const mca_btl_ibx_verbs_module_t *module, int32_t access)
{
    return module->is_iwarp && access & MCA_RCACHE_ACCESS_LOCAL_WRITE
               ? access | MCA_RCACHE_ACCESS_REMOTE_WRITE
               : access;
}

/* Is it memory of an accelerator, which the processor may not touch? */
static bool is_device(const mca_btl_ibx_verbs_reg_t *reg)
{
    return 0 != (reg->super.base.flags & MCA_BTL_IBX_REG_DEVICE);
}

/* ---- memory that may be asked for by atomic operations as messages ---- */

/* Memory was registered. False: out of memory. */
static bool key_add(mca_btl_ibx_verbs_module_t *module, mca_btl_ibx_verbs_reg_t *reg)
{
    bool added = true;
    const int32_t reached = (module->base.has_atomics ? 0 : MCA_RCACHE_ACCESS_REMOTE_ATOMIC)
                            | (mca_btl_ibx_verbs_has_failover() ? MCA_RCACHE_ACCESS_REMOTE_READ | MCA_RCACHE_ACCESS_REMOTE_WRITE : 0);
    if (0 != (reg->super.base.access_flags & reached) && !is_device(reg)) {
        mca_btl_ibx_atomic_lock();
        added = vb_map_put(&module->keys, reg->mr->rkey, reg);
        mca_btl_ibx_atomic_unlock();
    }
    return added;
}

/* It is about to be deregistered. (Buffers are registered before the module knows that it needs no keys.) */
static void key_remove(mca_btl_ibx_verbs_module_t *module, const mca_btl_ibx_verbs_reg_t *reg)
{
    if (NULL != reg->mr) {
        mca_btl_ibx_atomic_lock();
        if (reg == vb_map_get(&module->keys, reg->mr->rkey)) {
            vb_map_remove(&module->keys, reg->mr->rkey);
        }
        mca_btl_ibx_atomic_unlock();
    }
}

char *mca_btl_ibx_verbs_word(const mca_btl_base_endpoint_t *endpoint, uint32_t stag, uint64_t offset, uint64_t size)
{
    const mca_btl_ibx_verbs_reg_t *reg = vb_map_get(&mca_btl_ibx_verbs_of(endpoint->module)->keys, stag);
    /* What an adapter does is not done beside it. */
    if (NULL == reg || endpoint->module->has_atomics || 0 == (reg->super.base.access_flags & MCA_RCACHE_ACCESS_REMOTE_ATOMIC)) {
        return NULL;
    }
    const uint64_t length = (uint64_t) (reg->super.base.bound - reg->super.base.base) + 1;
    return offset < length && length - offset >= size ? (char *) reg->super.base.base + offset : NULL;
}

/* ---- registering ---- */

/* For peers that come by datagrams. False: no room. */
static bool expose(mca_btl_ibx_verbs_module_t *module, mca_btl_ibx_verbs_reg_t *reg, void *base,
                   size_t size)
{
    const bool read = 0 != (reg->super.base.access_flags & MCA_RCACHE_ACCESS_REMOTE_READ);
    const bool write = 0 != (reg->super.base.access_flags & MCA_RCACHE_ACCESS_REMOTE_WRITE);
    if (!vb_port_abilities(module->port)->datagrams || (!read && !write)) {
        return true;
    }
    vb_port_lock(module->port);
    reg->super.handle.datagrams = vb_port_expose(module->port, base, size, read, write, &reg->super.uses);
    vb_port_unlock(module->port);
    return 0 != reg->super.handle.datagrams;
}

static int register_memory(void *context, void *base, size_t size,
                           mca_rcache_base_registration_t *base_reg)
{
    mca_btl_ibx_verbs_module_t *module = context;
    mca_btl_ibx_verbs_reg_t *reg = (mca_btl_ibx_verbs_reg_t *) base_reg;
    if (OPAL_UNLIKELY(mca_btl_ibx_fault_registration())) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    struct ibv_pd *pd = vb_port_pd(module->port);
    const int access = rights(module, base_reg->access_flags);
    reg->mr = is_device(reg) ? vb_register_device(pd, module->export, base, size, access)
                             : ibv_reg_mr(pd, base, size, access);
    if (NULL == reg->mr) {
        SPEC_TELL(20, opal_btl_base_framework.framework_output,
                  "btl/ibx: %zu bytes at %p cannot be registered: %s", size, base, strerror(errno));
        /* The cache gives up what it keeps and asks again. */
        return ENOMEM == errno || EAGAIN == errno ? OPAL_ERR_OUT_OF_RESOURCE : OPAL_ERROR;
    }
    iw_uses_init(&reg->super.uses, 0);
    reg->super.is_reached = vb_port_abilities(module->port)->datagrams || mca_btl_ibx_verbs_has_failover();
    reg->super.pinned = (struct mca_btl_base_registration_handle_t){0};
    reg->super.handle = (struct mca_btl_base_registration_handle_t){.base = (uint64_t) (uintptr_t) base,
                                                              .stag = reg->mr->rkey};
    if (!key_add(module, reg) || !expose(module, reg, base, size)) {
        key_remove(module, reg);
        (void) ibv_dereg_mr(reg->mr);
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    return OPAL_SUCCESS;
}

static int deregister_memory(void *context, mca_rcache_base_registration_t *base_reg)
{
    mca_btl_ibx_verbs_module_t *module = context;
    mca_btl_ibx_verbs_reg_t *reg = (mca_btl_ibx_verbs_reg_t *) base_reg;
    key_remove(module, reg);
    if (NULL != reg->mr && 0 != reg->super.handle.datagrams) {
        vb_port_lock(module->port);
        vb_port_hide(module->port, reg->super.handle.datagrams);
        vb_port_unlock(module->port);
        reg->super.handle.datagrams = 0;
    }
    if (NULL != reg->mr && 0 != ibv_dereg_mr(reg->mr)) {
        BTL_ERROR(("btl/ibx: memory cannot be deregistered: %s", strerror(errno)));
        return OPAL_ERROR;
    }
    reg->mr = NULL;
    return OPAL_SUCCESS;
}

int mca_btl_ibx_verbs_open_cache(mca_btl_ibx_verbs_module_t *module)
{
    char name[64];
    snprintf(name, sizeof(name), "ibx_verbs_%u", module->base.index);
    mca_rcache_base_resources_t resources = {.cache_name = name,
                                             .reg_data = module,
                                             .sizeof_reg = sizeof(mca_btl_ibx_verbs_reg_t),
                                             .register_mem = register_memory,
                                             .deregister_mem = deregister_memory};
    mca_btl_ibx_open_cache(&module->base, &resources);
    if (NULL == module->base.rcache) { /* "none" is of datagrams: an adapter reaches registered memory only */
        module->base.rcache = mca_rcache_base_module_create("lazy", module, &resources);
    }
    return NULL == module->base.rcache ? OPAL_ERR_NOT_FOUND : OPAL_SUCCESS;
}

mca_btl_base_registration_handle_t *
mca_btl_ibx_verbs_register_mem(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                               void *base, size_t size, uint32_t flags)
{
    mca_btl_ibx_verbs_module_t *module = (mca_btl_ibx_verbs_module_t *) btl;
    (void) endpoint;
    return mca_btl_ibx_register(&module->base, base, size,
                                mca_btl_ibx_verbs_access(module, (int32_t) (flags & MCA_BTL_REG_FLAG_ACCESS_ANY)), flags,
                                NULL != module->export && mca_btl_ibx_on_device(base) ? MCA_BTL_IBX_REG_DEVICE : 0);
}

/* ---- jobs ---- */

static void *request_of(mca_btl_ibx_verbs_job_t *job)
{
    return (char *) job + 1; /* tells it from a fragment */
}

void mca_btl_ibx_verbs_done(void *context, vb_peer_t *peer, void *request, vb_status_t status)
{
    mca_btl_ibx_verbs_module_t *module = context;
    (void) peer;
    if ((uintptr_t) request & 1) {
        mca_btl_ibx_job_part_ended((mca_btl_ibx_job_t *) ((char *) request - 1), mca_btl_ibx_verbs_rc(status));
    } else {
        mca_btl_ibx_frag_t *frag = request;
        frag->status = mca_btl_ibx_verbs_rc(status);
        opal_list_append(&module->base.ended, (opal_list_item_t *) frag);
    }
}

static vb_status_t issue_part(mca_btl_ibx_verbs_job_t *job, vb_peer_t *peer, uint32_t n)
{
    struct ibv_sge piece = {
        .addr = (uintptr_t) (job->base.local + job->base.issued), .length = n, .lkey = job->lkey};
    const uint64_t remote = job->base.remote + job->base.issued;
    const bool is_rdma = MCA_BTL_IBX_PUT == job->base.type || MCA_BTL_IBX_GET == job->base.type;
    const unsigned flags = VB_SIGNAL | (job->is_ordered ? VB_FENCE : 0) | (job->is_inline ? VB_INLINE : 0)
                           | (MCA_BTL_IBX_GET == job->base.type ? VB_READ : 0);
    if (vb_peer_is_by_datagrams(peer)) {
        return is_rdma ? vb_post_datagram_rdma(peer, &piece, job->datagrams, remote - job->region, flags, request_of(job))
                       : VB_FAULT;
    }
    return is_rdma ? vb_post_rdma(peer, &piece, remote, job->base.stag, flags, request_of(job))
                   : vb_post_atomic(peer, &piece, remote, job->base.stag, job->operand,
                                    MCA_BTL_IBX_VERBS_SWAP == job->base.type ? &job->swap : NULL, flags, request_of(job));
}

static int post(mca_btl_ibx_job_t *job, uint32_t n)
{
    vb_peer_t *peer = mca_btl_ibx_verbs_peer_of((mca_btl_ibx_verbs_endpoint_t *) job->endpoint,
                                                ((mca_btl_ibx_verbs_job_t *) job)->is_bulk);
    return mca_btl_ibx_verbs_rc(NULL == peer ? VB_LOST : issue_part((mca_btl_ibx_verbs_job_t *) job, peer, n));
}

bool mca_btl_ibx_verbs_job_issue(mca_btl_ibx_job_t *job)
{
    const vb_port_t *port = mca_btl_ibx_verbs_of(job->endpoint->module)->port;
    return mca_btl_ibx_job_issue(job, vb_port_abilities(port)->message_max, post);
}

/* The memory at both ends of a job. */
static void set_memory(mca_btl_ibx_verbs_job_t *job, const mca_btl_base_registration_handle_t *there, int order)
{
    mca_btl_base_registration_handle_t *here = job->base.local_handle;
    job->lkey = NULL == here ? 0 : ((mca_btl_ibx_verbs_reg_t *) mca_btl_ibx_reg_of(here))->mr->lkey;
    job->is_ordered = MCA_BTL_NO_ORDER != order;
    job->is_inline = false;
    job->base.stag = there->stag;
    job->region = there->base;
    job->datagrams = there->datagrams;
}

/* Queue or issue. The callback comes from progress in any case. */
static void start(mca_btl_ibx_verbs_module_t *module, mca_btl_ibx_job_t *job)
{
    mca_btl_ibx_verbs_endpoint_t *endpoint = (mca_btl_ibx_verbs_endpoint_t *) job->endpoint;
    mca_btl_ibx_verbs_job_t *own = (mca_btl_ibx_verbs_job_t *) job;
    const bool is_rdma = MCA_BTL_IBX_PUT == job->type || MCA_BTL_IBX_GET == job->type;
    vb_port_lock(module->port);
    own->is_bulk =
        mca_btl_ibx_verbs_bulk_takes(endpoint, is_rdma ? job->length : 0, own->is_ordered);
    own->is_counted = is_rdma && !own->is_bulk;
    if (own->is_counted) {
        atomic_fetch_add(&endpoint->transfers, 1);
    }
    opal_list_t *pending = mca_btl_ibx_verbs_pending_of(endpoint, own->is_bulk);
    if (OPAL_LIKELY(opal_list_is_empty(pending) && mca_btl_ibx_verbs_job_issue(job))) {
        mca_btl_ibx_job_part_ended(job, OPAL_SUCCESS);
    } else {
        opal_list_append(pending, (opal_list_item_t *) job);
    }
    vb_port_unlock(module->port);
}

void mca_btl_ibx_verbs_job_ends(mca_btl_ibx_module_t *module, mca_btl_ibx_job_t *job)
{
    mca_btl_ibx_verbs_job_t *own = (mca_btl_ibx_verbs_job_t *) job;
    mca_btl_ibx_verbs_inplace_end(module, job);
    if (own->is_counted) {
        own->is_counted = false;
        atomic_fetch_sub(&((mca_btl_ibx_verbs_endpoint_t *) job->endpoint)->transfers, 1);
    }
}

int mca_btl_ibx_verbs_job_starts(mca_btl_ibx_module_t *base, mca_btl_ibx_job_t *job,
                                 const mca_btl_base_registration_handle_t *remote_handle, int order)
{
    mca_btl_ibx_verbs_module_t *module = mca_btl_ibx_verbs_of(base);
    mca_btl_ibx_verbs_job_t *own = (mca_btl_ibx_verbs_job_t *) job;
    set_memory(own, remote_handle, order);
    if (NULL == job->local_handle && OPAL_UNLIKELY(!mca_btl_ibx_verbs_inplace_job(module, own))) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    start(module, job);
    return OPAL_SUCCESS;
}

/* ---- atomic operations: 64 bits, add and compare-and-swap, as the adapter has them ---- */

/* The adapter writes the value before in any case: a buffer of ours, if nobody wants it. False: out of memory. */
static bool take_result(mca_btl_ibx_verbs_module_t *module, mca_btl_ibx_verbs_job_t *job)
{
    opal_free_list_item_t *item = mca_btl_ibx_item_get(&module->frags);
    if (OPAL_LIKELY(NULL != item)) {
        job->bounce = item;
        job->user = NULL;
        job->base.local = item->ptr;
        job->lkey = ((mca_btl_ibx_verbs_reg_t *) item->registration)->mr->lkey;
    }
    return NULL != item;
}

/* osc/rdma gives no handle for a word of a window on one host, which it takes for one that the processor alone changes (Open MPI
 * 4.1.4: MPI_Compare_and_swap). Of another process's such word it does so itself, under a lock, if we cannot; the word of this process
 * others reach by the adapter, and the window is registered. NULL: none. */
static const mca_btl_base_registration_handle_t *own_handle(const mca_btl_ibx_verbs_module_t *module,
                                                            mca_btl_ibx_verbs_job_t *job)
{
    mca_rcache_base_module_t *cache = module->base.rcache;
    mca_rcache_base_registration_t *reg = NULL;
    const int32_t access = MCA_RCACHE_ACCESS_LOCAL_WRITE | MCA_RCACHE_ACCESS_REMOTE_ATOMIC;
    void *word = (void *) (uintptr_t) job->base.remote;
    if (!job->base.endpoint->is_self || OPAL_SUCCESS != cache->rcache_register(cache, word, 8, 0, access, &reg)) {
        return NULL;
    }
    job->in_place = (mca_btl_ibx_verbs_reg_t *) reg;
    return &job->in_place->super.handle;
}

int mca_btl_ibx_verbs_atomic_starts(mca_btl_ibx_module_t *base, mca_btl_ibx_job_t *job, const mca_btl_ibx_atomic_ask_t *ask,
                                    const mca_btl_base_registration_handle_t *remote_handle, int order)
{
    mca_btl_ibx_verbs_module_t *module = mca_btl_ibx_verbs_of(base);
    mca_btl_ibx_verbs_job_t *own = (mca_btl_ibx_verbs_job_t *) job;
    const bool adds = IW_ATOMIC_ADD == ask->op;
    if (ask->is_32 || (!adds && IW_ATOMIC_CSWAP != ask->op)) {
        return OPAL_ERR_NOT_SUPPORTED;
    }
    job->type = adds ? MCA_BTL_IBX_VERBS_ADD : MCA_BTL_IBX_VERBS_SWAP;
    own->operand = adds ? ask->operand : ask->compare;
    own->swap = ask->operand;
    if (job->endpoint->is_self && vb_port_abilities(module->port)->atomics_coherent) {
        mca_btl_ibx_atomic_here(base, job, ask);
        return OPAL_SUCCESS;
    }
    const mca_btl_base_registration_handle_t *there = NULL != remote_handle ? remote_handle : own_handle(module, own);
    if (NULL == there) {
        return OPAL_ERR_NOT_SUPPORTED;
    }
    set_memory(own, there, order);
    if (NULL == job->local && !take_result(module, own)) {
        mca_btl_ibx_verbs_inplace_end(base, job);
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    start(module, job);
    return OPAL_SUCCESS;
}
