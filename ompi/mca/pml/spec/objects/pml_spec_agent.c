/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The agent's thread: how it begins, sleeps, is woken and ends; core/spec_agent.c tells it what to do. */
#include "pml_spec_compat.h" /* first: it asks for GNU's functions */

#include "pml_spec_agent.h"

#include "../core/spec_agent.h"
#include "pml_spec_processors.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What the thread does. Others wake it by writing AWAKE; it checks again after it has said that it is about to pause or sleep,
 * so that nothing begins unseen in between. */
enum { AWAKE, PAUSES, SLEEPS };

static struct {
    atomic_uint does;          /* a futex */
    atomic_uint begun, over;   /* requests that are counted */
    atomic_uint rings;         /* large ones that have begun */
    atomic_bool begins, stops; /* the thread, or it has */
    bool there;                /* it has been made */
    pthread_t thread;
    atomic_ulong self;                    /* the same, as others may ask for it; 0: there is none */
    mca_pml_spec_processors_t processors; /* for it; none: it stays where it is */
    bool has_own;                         /* it is one that no rank owns */
    uint64_t born;                        /* ns */
    _Alignas(
        128) _Atomic uint32_t calls; /* of progress by the program: each of its polls writes it */
    _Alignas(128) _Atomic uint32_t ended; /* requests, in the agent's thread */
} agent;

/* ---- what the program's threads do ---- */

static bool is_agent(void)
{
    return atomic_load_explicit(&agent.self, memory_order_relaxed)
           == (unsigned long) pthread_self();
}

/* In a program of several threads calls may be lost: any change will do. */
static int count_call(void)
{
    if (OPAL_LIKELY(!is_agent())) {
        const uint32_t n = atomic_load_explicit(&agent.calls, memory_order_relaxed);
        atomic_store_explicit(&agent.calls, n + 1, memory_order_relaxed);
    }
    return 0;
}

