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

/* Issue what is left of a job. lock is held. False: the engine has no room now. */
static bool issue(mca_btl_ibx_job_t *job)
{
    iw_peer_t *peer = mca_btl_ibx_udp_peer(job->endpoint);
    while (job->issued < job->length && OPAL_SUCCESS == job->status) {
        const uint64_t left = job->length - job->issued;
        const uint32_t n = (uint32_t) (left < PART_MAX ? left : PART_MAX);
        struct iovec piece = {.iov_base = job->local + job->issued, .iov_len = n};
        iw_status_t status = IW_DEAD;
        if (NULL != peer) {
            status = MCA_BTL_IBX_PUT == job->type
                         ? iw_post_write(peer, &piece, 1, job->stag, job->remote + job->issued,
                                         IW_BULK, job)
                         : iw_post_read(peer, piece.iov_base, n, job->stag,
                                        job->remote + job->issued, 0, job);
        }
        if (IW_AGAIN == status) {
            return false;
        }
        if (OPAL_UNLIKELY(IW_OK != status)) {
            job->status = mca_btl_ibx_udp_error(status);
            break;
        }
        ++job->parts;
        job->issued += n;
    }
    return true;
}

bool mca_btl_ibx_udp_job_part_done(mca_btl_ibx_job_t *job, int status)
{
    if (OPAL_UNLIKELY(OPAL_SUCCESS != status)) {
        job->status = status;
    }
    return 0 == --job->parts;
}

void mca_btl_ibx_udp_retry_jobs(mca_btl_ibx_udp_module_t *module)
{
    while (!opal_list_is_empty(&module->waiting_jobs)) {
        mca_btl_ibx_job_t *job = (mca_btl_ibx_job_t *) opal_list_get_first(&module->waiting_jobs);
        if (!issue(job)) {
            return;
        }
        (void) opal_list_remove_first(&module->waiting_jobs);
        if (mca_btl_ibx_udp_job_part_done(job, OPAL_SUCCESS)) {
            opal_list_append(&module->base.ended, (opal_list_item_t *) job);
        }
    }
}

void mca_btl_ibx_udp_drop_jobs(mca_btl_ibx_udp_module_t *module, const mca_btl_base_endpoint_t *endpoint)
{
    mca_btl_ibx_job_t *job, *next;
    OPAL_LIST_FOREACH_SAFE (job, next, &module->waiting_jobs, mca_btl_ibx_job_t) {
        if (job->endpoint == endpoint) {
            opal_list_remove_item(&module->waiting_jobs, (opal_list_item_t *) job);
            if (mca_btl_ibx_udp_job_part_done(job, OPAL_ERR_UNREACH)) {
                opal_list_append(&module->base.ended, (opal_list_item_t *) job);
            }
        }
    }
    mca_btl_ibx_fail_atomics(endpoint);
}

static int transfer(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint, uint8_t type, void *local,
                    uint64_t remote, mca_btl_base_registration_handle_t *local_handle,
                    const mca_btl_base_registration_handle_t *remote_handle, size_t size,
                    mca_btl_base_rdma_completion_fn_t callback, void *context, void *cbdata)
{
    mca_btl_ibx_udp_module_t *module = (mca_btl_ibx_udp_module_t *) btl;
    mca_btl_ibx_job_t *job =
        mca_btl_ibx_job_new(&module->base, type, endpoint, local, size, local_handle, callback, context, cbdata);
    if (OPAL_UNLIKELY(NULL == job)) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    if (OPAL_UNLIKELY(endpoint->is_self)) {
        mca_btl_ibx_copy_to_self(&module->base, job, remote);
        return OPAL_SUCCESS;
    }
    job->stag = remote_handle->stag;
    job->remote = remote - remote_handle->base;
    bool ended = false;
    if (size >= MCA_BTL_IBX_UDP_BULK) {
        mca_btl_ibx_udp_expect_bulk(module);
    }
    mca_btl_ibx_udp_lock(module);
    if (OPAL_LIKELY(opal_list_is_empty(&module->waiting_jobs) && issue(job))) {
        ended = mca_btl_ibx_udp_job_part_done(job, OPAL_SUCCESS);
    } else {
        opal_list_append(&module->waiting_jobs, (opal_list_item_t *) job);
    }
    mca_btl_ibx_udp_flush(module);
    mca_btl_ibx_udp_unlock(module);
    if (OPAL_UNLIKELY(ended)) { /* nothing could be issued */
        mca_btl_ibx_job_end(&module->base, job);
    }
    return OPAL_SUCCESS;
}

int mca_btl_ibx_udp_put(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint, void *local, uint64_t remote,
                        mca_btl_base_registration_handle_t *local_handle,
                        mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags, int order,
                        mca_btl_base_rdma_completion_fn_t callback, void *context, void *cbdata)
{
    (void) flags, (void) order;
    return transfer(btl, endpoint, MCA_BTL_IBX_PUT, local, remote, local_handle, remote_handle, size, callback, context,
                    cbdata);
}

int mca_btl_ibx_udp_get(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint, void *local, uint64_t remote,
                        mca_btl_base_registration_handle_t *local_handle,
                        mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags, int order,
                        mca_btl_base_rdma_completion_fn_t callback, void *context, void *cbdata)
{
    (void) flags, (void) order;
    return transfer(btl, endpoint, MCA_BTL_IBX_GET, local, remote, local_handle, remote_handle, size, callback, context,
                    cbdata);
}
