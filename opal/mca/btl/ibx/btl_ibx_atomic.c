/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Atomic operations: the transport's own, or messages: a question to the process that has the memory, and its answer. */
#include "btl_ibx_atomic.h"

#include "btl_ibx_endpoint.h"

#include <pthread.h>

/* Taken below a module's lock, and below those of the registration cache; nothing is called under it. */
static pthread_mutex_t lock_of_all = PTHREAD_MUTEX_INITIALIZER;

void mca_btl_ibx_atomic_lock(void)
{
    pthread_mutex_lock(&lock_of_all);
}

void mca_btl_ibx_atomic_unlock(void)
{
    pthread_mutex_unlock(&lock_of_all);
}

/* ---- the operation itself ---- */

/* As the BTL interface has it; IW_ATOMIC_OPS: there is none. */
static iw_atomic_op_t op_of(mca_btl_base_atomic_op_t op)
{
    switch (op) {
    case MCA_BTL_ATOMIC_ADD:
        return IW_ATOMIC_ADD;
    case MCA_BTL_ATOMIC_AND:
        return IW_ATOMIC_AND;
    case MCA_BTL_ATOMIC_OR:
        return IW_ATOMIC_OR;
    case MCA_BTL_ATOMIC_XOR:
        return IW_ATOMIC_XOR;
    case MCA_BTL_ATOMIC_SWAP:
        return IW_ATOMIC_SWAP;
    default: /* of MIN and MAX the interface does not say whether the numbers have a sign */
        return IW_ATOMIC_OPS;
    }
}

void mca_btl_ibx_atomic_here(mca_btl_ibx_module_t *module, mca_btl_ibx_job_t *job, const mca_btl_ibx_atomic_ask_t *ask)
{
    const uint64_t before = iw_atomic_do((iw_atomic_op_t) ask->op, 0 != ask->is_32, (void *) (uintptr_t) job->remote,
                                          ask->operand, ask->compare);
    if (NULL != job->local) {
        mca_btl_ibx_atomic_keep(job->local, before, 0 != ask->is_32);
    }
    mca_btl_ibx_job_end(module, job);
}

/* ---- asking ---- */

static mca_btl_base_descriptor_t *message_of(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *to, const void *data,
                                             size_t size)
{
    mca_btl_base_descriptor_t *des = btl->btl_alloc(btl, to, MCA_BTL_NO_ORDER, size, MCA_BTL_DES_FLAGS_BTL_OWNERSHIP);
    if (OPAL_LIKELY(NULL != des)) {
        memcpy(des->des_segments[0].seg_addr.pval, data, size);
    }
    return des;
}

/* The job that waits for this answer of the endpoint, and waits no more; NULL: none. lock is held. */
static mca_btl_ibx_job_t *take(mca_btl_ibx_module_t *module, const mca_btl_base_endpoint_t *endpoint, uint32_t number)
{
    mca_btl_ibx_job_t *job;
    OPAL_LIST_FOREACH (job, &module->asking, mca_btl_ibx_job_t) {
        if (job->number == number && job->endpoint == endpoint) {
            opal_list_remove_item(&module->asking, (opal_list_item_t *) job);
            return job;
        }
    }
    return NULL;
}

/* Not OPAL_SUCCESS: it cannot be, and the job is the caller's again. */
static int ask_for(mca_btl_ibx_module_t *module, mca_btl_ibx_job_t *job, mca_btl_ibx_atomic_ask_t *ask,
                   const mca_btl_base_registration_handle_t *remote_handle)
{
    mca_btl_base_module_t *btl = &module->super;
    mca_btl_base_endpoint_t *to = job->endpoint;
    ask->offset = job->remote - remote_handle->base;
    ask->stag = remote_handle->stag;
    mca_btl_ibx_lock(module);
    const uint32_t number = job->number = ask->number = ++module->ask_number;
    mca_btl_ibx_unlock(module);
    mca_btl_base_descriptor_t *des = message_of(btl, to, ask, sizeof(*ask));
    if (OPAL_UNLIKELY(NULL == des)) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    mca_btl_ibx_lock(module);
    ++module->atomics.asked;
    opal_list_append(&module->asking, (opal_list_item_t *) job);
    mca_btl_ibx_unlock(module);
    const int rc = btl->btl_send(btl, to, des, MCA_BTL_IBX_TAG_ATOMIC);
    if (OPAL_UNLIKELY(0 > rc)) {
        (void) btl->btl_free(btl, des);
        mca_btl_ibx_lock(module);
        job = take(module, to, number);
        mca_btl_ibx_unlock(module);
        if (NULL != job) { /* else it has failed with its endpoint, and its callback says so */
            return rc;
        }
    }
    return OPAL_SUCCESS;
}

