/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The agent's thread: how it begins, sleeps, is woken and ends; core/spec_agent.c tells it what to do. */
#include "pml_spec_compat.h" /* first: it asks for GNU's functions */

#include "pml_spec_agent.h"

#include "../core/spec_agent.h"
#include "pml_spec_bell.h"
#include "pml_spec_give.h"
#include "pml_spec_processors.h"
#include "spec_thread.h"

#include "ompi/mca/coll/base/coll_tags.h"
#include "opal/include/spec/promises.h"
#include "opal/mca/btl/base/base.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What the thread does. Others wake it by writing AWAKE; it checks again after it has said that it is about to pause or sleep,
 * so that nothing begins unseen in between. */
enum { AWAKE, NAPS, PAUSES, SLEEPS };

static struct {
    atomic_uint does;
    atomic_uint begun, over;   /* requests that are counted */
    atomic_uint rings;         /* large ones that have begun */
    atomic_uint collectives;   /* those of nonblocking collective operations */
    atomic_uint arrivals;      /* times a transport's thread said that something is there */
    atomic_bool begins, stops; /* the thread, or it has */
    bool there;                /* it has been made */
    bool is_biased;            /* while it pauses the program goes without locks */
    pthread_t thread;
    atomic_ulong self;                    /* the same, as others may ask for it; 0: there is none */
    mca_pml_spec_processors_t processors; /* for it; none: it stays where it is */
    spec_agent_home_t home;               /* that is */
    uint64_t born;                        /* ns */
    _Alignas(
        128) _Atomic uint32_t calls; /* of progress by the program: each of its polls writes it */
    _Atomic uint32_t asked;       /* how many these were when it last sent or asked for something */
    _Atomic bool rang;            /* it has called others since */
    _Atomic bool is_heard;        /* and an agent of them heard it */
    _Alignas(128) _Atomic uint32_t ended; /* requests, in the agent's thread */
    _Atomic uint32_t seen;                /* calls of progress by the program when the agent paused last */
} agent;

/* ---- what the program's threads do ---- */

bool mca_pml_spec_agent_is_here(void)
{
    return atomic_load_explicit(&agent.self, memory_order_relaxed)
           == (unsigned long) pthread_self();
}

bool mca_pml_spec_agent_leaves_pieces(void)
{
    return SPEC_AGENT_OWN != agent.home && mca_pml_spec_agent_is_here();
}

bool mca_pml_spec_agent_is_up(void)
{
    return atomic_load_explicit(&agent.begins, memory_order_relaxed)
           && SLEEPS != atomic_load_explicit(&agent.does, memory_order_relaxed);
}

/* Does an agent need this processor, as far as is known: one that heard the call, or others while requests are under way here? */
static bool is_needed(void)
{
    return atomic_load_explicit(&agent.is_heard, memory_order_relaxed)
           || (atomic_load_explicit(&agent.rang, memory_order_relaxed)
               && atomic_load_explicit(&agent.begun, memory_order_relaxed)
                      != atomic_load_explicit(&agent.over, memory_order_relaxed));
}

/* A thread of the program polls in vain. */
static __attribute__((noinline)) void give_way(uint32_t polls)
{
    if (spec_agent_calls(polls)) {
        atomic_store_explicit(&agent.rang, true, memory_order_relaxed);
        if (mca_pml_spec_bell_ring()) {
            atomic_store_explicit(&agent.is_heard, true, memory_order_relaxed);
        }
    }
    if (is_needed()) {
        mca_pml_spec_give_way(SPEC_GIVE_AGENT);
    }
}

/* From each poll of the program's. In a program of several threads calls may be lost: any change will do. */
static int count_call(void)
{
    if (OPAL_UNLIKELY(mca_pml_spec_agent_is_here())) {
        return 0;
    }
    spec_bias_accept(&mca_pml_spec.bias); /* in progress no lock is held */
    const uint32_t n = atomic_load_explicit(&agent.calls, memory_order_relaxed) + 1;
    const uint32_t polls = n - atomic_load_explicit(&agent.asked, memory_order_relaxed);
    atomic_store_explicit(&agent.calls, n, memory_order_relaxed);
    if (OPAL_UNLIKELY(spec_agent_waits(polls))) {
        give_way(polls);
    }
    return 0;
}

/* What was noted before it last waited counts no more. */
static void asks(void)
{
    atomic_store_explicit(&agent.asked, atomic_load_explicit(&agent.calls, memory_order_relaxed),
                          memory_order_relaxed);
    if (OPAL_UNLIKELY(atomic_load_explicit(&agent.rang, memory_order_relaxed))) {
        atomic_store_explicit(&agent.rang, false, memory_order_relaxed);
        atomic_store_explicit(&agent.is_heard, false, memory_order_relaxed);
        mca_pml_spec_bell_forget();
    }
}

void mca_pml_spec_agent_call(const opal_proc_t *proc)
{
    if (OPAL_PROC_ON_LOCAL_NODE(proc->proc_flags)) {
        asks();
        mca_pml_spec_bell_note(spec_name_of(proc));
    }
}

