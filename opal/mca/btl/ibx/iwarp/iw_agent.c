/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See iw_agent.h. */
#define _GNU_SOURCE /* ppoll */
#include "iw_agent.h"
#include "iw_rtt.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define LONGEST_SLEEP                                                                              \
    UINT64_C(1000000000) /* of the thread in charge: a bound for what was not foreseen */

/* A backup shares a processor with what the application computes, and on a slow link waking for a
 * datagram costs more than the datagram. So after a few of them it rests, REST_SHARE times as long as
 * they took and at most REST_MOST, and finds more of them the next time. Below IW_LOSS_FLOOR, or the
 * peer would take a late acknowledgement for a loss. */
#define REST_BELOW 8u
#define REST_SHARE 10u
#define REST_MOST  (3 * IW_LOSS_FLOOR / 4)

struct iw_agent {
    iw_agent_config_t config;
    iw_port_t *port;
    iw_engine_t *engine;
    pthread_mutex_t lock;
    pthread_t thread;
    int wake;              /* eventfd: ends sleeping */
    atomic_ulong calls;    /* of the application; changes say that it is alive */
    atomic_bool in_charge; /* the thread is, and may be asleep until a deadline it knew */
    atomic_bool stop;
    atomic_ulong takeovers;
};

void iw_agent_config_default(iw_agent_config_t *c)
{
    *c = (iw_agent_config_t){.mode = IW_AGENT_BACKUP, .patience_ns = 2000000};
}

static void wake(iw_agent_t *a)
{
    uint64_t one = 1;
    (void) !write(a->wake, &one, sizeof(one));
}

static void drain(iw_agent_t *a)
{
    uint64_t any;
    (void) !read(a->wake, &any, sizeof(any));
}

/* Whatever comes on the socket: the application takes it. */
static void doze(iw_agent_t *a, uint64_t time)
{
    struct pollfd fd = {.fd = a->wake, .events = POLLIN};
    struct timespec t = {(time_t) (time / UINT64_C(1000000000)),
                         (long) (time % UINT64_C(1000000000))};
    (void) ppoll(&fd, 1, &t, NULL);
}

static void be_in_charge(iw_agent_t *a)
{
    const uint64_t start = iw_port_now();
    pthread_mutex_lock(&a->lock);
    const unsigned n = iw_port_progress(a->port, a->engine);
    uint64_t deadline = iw_port_deadline(a->port, a->engine);
    pthread_mutex_unlock(&a->lock);
    if (IW_AGENT_BACKUP == a->config.mode && n > 0 && n < REST_BELOW) {
        const uint64_t rest = REST_SHARE * (iw_port_now() - start);
        doze(a, rest < REST_MOST ? rest : REST_MOST);
    }
    iw_port_wait(a->port, deadline, a->wake, LONGEST_SLEEP);
    drain(a);
}

static void *run(void *argument)
{
    iw_agent_t *a = argument;
    unsigned long seen = atomic_load(&a->calls);
    if (NULL != a->config.started) {
        a->config.started(a->config.context);
    }
    while (!atomic_load(&a->stop)) {
        unsigned long calls = atomic_load_explicit(&a->calls, memory_order_relaxed);
        if (IW_AGENT_BACKUP == a->config.mode && calls != seen) {
            atomic_store(&a->in_charge, false);
            seen = calls;
            doze(a, a->config.patience_ns);
            continue;
        }
        if (!atomic_exchange(&a->in_charge, true)) {
            atomic_fetch_add(&a->takeovers, 1);
        }
        be_in_charge(a);
    }
    return NULL;
}

iw_agent_t *iw_agent_start(const iw_agent_config_t *config, iw_port_t *port, iw_engine_t *engine)
{
    iw_agent_t *a = calloc(1, sizeof(*a));
    if (NULL == a) {
        errno = ENOMEM;
        return NULL;
    }
    a->config = *config;
    a->port = port;
    a->engine = engine;
    atomic_init(&a->calls, 1);
    a->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (a->wake < 0) {
        free(a);
        return NULL;
    }
    pthread_mutex_init(&a->lock, NULL);
    int error = pthread_create(&a->thread, NULL, run, a);
    if (0 != error) {
        pthread_mutex_destroy(&a->lock);
        close(a->wake);
        free(a);
        errno = error;
        return NULL;
    }
    return a;
}

void iw_agent_stop(iw_agent_t *a)
{
    atomic_store(&a->stop, true);
    wake(a);
    pthread_join(a->thread, NULL);
    pthread_mutex_destroy(&a->lock);
    close(a->wake);
    free(a);
}

void iw_agent_lock(iw_agent_t *a)
{
    pthread_mutex_lock(&a->lock);
}

void iw_agent_unlock(iw_agent_t *a)
{
    pthread_mutex_unlock(&a->lock);
}

/* Only the application writes it, so no locked instruction is needed. */
static void alive(iw_agent_t *a)
{
    atomic_store_explicit(&a->calls, atomic_load_explicit(&a->calls, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

unsigned iw_agent_progress(iw_agent_t *a)
{
    alive(a);
    if (0 != pthread_mutex_trylock(&a->lock)) {
        return 0;
    }
    unsigned n = iw_port_progress(a->port, a->engine);
    pthread_mutex_unlock(&a->lock);
    return n;
}

bool iw_agent_enter(iw_agent_t *a)
{
    alive(a);
    return 0 == pthread_mutex_trylock(&a->lock);
}

void iw_agent_flush(iw_agent_t *a)
{
    iw_port_flush(a->port, a->engine);
    /* Asleep until a deadline from before: what has just been sent has one of its own. */
    if (atomic_load_explicit(&a->in_charge, memory_order_relaxed)) {
        wake(a);
    }
}

uint64_t iw_agent_takeovers(const iw_agent_t *a)
{
    return atomic_load(&((iw_agent_t *) (uintptr_t) a)->takeovers);
}
