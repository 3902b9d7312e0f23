/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The helper thread: when it sleeps, when it takes over from the application, and when it gives back. */
#define _GNU_SOURCE /* syscall */
#include "iw_agent.h"
#include "iw_rtt.h"
#include "iw_idle.h"
#include "spec_now.h"
#include "spec_thread.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define LONGEST_SLEEP                                                                              \
    UINT64_C(1000000000) /* of the thread in charge: a bound for what was not foreseen */

/* A backup shares a processor with what the application computes, and waking for a datagram costs more
 * than the datagram. So it pauses after each batch, and finds more the next time: twice as long as the
 * last time while there was less than PAUSE_BYTES to do (or a quarter of what the socket holds), half as
 * long when there was more, because a fast link would fall idle. PAUSE_MOST is below the first probe
 * timeout, or the peer would ask why no acknowledgement comes. */
#define PAUSE_LEAST (50 * IW_US)
#define PAUSE_MOST  (3 * IW_PTO_EARLY / 4)
#define PAUSE_BYTES (128u * 1024)

/* Being impatient costs an application that calls all the time a change of threads each bulk_patience: not
 * for longer than this after the last large transfer began, and not where processes share processors: the others would pay
 * for it. */
#define BULK_LASTS (100 * IW_MS)

/* Times that the thread offers its processor to those that wait for the lock before it takes it again: about as long as one
 * needs to wake. */
#define OFFERS 64

struct iw_agent {
    iw_agent_config_t config;
    iw_port_t *port;
    iw_engine_t *engine;
    pthread_mutex_t lock;
    pthread_t thread;
    bool started;          /* there is a thread */
    int wake;              /* eventfd: ends sleeping */
    atomic_bool woken;     /* it was written to since the thread checked */
    atomic_ulong calls;    /* of the application; changes say that it is alive */
    atomic_int caller;     /* the thread that called last */
    atomic_bool in_charge; /* the thread is, and may be asleep until a deadline it knew */
    atomic_bool stop;
    atomic_bool offloads;  /* the mode */
    atomic_bool moves;     /* the thread is to bind itself anew */
    atomic_ulong takeovers;
    bool owns;    /* under the lock: the thread has a processor of its own */
    bool is_left; /* likewise: there is a large write, and the thread was told */
    atomic_bool bulk;    /* large transfers began since the thread checked last */
    atomic_bool patient; /* it sleeps for long, and must not when a large transfer begins */
    iw_idle_t silence; /* of the thread alone */
    uint64_t pause;      /* of the thread alone */
    uint64_t bulk_until; /* of the thread alone */
};

void iw_agent_config_default(iw_agent_config_t *c)
{
    *c = (iw_agent_config_t){
        .mode = IW_AGENT_BACKUP, .patience_ns = 2 * IW_MS, .bulk_patience_ns = 300 * IW_US};
}

/* Whatever there is to be done is seen by the thread after it has drained: one call for many messages in a row. */
static void wake(iw_agent_t *a)
{
    uint64_t one = 1;
    if (!atomic_exchange(&a->woken, true)) {
        (void) !write(a->wake, &one, sizeof(one));
    }
}

/* In this order: what is written in between ends the next sleep at once, and the other way round nothing would be written
 * any more. */
static void drain(iw_agent_t *a)
{
    uint64_t any;
    (void) !read(a->wake, &any, sizeof(any));
    atomic_store(&a->woken, false);
}

/* Whatever comes on the socket: the application takes it. */
static void sleep_for(iw_agent_t *a, uint64_t time)
{
    struct pollfd fd = {.fd = a->wake, .events = POLLIN};
    if (iw_port_sleep(&fd, 1, time)) {
        drain(a);
    }
}

/* A short file of /proc about a thread, as text; empty if there is none. */
static void read_of(int thread, const char *name, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/task/%d/%s", thread, name);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0) {
        close(fd);
    }
    text[n < 0 ? 0 : n] = '\0';
}

/* Processor time, ns; 0: it has ended. The clock is named as Linux composes such names (the complement of the number, and 6
 * for a thread's time as the scheduler counts it): what pthread_getcpuclockid gives may not be asked for a thread that
 * may have ended. */
static uint64_t ran(int thread)
{
    return 0 == thread ? 0 : spec_ns((clockid_t) (~(unsigned) thread << 3 | 6));
}

/* The second number is the time ready to run and not running. */
static uint64_t waited(int thread)
{
    char text[96], *end;
    read_of(thread, "schedstat", text, sizeof(text));
    (void) strtoull(text, &end, 10);
    return strtoull(end, NULL, 10);
}