static void wake(void)
{
    if (AWAKE != atomic_exchange(&agent.does, AWAKE)) {
        mca_pml_spec_bell_rouse();
    }
}

/* Of a program that polls itself the agent stays away. */
static bool is_polled(uint32_t calls)
{
    return calls != atomic_load_explicit(&agent.calls, memory_order_relaxed);
}

/* What a transport's thread calls. */
static void arrived(void)
{
    atomic_fetch_add(&agent.arrivals, 1);
    if (PAUSES == atomic_load(&agent.does) && !is_polled(atomic_load_explicit(&agent.seen, memory_order_relaxed))) {
        wake();
    }
}

/* The transports' threads come to the agent's processors, and tell it what arrives; NULL: no more. */
static void help_transports(const mca_btl_ibx_helper_t *helper)
{
    mca_btl_base_selected_module_t *selected;
    OPAL_LIST_FOREACH (selected, &mca_btl_base_modules_initialized,
                       mca_btl_base_selected_module_t) {
        mca_btl_ibx_help(selected->btl_module, helper);
    }
}

static void *run(void *unused);

static void start(void)
{
    agent.born = spec_now();
    const int error = spec_thread_create(&agent.thread, run, NULL);
    agent.there = 0 == error;
    if (agent.there && SPEC_AGENT_OWN == agent.home && agent.processors.is_alone) {
        help_transports(&(mca_btl_ibx_helper_t){.arrived = arrived,
                                                .processors = agent.processors.set,
                                                .size = sizeof(agent.processors.set)});
    }
    if (!agent.there) {
        mca_pml_spec.has_agent = false;
        MCA_PML_SPEC_VERBOSE(10, "the progress agent could not begin: %s", strerror(error));
    }
}

/* A program that owns the locks has seen that the agent pauses or sleeps: what it counts then, and reads of the agent after that,
 * needs no order of its own. */
static void count(atomic_uint *requests)
{
    if (OPAL_LIKELY(mca_pml_spec_enter())) {
        atomic_store_explicit(requests, atomic_load_explicit(requests, memory_order_relaxed) + 1,
                              memory_order_relaxed);
        mca_pml_spec_leave();
    } else {
        atomic_fetch_add(requests, 1);
    }
}

/* Tags of nonblocking collective operations, in a range of their own. */
static bool is_collective(int tag)
{
    return tag <= MCA_COLL_BASE_TAG_NONBLOCKING_BASE && tag >= MCA_COLL_BASE_TAG_NONBLOCKING_END;
}

void mca_pml_spec_agent_begun(size_t length, int tag)
{
    const bool is_large = SPEC_AGENT_OWN == agent.home && length > mca_pml_spec.eager_min;
    asks();
    count(&agent.begun);
    if (is_large) {
        count(&agent.rings);
    }
    if (OPAL_UNLIKELY(is_collective(tag))) {
        count(&agent.collectives);
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
    count(&agent.over);
    if (mca_pml_spec_agent_is_here()) {
        const uint32_t n = atomic_load_explicit(&agent.ended, memory_order_relaxed);
        atomic_store_explicit(&agent.ended, n + 1, memory_order_relaxed);
    }
}

/* ---- what the agent's does ---- */

/* 0: done. Else the kernel has no memory for it now. */
static long membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0);
}

/* Until the program's threads use locks again (core/spec_bias.h). */
static void claim(void)
{
    if (!agent.is_biased || spec_bias_claim(&mca_pml_spec.bias)) {
        return;
    }
    while (0 != membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) {
        (void) sched_yield();
    }
    while (!spec_bias_has(&mca_pml_spec.bias)) {
        (void) sched_yield();
    }
}

/* What it sees of the program; the other fields of *view are the thread's own. */
static void view_now(spec_agent_view_t *view)
{
    /* Before those that have begun: it is no more. */
    const uint32_t over = atomic_load(&agent.over);
    view->begun = atomic_load(&agent.begun);
    view->now = spec_now();
    view->calls = atomic_load_explicit(&agent.calls, memory_order_relaxed);
    view->rings = atomic_load(&agent.rings);
    view->collectives = atomic_load(&agent.collectives);
    view->arrivals = atomic_load(&agent.arrivals);
    view->ended = atomic_load_explicit(&agent.ended, memory_order_relaxed);
    view->outstanding = view->begun != over || mca_pml_spec_has_windows();
    view->barred = mca_pml_spec_has_files();
}

/* Only the agent writes these; whoever reads them may see them a pause late. */
static void account(uint32_t ended)
{
    mca_pml_spec_counters_t *c = &mca_pml_spec.counters;
    __atomic_store_n(&c->agent_ended, ended, __ATOMIC_RELAXED);
    __atomic_store_n(&c->agent_ns, spec_ns(CLOCK_THREAD_CPUTIME_ID), __ATOMIC_RELAXED);
    __atomic_store_n(&c->agent_lived_ns, spec_now() - agent.born, __ATOMIC_RELAXED);
}

