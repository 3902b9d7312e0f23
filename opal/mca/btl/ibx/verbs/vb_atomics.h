/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* In which one way all processes reach a word by atomic operations: the adapter's, or messages.
 *
 * An adapter's operations are atomic with each other, seldom with the processor's (InfiniBand specification, 11.2.1.1, atomic
 * capability). So a word is reached in one way by everybody, by its own process too. The process that has the memory chooses, and
 * publishes what it has chosen; those that want something of it obey, whatever they have chosen for their own memory.
 *
 * Pure: no I/O. */
#ifndef VB_ATOMICS_H
#define VB_ATOMICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Published: the numbers stay. */
typedef enum vb_atomics { VB_BY_MESSAGES = 0, VB_BY_ADAPTER = 1, VB_IN_NO_WAY = 2 } vb_atomics_t;

/* What is asked for (btl_ibx_verbs_atomics_by). */
typedef enum vb_atomics_wish {
    VB_ATOMICS_AUTO,
    VB_ATOMICS_ADAPTER,
    VB_ATOMICS_MESSAGES
} vb_atomics_wish_t;

/* What counts for a process's own memory. */
typedef struct vb_atomics_facts {
    const char *why_none;    /* the adapter has none; NULL: it has */
    bool are_coherent;       /* and they are atomic with the processor's */
    const char *why_no_loop; /* the port cannot connect to itself; NULL: it can */
    bool
        by_datagrams; /* some peers are talked to by datagrams, which an adapter does no atomic operations for */
    unsigned devices; /* of this process's ports */
} vb_atomics_facts_t;

/* How others, and this process, reach its own memory. *why: why not by the adapter; NULL if so. */
static inline vb_atomics_t vb_atomics_choose(vb_atomics_wish_t wish,
                                             const vb_atomics_facts_t *facts, const char **why)
{
    *why = NULL != facts->why_none       ? facts->why_none
           : facts->by_datagrams         ? "the device's do not reach peers by datagrams"
           : VB_ATOMICS_MESSAGES == wish ? "btl_ibx_verbs_atomics_by is messages"
           : facts->are_coherent
               ? NULL /* the process itself needs no adapter, and several may be at work */
           : NULL != facts->why_no_loop ? facts->why_no_loop
           : VB_ATOMICS_ADAPTER == wish ? NULL
           : facts->devices > 1
               ? "this process uses several devices, and theirs are not atomic with each other's"
               : NULL;
    return NULL == *why ? VB_BY_ADAPTER : VB_BY_MESSAGES;
}

/* How the memory of a process is reached that has published this byte. can: my adapter has atomic operations. */
static inline vb_atomics_t vb_atomics_of(uint8_t published, bool can)
{
    return VB_BY_MESSAGES == published         ? VB_BY_MESSAGES
           : VB_BY_ADAPTER == published && can ? VB_BY_ADAPTER
                                               : VB_IN_NO_WAY;
}

#endif
