/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Further keys of an RTR, one for each transport more that can put: docs/design/protocol.md, "Several transports".
 *
 * A key whose RTR comes to nothing (crossed, revoked) is forgotten when MCA_PML_SPEC_KEYS_MAX newer
 * ones have come: a handle is never used twice, so that an old key fits no other RTR. */
#ifndef PML_SPEC_KEYS_H
#define PML_SPEC_KEYS_H

#include "../objects/pml_spec_request.h"

/* Most keys kept per peer: bounds what it can make us hold. */
#define MCA_PML_SPEC_KEYS_MAX 64u

/* The receiver is about to send an RTR by recvreq->rtr_btl: register the buffer with the other
 * transports that can put, and send their keys. A message that is too short to be shared has none. */
void mca_pml_spec_keys_offer(mca_pml_spec_recv_request_t *recvreq);

/* Take the keys for receive r out of what is kept; appended to `keys`. */
void mca_pml_spec_keys_take(mca_pml_spec_peer_t *peer, uint64_t r, spec_node_t *keys);

/* The key for a transport among those taken, or NULL. */
const mca_pml_spec_rtr_t *mca_pml_spec_keys_find(const spec_node_t *keys,
                                                 const mca_btl_base_module_t *btl);

void mca_pml_spec_keys_free(spec_node_t *keys);

SPEC_AM_DECLARE(mca_pml_spec_recv_key);

#endif
