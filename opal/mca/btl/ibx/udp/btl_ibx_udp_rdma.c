/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See btl_ibx_udp_rdma.h. */
#include "udp/btl_ibx_udp_rdma.h"

#include "btl_ibx_atomic.h"
#include "udp/btl_ibx_udp_endpoint.h"
#include "btl_ibx_fault.h"
#include "udp/btl_ibx_udp_message.h"
#include "udp/btl_ibx_udp_rcache.h"
#include "iwarp/iw_locate.h"
#include "iwarp/iw_memory.h"

#include <stdlib.h>
#include <string.h>

OBJ_CLASS_INSTANCE(mca_btl_ibx_job_t, opal_free_list_item_t, NULL, NULL);
OBJ_CLASS_INSTANCE(mca_btl_ibx_key_t, opal_free_list_item_t, NULL, NULL);

/* An RDMA Read or Write has a length of 32 bits; longer ones are several. */
#define PART_MAX (UINT64_C(1) << 30)

static opal_free_list_item_t *get(opal_free_list_t *list)
{
    return mca_btl_ibx_component.locked ? opal_free_list_get_mt(list) : opal_free_list_get_st(list);
}

static void put_back(opal_free_list_t *list, opal_free_list_item_t *item)
{
    if (mca_btl_ibx_component.locked) {
        opal_free_list_return_mt(list, item);
    } else {
        opal_free_list_return_st(list, item);
    }
}

/* ---- registered memory ---- */

mca_btl_base_registration_handle_t *mca_btl_ibx_register_mem(mca_btl_base_module_t *btl,
                                                             mca_btl_base_endpoint_t *endpoint,
                                                             void *base, size_t size,
                                                             uint32_t flags)
{
    mca_btl_ibx_module_t *module = (mca_btl_ibx_module_t *) btl;
    (void) endpoint;
    if (size >= MCA_BTL_IBX_BULK) {
        mca_btl_ibx_expect_bulk(module); /* by who is told of it */
    }
    if (OPAL_LIKELY(NULL != module->rcache)) {
        return mca_btl_ibx_rcache_register(module, base, size, flags);
    }
    mca_btl_ibx_key_t *key =
        mca_btl_ibx_fault_registration() ? NULL : (mca_btl_ibx_key_t *) get(&module->keys);
    if (NULL == key) {
        return NULL;
    }
    unsigned rights = 0;
    rights |= flags & MCA_BTL_REG_FLAG_REMOTE_READ ? IW_REMOTE_READ : 0;
    rights |= flags & MCA_BTL_REG_FLAG_REMOTE_WRITE ? IW_REMOTE_WRITE : 0;
    rights |= flags & MCA_BTL_REG_FLAG_REMOTE_ATOMIC ? IW_REMOTE_READ | IW_REMOTE_WRITE : 0;
    mca_btl_ibx_lock(module);
    key->handle.stag = iw_register(module->engine, base, size, rights);
    mca_btl_ibx_unlock(module);
    if (0 == key->handle.stag) {
        put_back(&module->keys, &key->super);
        return NULL;
    }
    key->handle.base = (uint64_t) (uintptr_t) base;
    key->handle.module = module->index;
    return &key->handle;
}

int mca_btl_ibx_deregister_mem(mca_btl_base_module_t *btl,
                               mca_btl_base_registration_handle_t *handle)
{
    mca_btl_ibx_module_t *module = (mca_btl_ibx_module_t *) btl;
    if (OPAL_LIKELY(NULL != module->rcache)) {
        mca_btl_ibx_rcache_deregister(module, handle);
        return OPAL_SUCCESS;
    }
    mca_btl_ibx_key_t *key =
        (mca_btl_ibx_key_t *) ((char *) handle - offsetof(mca_btl_ibx_key_t, handle));
    mca_btl_ibx_lock(module);
    (void) iw_deregister(module->engine, handle->stag);
    mca_btl_ibx_unlock(module);
    put_back(&module->keys, &key->super);
    return OPAL_SUCCESS;
}

