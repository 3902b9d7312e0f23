/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Atomic operations as messages, where the adapter has none or its own are not atomic with the processor's:
 * a process could not reach itself then, and osc/rdma wants atomics to every process.
 *
 * keys_lock protects the tables of registered memory and the counts of what was done and refused, and is held
 * while an operation is done, so that they are atomic among each other, whatever the port they came by, and
 * memory is not deregistered meanwhile. It is taken below locks of the registration cache; nothing is called
 * under it. */
#include "verbs/btl_ibx_verbs_module.h"

#include "btl_ibx_atomic.h"

#include <pthread.h>
#include <string.h>

static pthread_mutex_t keys_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- memory that may be asked for ---- */

bool mca_btl_ibx_verbs_key_add(mca_btl_ibx_verbs_module_t *module, mca_btl_ibx_verbs_reg_t *reg)
{
    bool added = true;
    if (module->asks && reg->base.access_flags & MCA_RCACHE_ACCESS_REMOTE_ATOMIC) {
        pthread_mutex_lock(&keys_lock);
        added = vb_map_put(&module->keys, reg->mr->rkey, reg);
        pthread_mutex_unlock(&keys_lock);
    }
    return added;
}

void mca_btl_ibx_verbs_key_remove(mca_btl_ibx_verbs_module_t *module,
                                  const mca_btl_ibx_verbs_reg_t *reg)
{
    if (module->asks && NULL != reg->mr) {
        pthread_mutex_lock(&keys_lock);
        if (reg == vb_map_get(&module->keys, reg->mr->rkey)) {
            vb_map_remove(&module->keys, reg->mr->rkey);
        }
        pthread_mutex_unlock(&keys_lock);
    }
}

/* Is there so much registered memory? keys_lock is held. */
static bool is_allowed(const mca_btl_ibx_verbs_module_t *module, uint32_t key, uint64_t at,
                       uint64_t size)
{
    const mca_btl_ibx_verbs_reg_t *reg = vb_map_get(&module->keys, key);
    if (NULL == reg) {
        return false;
    }
    const uint64_t base = (uintptr_t) reg->base.base;
    const uint64_t length = (uint64_t) (reg->base.bound - reg->base.base) + 1;
    return at >= base && at - base < length && length - (at - base) >= size;
}

/* ---- asking ---- */

static mca_btl_base_descriptor_t *
message_of(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *to, const void *data, size_t size)
{
    mca_btl_base_descriptor_t *des =
        mca_btl_ibx_verbs_alloc(btl, to, MCA_BTL_NO_ORDER, size, MCA_BTL_DES_FLAGS_BTL_OWNERSHIP);
    if (OPAL_LIKELY(NULL != des)) {
        memcpy(des->des_segments[0].seg_addr.pval, data, size);
    }
    return des;
}

static int at_home(mca_btl_ibx_verbs_module_t *module, mca_btl_ibx_verbs_job_t *job,
                   mca_btl_ibx_atomic_ask_t *ask)
{
    uint64_t before = 0;
    pthread_mutex_lock(&keys_lock);
    job->status = mca_btl_ibx_atomic_perform((char *) (uintptr_t) ask->offset, ask, &before);
    pthread_mutex_unlock(&keys_lock);
    if (NULL != job->local) {
        memcpy(job->local, &before, job->length);
    }
    mca_btl_ibx_verbs_job_end(module, job);
    return OPAL_SUCCESS;
}

/* The job that waits for this answer of the endpoint, and waits no more; NULL: none. lock is held. */
static mca_btl_ibx_verbs_job_t *take(mca_btl_ibx_verbs_module_t *module,
                                     const mca_btl_ibx_verbs_endpoint_t *endpoint, uint32_t number)
{
    mca_btl_ibx_verbs_job_t *job;
    OPAL_LIST_FOREACH (job, &module->asking, mca_btl_ibx_verbs_job_t) {
        if (job->number == number && job->endpoint == endpoint) {
            opal_list_remove_item(&module->asking, (opal_list_item_t *) job);
            return job;
        }
    }
    return NULL;
}

