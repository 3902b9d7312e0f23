/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Moving ranges of a message in fragments, through the transports' buffers: for everything that RDMA cannot carry, and for RDMA
 * that failed. */
#ifndef PML_SPEC_COPY_H
#define PML_SPEC_COPY_H

#include "../objects/pml_spec_request.h"

/* Send a range in fragments to receive r of the request, which is a send's. */
void mca_pml_spec_copy_send(void *request, uint64_t offset, uint64_t length);

/* ---- fragments of one block between processes of a host; until the receiver has given one back it counts in peer->fragments ---- */

/* Bytes of their headers, whatever the type. */
#define MCA_PML_SPEC_COPY_HEADER sizeof(mca_pml_spec_frag_hdr_t)

/* None is under way. */
void mca_pml_spec_copy_init(void);

/* Data of one, at most. */
static inline uint64_t mca_pml_spec_copy_most(const mca_pml_spec_peer_t *peer)
{
    return peer->eager_most + sizeof(mca_pml_spec_match_hdr_t) - MCA_PML_SPEC_COPY_HEADER;
}

/* May so many more be under way to the peer? */
bool mca_pml_spec_copy_has_room(const mca_pml_spec_peer_t *peer, int32_t n);

/* Send one of this type. False: the transport has no room. */
bool mca_pml_spec_copy_packet(mca_pml_spec_send_request_t *sendreq, uint8_t type, const void *hdr,
                              uint64_t offset, uint64_t length);

/* Send one to the receive that has told its handle. It is accounted for as soon as it has left the user's buffer. False: the
 * transport has no room. */
bool mca_pml_spec_copy_fragment(mca_pml_spec_send_request_t *sendreq, uint64_t offset,
                                uint64_t length);

/* The receiver is about to ask for what the first packet did not bring: the fragment that begins it is copied ahead. */
void mca_pml_spec_copy_begins(mca_pml_spec_send_request_t *sendreq);

/* Copy a fragment before it is known that it is wanted: mca_pml_spec_copy_fragment sends it if it is for this range. The request
 * keeps it, or until its end. */
void mca_pml_spec_copy_ahead(mca_pml_spec_send_request_t *sendreq, uint64_t offset,
                             uint64_t length);

/* A packet of a header and, packed behind it, the message's data from `position` on: *size bytes at most; *size is how many.
 * The convertor packs whole elements, and the packet is no larger than what it packed, because btl/ofi sends what was
 * allocated. NULL: the transport has no room. That data could not be read is in the request's status. */
mca_btl_base_descriptor_t *mca_pml_spec_pack(mca_pml_spec_send_request_t *sendreq,
                                             mca_bml_base_btl_t *bml_btl, const void *hdr,
                                             size_t header, size_t position, size_t *size,
                                             uint32_t flags);

SPEC_AM_DECLARE(mca_pml_spec_recv_frag);

#endif