/* ---- put and get ---- */

/* Issue what is left of a job. lock is held. False: the engine has no room now. */
static bool issue(mca_btl_ibx_job_t *job)
{
    iw_peer_t *peer = mca_btl_ibx_peer(job->endpoint);
    while (job->issued < job->length && OPAL_SUCCESS == job->status) {
        const uint64_t left = job->length - job->issued;
        const uint32_t n = (uint32_t) (left < PART_MAX ? left : PART_MAX);
        struct iovec piece = {.iov_base = job->local + job->issued, .iov_len = n};
        iw_status_t status = IW_DEAD;
        if (NULL != peer) {
            status = MCA_BTL_IBX_PUT == job->type
                         ? iw_post_write(peer, &piece, 1, job->stag, job->remote + job->issued, 0, job)
                         : iw_post_read(peer, piece.iov_base, n, job->stag,
                                        job->remote + job->issued, 0, job);
        }
        if (IW_AGAIN == status) {
            return false;
        }
        if (OPAL_UNLIKELY(IW_OK != status)) {
            job->status = mca_btl_ibx_error(status);
            break;
        }
        ++job->parts;
        job->issued += n;
    }
    return true;
}

bool mca_btl_ibx_job_part_done(mca_btl_ibx_module_t *module, mca_btl_ibx_job_t *job, int status)
{
    (void) module;
    if (OPAL_UNLIKELY(OPAL_SUCCESS != status)) {
        job->status = status;
    }
    return 0 == --job->parts;
}

void mca_btl_ibx_job_end(mca_btl_ibx_module_t *module, mca_btl_ibx_job_t *job)
{
    if (NULL != job->callback) {
        job->callback(&module->super, job->endpoint, job->local, job->local_handle, job->context,
                      job->cbdata, job->status);
    }
    put_back(&module->jobs, &job->super);
}

void mca_btl_ibx_retry_jobs(mca_btl_ibx_module_t *module)
{
    while (!opal_list_is_empty(&module->waiting_jobs)) {
        mca_btl_ibx_job_t *job = (mca_btl_ibx_job_t *) opal_list_get_first(&module->waiting_jobs);
        if (!issue(job)) {
            return;
        }
        (void) opal_list_remove_first(&module->waiting_jobs);
        if (mca_btl_ibx_job_part_done(module, job, OPAL_SUCCESS)) {
            opal_list_append(&module->ended, (opal_list_item_t *) job);
        }
    }
}

void mca_btl_ibx_drop_jobs(mca_btl_ibx_module_t *module, mca_btl_ibx_endpoint_t *endpoint)
{
    mca_btl_ibx_job_t *job, *next;
    OPAL_LIST_FOREACH_SAFE (job, next, &module->waiting_jobs, mca_btl_ibx_job_t) {
        if (job->endpoint == endpoint) {
            opal_list_remove_item(&module->waiting_jobs, (opal_list_item_t *) job);
            if (mca_btl_ibx_job_part_done(module, job, OPAL_ERR_UNREACH)) {
                opal_list_append(&module->ended, (opal_list_item_t *) job);
            }
        }
    }
    mca_btl_ibx_fail_atomics(module, endpoint);
}

static mca_btl_ibx_job_t *job_new(mca_btl_ibx_module_t *module, mca_btl_ibx_job_type_t type,
                                  mca_btl_ibx_endpoint_t *endpoint, void *local,
                                  mca_btl_base_registration_handle_t *local_handle,
                                  mca_btl_base_rdma_completion_fn_t callback, void *context,
                                  void *cbdata)
{
    mca_btl_ibx_job_t *job = (mca_btl_ibx_job_t *) get(&module->jobs);
    if (OPAL_LIKELY(NULL != job)) {
        job->type = type;
        job->endpoint = endpoint;
        job->local = local;
        job->local_handle = local_handle;
        job->status = OPAL_SUCCESS;
        job->callback = callback;
        job->context = context;
        job->cbdata = cbdata;
        job->parts = 1;
    }
    return job;
}

