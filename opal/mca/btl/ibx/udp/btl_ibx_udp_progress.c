/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See btl_ibx_udp_progress.h. */
#include "udp/btl_ibx_udp_progress.h"

#include "udp/btl_ibx_udp_endpoint.h"
#include "udp/btl_ibx_udp_message.h"
#include "udp/btl_ibx_udp_rdma.h"

#include <string.h>

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

/* Fragments, jobs and answers for which there was no room, and what has ended. lock is held, but not all the time: who waits for
 * them is told without it. */
static void retry_waiting(mca_btl_ibx_module_t *module)
{
    mca_btl_ibx_retry_jobs(module);
    mca_btl_ibx_retry_frags(module);
    mca_btl_ibx_tell_ended(module);
    if (module->unsaid.n > 0) {
        mca_btl_ibx_unlock(module);
        mca_btl_ibx_retry_answers(module);
        mca_btl_ibx_lock(module);
    }
}

/* What a completion asks for while the lock is held. True: more is to be done without it. */
static bool first_half(mca_btl_ibx_module_t *module, const iw_completion_t *c)
{
    switch (c->what) {
    case IW_WRITTEN:
    case IW_READ:
        return mca_btl_ibx_job_part_done(module, c->context, status_of(c));
    case IW_LIMIT_REACHED:
        (void) ibx_window_limit_reached(&module->window, iw_port_polled_at(module->port)); /* the engine's time */
        (void) mca_btl_ibx_fill_window(module);
        (void) iw_receives_lowest(module->engine); /* from now on */
        iw_engine_alarm(module->engine, ibx_window_check_at(&module->window));
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
        mca_btl_ibx_lost(module, endpoint, (iw_status_t) c->status);
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

/* Completions become what is to be told. Returns how many there were. lock is held. (By itself, as is give_back, so that
 * callbacks do not have their arrays on the stack.) */
__attribute__((noinline)) static unsigned take(mca_btl_ibx_module_t *module)
{
    iw_completion_t completion[IBX_TOLD_MOST];
    mca_btl_ibx_event_t event[IBX_TOLD_MOST];
    unsigned events = 0;
    /* Others only make more room. */
    const unsigned n = iw_engine_poll(module->engine, completion, ibx_told_room(&module->told));
    for (unsigned i = 0; i < n; ++i) {
        iw_completion_t *c = &completion[i];
        if (first_half(module, c)) {
            mca_btl_ibx_endpoint_t *endpoint = NULL == c->peer ? NULL : iw_peer_user(c->peer);
            c->peer = NULL; /* it may be gone when this is told */
            event[events++] = (mca_btl_ibx_event_t){.completion = *c, .endpoint = endpoint};
        }
    }
    if (events > 0) {
        ibx_told_lock(&module->told);
        for (unsigned i = 0; i < events; ++i) {
            module->to_tell[ibx_told_add(&module->told)] = event[i];
        }
        ibx_told_unlock(&module->told);
    }
    module->came += n;
    return n;
}

static bool next_to_tell(mca_btl_ibx_module_t *module, mca_btl_ibx_event_t *event)
{
    ibx_told_lock(&module->told);
    const int at = ibx_told_next(&module->told);
    if (at >= 0) {
        *event = module->to_tell[at];
    }
    ibx_told_unlock(&module->told);
    return at >= 0;
}

/* The memory of messages that have been delivered. lock is held. */
__attribute__((noinline)) static void give_back(mca_btl_ibx_module_t *module)
{
    mca_btl_ibx_event_t event[IBX_TOLD_MOST];
    ibx_told_lock(&module->told);
    const uint32_t n = ibx_told_give_back(&module->told);
    memcpy(event, module->to_give_back, n * sizeof(*event));
    ibx_told_unlock(&module->told);
    for (uint32_t i = 0; i < n; ++i) {
        take_back(module, &event[i].completion);
    }
}

/* A message has been delivered. lock is not held. */
static void delivered(mca_btl_ibx_module_t *module, const mca_btl_ibx_event_t *event)
{
    ibx_told_lock(&module->told);
    const int at = ibx_told_end(&module->told);
    if (at >= 0) {
        module->to_give_back[at] = *event;
    }
    ibx_told_unlock(&module->told);
    if (OPAL_UNLIKELY(at < 0)) {
        mca_btl_ibx_lock(module);
        give_back(module);
        take_back(module, &event->completion);
        mca_btl_ibx_unlock(module);
    }
}

/* lock is not held. Returns how many. */
static unsigned tell(mca_btl_ibx_module_t *module)
{
    mca_btl_ibx_event_t event;
    unsigned n = 0;
    if (0 == ibx_told_waits(&module->told) || !ibx_told_begin(&module->told)) {
        return 0;
    }
    for (; n < IBX_TOLD_MOST && next_to_tell(module, &event); ++n) {
        second_half(module, &event.completion, event.endpoint);
        if (IW_RECEIVED == event.completion.what) {
            delivered(module, &event);
        }
    }
    ibx_told_finish(&module->told);
    return n;
}

static bool some_wait(mca_btl_ibx_module_t *module)
{
    return !opal_list_is_empty(&module->waiting_frags) || !opal_list_is_empty(&module->waiting_jobs)
           || !opal_list_is_empty(&module->ended) || module->unsaid.n > 0;
}

/* Moves datagrams, and takes what came. Returns how much. lock is held, but not while fragments that were gathered are told of. */
static unsigned poll_engine(mca_btl_ibx_module_t *module)
{
    if (OPAL_UNLIKELY(0 != ibx_told_ended(&module->told))) {
        give_back(module);
    }
    unsigned came = iw_port_progress(module->port, module->engine);
    const uint64_t now = iw_port_polled_at(module->port);
    if (OPAL_UNLIKELY(now - module->looked_at > LOOK_NS)) {
        look(module, now);
    }
    if (OPAL_UNLIKELY(!opal_list_is_empty(&module->gathered))) {
        mca_btl_ibx_tell_gathered(module);
    }
    unsigned n = take(module);
    for (unsigned looks = 1; 0 == n && came > 0 && looks < LOOKS; ++looks) {
        came = iw_port_progress(module->port, module->engine);
        n = take(module);
    }
    return n;
}

static int module_progress(mca_btl_ibx_module_t *module)
{
    unsigned n = 0, events = 0;
    bool polls = true;
    mca_btl_ibx_meet_strangers(module);
    /* Who waits for room in the engine waits for a datagram, too. Nobody waits for what only another caller could tell. */
    if ((iw_port_is_due(module->port) || OPAL_UNLIKELY(0 != __atomic_load_n(&module->unsaid.n, __ATOMIC_RELAXED)))
        && mca_btl_ibx_enter(module)) {
        n = poll_engine(module);
        if (OPAL_LIKELY(0 == n && !some_wait(module) && 0 == ibx_told_waits(&module->told))) {
            mca_btl_ibx_unlock(module);
            mca_btl_ibx_meet_strangers(module);
            return 0;
        }
        if (OPAL_UNLIKELY(some_wait(module))) {
            retry_waiting(module);
        }
        mca_btl_ibx_unlock(module);
    } else if (OPAL_LIKELY(0 == ibx_told_waits(&module->told))) {
        return 0;
    } else {
        polls = false;
    }
    do {
        events += n + tell(module);
        if (polls) {
            mca_btl_ibx_lock(module);
        } else if (0 == events || !mca_btl_ibx_enter(module)) {
            break; /* the next who polls gives back and flushes */
        }
        give_back(module);
        n = IBX_TOLD_MOST == n ? take(module) : 0;
        if (0 == n) {
            mca_btl_ibx_flush(module); /* acknowledgements, what had waited */
        }
        mca_btl_ibx_unlock(module);
    } while (n > 0);
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
