/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Pinning: registrations that a persistent request makes when it is made, and gives back when it is freed (paper 004, section
 * III.C.1; docs/design/mpool.md). A start registers as it always does, and finds the memory in the transport's registration
 * cache, from where it cannot be evicted while it is pinned.
 *
 * Threads: of one request, one at a time. Nothing of it is on the path of a message. */
#ifndef PML_SPEC_PIN_H
#define PML_SPEC_PIN_H

#include "../objects/pml_spec_endpoint.h"

typedef struct mca_pml_spec_pin mca_pml_spec_pin_t;

/* Nothing is pinned. */
void mca_pml_spec_pin_init(void);

/* For size bytes at base, to or from the peer; `access`: MCA_BTL_REG_FLAG_*. NULL: nothing is pinned,
 * which is no error (small, no RDMA, no memory, refused). */
mca_pml_spec_pin_t *mca_pml_spec_pin_new(mca_pml_spec_peer_t *peer, void *base, size_t size,
                                         uint32_t access);

/* pin may be NULL. */
void mca_pml_spec_pin_free(mca_pml_spec_pin_t *pin);

#endif