static int transfer(mca_btl_base_module_t *btl, mca_btl_ibx_endpoint_t *endpoint,
                    mca_btl_ibx_job_type_t type, void *local, uint64_t remote,
                    mca_btl_base_registration_handle_t *local_handle,
                    const mca_btl_base_registration_handle_t *remote_handle, size_t size,
                    mca_btl_base_rdma_completion_fn_t callback, void *context, void *cbdata)
{
    mca_btl_ibx_module_t *module = (mca_btl_ibx_module_t *) btl;
    mca_btl_ibx_job_t *job =
        job_new(module, type, endpoint, local, local_handle, callback, context, cbdata);
    if (OPAL_UNLIKELY(NULL == job)) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    if (OPAL_UNLIKELY(endpoint->is_self)) {
        void *there = (void *) (uintptr_t) remote;
        memmove(MCA_BTL_IBX_PUT == type ? there : local, MCA_BTL_IBX_PUT == type ? local : there,
                size);
        mca_btl_ibx_job_end(module, job);
        return OPAL_SUCCESS;
    }
    job->stag = remote_handle->stag;
    job->remote = remote - remote_handle->base;
    job->length = size;
    job->issued = 0;
    bool ended = false;
    if (size >= MCA_BTL_IBX_BULK) {
        mca_btl_ibx_expect_bulk(module);
    }
    mca_btl_ibx_lock(module);
    if (OPAL_LIKELY(opal_list_is_empty(&module->waiting_jobs) && issue(job))) {
        ended = mca_btl_ibx_job_part_done(module, job, OPAL_SUCCESS);
    } else {
        opal_list_append(&module->waiting_jobs, (opal_list_item_t *) job);
    }
    mca_btl_ibx_flush(module);
    mca_btl_ibx_unlock(module);
    if (OPAL_UNLIKELY(ended)) { /* nothing could be issued */
        mca_btl_ibx_job_end(module, job);
    }
    return OPAL_SUCCESS;
}

int mca_btl_ibx_put(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint, void *local,
                    uint64_t remote, mca_btl_base_registration_handle_t *local_handle,
                    mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                    int order, mca_btl_base_rdma_completion_fn_t callback, void *context,
                    void *cbdata)
{
    (void) flags, (void) order;
    return transfer(btl, endpoint, MCA_BTL_IBX_PUT, local, remote, local_handle, remote_handle,
                    size, callback, context, cbdata);
}

int mca_btl_ibx_get(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint, void *local,
                    uint64_t remote, mca_btl_base_registration_handle_t *local_handle,
                    mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                    int order, mca_btl_base_rdma_completion_fn_t callback, void *context,
                    void *cbdata)
{
    (void) flags, (void) order;
    return transfer(btl, endpoint, MCA_BTL_IBX_GET, local, remote, local_handle, remote_handle,
                    size, callback, context, cbdata);
}

/* ---- atomics ---- */

