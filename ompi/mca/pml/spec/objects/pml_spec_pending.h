/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What a transport had no room for, or what must wait for a call without locks: tried again from opal_progress.
 * core/spec_retry.h bound to Open MPI. */
#ifndef PML_SPEC_PENDING_H
#define PML_SPEC_PENDING_H

#include "pml_spec.h"

/* What is kept for a later try (core/spec_retry.h). Embedded in requests and transfers. */
typedef struct mca_pml_spec_pending {
    spec_retry_item_t item;
    /* Try again; no lock is held. False: still no room. It may complete requests, whose callbacks may do
     * anything; others may be in their tries meanwhile. */
    bool (*retry)(struct mca_pml_spec_pending *pending);
} mca_pml_spec_pending_t;

/* What has no room: one address each, so that all that wait for the same wait in one queue. */
#define MCA_PML_SPEC_RES_EAGER(endpoint)  (&(endpoint)->btl_eager) /* any of its transports */
#define MCA_PML_SPEC_RES_FRAG(endpoint)   (&(endpoint)->btl_send) /* the same, for large fragments */
#define MCA_PML_SPEC_RES_CONTROL(bml_btl) (bml_btl)               /* this transport, for packets */
#define MCA_PML_SPEC_RES_RDMA(bml_btl)    (&(bml_btl)->btl_flags) /* the same, for put and get */
#define MCA_PML_SPEC_RES_NONE             ((const void *) &mca_pml_spec) /* no transport: work for later */

/* Keep it until its retry returns true. */
void mca_pml_spec_pend(mca_pml_spec_pending_t *pending, const void *resource);

/* The same for what no transport has refused: it is asked for until it is there. */
void mca_pml_spec_poll_for(mca_pml_spec_pending_t *pending, const void *resource);

/* The same, before all that wait for it. */
void mca_pml_spec_poll_first(mca_pml_spec_pending_t *pending, const void *resource);

/* Does something wait for this resource already? */
bool mca_pml_spec_is_crowded(const void *resource);

/* The transport has gathered something that mca_pml_spec_flush is to send; what another has gathered leaves now. A pass of progress
 * ends with a flush. Any thread: a flush by one may send what another has gathered so far. */
void mca_pml_spec_flush_later(mca_btl_base_module_t *btl);
void mca_pml_spec_flush(void);

/* The callback of opal_progress; registered while something waits, and a while longer. */
int mca_pml_spec_progress(void);
/* The component ends. */
void mca_pml_spec_pending_close(void);

#endif
