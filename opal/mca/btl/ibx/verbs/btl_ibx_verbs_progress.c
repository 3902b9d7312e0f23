/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Progress of the verbs transport: polls the ports, and gives what came to the PML. */
#include "btl_ibx_progress.h"

#include "verbs/btl_ibx_verbs.h"
#include "verbs/btl_ibx_verbs_inplace.h"

#include <poll.h>

/* A quiet window is checked once in so many polls, if CHECK_NS have passed too. */
#define CHECK_POLLS 1024u
#define CHECK_NS    UINT64_C(100000000)

/* A message that the PML is to be told of. */
typedef struct verbs_event {
    vb_received_t received;
    mca_btl_base_endpoint_t *endpoint; /* NULL: not known yet */
} verbs_event_t;
_Static_assert(sizeof(verbs_event_t) <= sizeof(mca_btl_ibx_event_t), "an event has room");

/* (By itself, so that callbacks do not have its array on the stack.) */
__attribute__((noinline)) static unsigned take(mca_btl_ibx_module_t *base, int *others)
{
    mca_btl_ibx_verbs_module_t *module = mca_btl_ibx_verbs_of(base);
    vb_received_t received[IBX_TOLD_MOST];
    const int n = vb_port_poll(module->port, received, (int) ibx_told_room(&base->told), others);
    if (n > 0) {
        ibx_told_lock(&base->told);
        for (int i = 0; i < n; ++i) {
            const verbs_event_t event = {.received = received[i], .endpoint = vb_peer_user(received[i].peer)};
            mca_btl_ibx_take_event(base, &event, sizeof(event));
        }
        ibx_told_unlock(&base->told);
    }
    return (unsigned) n;
}

static unsigned take_more(mca_btl_ibx_module_t *module)
{
    int others;
    return take(module, &others);
}

static unsigned poll_port(mca_btl_ibx_module_t *base, int *others)
{
    mca_btl_ibx_verbs_module_t *module = mca_btl_ibx_verbs_of(base);
    const unsigned n = take(base, others);
    if (OPAL_UNLIKELY(0 == ++module->polls % CHECK_POLLS)) {
        const uint64_t now = spec_now();
        if (now - module->checked_at > CHECK_NS) {
            module->checked_at = now;
            vb_port_check(module->port, now);
            mca_btl_ibx_verbs_bulk_check(module, now);
        }
    }
    return n;
}

static bool tell(mca_btl_ibx_module_t *module, const mca_btl_ibx_event_t *told)
{
    verbs_event_t event;
    memcpy(&event, told, sizeof(event));
    const vb_received_t *received = &event.received;
    mca_btl_base_endpoint_t *endpoint = OPAL_LIKELY(NULL != event.endpoint)
                                            ? event.endpoint
                                            : mca_btl_ibx_verbs_sender(mca_btl_ibx_verbs_of(module), received->peer);
    if (OPAL_LIKELY(!mca_btl_ibx_atomic_message(module, endpoint, received->tag, received->data, received->length))) {
        mca_btl_ibx_dispatch(&module->super, endpoint, received->tag, received->data, received->length);
    }
    return true;
}

static void give_back(mca_btl_ibx_module_t *module, const mca_btl_ibx_event_t *told, unsigned n)
{
    vb_received_t received[IBX_TOLD_MOST];
    for (unsigned i = 0; i < n; ++i) {
        memcpy(&received[i], &told[i], sizeof(received[i])); /* an event begins with it */
    }
    vb_port_return(mca_btl_ibx_verbs_of(module)->port, received, (int) n);
}

static bool some_wait(mca_btl_ibx_module_t *module)
{
    return !opal_list_is_empty(&module->ended) || mca_btl_ibx_verbs_of(module)->has_lost || 0 != module->deferred.n
           || vb_port_has_parts(mca_btl_ibx_verbs_of(module)->port);
}

static void lock(mca_btl_ibx_module_t *module)
{
    vb_port_lock(mca_btl_ibx_verbs_of(module)->port);
}

static void unlock(mca_btl_ibx_module_t *module)
{
    vb_port_unlock(mca_btl_ibx_verbs_of(module)->port);
}

/* What has ended, answers for which there was no memory, processes that were lost. */
static void retry(mca_btl_ibx_module_t *module)
{
    mca_btl_ibx_tell_ended(module);
    const bool has_parts = vb_port_has_parts(mca_btl_ibx_verbs_of(module)->port);
    if (OPAL_UNLIKELY(0 != module->deferred.n || mca_btl_ibx_verbs_of(module)->has_lost || has_parts)) {
        unlock(module);
        if (has_parts) {
            mca_btl_ibx_verbs_failover_give(mca_btl_ibx_verbs_of(module));
        }
        mca_btl_ibx_retry_answers(module);
        mca_btl_ibx_verbs_tell_lost(mca_btl_ibx_verbs_of(module));
        lock(module);
    }
}

static bool trylock(mca_btl_ibx_module_t *module)
{
    return vb_port_trylock(mca_btl_ibx_verbs_of(module)->port);
}

const mca_btl_ibx_transport_t mca_btl_ibx_verbs_transport = {
    .endpoint_new = mca_btl_ibx_verbs_endpoint_new,
    .meet = mca_btl_ibx_verbs_meet,
    .part = mca_btl_ibx_verbs_part,
    .job_starts = mca_btl_ibx_verbs_job_starts,
    .job_issue = mca_btl_ibx_verbs_job_issue,
    .atomic_starts = mca_btl_ibx_verbs_atomic_starts,
    .frag_post = mca_btl_ibx_verbs_frag_post,
    .frag_return = mca_btl_ibx_verbs_frag_return,
    .job_ends = mca_btl_ibx_verbs_job_ends,
    .describe = mca_btl_ibx_verbs_describe,
    .word = mca_btl_ibx_verbs_word,
    .trylock = trylock,
    .lock = lock,
    .unlock = unlock,
    .poll = poll_port,
    .take = take_more,
    .some_wait = some_wait,
    .retry = retry,
    .tell = tell,
    .give_back = give_back,
};

int mca_btl_ibx_verbs_progress(void)
{
    int events = 0;
    for (uint32_t i = 0; i < mca_btl_ibx_verbs_modules_n; ++i) {
        events += mca_btl_ibx_module_progress(&mca_btl_ibx_verbs_modules[i]->base, &mca_btl_ibx_verbs_transport);
    }
    return events;
}

bool mca_btl_ibx_verbs_is_software(void)
{
    bool is_software = mca_btl_ibx_verbs_modules_n > 0;
    for (uint32_t i = 0; i < mca_btl_ibx_verbs_modules_n; ++i) {
        is_software &= vb_port_abilities(mca_btl_ibx_verbs_modules[i]->port)->software;
    }
    return is_software;
}

int mca_btl_ibx_verbs_arm(struct pollfd *fd)
{
    int n = 0;
    for (uint32_t i = 0; i < mca_btl_ibx_verbs_modules_n; ++i) {
        vb_port_t *port = mca_btl_ibx_verbs_modules[i]->port;
        if (!vb_port_trylock(port)) {
            return -1;
        }
        fd[n] = (struct pollfd){.fd = vb_port_arm(port), .events = POLLIN};
        vb_port_unlock(port);
        if (fd[n++].fd < 0) {
            return -1;
        }
    }
    return n;
}
