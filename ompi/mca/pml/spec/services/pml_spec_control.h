/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Packets of the protocols that carry no user data: sent at once, or kept and sent when the transport has room. */
#ifndef PML_SPEC_CONTROL_H
#define PML_SPEC_CONTROL_H

#include "../objects/pml_spec_endpoint.h"
#include "../objects/pml_spec_packet.h"

/* A completion callback for descriptors that nobody waits for. */
void mca_pml_spec_sent_cb(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *ep,
                          mca_btl_base_descriptor_t *des, int status);

/* Send a packet that carries no user data: header of len bytes (at most that of an RTR and its key), whose
 * first byte is its type. bml_btl: by which transport; any of the endpoint's if NULL. Never fails:
 * what the transport refuses is copied and tried again from progress. */
void mca_pml_spec_control_send(mca_bml_base_endpoint_t *endpoint, mca_bml_base_btl_t *bml_btl,
                               const void *hdr, size_t len);

/* The same by this transport, but it may wait with what was posted before it until mca_pml_spec_flush, where the transport gathers
 * (promises.h): for a caller that is about to post more, and flushes. */
void mca_pml_spec_control_gather(mca_bml_base_endpoint_t *endpoint, mca_bml_base_btl_t *bml_btl,
                                 const void *hdr, size_t len);

#endif
