/* What opal/mca/threads/threads.h wants of the thread component: how to give up the processor.
 *
 * The component sets the exported pointer when it is opened, to sched_yield or to a sleep, as the user asked for. */
#ifndef SPEC_SHIM_THREADS_PTHREADS_THREADS_H
#define SPEC_SHIM_THREADS_PTHREADS_THREADS_H

#include "opal_config.h"

OPAL_DECLSPEC extern void (*opal_threads_pthreads_yield_fn)(void);

static inline void opal_thread_yield(void)
{
    opal_threads_pthreads_yield_fn();
}

#endif
