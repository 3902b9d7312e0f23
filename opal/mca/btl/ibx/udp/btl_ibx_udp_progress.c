/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Progress of the UDP transport: moves datagrams, and gives completions to the PML. */
#include "btl_ibx_progress.h"

#include "udp/btl_ibx_udp.h"
#include "udp/btl_ibx_udp_endpoint.h"
#include "udp/btl_ibx_udp_message.h"

/* Polls in one call while datagrams come that hold nothing for the caller: acknowledgements, parts of messages. A program
 * that calls seldom, or once, shall find what lies behind them. */
#define POLLS 4

/* How often it is checked whether memory can be given back, because no message has come since the check
 * before. (The window has the engine's alarm.) */
#define CHECK_NS UINT64_C(100000000)

/* A completion that the PML is to be told of. */
typedef struct udp_event {
    iw_completion_t completion; /* without its peer, which may be gone */
    mca_btl_base_endpoint_t *endpoint;
} udp_event_t;
_Static_assert(sizeof(udp_event_t) <= sizeof(mca_btl_ibx_event_t), "an event has room");

static int status_of(const iw_completion_t *c)
{
    return mca_btl_ibx_udp_rc((iw_status_t) c->status);
}

/* A message for the PML. */
static void deliver(mca_btl_ibx_module_t *module, mca_btl_base_endpoint_t *endpoint, mca_btl_ibx_udp_message_t *message,
                    uint32_t length)
{
    if (OPAL_UNLIKELY(length < sizeof(message->hdr) || NULL == endpoint)) {
        return;
    }
    const size_t size = length - sizeof(message->hdr);
    mca_btl_ibx_dispatch(&module->super, endpoint, message->hdr.tag, message->data, size);
}

static bool some_wait(mca_btl_ibx_module_t *base)
{
    return !opal_list_is_empty(&mca_btl_ibx_udp_of(base)->waiting) || !opal_list_is_empty(&base->ended);
}

/* Fragments and jobs for which there was no room, and what has ended. */
static void retry(mca_btl_ibx_module_t *base)
{
    mca_btl_ibx_udp_module_t *module = mca_btl_ibx_udp_of(base);
    mca_btl_ibx_post_waiting(base, &module->waiting);
    mca_btl_ibx_tell_ended(base);
}

/* What a completion asks for while the lock is held. True: the PML is to be told. */
static bool on_completion(mca_btl_ibx_udp_module_t *module, const iw_completion_t *c)
{
    switch (c->what) {
    case IW_SENT:
        if (NULL != c->context) {
            mca_btl_ibx_udp_acknowledged(module, c->context);
        }
        return true;
    case IW_WRITTEN:
    case IW_READ:
    case IW_ATOMIC:
        return mca_btl_ibx_job_part_done(c->context, status_of(c));
    case IW_LIMIT_REACHED:
        (void) ibx_window_limit_reached(&module->window, iw_port_polled_at(module->port)); /* the engine's time */
        (void) mca_btl_ibx_udp_fill_window(module);
        (void) iw_receives_lowest(module->engine); /* from now on */
        iw_engine_alarm(module->engine, ibx_window_check_at(&module->window));
        return false;
    default:
        return true;
    }
}

static bool tell(mca_btl_ibx_module_t *module, const mca_btl_ibx_event_t *told)
{
    udp_event_t event;
    memcpy(&event, told, sizeof(event));
    const iw_completion_t *c = &event.completion;
    switch (c->what) {
    case IW_SENT:
        if (NULL != c->context) {
            ((mca_btl_ibx_frag_t *) c->context)->status = status_of(c);
            mca_btl_ibx_frag_end(module, c->context);
        }
        break;
    case IW_WRITTEN:
    case IW_READ:
    case IW_ATOMIC:
        mca_btl_ibx_job_end(module, c->context);
        break;
    case IW_RECEIVED:
        deliver(module, event.endpoint, ((mca_btl_ibx_udp_receive_t *) c->context)->message, c->length);
        return true;
    case IW_PEER_DOWN:
        mca_btl_ibx_udp_lost(event.endpoint, (iw_status_t) c->status);
        break;
    case IW_PEER_SILENT:
        mca_btl_ibx_udp_silent(event.endpoint, c->length);
        break;
    default:
        break;
    }
    return false;
}

static void give_back(mca_btl_ibx_module_t *base, const mca_btl_ibx_event_t *told, unsigned n)
{
    mca_btl_ibx_udp_module_t *module = mca_btl_ibx_udp_of(base);
    for (unsigned i = 0; i < n; ++i) {
        udp_event_t event;
        memcpy(&event, &told[i], sizeof(event));
        mca_btl_ibx_udp_receive_return(module, event.completion.context);
    }
}

