/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What a protocol is: a table of what it does with a send, and with the message that arrives. The list of them, and how to
 * add one: pml_spec_protocols.h. */
#ifndef PML_SPEC_PROTOCOL_H
#define PML_SPEC_PROTOCOL_H

#include "../objects/pml_spec_request.h"

#define MCA_PML_SPEC_STAGES 4

/* A packet that carries no sequence number. */
typedef struct mca_pml_spec_packet_type {
    int type; /* enum mca_pml_spec_type; 0: the end of a list */
    mca_btl_base_module_recv_cb_fn_t arrived;
    /* One that was parked, because its communicator did not exist yet; NULL: it never is. */
    void (*parked)(const mca_pml_spec_packet_t *packet);
} mca_pml_spec_packet_type_t;

/* Hooks that are not needed are NULL. The descriptors are constants in headers, so that calls of what they name are direct. */
typedef struct mca_pml_spec_protocol {
    const char *name;

    /* ---- at the sender ---- */
    /* Is the message for this protocol? The first that says so has it. has_rtr: there is an RTR for it, to be used.
     * Under the peer's send_lock. */
    bool (*probe)(const mca_pml_spec_send_request_t *sendreq, bool has_rtr);
    /* Bytes of data that its first packet carries; what that costs the receiver is paid from the peer's credit. */
    size_t (*brings)(const mca_pml_spec_send_request_t *sendreq);
    /* The message has its number and may go; rtr: to be used and freed, or NULL. No lock is held, and the request may end
     * at any time. */
    void (*start)(mca_pml_spec_send_request_t *sendreq, mca_pml_spec_rtr_t *rtr);
    /* After mca_pml_spec_send_later: false: there is still no room. */
    bool (*again)(mca_pml_spec_send_request_t *sendreq);
    const char *stage[MCA_PML_SPEC_STAGES];

    /* ---- at the receiver ---- */
    /* The packet with a sequence number that brings or announces the message; 0: it has none. */
    int message;
    /* What is wrong with the packet beyond its match header, or NULL. */
    const char *(*check)(const mca_pml_spec_packet_t *packet);
    /* Bytes of the message; and what it costs to keep the packet (core/spec_flow.h). */
    size_t (*length)(const mca_pml_spec_packet_t *packet);
    uint32_t (*cost)(const mca_pml_spec_packet_t *packet);
    /* Keeps the packet, if more is to be done than to copy it. Under the communicator's lock. */
    mca_pml_spec_frag_t *(*keep)(mca_pml_spec_peer_t *peer, const mca_pml_spec_packet_t *packet);
    /* The opposite, for one that is refused after all; the caller frees it. Under the same lock. */
    void (*forget)(mca_pml_spec_frag_t *frag);
    /* The packet names its receive: did matching find that? If not, the sender was given up, else the job ends. Under the
     * communicator's lock. */
    bool (*expect)(const mca_pml_spec_peer_t *peer, const mca_pml_spec_packet_t *packet,
                   const spec_posted_t *posted);
    /* It was matched. No lock is held. */
    void (*deliver)(mca_pml_spec_recv_request_t *recvreq, const mca_pml_spec_packet_t *packet);
    /* The same of one that was kept, whose peer is set in the receive, if more is to be done than to deliver and to free it. */
    void (*deliver_kept)(mca_pml_spec_recv_request_t *recvreq, mca_pml_spec_frag_t *frag);
    /* Its other packets. */
    const mca_pml_spec_packet_type_t *packets;
} mca_pml_spec_protocol_t;

static inline void mca_pml_spec_stage(mca_pml_spec_send_request_t *sendreq,
                                      const mca_pml_spec_protocol_t *proto, int32_t to)
{
    MCA_PML_SPEC_VERBOSE(50, "send %p: %s: %s -> %s", (void *) sendreq, proto->name,
                         proto->stage[sendreq->stage], proto->stage[to]);
    sendreq->proto = proto;
    sendreq->stage = to;
}

/* The transport has no room for the first packet: `again` from progress until there is, or the peer is lost. The protocol holds
 * nothing meanwhile. */
void mca_pml_spec_send_later(mca_pml_spec_send_request_t *sendreq);

/* The data of the first packet could not be read, as the request's status says, or the program has it back: the receiver is told in its place, and the
 * request is done. */
void mca_pml_spec_send_faulty(mca_pml_spec_send_request_t *sendreq);

#endif
