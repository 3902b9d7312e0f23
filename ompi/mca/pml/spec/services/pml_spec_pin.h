/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Pinning: registrations that a persistent request makes when it is made, and gives back when it is freed
 * (004 section III.C.1). A start registers as it always does, and finds the memory in the transport's
 * registration cache, from where it cannot be evicted while it is pinned. What a transfer uses is what
 * the cache says at that time: memory that went away in between is registered anew, and the pin of
 * the old one is of no use any more.
 *
 * Pinned only with transports that promise to survive that (MCA_BTL_IBX_PINS); Open MPI's own cache
 * ends the job when memory is given back that is in use; and not more than pml_spec_persistent_max, since
 * what is pinned cannot be evicted for what needs the room. With other transports that keep
 * registrations (mpi_leave_pinned) the memory is registered in advance, and may be evicted again.
 *
 * Threads: of one request, one at a time. Nothing of it is on the path of a message. */
#ifndef PML_SPEC_PIN_H
#define PML_SPEC_PIN_H

#include "../objects/pml_spec_endpoint.h"

typedef struct mca_pml_spec_pin mca_pml_spec_pin_t;

/* For size bytes at base, to or from the peer; `access`: MCA_BTL_REG_FLAG_*. NULL: nothing is pinned,
 * which is no error (small, no RDMA, no memory, refused). */
mca_pml_spec_pin_t *mca_pml_spec_pin_new(mca_pml_spec_peer_t *peer, void *base, size_t size,
                                         uint32_t access);

/* pin may be NULL. */
void mca_pml_spec_pin_free(mca_pml_spec_pin_t *pin);

#endif