static int ask_atomic(mca_btl_base_module_t *btl, mca_btl_ibx_endpoint_t *endpoint, void *local,
                      uint64_t remote, mca_btl_base_registration_handle_t *local_handle,
                      const mca_btl_base_registration_handle_t *remote_handle, mca_btl_ibx_atomic_ask_t *ask,
                      mca_btl_base_rdma_completion_fn_t callback, void *context, void *cbdata)
{
    mca_btl_ibx_module_t *module = (mca_btl_ibx_module_t *) btl;
    mca_btl_ibx_job_t *job = job_new(module, MCA_BTL_IBX_ATOMIC, endpoint, local, local_handle,
                                     callback, context, cbdata);
    if (NULL == job) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    job->length = ask->is_32 ? 4 : 8;
    if (endpoint->is_self) {
        uint64_t before = 0;
        mca_btl_ibx_lock(module);
        job->status = mca_btl_ibx_atomic_perform((char *) (uintptr_t) remote, ask, &before);
        mca_btl_ibx_unlock(module);
        if (NULL != local) {
            memcpy(local, &before, job->length);
        }
        mca_btl_ibx_job_end(module, job);
        return OPAL_SUCCESS;
    }
    ask->offset = remote - remote_handle->base;
    ask->stag = remote_handle->stag;
    mca_btl_ibx_lock(module);
    job->number = ask->number = ++module->atomic_number;
    const iw_status_t said = mca_btl_ibx_say(endpoint, MCA_BTL_IBX_TAG_ATOMIC, ask, sizeof(*ask));
    if (IW_OK == said) {
        opal_list_append(&module->atomics, (opal_list_item_t *) job);
        mca_btl_ibx_flush(module);
    }
    mca_btl_ibx_unlock(module);
    if (IW_OK != said) { /* who is told of resources tries again, also where the peer has left */
        put_back(&module->jobs, &job->super);
        return IW_AGAIN == said ? OPAL_ERR_OUT_OF_RESOURCE : mca_btl_ibx_error(said);
    }
    return OPAL_SUCCESS;
}

int mca_btl_ibx_atomic_op(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                          uint64_t remote, mca_btl_base_registration_handle_t *remote_handle,
                          mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                          mca_btl_base_rdma_completion_fn_t callback, void *context, void *cbdata)
{
    (void) order;
    mca_btl_ibx_atomic_ask_t ask = {.operand = operand,
                        .op = (uint8_t) op,
                        .is_32 = 0 != (flags & MCA_BTL_ATOMIC_FLAG_32BIT)};
    return ask_atomic(btl, endpoint, NULL, remote, NULL, remote_handle, &ask, callback, context,
                      cbdata);
}

int mca_btl_ibx_atomic_fop(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                           void *local, uint64_t remote,
                           mca_btl_base_registration_handle_t *local_handle,
                           mca_btl_base_registration_handle_t *remote_handle,
                           mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                           mca_btl_base_rdma_completion_fn_t callback, void *context, void *cbdata)
{
    (void) order;
    mca_btl_ibx_atomic_ask_t ask = {.operand = operand,
                        .op = (uint8_t) op,
                        .is_32 = 0 != (flags & MCA_BTL_ATOMIC_FLAG_32BIT)};
    return ask_atomic(btl, endpoint, local, remote, local_handle, remote_handle, &ask, callback,
                      context, cbdata);
}

int mca_btl_ibx_atomic_cswap(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                             void *local, uint64_t remote,
                             mca_btl_base_registration_handle_t *local_handle,
                             mca_btl_base_registration_handle_t *remote_handle, uint64_t compare,
                             uint64_t value, int flags, int order,
                             mca_btl_base_rdma_completion_fn_t callback, void *context,
                             void *cbdata)
{
    (void) order;
    mca_btl_ibx_atomic_ask_t ask = {.operand = compare,
                        .value = value,
                        .op = MCA_BTL_IBX_CSWAP,
                        .is_32 = 0 != (flags & MCA_BTL_ATOMIC_FLAG_32BIT)};
    return ask_atomic(btl, endpoint, local, remote, local_handle, remote_handle, &ask, callback,
                      context, cbdata);
}

/* Answers who asked for an atomic operation. False: no memory now; it is tried again, or who asked is given up. lock is not
 * held. */
