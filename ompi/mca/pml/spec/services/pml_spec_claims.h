/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The words by which an offered buffer is taken or withdrawn (core/spec_claim.h), for processes of one host.
 *
 * They are the receiver's: one page for the process, made when it offers its first buffer to a process of its host. It has
 * no name in a file system, so that nothing of it outlives the process; each RTR tells where it is found below /proc. The word
 * of a receive is that of its handle. A sender that cannot reach the page (another user, a container with processes of its own)
 * uses no RTR of this receiver, and says STOP. */
#ifndef PML_SPEC_CLAIMS_H
#define PML_SPEC_CLAIMS_H

#include "../objects/pml_spec_request.h"

/* At the receiver: may buffers be offered to this peer? Yes to those of other hosts, whose offers have no word. */
bool mca_pml_spec_claims_serve(const mca_pml_spec_peer_t *peer);
/* Its word offers. False: there is no word for it, so that it must not be offered. */
bool mca_pml_spec_claims_offer(mca_pml_spec_recv_request_t *recvreq);
/* The same for a receive whose message has been announced: both ends take pieces of it. */
bool mca_pml_spec_claims_share(mca_pml_spec_recv_request_t *recvreq, bool waits, bool fragments);
/* Where its word is, for a packet to the sender; pid 0: it has none. */
void mca_pml_spec_claims_tell(const mca_pml_spec_recv_request_t *recvreq, uint32_t *pid,
                              uint16_t *fd);

/* At the sender: the word of its receive r, there. False: it has one that cannot be reached, so that an RTR of it must not be used.
 * Called under no lock. */
bool mca_pml_spec_claims_find(mca_pml_spec_peer_t *peer, uint64_t r, uint32_t pid, uint16_t fd,
                              spec_claim_t *claim);

/* The peer's communicator ends, and with it all that has a word there. */
void mca_pml_spec_claims_forget(mca_pml_spec_peer_t *peer);

void mca_pml_spec_claims_fini(void);

#endif
