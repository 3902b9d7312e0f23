/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Cancelling a receive. One whose RTR may be out is taken back first: REVOKE to the sender, REVOKED from it (core/spec_recv.h).
 */
#ifndef PML_SPEC_CANCEL_H
#define PML_SPEC_CANCEL_H

#include "../objects/pml_spec_request.h"

/* Complete these receives, which have left the queue (linked by posted.node), as cancelled. No request of theirs can
 * be in use by a transport. */
void mca_pml_spec_recvs_cancelled(spec_node_t *list);

/* E advanced or REVOKED arrived: finish the cancels that waited for it. */
void mca_pml_spec_revokes_finish(mca_pml_spec_peer_t *peer);

/* MPI_Cancel of a receive. */
int mca_pml_spec_recv_cancel(ompi_request_t *request, int flag);

SPEC_AM_DECLARE(mca_pml_spec_recv_revoked);

#endif
