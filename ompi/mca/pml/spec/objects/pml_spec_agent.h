/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The progress agent: one thread that calls opal_progress while the program is outside MPI (core/spec_agent.h says when).
 *
 * It exists only where pml_spec_progress asks for it, and begins with the first nonblocking request after MPI_Init. From
 * MPI_Init on Open MPI then works as with MPI_THREAD_MULTIPLE, whatever the program asked for: that is what makes a second
 * thread in progress safe, and what it costs. This component's part of that is paid only while the agent is at work
 * (core/spec_bias.h). Callbacks of a program - reductions, completions of generalized requests - may be called in the thread.
 *
 * Requests are counted while the program can compute: from the start of a nonblocking one to its end. Calls that wait
 * are not, nor are small messages that need no request. The thread holds no lock of ours between two calls of progress,
 * and none that a caller inside MPI would wait for; while the program calls progress itself, it pauses.
 *
 * Threads: any, but for the first two and the last. */
#ifndef PML_SPEC_AGENT_H
#define PML_SPEC_AGENT_H

#include "pml_spec.h"

#include "../core/spec_life.h"

/* Before the first message: is there to be an agent (mca_pml_spec.has_agent)? If so, Open MPI's threads are switched on.
 * Returns why or why not, in words; NULL: it was not asked for. */
const char *mca_pml_spec_agent_prepare(void);

/* No thread of it is left when this returns, and none begins. Not from the agent's own thread. Idempotent. */
void mca_pml_spec_agent_end(void);

/* A nonblocking request is about to begin, of so many bytes and with this tag. It may start the thread or wake it. */
void mca_pml_spec_agent_begun(size_t length, int tag);

/* Something was sent to a process that may have to answer: if this one waits for long, it calls that one's agent
 * (pml_spec_bell.h). */
void mca_pml_spec_agent_call(const opal_proc_t *proc);

/* The same, if there are agents. */
static inline void mca_pml_spec_agent_asks(const ompi_proc_t *proc)
{
    if (OPAL_UNLIKELY(mca_pml_spec.has_agent)) {
        mca_pml_spec_agent_call(&proc->super);
    }
}

/* Has it begun, and is it not asleep? So it was a moment ago. */
bool mca_pml_spec_agent_is_up(void);

/* Is this the agent's thread? */
bool mca_pml_spec_agent_is_here(void);

/* Is it, and has it no processor of its own? Then it leaves pieces of messages to the threads that wait for them. */
bool mca_pml_spec_agent_leaves_pieces(void);

/* A counted request is over. */
void mca_pml_spec_agent_ended(void);

/* The calling thread has no lock of ours: if the agent pauses, it goes without them from now on (core/spec_bias.h). */
static inline void mca_pml_spec_agent_accept(void)
{
    if (OPAL_UNLIKELY(mca_pml_spec.has_agent)) {
        spec_bias_accept(&mca_pml_spec.bias);
    }
}

/* Counts a request from its start to its end, if there is an agent and no call that waits for it. Nobody else knows it yet, and no lock
 * is held. */
static inline void mca_pml_spec_agent_watch(volatile int32_t *life, bool waits, size_t length, int tag)
{
    if (OPAL_UNLIKELY(mca_pml_spec.has_agent) && !waits) {
        mca_pml_spec_agent_accept();
        *life |= SPEC_LIFE_WATCHED;
        mca_pml_spec_agent_begun(length, tag);
    }
}

/* The request could not begin, and nobody else knows it: it is as if done. */
static inline void mca_pml_spec_agent_unwatch(volatile int32_t *life)
{
    if (OPAL_UNLIKELY(*life & SPEC_LIFE_WATCHED)) {
        mca_pml_spec_agent_ended();
    }
    *life = SPEC_LIFE_DONE;
}

#endif