static void wake(void)
{
    if (AWAKE != atomic_exchange(&agent.does, AWAKE)) {
        (void) syscall(SYS_futex, &agent.does, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}

static void *run(void *unused);

/* Signals are the program's: the thread begins with all of them blocked. */
static void start(void)
{
    sigset_t all, mine;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &mine);
    agent.born = spec_now();
    const int error = pthread_create(&agent.thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &mine, NULL);
    agent.there = 0 == error;
    if (!agent.there) {
        mca_pml_spec.has_agent = false;
        MCA_PML_SPEC_VERBOSE(10, "the progress agent could not begin: %s", strerror(error));
    }
}

void mca_pml_spec_agent_begun(size_t length)
{
    const bool is_large = length > mca_pml_spec.eager_min;
    atomic_fetch_add(&agent.begun, 1);
    if (is_large) {
        atomic_fetch_add(&agent.rings, 1);
    }
    const unsigned does = atomic_load(&agent.does);
    if (OPAL_UNLIKELY(SLEEPS == does || (PAUSES == does && is_large))) {
        wake();
    } else if (OPAL_UNLIKELY(!atomic_load_explicit(&agent.begins, memory_order_relaxed))
               && !mca_pml_spec_is_starting() && !mca_pml_spec_is_ending()
               && !atomic_exchange(&agent.begins, true)) {
        start();
    }
}

void mca_pml_spec_agent_ended(void)
{
    atomic_fetch_add(&agent.over, 1);
    if (is_agent()) {
        const uint32_t n = atomic_load_explicit(&agent.ended, memory_order_relaxed);
        atomic_store_explicit(&agent.ended, n + 1, memory_order_relaxed);
    }
}

/* ---- what the agent's does ---- */

static spec_agent_view_t view_now(void)
{
    const uint32_t over =
        atomic_load(&agent.over); /* before those that have begun: it is no more */
    const uint32_t begun = atomic_load(&agent.begun);
    return (spec_agent_view_t){
        .now = spec_now(),
        .calls = atomic_load_explicit(&agent.calls, memory_order_relaxed),
        .begun = begun,
        .rings = atomic_load(&agent.rings),
        .ended = atomic_load_explicit(&agent.ended, memory_order_relaxed),
        .outstanding = begun != over || mca_pml_spec_has_windows(),
        .barred = mca_pml_spec_has_files(),
    };
}

/* Only the agent writes these; whoever reads them may see them a pause late. */
static void account(uint32_t ended)
{
    mca_pml_spec_counters_t *c = &mca_pml_spec.counters;
    __atomic_store_n(&c->agent_ended, ended, __ATOMIC_RELAXED);
    __atomic_store_n(&c->agent_ns, spec_ns(CLOCK_THREAD_CPUTIME_ID), __ATOMIC_RELAXED);
    __atomic_store_n(&c->agent_lived_ns, spec_now() - agent.born, __ATOMIC_RELAXED);
}

/* For `ns`, or until it is woken, if nothing has begun since that view; ns 0: for as long as nothing does. */
static void pause_for(const spec_agent_view_t *view, uint64_t ns)
{
    const unsigned how = 0 == ns ? SLEEPS : PAUSES;
    const struct timespec time = {.tv_nsec = (long) ns};
    account(view->ended);
    atomic_store(&agent.does, how);
    const bool calm = atomic_load(&agent.rings) == view->rings && !atomic_load(&agent.stops)
                      && (PAUSES == how || atomic_load(&agent.begun) == view->begun);
    if (calm) {
        (void) syscall(SYS_futex, &agent.does, FUTEX_WAIT_PRIVATE, how, 0 == ns ? NULL : &time,
                       NULL, 0);
        MCA_PML_SPEC_COUNT(agent_wakes);
    }
    atomic_store(&agent.does, AWAKE);
}

static void *run(void *unused)
{
    spec_agent_t state;
    spec_agent_view_t view = view_now();
    (void) unused;
    atomic_store(&agent.self, (unsigned long) pthread_self());
    mca_pml_spec_processors_use(&agent.processors);
    (void) prctl(PR_SET_NAME, (unsigned long) (uintptr_t) "spec-agent", 0ul, 0ul, 0ul); /* ps -L */
    (void) prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul); /* pauses are short */
    spec_agent_init(&state, &view, agent.has_own);
    while (!atomic_load(&agent.stops)) {
        uint64_t ns = 0;
        view = view_now();
        if (SPEC_AGENT_RUN == spec_agent_next(&state, &view, &ns)) {
            opal_progress();
            MCA_PML_SPEC_COUNT(agent_polls);
        } else {
            pause_for(&view, ns);
        }
    }
    account(view_now().ended);
    atomic_store(&agent.self, 0);
    return NULL;
}

/* ---- its life ---- */

const char *mca_pml_spec_agent_prepare(void)
{
    static char why[128];
    const int wanted = mca_pml_spec.progress;
    if (MCA_PML_SPEC_PROGRESS_OFF == wanted) {
        return NULL;
    }
    agent.has_own = mca_pml_spec_processors_find(&agent.processors, why, sizeof(why));
    mca_pml_spec.has_agent = agent.has_own || MCA_PML_SPEC_PROGRESS_ON == wanted;
    if (!mca_pml_spec.has_agent) {
        return why;
    }
    (void) opal_set_using_threads(true);
    mca_pml_spec.threaded = true;
    atomic_store(&agent.does, AWAKE);
    atomic_store(&agent.begins, false);
    atomic_store(&agent.stops, false);
    agent.there = false;
    opal_progress_register(count_call);
    return why;
}

void mca_pml_spec_agent_end(void)
{
    if (!mca_pml_spec.has_agent) {
        return;
    }
    mca_pml_spec.has_agent = false; /* what begins from now on is not counted */
    atomic_store(&agent.stops, true);
    if (!atomic_exchange(&agent.begins, true) || !agent.there) {
        (void) opal_progress_unregister(count_call);
        return;
    }
    wake();
    (void) pthread_join(agent.thread, NULL);
    agent.there = false;
    (void) opal_progress_unregister(count_call);
}