/* Told once: its adapter alone changes its memory, and ours cannot ask for that. */
static int no_way(const mca_btl_base_endpoint_t *to)
{
    char where[96];
    to->module->transport->describe(to, where, sizeof(where));
    mca_btl_ibx_explain("no atomic operations", "", spec_host_of(to->proc), where);
    return OPAL_ERR_NOT_SUPPORTED;
}

/* The way that the target's process has chosen. */
static int give(mca_btl_ibx_module_t *module, mca_btl_ibx_job_t *job, mca_btl_ibx_atomic_ask_t *ask,
                const mca_btl_base_registration_handle_t *remote_handle, int order)
{
    const mca_btl_base_endpoint_t *to = job->endpoint;
    if (OPAL_UNLIKELY(NULL == remote_handle && !to->is_self)) {
        return OPAL_ERR_NOT_SUPPORTED;
    }
    switch (to->atomics) {
    case MCA_BTL_IBX_ATOMICS_BY_TRANSPORT:
        return module->transport->atomic_starts(module, job, ask, remote_handle, order);
    case MCA_BTL_IBX_ATOMICS_BY_MESSAGES:
        if (!to->is_self) {
            return ask_for(module, job, ask, remote_handle);
        }
        mca_btl_ibx_atomic_here(module, job, ask);
        return OPAL_SUCCESS;
    default:
        return no_way(to);
    }
}

static int start(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *to, void *local, uint64_t remote,
                 mca_btl_base_registration_handle_t *local_handle,
                 const mca_btl_base_registration_handle_t *remote_handle, mca_btl_ibx_atomic_ask_t *ask, int order,
                 mca_btl_base_rdma_completion_fn_t callback, void *context, void *cbdata)
{
    mca_btl_ibx_module_t *module = (mca_btl_ibx_module_t *) btl;
    if (OPAL_UNLIKELY(ask->op >= IW_ATOMIC_OPS || !iw_atomic_is_aligned((void *) (uintptr_t) remote, 0 != ask->is_32))) {
        return OPAL_ERR_NOT_SUPPORTED;
    }
    mca_btl_ibx_job_t *job = mca_btl_ibx_job_new(module, MCA_BTL_IBX_ASK, to, local, ask->is_32 ? 4 : 8, local_handle,
                                                 callback, context, cbdata);
    if (OPAL_UNLIKELY(NULL == job)) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    job->remote = remote;
    const int rc = give(module, job, ask, remote_handle, order);
    if (OPAL_UNLIKELY(OPAL_SUCCESS != rc)) {
        mca_btl_ibx_item_return(&module->jobs, &job->super);
    }
    return rc;
}

int mca_btl_ibx_atomic_op(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint, uint64_t remote,
                          mca_btl_base_registration_handle_t *remote_handle, mca_btl_base_atomic_op_t op, uint64_t operand,
                          int flags, int order, mca_btl_base_rdma_completion_fn_t callback, void *context, void *cbdata)
{
    return mca_btl_ibx_atomic_fop(btl, endpoint, NULL, remote, NULL, remote_handle, op, operand, flags, order, callback,
                                  context, cbdata);
}

int mca_btl_ibx_atomic_fop(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint, void *local, uint64_t remote,
                           mca_btl_base_registration_handle_t *local_handle,
                           mca_btl_base_registration_handle_t *remote_handle, mca_btl_base_atomic_op_t op, uint64_t operand,
                           int flags, int order, mca_btl_base_rdma_completion_fn_t callback, void *context, void *cbdata)
{
    mca_btl_ibx_atomic_ask_t ask = {
        .op = (uint8_t) op_of(op), .operand = operand, .is_32 = 0 != (flags & MCA_BTL_ATOMIC_FLAG_32BIT)};
    return start(btl, endpoint, local, remote, local_handle, remote_handle, &ask, order, callback, context, cbdata);
}

int mca_btl_ibx_atomic_cswap(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint, void *local, uint64_t remote,
                             mca_btl_base_registration_handle_t *local_handle,
                             mca_btl_base_registration_handle_t *remote_handle, uint64_t compare, uint64_t value, int flags,
                             int order, mca_btl_base_rdma_completion_fn_t callback, void *context, void *cbdata)
{
    mca_btl_ibx_atomic_ask_t ask = {.op = IW_ATOMIC_CSWAP,
                                    .operand = value,
                                    .compare = compare,
                                    .is_32 = 0 != (flags & MCA_BTL_ATOMIC_FLAG_32BIT)};
    return start(btl, endpoint, local, remote, local_handle, remote_handle, &ask, order, callback, context, cbdata);
}

/* ---- being asked, and the answer ---- */

static void refuse(mca_btl_ibx_module_t *module)
{
    mca_btl_ibx_lock(module);
    ++module->atomics.refused;
    mca_btl_ibx_unlock(module);
}