static int ask_for(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *to, void *local,
                   mca_btl_base_registration_handle_t *local_handle, mca_btl_ibx_atomic_ask_t *ask,
                   mca_btl_base_rdma_completion_fn_t callback, void *context, void *cbdata)
{
    mca_btl_ibx_verbs_module_t *module = (mca_btl_ibx_verbs_module_t *) btl;
    mca_btl_ibx_verbs_job_t *job = mca_btl_ibx_verbs_job_new(
        module, MCA_BTL_IBX_VERBS_ASK, to, local, ask->offset, local_handle, NULL,
        ask->is_32 ? 4 : 8, MCA_BTL_NO_ORDER, callback, context, cbdata);
    if (OPAL_UNLIKELY(NULL == job)) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    if (job->endpoint->is_self) {
        return at_home(module, job, ask);
    }
    vb_port_lock(module->port);
    job->number = ask->number = ++module->ask_number;
    ++module->atomics.asked;
    vb_port_unlock(module->port);
    mca_btl_base_descriptor_t *des = message_of(btl, to, ask, sizeof(*ask));
    if (OPAL_UNLIKELY(NULL == des)) {
        mca_btl_ibx_verbs_put_item(&module->jobs, &job->super);
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    vb_port_lock(module->port);
    opal_list_append(&module->asking, (opal_list_item_t *) job);
    vb_port_unlock(module->port);
    const int rc = mca_btl_ibx_verbs_send(btl, to, des, MCA_BTL_IBX_TAG_ATOMIC);
    if (OPAL_UNLIKELY(0 > rc)) {
        (void) mca_btl_ibx_verbs_free(btl, des);
        vb_port_lock(module->port);
        job = take(module, (mca_btl_ibx_verbs_endpoint_t *) to, ask->number);
        vb_port_unlock(module->port);
        if (NULL != job) { /* else it has failed with its endpoint, and its callback says so */
            mca_btl_ibx_verbs_put_item(&module->jobs, &job->super);
            return rc;
        }
    }
    return OPAL_SUCCESS;
}

static mca_btl_ibx_atomic_ask_t ask_of(uint64_t remote,
                                       const mca_btl_base_registration_handle_t *remote_handle,
                                       uint8_t op, uint64_t operand, uint64_t value, int flags)
{
    return (mca_btl_ibx_atomic_ask_t){.offset = remote,
                                      .stag = NULL == remote_handle ? 0 : remote_handle->stag,
                                      .op = op,
                                      .operand = operand,
                                      .value = value,
                                      .is_32 = 0 != (flags & MCA_BTL_ATOMIC_FLAG_32BIT)};
}

int mca_btl_ibx_verbs_ask_op(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                             uint64_t remote, mca_btl_base_registration_handle_t *remote_handle,
                             mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                             mca_btl_base_rdma_completion_fn_t callback, void *context,
                             void *cbdata)
{
    (void) order;
    mca_btl_ibx_atomic_ask_t ask = ask_of(remote, remote_handle, (uint8_t) op, operand, 0, flags);
    return ask_for(btl, endpoint, NULL, NULL, &ask, callback, context, cbdata);
}

int mca_btl_ibx_verbs_ask_fop(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                              void *local, uint64_t remote,
                              mca_btl_base_registration_handle_t *local_handle,
                              mca_btl_base_registration_handle_t *remote_handle,
                              mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                              mca_btl_base_rdma_completion_fn_t callback, void *context,
                              void *cbdata)
{
    (void) order;
    mca_btl_ibx_atomic_ask_t ask = ask_of(remote, remote_handle, (uint8_t) op, operand, 0, flags);
    return ask_for(btl, endpoint, local, local_handle, &ask, callback, context, cbdata);
}

int mca_btl_ibx_verbs_ask_cswap(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                                void *local, uint64_t remote,
                                mca_btl_base_registration_handle_t *local_handle,
                                mca_btl_base_registration_handle_t *remote_handle, uint64_t compare,
                                uint64_t value, int flags, int order,
                                mca_btl_base_rdma_completion_fn_t callback, void *context,
                                void *cbdata)
{
    (void) order;
    mca_btl_ibx_atomic_ask_t ask =
        ask_of(remote, remote_handle, MCA_BTL_IBX_CSWAP, compare, value, flags);
    return ask_for(btl, endpoint, local, local_handle, &ask, callback, context, cbdata);
}

/* ---- being asked, and the answer ---- */

static void refuse(mca_btl_ibx_verbs_module_t *module)
{
    pthread_mutex_lock(&keys_lock);
    ++module->atomics.refused;
    pthread_mutex_unlock(&keys_lock);
}

/* False: no memory now; it is tried again, or who asked is given up. */
static bool say_or_keep(mca_btl_ibx_verbs_module_t *module, mca_btl_ibx_verbs_endpoint_t *endpoint,
                        const mca_btl_ibx_atomic_answer_t *answer)
{
    mca_btl_base_endpoint_t *to = (mca_btl_base_endpoint_t *) endpoint;
    mca_btl_base_descriptor_t *des = message_of(&module->super, to, answer, sizeof(*answer));
    if (OPAL_UNLIKELY(NULL == des)) {
        vb_port_lock(module->port);
        const bool kept = mca_btl_ibx_unsaid_keep(&module->unsaid, endpoint, answer);
        vb_port_unlock(module->port);
        if (!kept) {
            mca_btl_ibx_verbs_give_up(module, endpoint, "out of memory for answers to its atomic operations");
        }
        return false;
    }
    if (0 > mca_btl_ibx_verbs_send(&module->super, to, des, MCA_BTL_IBX_TAG_ATOMIC_DONE)) {
        (void) mca_btl_ibx_verbs_free(&module->super, des); /* who asked is gone */
    }
    return true;
}

static void asked(mca_btl_ibx_verbs_module_t *module, mca_btl_ibx_verbs_endpoint_t *endpoint,
                  const void *data, size_t size)
{
    mca_btl_ibx_atomic_ask_t ask;
    if (size != sizeof(ask)) {
        refuse(module);
        return;
    }
    memcpy(&ask, data, sizeof(ask));
    mca_btl_ibx_atomic_answer_t answer = {.number = ask.number, .status = OPAL_ERR_BAD_PARAM};
    pthread_mutex_lock(&keys_lock);
    if (ask.is_32 <= 1 && is_allowed(module, ask.stag, ask.offset, ask.is_32 ? 4 : 8)) {
        answer.status =
            mca_btl_ibx_atomic_perform((char *) (uintptr_t) ask.offset, &ask, &answer.value);
    }
    module->atomics.done += OPAL_SUCCESS == answer.status;
    module->atomics.refused += OPAL_SUCCESS != answer.status;
    pthread_mutex_unlock(&keys_lock);
    (void) say_or_keep(module, endpoint, &answer);
}

void mca_btl_ibx_verbs_retry_answers(mca_btl_ibx_verbs_module_t *module)
{
    mca_btl_ibx_verbs_endpoint_t *endpoint;
    mca_btl_ibx_atomic_answer_t answer;
    do {
        vb_port_lock(module->port);
        endpoint = mca_btl_ibx_unsaid_take(&module->unsaid, &answer);
        vb_port_unlock(module->port);
    } while (NULL != endpoint && say_or_keep(module, endpoint, &answer));
}

static void answered(mca_btl_ibx_verbs_module_t *module,
                     const mca_btl_ibx_verbs_endpoint_t *endpoint, const void *data, size_t size)
{
    mca_btl_ibx_atomic_answer_t answer;
    if (size != sizeof(answer)) {
        refuse(module);
        return;
    }
    memcpy(&answer, data, sizeof(answer));
    vb_port_lock(module->port);
    mca_btl_ibx_verbs_job_t *job = take(module, endpoint, answer.number);
    vb_port_unlock(module->port);
    if (NULL == job) {
        refuse(module);
        return;
    }
    job->status = answer.status;
    if (OPAL_SUCCESS == answer.status && NULL != job->local) {
        memcpy(job->local, &answer.value, job->length);
    }
    mca_btl_ibx_verbs_job_end(module, job);
}

bool mca_btl_ibx_verbs_atomic_message(mca_btl_ibx_verbs_module_t *module,
                                      mca_btl_ibx_verbs_endpoint_t *endpoint, uint8_t tag,
                                      const void *data, size_t size)
{
    if (MCA_BTL_IBX_TAG_ATOMIC != tag && MCA_BTL_IBX_TAG_ATOMIC_DONE != tag) {
        return false;
    }
    if (NULL == endpoint) {
        refuse(module);
    } else if (MCA_BTL_IBX_TAG_ATOMIC == tag) {
        asked(module, endpoint, data, size);
    } else {
        answered(module, endpoint, data, size);
    }
    return true;
}

void mca_btl_ibx_verbs_fail_atomics(mca_btl_ibx_verbs_module_t *module,
                                    const mca_btl_ibx_verbs_endpoint_t *endpoint)
{
    mca_btl_ibx_verbs_job_t *job, *next;
    OPAL_LIST_FOREACH_SAFE (job, next, &module->asking, mca_btl_ibx_verbs_job_t) {
        if (job->endpoint == endpoint) {
            opal_list_remove_item(&module->asking, (opal_list_item_t *) job);
            mca_btl_ibx_verbs_job_part_done(module, job, OPAL_ERR_UNREACH);
        }
    }
}
