/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Exchanging communicator ids with a peer, for communicators that were made from groups (MPI Sessions): docs/design/protocol.md,
 * "Communicators without a common number". */
#ifndef PML_SPEC_HELLO_H
#define PML_SPEC_HELLO_H

#include "../objects/pml_spec_comm.h"
#include "../objects/pml_spec_request.h"

/* Tell the peer my cid, and ask for its, unless this is the answer; what is sent meanwhile waits (pml_spec_flow.h). */
void mca_pml_spec_hello_say(mca_pml_spec_peer_t *peer, bool is_answer);

/* The peer's cid has come, by whatever packet: start what waited for it. */
void mca_pml_spec_hello_learn(mca_pml_spec_peer_t *peer, uint16_t ctx);

/* A communicator was added: HELLOs for it that came too early. */
void mca_pml_spec_hellos_again(mca_pml_spec_comm_t *comm);

void mca_pml_spec_hellos_fini(void);

SPEC_AM_DECLARE(mca_pml_spec_recv_hello);

#endif
