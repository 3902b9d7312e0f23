/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Taking receives back, to cancel one, or to queue those for any source that were queued under the only one: those whose RTR may be out by
 * REVOKE to the sender, REVOKED from it (core/spec_recv.h). */
#ifndef PML_SPEC_CANCEL_H
#define PML_SPEC_CANCEL_H

#include "../objects/pml_spec_request.h"

/* Complete these receives, which have left the queue (linked by posted.node), as cancelled. No request of theirs can
 * be in use by a transport. */
void mca_pml_spec_recvs_cancelled(spec_node_t *list);

/* E advanced or REVOKED arrived: finish what waited for it. */
void mca_pml_spec_revokes_finish(mca_pml_spec_peer_t *peer);

/* This process sends to itself, in a communicator that narrows, or not all of whose receives are widened yet. The communicator's lock is
 * held and is released; the message is kept. When all are widened, perhaps at once, those that are kept are processed. */
void mca_pml_spec_widen(mca_pml_spec_comm_t *comm);

/* MPI_Cancel of a receive. */
int mca_pml_spec_recv_cancel(ompi_request_t *request, int flag);

SPEC_AM_DECLARE(mca_pml_spec_recv_revoked);

#endif