/* The letter follows the name, which is in parentheses and may have such, too. */
static bool is_ready(int thread)
{
    char text[256];
    read_of(thread, "stat", text, sizeof(text));
    const char *end = strrchr(text, ')');
    return NULL != end && 0 == strncmp(end, ") R", 3);
}

static iw_caller_t caller_of(iw_agent_t *a)
{
    const int thread = atomic_load(&a->caller);
    return (iw_caller_t){.thread = thread, .ran_ns = ran(thread)};
}

/* The application is there: how long until the next check whether it still is. */
static void leave_it_to_the_application(iw_agent_t *a)
{
    const uint64_t now = iw_port_now();
    atomic_store(&a->patient, true);
    if (atomic_exchange(&a->bulk, false)) {
        a->bulk_until = now + BULK_LASTS;
    }
    const bool crowded = iw_idle_is_crowded(&a->silence);
    const bool bulk = now < a->bulk_until && !crowded;
    if (bulk || crowded) {
        atomic_store(&a->patient, false);
    }
    iw_caller_t caller = caller_of(a);
    if (iw_idle_measures(&a->silence, now, caller.thread)) {
        caller.waited_ns = waited(caller.thread);
    }
    sleep_for(a, iw_idle_broken(&a->silence, now, &caller,
                              bulk ? a->config.bulk_patience_ns : a->config.patience_ns));
    atomic_store(&a->patient, false);
}

/* It has not called since the last check. False: it would, if it had a processor. */
static bool is_away(iw_agent_t *a)
{
    iw_caller_t caller = caller_of(a);
    caller.is_ready = !iw_idle_had_turn(&a->silence, &caller) && is_ready(caller.thread);
    const uint64_t time = iw_idle_goes_on(&a->silence, iw_port_now(), &caller);
    if (time > 0) {
        sleep_for(a, time);
    }
    return 0 == time;
}

void iw_agent_expect_bulk(iw_agent_t *a)
{
    if (!atomic_load_explicit(&a->bulk, memory_order_relaxed)) {
        atomic_store(&a->bulk, true);
    }
    if (atomic_load(&a->patient) && atomic_exchange(&a->patient, false)) {
        wake(a);
    }
}

/* Bytes that went in and out so far. */
static uint64_t moved(const iw_agent_t *a)
{
    const iw_counters_t *c = iw_engine_counters(a->engine);
    return c->bytes_in + c->bytes_out;
}

/* After this many bytes. */
static void pause_after(iw_agent_t *a, uint64_t bytes)
{
    const uint64_t space = iw_port_space(a->port) / 4;
    a->pause = bytes > (space < PAUSE_BYTES ? space : PAUSE_BYTES) ? a->pause / 2 : 2 * a->pause;
    a->pause = a->pause < PAUSE_LEAST ? PAUSE_LEAST : a->pause > PAUSE_MOST ? PAUSE_MOST : a->pause;
    sleep_for(a, a->pause);
}

static void be_in_charge(iw_agent_t *a)
{
    const bool backup = !atomic_load_explicit(&a->offloads, memory_order_relaxed);
    for (unsigned i = 0; i < OFFERS && iw_port_is_wanted(a->port); ++i) {
        (void) sched_yield();
    }
    pthread_mutex_lock(&a->lock);
    const uint64_t before = moved(a);
    iw_port_give_way(a->port, true);
    const unsigned n = (backup ? iw_port_drain : iw_port_progress)(a->port, a->engine);
    iw_port_give_way(a->port, false);
    const uint64_t bytes = moved(a) - before;
    const uint64_t deadline = iw_port_deadline(a->engine);
    a->is_left = a->is_left && iw_engine_has_output(a->engine);
    if (NULL != a->config.arrived && iw_engine_has_completions(a->engine)) {
        a->config.arrived(a->config.context);
    }
    pthread_mutex_unlock(&a->lock);
    if (NULL != a->config.relieved) {
        a->config.relieved(a->config.context);
    }
    if (backup && n > 0) {
        pause_after(a, bytes);
    } else if (iw_port_wait(a->port, deadline, a->wake, LONGEST_SLEEP)) {
        drain(a);
    }
}

