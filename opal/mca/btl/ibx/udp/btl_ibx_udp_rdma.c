/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Memory that UDP peers may reach, and puts and gets as RDMA Writes and Reads of the engine. */
#include "udp/btl_ibx_udp_rdma.h"

#include "btl_ibx_atomic.h"
#include "btl_ibx_fault.h"
#include "iwarp/iw_memory.h"
#include "udp/btl_ibx_udp_endpoint.h"

OBJ_CLASS_INSTANCE(mca_btl_ibx_udp_key_t, opal_free_list_item_t, NULL, NULL);

/* An RDMA Read or Write has a length of 32 bits; longer ones are several. */
#define PART_MAX (UINT64_C(1) << 30)

/* ---- registered memory ---- */

mca_btl_base_registration_handle_t *mca_btl_ibx_udp_register_mem(mca_btl_base_module_t *btl,
                                                             mca_btl_base_endpoint_t *endpoint,
                                                             void *base, size_t size,
                                                             uint32_t flags)
{
    mca_btl_ibx_udp_module_t *module = (mca_btl_ibx_udp_module_t *) btl;
    (void) endpoint;
    if (size >= MCA_BTL_IBX_UDP_BULK) {
        mca_btl_ibx_udp_expect_bulk(module); /* by the peer that is told of it */
    }
    if (OPAL_LIKELY(NULL != module->base.rcache)) {
        /* All rights at once: most buffers are sent from and received into in turn, and would be
         * registered a second time for the other direction. */
        return mca_btl_ibx_register(&module->base, base, size, MCA_RCACHE_ACCESS_ANY, flags);
    }
    mca_btl_ibx_udp_key_t *key =
        mca_btl_ibx_fault_registration() ? NULL : (mca_btl_ibx_udp_key_t *) mca_btl_ibx_item_get(&module->keys);
    if (NULL == key) {
        return NULL;
    }
    unsigned rights = 0;
    rights |= flags & MCA_BTL_REG_FLAG_REMOTE_READ ? IW_REMOTE_READ : 0;
    rights |= flags & MCA_BTL_REG_FLAG_REMOTE_WRITE ? IW_REMOTE_WRITE : 0;
    rights |= flags & MCA_BTL_REG_FLAG_REMOTE_ATOMIC ? IW_REMOTE_READ | IW_REMOTE_WRITE : 0;
    mca_btl_ibx_udp_lock(module);
    const uint32_t stag = iw_register(module->engine, base, size, rights);
    mca_btl_ibx_udp_unlock(module);
    if (0 == stag) {
        mca_btl_ibx_item_return(&module->keys, &key->super);
        return NULL;
    }
    key->handle = (struct mca_btl_base_registration_handle_t){.base = (uint64_t) (uintptr_t) base, .stag = stag};
    return &key->handle;
}

int mca_btl_ibx_udp_deregister_mem(mca_btl_base_module_t *btl,
                               mca_btl_base_registration_handle_t *handle)
{
    mca_btl_ibx_udp_module_t *module = (mca_btl_ibx_udp_module_t *) btl;
    if (OPAL_LIKELY(NULL != module->base.rcache)) {
        mca_btl_ibx_deregister(&module->base, handle);
        return OPAL_SUCCESS;
    }
    mca_btl_ibx_udp_key_t *key =
        (mca_btl_ibx_udp_key_t *) ((char *) handle - offsetof(mca_btl_ibx_udp_key_t, handle));
    mca_btl_ibx_udp_lock(module);
    (void) iw_deregister(module->engine, handle->stag);
    mca_btl_ibx_udp_unlock(module);
    mca_btl_ibx_item_return(&module->keys, &key->super);
    return OPAL_SUCCESS;
}

char *mca_btl_ibx_udp_word(const mca_btl_base_endpoint_t *endpoint, uint32_t stag, uint64_t offset, uint64_t size)
{
    iw_peer_t *peer = ((const mca_btl_ibx_udp_endpoint_t *) endpoint)->peer;
    uint8_t *at = NULL;
    return NULL != peer && IW_OK == iw_locate(peer, stag, IW_REMOTE_READ | IW_REMOTE_WRITE, offset, size, &at)
               ? (char *) at
               : NULL;
}

/* ---- put and get ---- */

static int post(mca_btl_ibx_job_t *job, uint32_t n)
{
    iw_peer_t *peer = mca_btl_ibx_udp_peer(job->endpoint);
    struct iovec piece = {.iov_base = job->local + job->issued, .iov_len = n};
    const uint64_t to = job->remote + job->issued;
    const iw_status_t status = NULL == peer ? IW_DEAD
                               : MCA_BTL_IBX_PUT == job->type
                                   ? iw_post_write(peer, &piece, 1, job->stag, to, IW_BULK, job)
                                   : iw_post_read(peer, piece.iov_base, n, job->stag, to, 0, job);
    return OPAL_LIKELY(IW_OK == status) ? OPAL_SUCCESS
           : IW_AGAIN == status         ? OPAL_ERR_RESOURCE_BUSY
                                        : mca_btl_ibx_udp_error(status);
}

void mca_btl_ibx_udp_retry_jobs(mca_btl_ibx_udp_module_t *module)
{
    while (!opal_list_is_empty(&module->waiting_jobs)) {
        mca_btl_ibx_job_t *job = (mca_btl_ibx_job_t *) opal_list_get_first(&module->waiting_jobs);
        if (!mca_btl_ibx_job_issue(job, PART_MAX, post)) {
            return;
        }
        (void) opal_list_remove_first(&module->waiting_jobs);
        mca_btl_ibx_job_part_ended(job, OPAL_SUCCESS);
    }
}

void mca_btl_ibx_udp_drop_jobs(mca_btl_ibx_udp_module_t *module, const mca_btl_base_endpoint_t *endpoint)
{
    mca_btl_ibx_job_t *job, *next;
    OPAL_LIST_FOREACH_SAFE (job, next, &module->waiting_jobs, mca_btl_ibx_job_t) {
        if (job->endpoint == endpoint) {
            opal_list_remove_item(&module->waiting_jobs, (opal_list_item_t *) job);
            mca_btl_ibx_job_part_ended(job, OPAL_ERR_UNREACH);
        }
    }
    mca_btl_ibx_fail_atomics(endpoint);
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

int mca_btl_ibx_udp_job_starts(mca_btl_ibx_module_t *base, mca_btl_ibx_job_t *job,
                               const mca_btl_base_registration_handle_t *remote_handle, int order)
{
    mca_btl_ibx_udp_module_t *module = mca_btl_ibx_udp_of(base);
    bool ended = false;
    (void) order;
    if (copied(module, job)) {
        mca_btl_ibx_job_end(base, job);
        return OPAL_SUCCESS;
    }
    job->stag = remote_handle->stag;
    job->remote -= remote_handle->base;
    if (job->length >= MCA_BTL_IBX_UDP_BULK) {
        mca_btl_ibx_udp_expect_bulk(module);
    }
    mca_btl_ibx_udp_lock(module);
    if (OPAL_LIKELY(opal_list_is_empty(&module->waiting_jobs) && mca_btl_ibx_job_issue(job, PART_MAX, post))) {
        ended = mca_btl_ibx_job_part_done(job, OPAL_SUCCESS);
    } else {
        opal_list_append(&module->waiting_jobs, (opal_list_item_t *) job);
    }
    mca_btl_ibx_udp_flush(module);
    mca_btl_ibx_udp_unlock(module);
    if (OPAL_UNLIKELY(ended)) { /* nothing could be issued */
        mca_btl_ibx_job_end(base, job);
    }
    return OPAL_SUCCESS;
}
