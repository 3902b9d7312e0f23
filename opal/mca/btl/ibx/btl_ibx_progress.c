/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See btl_ibx_progress.h. */
#include "btl_ibx_progress.h"

#include "btl_ibx_endpoint.h"
#include "btl_ibx_message.h"
#include "btl_ibx_rdma.h"

/* Completions taken at a time: enough to make the lock cheap, few enough for the stack. */
#define BATCH 32

/* Looks in one call while datagrams come that hold nothing for who calls: acknowledgements, parts of messages. A program
 * that calls seldom, or once, shall find what lies behind them. */
#define LOOKS 4

/* How often a module is looked at: for memory to be given back when no message has come since the look
 * before. (The window has the engine's alarm.) */
#define LOOK_NS UINT64_C(100000000)

static int status_of(const iw_completion_t *c)
{
    return OPAL_LIKELY(IW_OK == c->status) ? OPAL_SUCCESS
                                           : mca_btl_ibx_error((iw_status_t) c->status);
}

/* A message for the PML, or for ourselves. */
static void deliver(mca_btl_ibx_module_t *module, mca_btl_ibx_endpoint_t *endpoint,
                    mca_btl_ibx_message_t *message, uint32_t length)
{
    if (OPAL_UNLIKELY(length < sizeof(message->hdr) || NULL == endpoint)) {
        return;
    }
    const size_t size = length - sizeof(message->hdr);
    switch (message->hdr.tag) {
    case MCA_BTL_IBX_TAG_ATOMIC:
        mca_btl_ibx_atomic_asked(module, endpoint, message->data, size);
        break;
    case MCA_BTL_IBX_TAG_ATOMIC_DONE:
        mca_btl_ibx_atomic_answered(module, endpoint, message->data, size);
        break;
    default:
        mca_btl_ibx_dispatch(&module->super, endpoint, message->hdr.tag, message->data, size);
        break;
    }
}

/* Fragments and jobs for which the engine had no room. lock is held, but not all the time: who waits for
 * them is told without it. */
static void retry_waiting(mca_btl_ibx_module_t *module)
{
    opal_list_t ended, failed;
    opal_list_item_t *item;
    OBJ_CONSTRUCT(&ended, opal_list_t);
    OBJ_CONSTRUCT(&failed, opal_list_t);
    mca_btl_ibx_retry_jobs(module, &ended);
    mca_btl_ibx_retry_frags(module, &failed);
    mca_btl_ibx_unlock(module);
    while (NULL != (item = opal_list_remove_first(&failed))) {
        mca_btl_ibx_frag_done(module, (mca_btl_ibx_frag_t *) item, OPAL_ERR_UNREACH);
    }
    while (NULL != (item = opal_list_remove_first(&ended))) {
        mca_btl_ibx_job_end(module, (mca_btl_ibx_job_t *) item);
    }
    OBJ_DESTRUCT(&failed);
    OBJ_DESTRUCT(&ended);
    mca_btl_ibx_retry_answers(module);
    mca_btl_ibx_lock(module);
}

/* lock is not held. */
static void peer_down(mca_btl_ibx_module_t *module, mca_btl_ibx_endpoint_t *endpoint, int status)
{
    if (NULL != endpoint) {
        opal_list_t ended;
        opal_list_item_t *item;
        OBJ_CONSTRUCT(&ended, opal_list_t);
        mca_btl_ibx_lock(module);
        mca_btl_ibx_fail_atomics(module, endpoint, &ended);
        mca_btl_ibx_unlock(module);
        while (NULL != (item = opal_list_remove_first(&ended))) {
            mca_btl_ibx_job_end(module, (mca_btl_ibx_job_t *) item);
        }
        OBJ_DESTRUCT(&ended);
    }
    mca_btl_ibx_lost(module, endpoint, status);
}

/* What a completion asks for while the lock is held. True: more is to be done without it, for this endpoint; the peer may be
 * gone by then. */
static bool first_half(mca_btl_ibx_module_t *module, const iw_completion_t *c, mca_btl_ibx_endpoint_t **endpoint)
{
    *endpoint = NULL == c->peer ? NULL : iw_peer_user(c->peer);
    switch (c->what) {
    case IW_WRITTEN:
    case IW_READ:
        return mca_btl_ibx_job_part_done(module, c->context, status_of(c));
    case IW_LIMIT_REACHED:
        (void) ibx_window_limit_reached(&module->window, iw_port_looked(module->port)); /* the engine's time */
        (void) mca_btl_ibx_fill_window(module);
        (void) iw_receives_lowest(module->engine); /* from now on */
        iw_engine_alarm(module->engine, ibx_window_look_at(&module->window));
        return false;
    default:
        return true;
    }
}