/* Somebody called. Does the program answer? That is seen if it polls within a moment. */
static void be_called(spec_agent_view_t *view)
{
    const uint64_t start = spec_now();
    ++view->bells;
    MCA_PML_SPEC_COUNT(agent_calls);
    view->then = atomic_load_explicit(&agent.calls, memory_order_relaxed);
    while (spec_now() - start < SPEC_AGENT_CHECK) {
        (void) sched_yield();
    }
}

/* For `ns`, or until it is woken, if nothing has begun since that view; ns 0: for as long as nothing does. */
static void pause_for(spec_agent_view_t *view, uint64_t ns)
{
    const unsigned how = 0 == ns ? SLEEPS : spec_agent_is_woken(agent.home, ns) ? PAUSES : NAPS;
    account(view->ended);
    atomic_store_explicit(&agent.seen, view->calls, memory_order_relaxed);
    atomic_store(&agent.does, how);
    const bool calm = atomic_load(&agent.rings) == view->rings && !atomic_load(&agent.stops)
                      && (SLEEPS == how || is_polled(view->calls) || atomic_load(&agent.arrivals) == view->arrivals)
                      && (SLEEPS != how || atomic_load(&agent.begun) == view->begun);
    if (calm) {
        if (SLEEPS == how) {
            mca_pml_spec_bell_take_down();
        }
        const bool offers = agent.is_biased && spec_agent_offers(ns);
        if (offers) {
            spec_bias_offer(&mca_pml_spec.bias);
        }
        const bool called = mca_pml_spec_bell_await(ns);
        if (offers) {
            claim();
        }
        if (called) {
            be_called(view);
        }
        MCA_PML_SPEC_COUNT(agent_wakes);
        if (SLEEPS == how) {
            mca_pml_spec_bell_hang(mca_pml_spec.my_name);
        }
    }
    atomic_store(&agent.does, AWAKE);
}

/* On a processor of others it offers it to them after each call: one that waits there has what this one needs. (On its own, yields to a
 * transport's thread there made collective operations hide less: test/bench/overlap-spare.) */
static void call_progress(spec_agent_view_t *view)
{
    const uint64_t start = spec_now();
    opal_progress();
    view->took = spec_now() - start;
    MCA_PML_SPEC_COUNT(agent_polls);
    if (SPEC_AGENT_OWN != agent.home) {
        (void) sched_yield();
    }
}

/* One-sided operations wait for an agent that has no processor of its own as long as the program's slice lasts, unless it interrupts
 * the program; messages wait for what else goes on as well, and would interrupt it all the time. */
static void be_brisk(bool *is_brisk)
{
    const bool brisk = mca_pml_spec_has_windows();
    if (*is_brisk != brisk) {
        *is_brisk = brisk;
        spec_thread_slices(brisk ? SPEC_THREAD_SLICE : 0);
    }
}

static void *run(void *unused)
{
    spec_agent_t state;
    spec_agent_view_t view = {.took = 0};
    bool is_brisk = false;
    (void) unused;
    atomic_store(&agent.self, (unsigned long) pthread_self());
    claim();
    mca_pml_spec_processors_use(&agent.processors);
    spec_thread_name("spec-agent");
    (void) prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul); /* pauses are short */
    view_now(&view);
    spec_agent_init(&state, &view, agent.home);
    mca_pml_spec_bell_hang(mca_pml_spec.my_name);
    while (!atomic_load(&agent.stops)) {
        uint64_t ns = 0;
        const bool ran = SPEC_AGENT_RUN == state.last;
        be_brisk(&is_brisk);
        view_now(&view);
        if (SPEC_AGENT_RUN == spec_agent_next(&state, &view, &ns)) {
            call_progress(&view);
        } else {
            if (ran) { /* what it has sent meanwhile others may have to answer */
                (void) mca_pml_spec_bell_ring();
                mca_pml_spec_bell_forget();
            }
            pause_for(&view, ns);
        }
    }
    view_now(&view);
    account(view.ended);
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
    agent.home = mca_pml_spec_processors_find(&agent.processors, mca_pml_spec.progress_processors,
                                              why, sizeof(why));
    mca_pml_spec.has_agent = SPEC_AGENT_OWN == agent.home || MCA_PML_SPEC_PROGRESS_ON == wanted;
    if (!mca_pml_spec.has_agent) {
        return why;
    }
    if (!mca_pml_spec_bell_open()) {
        mca_pml_spec.has_agent = false;
        return "the system gives it no file to wait for";
    }
    agent.is_biased = !mca_pml_spec.threaded && !opal_using_threads() && !ompi_mpi_thread_multiple
                      && 0 == membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
    mca_pml_spec.bias.state = agent.is_biased ? SPEC_BIAS_OWNED : SPEC_BIAS_SHARED;
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
    if (atomic_exchange(&agent.begins, true) && agent.there) {
        wake();
        (void) pthread_join(agent.thread, NULL);
        agent.there = false;
        help_transports(NULL);
    }
    (void) opal_progress_unregister(count_call);
    mca_pml_spec_bell_close();
}