/* Memory of what was sent and received goes back to the system when nothing came or went for a while. */
static void check_memory(mca_btl_ibx_udp_module_t *module, uint64_t now)
{
    module->checked_at = now;
    if (module->came > 0) {
        module->is_used = true;
    } else if (module->is_used) {
        const bool small = mca_btl_ibx_udp_buffers_give_back(&module->smalls); /* headers are not worth it */
        const bool large = mca_btl_ibx_udp_buffers_give_back(&module->frags);
        mca_btl_ibx_udp_receives_give_back(module);
        module->is_used = !small || !large;
        module->given_back += !module->is_used;
    }
    module->came = 0;
}

/* Completions become events. (By itself, so that callbacks do not have its arrays on the stack.) */
__attribute__((noinline)) static unsigned take(mca_btl_ibx_module_t *base)
{
    mca_btl_ibx_udp_module_t *module = mca_btl_ibx_udp_of(base);
    iw_completion_t completion[IBX_TOLD_MOST];
    udp_event_t event[IBX_TOLD_MOST];
    unsigned events = 0;
    /* Others only make more room. */
    const unsigned n = iw_engine_poll(module->engine, completion, ibx_told_room(&base->told));
    for (unsigned i = 0; i < n; ++i) {
        iw_completion_t *c = &completion[i];
        if (on_completion(module, c)) {
            mca_btl_base_endpoint_t *endpoint = NULL == c->peer ? NULL : iw_peer_user(c->peer);
            c->peer = NULL;
            event[events++] = (udp_event_t){.completion = *c, .endpoint = endpoint};
        }
    }
    if (events > 0) {
        ibx_told_lock(&base->told);
        for (unsigned i = 0; i < events; ++i) {
            mca_btl_ibx_take_event(base, &event[i], sizeof(event[i]));
        }
        ibx_told_unlock(&base->told);
    }
    module->came += n;
    return n;
}

/* The lock is given back while fragments that were gathered are told of. */
static unsigned poll_engine(mca_btl_ibx_module_t *base, int *others)
{
    mca_btl_ibx_udp_module_t *module = mca_btl_ibx_udp_of(base);
    *others = 0;
    unsigned came = iw_port_progress(module->port, module->engine);
    const uint64_t now = iw_port_polled_at(module->port);
    if (OPAL_UNLIKELY(now - module->checked_at > CHECK_NS)) {
        check_memory(module, now);
    }
    if (OPAL_UNLIKELY(!opal_list_is_empty(&module->gathered))) {
        mca_btl_ibx_udp_tell_gathered(module);
    }
    unsigned n = take(base);
    for (unsigned polls = 1; 0 == n && came > 0 && polls < POLLS; ++polls) {
        came = iw_port_progress(module->port, module->engine);
        n = take(base);
    }
    return n;
}

/* What waits for room in the engine waits for a datagram, too. */
static bool is_due(mca_btl_ibx_module_t *module)
{
    return iw_port_is_due(mca_btl_ibx_udp_of(module)->port);
}

static bool enter(mca_btl_ibx_module_t *module)
{
    return iw_agent_enter(mca_btl_ibx_udp_of(module)->agent);
}

static void lock(mca_btl_ibx_module_t *module)
{
    mca_btl_ibx_udp_lock(mca_btl_ibx_udp_of(module));
}

static void unlock(mca_btl_ibx_module_t *module)
{
    mca_btl_ibx_udp_unlock(mca_btl_ibx_udp_of(module));
}

/* Acknowledgements, and what had waited. */
static void flush(mca_btl_ibx_module_t *module)
{
    iw_agent_flush(mca_btl_ibx_udp_of(module)->agent);
}

const mca_btl_ibx_transport_t mca_btl_ibx_udp_transport = {
    .endpoint_new = mca_btl_ibx_udp_endpoint_new,
    .reach = mca_btl_ibx_udp_reach,
    .meet = mca_btl_ibx_udp_meet,
    .part = mca_btl_ibx_udp_part,
    .parted = mca_btl_ibx_udp_failover_part,
    .job_starts = mca_btl_ibx_udp_job_starts,
    .job_issue = mca_btl_ibx_udp_job_issue,
    .atomic_starts = mca_btl_ibx_udp_atomic_starts,
    .frag_post = mca_btl_ibx_udp_frag_post,
    .frag_return = mca_btl_ibx_udp_frag_return,
    .describe = mca_btl_ibx_udp_describe,
    .is_due = is_due,
    .trylock = enter,
    .lock = lock,
    .unlock = unlock,
    .poll = poll_engine,
    .take = take,
    .some_wait = some_wait,
    .retry = retry,
    .flush = flush,
    .tell = tell,
    .give_back = give_back,
};

int mca_btl_ibx_udp_progress(void)
{
    int events = 0;
    uint32_t *polls = &mca_btl_ibx_component.polls;
    __atomic_store_n(polls, __atomic_load_n(polls, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < mca_btl_ibx_udp_modules_n; ++i) {
        mca_btl_ibx_udp_module_t *module = mca_btl_ibx_udp_modules[i];
        events += mca_btl_ibx_module_progress(&module->base, &mca_btl_ibx_udp_transport);
        mca_btl_ibx_udp_failover_check(module);
    }
    return events;
}
