/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The components' own threads: they sleep, wake for a message, and work for some microseconds, beside a program that computes. */
#ifndef SPEC_THREAD_H
#define SPEC_THREAD_H

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A short slice, ns. Not for its own sake: a scheduler that goes by deadlines (EEVDF, Linux 6.12) lets a thread with a short slice
 * begin at once when it wakes, where one with the usual slice waits for the end of that of a computing thread:
 * milliseconds. That one is interrupted then, so not for a thread that may as well wait. */
#define SPEC_THREAD_SLICE UINT64_C(100000)

/* A thread of which nothing is heard: signals are the program's. 0, or an error of errno.h. Any thread may call it. */
static inline int spec_thread_create(pthread_t *thread, void *(*run)(void *), void *argument)
{
    sigset_t all, before;
    (void) sigfillset(&all);
    (void) pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(thread, NULL, run, argument);
    (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* The calling thread's name, as `ps -L` shows it: at most 15 characters. */
static inline void spec_thread_name(const char *name)
{
    (void) prctl(PR_SET_NAME, (unsigned long) (uintptr_t) name, 0ul, 0ul, 0ul);
}

/* How long the calling thread runs before another one's turn, ns; 0: the usual time. A kernel that does not know of it leaves it as it
 * is. */
static inline void spec_thread_slices(uint64_t ns)
{
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } attributes = {.size = sizeof(attributes)};
    if (0 == syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0)
        && SCHED_OTHER == attributes.policy) {
        attributes.runtime = ns;
        (void) syscall(SYS_sched_setattr, 0, &attributes, 0);
    }
}

#endif
