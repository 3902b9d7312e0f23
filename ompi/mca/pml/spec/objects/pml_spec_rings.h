/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The rings of this process that others of its host map (core/spec_cico.h), theirs, and how an end that waits calls the thread of
 * a process that computes.
 *
 * The memory is there from the first ring that is taken or joined on, for as long as the process is in MPI.
 *
 * Threads: any, but for fini. */
#ifndef PML_SPEC_RINGS_H
#define PML_SPEC_RINGS_H

#include "../core/spec_cico.h"
#include "pml_spec_comm.h"
#include "pml_spec_share.h"

/* Is there memory, and one free, as it may have been a moment ago? */
bool mca_pml_spec_rings_has_room(void);

/* Another process. */
typedef mca_pml_spec_share_of_t mca_pml_spec_rings_of_t;

/* One of this process, to be given back, ready for a message; *name: for a packet. NULL: none is free, or there is no memory. */
spec_cico_ring_t *mca_pml_spec_rings_take(uint64_t *name);
void mca_pml_spec_rings_give(const spec_cico_ring_t *ring);

/* The peer's process, by a name that came from it. NULL: its memory is not reached, now and for ever. */
mca_pml_spec_rings_of_t *mca_pml_spec_rings_find(mca_pml_spec_peer_t *peer, uint64_t name);
/* The peer's communicator ends, and no message is in a ring. */
void mca_pml_spec_rings_forget(mca_pml_spec_peer_t *peer);
/* The ring there that has this name, which is told that this process is the second. NULL: it is no such ring, or in its next use. */
spec_cico_ring_t *mca_pml_spec_rings_join(const mca_pml_spec_rings_of_t *of, uint64_t name);

/* A thread of this program begins to copy a message, or ends; and does one of that process's copy at this moment? It is in MPI
 * then, and does not compute. */
void mca_pml_spec_rings_copying(bool begins);
bool mca_pml_spec_rings_copies(const mca_pml_spec_rings_of_t *of);

/* ---- calling ---- */

/* Does that process have a thread that can be called? */
bool mca_pml_spec_rings_answers(mca_pml_spec_rings_of_t *of);
/* Calls it to the processor of the caller, which is to yield that. It costs system calls only if the thread sleeps. */
void mca_pml_spec_rings_call(mca_pml_spec_rings_of_t *of);

/* The thread of this process, which has taken or joined a ring: it can be called from now on. False: there is no memory for that, and
 * it may call nothing of what follows. */
bool mca_pml_spec_rings_attend(void);
/* How often it was called so far; and sleeps until that is another number. */
uint32_t mca_pml_spec_rings_calls(void);
void mca_pml_spec_rings_await(uint32_t calls);
/* Ends an await of this process, if one has begun. */
void mca_pml_spec_rings_rouse(void);

void mca_pml_spec_rings_fini(void);

#endif
