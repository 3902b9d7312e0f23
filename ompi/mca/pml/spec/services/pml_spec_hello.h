/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Exchanging communicator ids with a peer, for communicators that were made from groups (MPI Sessions).
 *
 * Nobody agreed on a number for them: each process has its own cid, and all know the communicator
 * by a name of 128 bits. Packets carry the cid of their receiver, so before the first message to a
 * peer the two must exchange them: HELLO(name, my cid, my rank), answered by the same. Sends that
 * are started before the answer wait in their order; meanwhile receives offer no buffers. A HELLO
 * for a communicator that does not exist here yet is kept until it does. */
#ifndef PML_SPEC_HELLO_H
#define PML_SPEC_HELLO_H

#include "../objects/pml_spec_comm.h"
#include "../objects/pml_spec_request.h"

/* Ask for the peer's cid; what is sent meanwhile waits (pml_spec_flow.h). */
void mca_pml_spec_hello_say(mca_pml_spec_peer_t *peer);

/* The peer's cid has come, by whatever packet: start what waited for it. */
void mca_pml_spec_hello_learn(mca_pml_spec_peer_t *peer, uint16_t ctx);

/* A communicator was added: HELLOs for it that came too early. */
void mca_pml_spec_hellos_again(mca_pml_spec_comm_t *comm);

void mca_pml_spec_hellos_fini(void);

MCA_PML_SPEC_AM_DECLARE(mca_pml_spec_recv_hello);

#endif
