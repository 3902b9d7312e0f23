/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See btl_ibx_progress.h. */
#include "btl_ibx_progress.h"

#include "btl_ibx_endpoint.h"
#include "btl_ibx_message.h"
#include "btl_ibx_rdma.h"

/* Completions taken at a time: enough to make the lock cheap, few enough for the stack. */
#define BATCH 32

static int status_of(const iw_completion_t *c)
{
    return OPAL_LIKELY(IW_OK == c->status) ? OPAL_SUCCESS
                                           : mca_btl_ibx_error((iw_status_t) c->status);
}

/* A message for the PML, or for ourselves. */
static void deliver(mca_btl_ibx_module_t *module, mca_btl_ibx_endpoint_t *endpoint,
                    mca_btl_ibx_bay_t *bay, uint32_t length)
{
    if (OPAL_UNLIKELY(length < sizeof(bay->hdr) || NULL == endpoint)) {
        return;
    }
    const size_t size = length - sizeof(bay->hdr);
    switch (bay->hdr.tag) {
    case MCA_BTL_IBX_TAG_ATOMIC:
        mca_btl_ibx_atomic_asked(module, endpoint, bay->data, size);
        break;
    case MCA_BTL_IBX_TAG_ATOMIC_DONE:
        mca_btl_ibx_atomic_answered(module, endpoint, bay->data, size);
        break;
    default:
        mca_btl_ibx_dispatch(&module->super, endpoint, bay->hdr.tag, bay->data, size);
        break;
    }
}

static void end_frags(mca_btl_ibx_module_t *module, opal_list_t *failed)
{
    opal_list_item_t *item;
    while (NULL != (item = opal_list_remove_first(failed))) {
        mca_btl_ibx_frag_done(module, (mca_btl_ibx_frag_t *) item, OPAL_ERR_UNREACH);
    }
}

static void end_jobs(mca_btl_ibx_module_t *module, opal_list_t *ended)
{
    opal_list_item_t *item;
    while (NULL != (item = opal_list_remove_first(ended))) {
        mca_btl_ibx_job_end(module, (mca_btl_ibx_job_t *) item);
    }
}

/* What a completion asks for while the lock is held. True: more is to be done without it. */
static bool first_half(mca_btl_ibx_module_t *module, const iw_completion_t *c, opal_list_t *ended)
{
    switch (c->what) {
    case IW_WRITTEN:
    case IW_READ:
        return mca_btl_ibx_job_part_done(module, c->context, status_of(c));
    case IW_LIMIT_REACHED:
        (void) ibx_window_limit_reached(&module->window, iw_port_now());
        (void) mca_btl_ibx_fill_window(module);
        (void) iw_receives_lowest(module->engine); /* from now on */
        iw_engine_alarm(module->engine, ibx_window_look_at(&module->window));
        return false;
    case IW_PEER_DOWN:
        if (NULL != c->peer) {
            mca_btl_ibx_endpoint_t *endpoint = iw_peer_user(c->peer);
            mca_btl_ibx_fail_atomics(module, endpoint, ended);
        }
        return true;
    default:
        return true;
    }
}

static void second_half(mca_btl_ibx_module_t *module, const iw_completion_t *c)
{
    mca_btl_ibx_endpoint_t *endpoint = NULL == c->peer ? NULL : iw_peer_user(c->peer);
    switch (c->what) {
    case IW_SENT:
        if (NULL != c->context) {
            mca_btl_ibx_frag_done(module, c->context, status_of(c));
        }
        break;
    case IW_WRITTEN:
    case IW_READ:
        mca_btl_ibx_job_end(module, c->context);
        break;
    case IW_RECEIVED:
        deliver(module, endpoint, c->context, c->length);
        break;
    case IW_PEER_DOWN:
        mca_btl_ibx_lost(module, endpoint, c->status);
        break;
    default:
        break;
    }
}

static int module_progress(mca_btl_ibx_module_t *module)
{
    iw_completion_t completion[BATCH];
    bool more[BATCH];
    unsigned n, events = 0;
    opal_list_t ended, failed;

    if (!mca_btl_ibx_enter(module)) {
        return 0; /* somebody else is at it */
    }
    (void) iw_port_progress(module->port, module->engine);
    n = iw_engine_poll(module->engine, completion, BATCH);
    if (OPAL_LIKELY(0 == n)) {
        if (OPAL_UNLIKELY(!opal_list_is_empty(&module->waiting_frags)
                          || !opal_list_is_empty(&module->waiting_jobs))) {
            goto waiting;
        }
        mca_btl_ibx_unlock(module);
        return 0;
    }
waiting:
    OBJ_CONSTRUCT(&ended, opal_list_t);
    OBJ_CONSTRUCT(&failed, opal_list_t);
    do {
        for (unsigned i = 0; i < n; ++i) {
            more[i] = first_half(module, &completion[i], &ended);
        }
        mca_btl_ibx_retry_jobs(module, &ended);
        mca_btl_ibx_retry_frags(module, &failed);
        mca_btl_ibx_unlock(module);

        for (unsigned i = 0; i < n; ++i) {
            if (more[i]) {
                second_half(module, &completion[i]);
            }
        }
        end_frags(module, &failed);
        end_jobs(module, &ended);
        events += n;

        mca_btl_ibx_lock(module);
        for (unsigned i = 0; i < n; ++i) {
            if (IW_RECEIVED == completion[i].what) {
                mca_btl_ibx_bay_return(module, completion[i].context);
            }
        }
        n = BATCH == n ? iw_engine_poll(module->engine, completion, BATCH) : 0;
    } while (n > 0);
    mca_btl_ibx_flush(module); /* acknowledgements, what had waited */
    mca_btl_ibx_unlock(module);
    OBJ_DESTRUCT(&failed);
    OBJ_DESTRUCT(&ended);
    return (int) events;
}

int mca_btl_ibx_progress(void)
{
    int events = 0;
    for (uint32_t i = 0; i < mca_btl_ibx_component.modules_n; ++i) {
        events += module_progress(mca_btl_ibx_component.modules[i]);
    }
    return events;
}
