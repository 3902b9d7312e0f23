/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Moving ranges of a message in fragments, through the transports' buffers: for everything that RDMA cannot carry, and for RDMA
 * that failed. */
#ifndef PML_SPEC_COPY_H
#define PML_SPEC_COPY_H

#include "../objects/pml_spec_request.h"

/* Send a range in fragments to receive sendreq->r. */
void mca_pml_spec_copy_send(mca_pml_spec_send_request_t *sendreq, uint64_t offset, uint64_t length);

MCA_PML_SPEC_AM_DECLARE(mca_pml_spec_recv_frag);

#endif