static void *run(void *argument)
{
    iw_agent_t *a = argument;
    unsigned long seen = atomic_load(&a->calls);
    spec_thread_name("ibx-engine");
    spec_thread_slices(SPEC_THREAD_SLICE);
    atomic_store(&a->moves, true);
    while (!atomic_load(&a->stop)) {
        if (atomic_exchange(&a->moves, false) && NULL != a->config.started) {
            a->config.started(a->config.context);
        }
        const bool backup = !atomic_load_explicit(&a->offloads, memory_order_relaxed);
        unsigned long calls = atomic_load_explicit(&a->calls, memory_order_relaxed);
        if (backup && calls != seen) {
            atomic_store(&a->in_charge, false);
            seen = calls;
            leave_it_to_the_application(a);
            continue;
        }
        if (!atomic_load(&a->in_charge)) {
            if (backup && !is_away(a)) {
                continue;
            }
            atomic_store(&a->in_charge, true);
            atomic_fetch_add(&a->takeovers, 1);
        }
        be_in_charge(a);
    }
    return NULL;
}

iw_agent_t *iw_agent_create(const iw_agent_config_t *config, iw_port_t *port, iw_engine_t *engine)
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
    atomic_init(&a->offloads, IW_AGENT_OFFLOAD == config->mode);
    a->owns = config->owns && IW_AGENT_OFFLOAD == config->mode;
    a->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (a->wake < 0) {
        free(a);
        return NULL;
    }
    pthread_mutex_init(&a->lock, NULL);
    return a;
}

bool iw_agent_start(iw_agent_t *a)
{
    if (atomic_load(&a->stop)) {
        return true;
    }
    const int error = a->started ? 0 : spec_thread_create(&a->thread, run, a);
    a->started = 0 == error;
    errno = error;
    return a->started;
}

void iw_agent_offload(iw_agent_t *a)
{
    a->owns = true;
    atomic_store(&a->offloads, true);
    atomic_store(&a->moves, true);
    wake(a);
}

bool iw_agent_offloads(const iw_agent_t *a)
{
    return atomic_load(&((iw_agent_t *) (uintptr_t) a)->offloads);
}

void iw_agent_stop(iw_agent_t *a)
{
    pthread_mutex_lock(&a->lock); /* nobody is starting it */
    const bool is_there = !atomic_exchange(&a->stop, true) && a->started;
    pthread_mutex_unlock(&a->lock);
    if (is_there) {
        wake(a);
        pthread_join(a->thread, NULL);
        a->is_left = false; /* the application's again */
    }
}

void iw_agent_destroy(iw_agent_t *a)
{
    iw_agent_stop(a);
    pthread_mutex_destroy(&a->lock);
    close(a->wake);
    free(a);
}

/* In charge it sleeps until a deadline from before: what has just been sent has one of its own, and what waits for more it does
 * not know of. */
static inline void tell_if_in_charge(iw_agent_t *a)
{
    if (atomic_load_explicit(&a->in_charge, memory_order_relaxed)) {
        wake(a);
    }
}

void iw_agent_lock(iw_agent_t *a)
{
    if (0 != pthread_mutex_trylock(&a->lock)) {
        iw_port_want(a->port, true);
        pthread_mutex_lock(&a->lock);
        iw_port_want(a->port, false);
    }
}

void iw_agent_unlock(iw_agent_t *a)
{
    if (iw_port_be_brief(a->port, false) && iw_engine_has_output(a->engine)) {
        tell_if_in_charge(a); /* it sleeps until a deadline from before */
    }
    pthread_mutex_unlock(&a->lock);
}

/* Only the application writes it, so no locked instruction is needed. */
static void alive(iw_agent_t *a)
{
    static _Thread_local int me;
    if (0 == me) {
        me = (int) syscall(SYS_gettid);
    }
    atomic_store_explicit(&a->caller, me, memory_order_relaxed);
    atomic_store_explicit(&a->calls, atomic_load_explicit(&a->calls, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

/* Under the lock: is there a thread with a processor of its own, to which what takes long can be left? */
static bool sends_much(iw_agent_t *a)
{
    return a->owns && a->started && !atomic_load(&a->stop);
}

bool iw_agent_enter(iw_agent_t *a)
{
    alive(a);
    if (0 != pthread_mutex_trylock(&a->lock)) {
        return false;
    }
    (void) iw_port_be_brief(a->port, sends_much(a));
    return true;
}

void iw_agent_gather(iw_agent_t *a)
{
    iw_port_gather(a->port);
    tell_if_in_charge(a);
}

void iw_agent_flush(iw_agent_t *a)
{
    if (a->is_left) {
        iw_agent_gather(a);
        return;
    }
    iw_port_flush(a->port, a->engine);
    tell_if_in_charge(a);
}

void iw_agent_leave(iw_agent_t *a)
{
    a->is_left |= sends_much(a);
}

uint64_t iw_agent_takeovers(const iw_agent_t *a)
{
    return atomic_load(&((iw_agent_t *) (uintptr_t) a)->takeovers);
}
