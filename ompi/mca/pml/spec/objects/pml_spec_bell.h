/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Bells: by these a process that waits in MPI calls the progress agents of those processes of its host that it has sent to.
 *
 * A bell is a datagram socket with a name that follows from the process's, in no file system and gone with the process. To ring
 * is to send an empty datagram, and waits for nothing. What comes is not read: it only ends a pause of the agent, so that
 * a stranger can do no more than wake it. A bell that cannot be reached - another network namespace - is not
 * missed: pauses end by themselves.
 *
 * Threads: any; await is the agent's. */
#ifndef PML_SPEC_BELL_H
#define PML_SPEC_BELL_H

#include <stdbool.h>
#include <stdint.h>

/* Before all others. False: the system gives no files for it. */
bool mca_pml_spec_bell_open(void);

/* The agent's: this process, of that name, can be called; no more. What nobody hears costs its sender a system call and no
 * more: so there is a bell only while something is outstanding. */
void mca_pml_spec_bell_hang(uint64_t mine);
void mca_pml_spec_bell_take_down(void);

/* No other call is in progress. Not open: nothing. */
void mca_pml_spec_bell_close(void);

/* Until somebody rings, or for so many ns; 0: for ever. True: somebody of another process has rung. */
bool mca_pml_spec_bell_await(uint64_t ns);

/* Ends an await of this process's own, or the next one. */
void mca_pml_spec_bell_rouse(void);

/* This process has sent something to that one, and may wait for its answer. */
void mca_pml_spec_bell_note(uint64_t name);

/* Rings for all that are noted. True: one of them hears it. */
bool mca_pml_spec_bell_ring(void);

/* None is noted any more. */
void mca_pml_spec_bell_forget(void);

#endif