static void second_half(mca_btl_ibx_module_t *module, const iw_completion_t *c, mca_btl_ibx_endpoint_t *endpoint)
{
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
        deliver(module, endpoint,
                NULL != c->data ? c->data : ((mca_btl_ibx_bay_t *) c->context)->message, c->length);
        break;
    case IW_PEER_DOWN:
        peer_down(module, endpoint, c->status);
        break;
    case IW_PEER_SILENT:
        mca_btl_ibx_silent(endpoint, c->length);
        break;
    default:
        break;
    }
}

/* The memory of a message that has been delivered. lock is held. */
static void take_back(mca_btl_ibx_module_t *module, const iw_completion_t *c)
{
    if (NULL != c->data) {
        iw_port_read(module->port, c->data);
    }
    mca_btl_ibx_bay_return(module, c->context, NULL == c->data);
}

static void look(mca_btl_ibx_module_t *module, uint64_t now)
{
    module->looked_at = now;
    if (module->came > 0) {
        module->stirs = true;
    } else if (module->stirs) {
        const bool small = mca_btl_ibx_rooms_rest(&module->smalls); /* headers are not worth it */
        const bool large = mca_btl_ibx_rooms_rest(&module->frags);
        mca_btl_ibx_bays_rest(module);
        module->stirs = !small || !large;
        module->rests += !module->stirs;
    }
    module->came = 0;
}

static bool some_wait(mca_btl_ibx_module_t *module)
{
    return !opal_list_is_empty(&module->waiting_frags) || !opal_list_is_empty(&module->waiting_jobs)
           || module->unsaid.n > 0;
}

static int module_progress(mca_btl_ibx_module_t *module)
{
    iw_completion_t completion[BATCH];
    bool more[BATCH];
    mca_btl_ibx_endpoint_t *endpoint[BATCH];
    unsigned n, events = 0;

    mca_btl_ibx_meet_strangers(module);
    if (!iw_port_is_due(module->port) && OPAL_LIKELY(0 == __atomic_load_n(&module->unsaid.n, __ATOMIC_RELAXED))) {
        return 0; /* who waits for room in the engine waits for a datagram, too */
    }
    if (!mca_btl_ibx_enter(module)) {
        return 0; /* somebody else is at it */
    }
    unsigned came = iw_port_progress(module->port, module->engine);
    const uint64_t now = iw_port_looked(module->port);
    if (OPAL_UNLIKELY(now - module->looked_at > LOOK_NS)) {
        look(module, now);
    }
    if (OPAL_UNLIKELY(!opal_list_is_empty(&module->gathered))) {
        mca_btl_ibx_tell_gathered(module);
    }
    n = iw_engine_poll(module->engine, completion, BATCH);
    for (unsigned looks = 1; 0 == n && came > 0 && looks < LOOKS; ++looks) {
        came = iw_port_progress(module->port, module->engine);
        n = iw_engine_poll(module->engine, completion, BATCH);
    }
    if (OPAL_LIKELY(0 == n && !some_wait(module))) {
        mca_btl_ibx_unlock(module);
        mca_btl_ibx_meet_strangers(module);
        return 0;
    }
    do {
        for (unsigned i = 0; i < n; ++i) {
            more[i] = first_half(module, &completion[i], &endpoint[i]);
        }
        if (OPAL_UNLIKELY(some_wait(module))) {
            retry_waiting(module);
        }
        mca_btl_ibx_unlock(module);

        for (unsigned i = 0; i < n; ++i) {
            if (more[i]) {
                second_half(module, &completion[i], endpoint[i]);
            }
        }
        events += n;

        mca_btl_ibx_lock(module);
        module->came += n;
        for (unsigned i = 0; i < n; ++i) {
            if (IW_RECEIVED == completion[i].what) {
                take_back(module, &completion[i]);
            }
        }
        n = BATCH == n ? iw_engine_poll(module->engine, completion, BATCH) : 0;
    } while (n > 0);
    mca_btl_ibx_flush(module); /* acknowledgements, what had waited */
    mca_btl_ibx_unlock(module);
    return (int) events;
}

int mca_btl_ibx_progress(void)
{
    int events = 0;
    uint32_t *looks = &mca_btl_ibx_component.looks;
    __atomic_store_n(looks, __atomic_load_n(looks, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < mca_btl_ibx_component.modules_n; ++i) {
        events += module_progress(mca_btl_ibx_component.modules[i]);
    }
    return events;
}