/* False: no memory now; it is tried again, or the process that asked is given up. */
static bool answer_or_keep(mca_btl_base_endpoint_t *to, const mca_btl_ibx_atomic_answer_t *answer)
{
    mca_btl_ibx_module_t *module = to->module;
    mca_btl_base_module_t *btl = &module->super;
    mca_btl_base_descriptor_t *des = message_of(btl, to, answer, sizeof(*answer));
    if (OPAL_UNLIKELY(NULL == des)) {
        mca_btl_ibx_lock(module);
        const bool kept = mca_btl_ibx_deferred_keep(&module->deferred, to, answer);
        mca_btl_ibx_unlock(module);
        if (!kept) {
            mca_btl_ibx_give_up(to, "out of memory for answers to its atomic operations");
        }
        return false;
    }
    if (0 > btl->btl_send(btl, to, des, MCA_BTL_IBX_TAG_ATOMIC_DONE)) {
        (void) btl->btl_free(btl, des); /* the process that asked is gone */
    }
    return true;
}

static void asked(mca_btl_ibx_module_t *module, mca_btl_base_endpoint_t *endpoint, const void *data)
{
    mca_btl_ibx_atomic_ask_t ask;
    memcpy(&ask, data, sizeof(ask));
    mca_btl_ibx_atomic_answer_t answer = {.number = ask.number, .status = OPAL_ERR_BAD_PARAM};
    mca_btl_ibx_lock(module);
    mca_btl_ibx_atomic_lock();
    char *at = ask.is_32 <= 1 && ask.op < IW_ATOMIC_OPS
                   ? module->transport->word(endpoint, ask.stag, ask.offset, ask.is_32 ? 4 : 8)
                   : NULL;
    if (NULL != at && iw_atomic_is_aligned(at, 0 != ask.is_32)) {
        answer.status = OPAL_SUCCESS;
        answer.value = iw_atomic_do((iw_atomic_op_t) ask.op, 0 != ask.is_32, at, ask.operand, ask.compare);
    }
    mca_btl_ibx_atomic_unlock();
    module->atomics.done += OPAL_SUCCESS == answer.status;
    module->atomics.refused += OPAL_SUCCESS != answer.status;
    mca_btl_ibx_unlock(module);
    (void) answer_or_keep(endpoint, &answer);
}

void mca_btl_ibx_retry_answers(mca_btl_ibx_module_t *module)
{
    mca_btl_base_endpoint_t *endpoint;
    mca_btl_ibx_atomic_answer_t answer;
    do {
        mca_btl_ibx_lock(module);
        endpoint = mca_btl_ibx_deferred_take(&module->deferred, &answer);
        mca_btl_ibx_unlock(module);
    } while (NULL != endpoint && answer_or_keep(endpoint, &answer));
}

static void answered(mca_btl_ibx_module_t *module, const mca_btl_base_endpoint_t *endpoint,
                     const void *data)
{
    mca_btl_ibx_atomic_answer_t answer;
    memcpy(&answer, data, sizeof(answer));
    mca_btl_ibx_lock(module);
    mca_btl_ibx_job_t *job = take(module, endpoint, answer.number);
    mca_btl_ibx_unlock(module);
    if (NULL == job) {
        refuse(module);
        return;
    }
    job->status = answer.status;
    if (OPAL_SUCCESS == answer.status && NULL != job->local) {
        mca_btl_ibx_atomic_keep(job->local, answer.value, sizeof(uint32_t) == job->length);
    }
    mca_btl_ibx_job_end(module, job);
}

void mca_btl_ibx_atomic_arrived(mca_btl_ibx_module_t *module, mca_btl_base_endpoint_t *endpoint, uint8_t tag,
                                const void *data, size_t size)
{
    const bool asks = MCA_BTL_IBX_TAG_ATOMIC == tag;
    if (NULL == endpoint
        || size
               != (asks ? sizeof(mca_btl_ibx_atomic_ask_t) : sizeof(mca_btl_ibx_atomic_answer_t))) {
        refuse(module);
    } else if (asks) {
        asked(module, endpoint, data);
    } else {
        answered(module, endpoint, data);
    }
}

void mca_btl_ibx_fail_atomics(const mca_btl_base_endpoint_t *endpoint)
{
    mca_btl_ibx_module_t *module = endpoint->module;
    mca_btl_ibx_job_t *job, *next;
    OPAL_LIST_FOREACH_SAFE (job, next, &module->asking, mca_btl_ibx_job_t) {
        if (job->endpoint == endpoint) {
            opal_list_remove_item(&module->asking, (opal_list_item_t *) job);
            job->status = OPAL_ERR_UNREACH;
            opal_list_append(&module->ended, (opal_list_item_t *) job);
        }
    }
}
