/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What lower layers tell upper ones: the one table of callbacks. It is fixed (calls/pml_spec.c), so that nothing has to be
 * registered before it is used. All are called with no lock held. */
#ifndef PML_SPEC_UPWARD_H
#define PML_SPEC_UPWARD_H

#include "pml_spec_compat.h"

struct mca_pml_spec_comm;
struct mca_pml_spec_peer;
struct mca_pml_spec_pin;

typedef struct mca_pml_spec_upward {
    /* MPI_Start of requests, MPI_Cancel of a receive: what Open MPI calls by way of a request. */
    int (*start)(size_t count, ompi_request_t **requests);
    int (*cancel)(ompi_request_t *request, int flag);
    /* Something that sends to the peer waited for has happened: those whose turn it is may go. */
    void (*turns)(struct mca_pml_spec_peer *peer);
    /* Messages of this process to itself that waited may be processed. */
    void (*widened)(struct mca_pml_spec_peer *self);
    /* A persistent request is freed. */
    void (*unpin)(struct mca_pml_spec_pin *pin);
    /* The last user of a communicator that was freed is gone. */
    void (*comm_free)(struct mca_pml_spec_comm *comm);
} mca_pml_spec_upward_t;

extern const mca_pml_spec_upward_t mca_pml_spec_upward;

#endif