static bool say_or_keep(mca_btl_ibx_module_t *module, mca_btl_ibx_endpoint_t *endpoint,
                        const mca_btl_ibx_atomic_answer_t *answer)
{
    mca_btl_base_descriptor_t *des =
        mca_btl_ibx_alloc(&module->super, endpoint, MCA_BTL_NO_ORDER, sizeof(*answer),
                          MCA_BTL_DES_FLAGS_BTL_OWNERSHIP);
    if (OPAL_UNLIKELY(NULL == des)) {
        mca_btl_ibx_lock(module);
        const bool kept = mca_btl_ibx_unsaid_keep(&module->unsaid, endpoint, answer);
        mca_btl_ibx_unlock(module);
        if (!kept) {
            mca_btl_ibx_give_up(module, endpoint, IW_NO_MEMORY);
        }
        return false;
    }
    memcpy(des->des_segments[0].seg_addr.pval, answer, sizeof(*answer));
    if (0 > mca_btl_ibx_send(&module->super, endpoint, des, MCA_BTL_IBX_TAG_ATOMIC_DONE)) {
        (void) mca_btl_ibx_free(&module->super, des); /* who asked is gone */
    }
    return true;
}

void mca_btl_ibx_atomic_asked(mca_btl_ibx_module_t *module, mca_btl_ibx_endpoint_t *endpoint,
                              const void *data, size_t size)
{
    mca_btl_ibx_atomic_ask_t ask;
    if (size != sizeof(ask)) {
        return;
    }
    memcpy(&ask, data, sizeof(ask));
    mca_btl_ibx_atomic_answer_t answer = {.number = ask.number, .status = OPAL_ERR_BAD_PARAM};
    uint8_t *at = NULL;
    mca_btl_ibx_lock(module);
    if (ask.is_32 <= 1
        && IW_OK
               == iw_locate(endpoint->peer, ask.stag, IW_REMOTE_READ | IW_REMOTE_WRITE, ask.offset,
                            ask.is_32 ? 4 : 8, &at)) {
        answer.status = mca_btl_ibx_atomic_perform((char *) at, &ask, &answer.value);
    }
    mca_btl_ibx_unlock(module);
    (void) say_or_keep(module, endpoint, &answer);
}

void mca_btl_ibx_retry_answers(mca_btl_ibx_module_t *module)
{
    mca_btl_ibx_endpoint_t *endpoint;
    mca_btl_ibx_atomic_answer_t answer;
    do {
        mca_btl_ibx_lock(module);
        endpoint = mca_btl_ibx_unsaid_take(&module->unsaid, &answer);
        mca_btl_ibx_unlock(module);
    } while (NULL != endpoint && say_or_keep(module, endpoint, &answer));
}

void mca_btl_ibx_atomic_answered(mca_btl_ibx_module_t *module, mca_btl_ibx_endpoint_t *endpoint,
                                 const void *data, size_t size)
{
    mca_btl_ibx_atomic_answer_t answer;
    mca_btl_ibx_job_t *job, *found = NULL;
    if (size != sizeof(answer)) {
        return;
    }
    memcpy(&answer, data, sizeof(answer));
    mca_btl_ibx_lock(module);
    OPAL_LIST_FOREACH (job, &module->atomics, mca_btl_ibx_job_t) {
        if (job->number == answer.number && job->endpoint == endpoint) {
            found = job;
            break;
        }
    }
    if (NULL != found) {
        opal_list_remove_item(&module->atomics, (opal_list_item_t *) found);
    }
    mca_btl_ibx_unlock(module);
    if (NULL == found) {
        return;
    }
    found->status = answer.status;
    if (OPAL_SUCCESS == answer.status && NULL != found->local) {
        memcpy(found->local, &answer.value, found->length);
    }
    mca_btl_ibx_job_end(module, found);
}

void mca_btl_ibx_fail_atomics(mca_btl_ibx_module_t *module, mca_btl_ibx_endpoint_t *endpoint)
{
    mca_btl_ibx_job_t *job, *next;
    OPAL_LIST_FOREACH_SAFE (job, next, &module->atomics, mca_btl_ibx_job_t) {
        if (job->endpoint == endpoint) {
            opal_list_remove_item(&module->atomics, (opal_list_item_t *) job);
            job->status = OPAL_ERR_UNREACH;
            opal_list_append(&module->ended, (opal_list_item_t *) job);
        }
    }
}
