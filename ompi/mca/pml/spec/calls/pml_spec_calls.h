/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What Open MPI calls: the functions of the module, and starting a message. */
#ifndef PML_SPEC_CALLS_H
#define PML_SPEC_CALLS_H

#include "../objects/pml_spec_agent.h"
#include "../objects/pml_spec_request.h"
#include "../protocols/pml_spec_eager.h"
#include "../protocols/pml_spec_rtr.h"
#include "../services/pml_spec_adapt.h"
#include "../services/pml_spec_costs.h"
#include "../services/pml_spec_flow.h"

/* pml_spec.c */
int mca_pml_spec_enable(bool enable);
void mca_pml_spec_finalize(void);

/* pml_spec_isend.c */
MCA_PML_SPEC_DECLARE(isend_init, mca_pml_spec_isend_init);
MCA_PML_SPEC_DECLARE(isend, mca_pml_spec_isend);
MCA_PML_SPEC_DECLARE(send, mca_pml_spec_send);

/* pml_spec_irecv.c */
MCA_PML_SPEC_DECLARE(irecv_init, mca_pml_spec_irecv_init);
MCA_PML_SPEC_DECLARE(irecv, mca_pml_spec_irecv);
MCA_PML_SPEC_DECLARE(recv, mca_pml_spec_recv);
MCA_PML_SPEC_DECLARE(imrecv, mca_pml_spec_imrecv);
MCA_PML_SPEC_DECLARE(mrecv, mca_pml_spec_mrecv);

/* pml_spec_probe.c */
MCA_PML_SPEC_DECLARE(iprobe, mca_pml_spec_iprobe);
MCA_PML_SPEC_DECLARE(probe, mca_pml_spec_probe);
MCA_PML_SPEC_DECLARE(improbe, mca_pml_spec_improbe);
MCA_PML_SPEC_DECLARE(mprobe, mca_pml_spec_mprobe);

/* pml_spec_start.c: MPI_Start and MPI_Startall. */
int mca_pml_spec_start(size_t count, ompi_request_t **requests);

/* pml_spec_add_comm.c */
int mca_pml_spec_add_comm(ompi_communicator_t *comm);
int mca_pml_spec_del_comm(ompi_communicator_t *comm);
/* Nobody uses it any more. */
void mca_pml_spec_comm_free(mca_pml_spec_comm_t *comm);
/* Free the table of communicators (at finalize). */
void mca_pml_spec_cids_fini(void);

/* ---- starting a message: pml_spec_send.c, pml_spec_recv.c ---- */

/* What starts a message. */
typedef enum {
    MCA_PML_SPEC_BY_SEND,  /* a call that waits for it next */
    MCA_PML_SPEC_BY_ISEND, /* one that returns */
    MCA_PML_SPEC_BY_TURN,  /* progress: it had to wait for its turn */
} mca_pml_spec_by_t;

/* Make the request ready for a (new) start. */
static inline void mca_pml_spec_send_reset(mca_pml_spec_send_request_t *sendreq)
{
    mca_pml_base_request_t *base = &sendreq->req_send.req_base;
    MCA_PML_BASE_SEND_START(&sendreq->req_send);
    base->req_free_called = false;
    base->req_ompi.req_status.MPI_ERROR =
        OMPI_SUCCESS; /* MPI_Waitany reads it of pending ones, too */
    sendreq->life = 0;
    sendreq->status = OMPI_SUCCESS;
    sendreq->noticed = sendreq->told = false;
    sendreq->proto = NULL;
    sendreq->stage = 0;
    sendreq->left = (int64_t) sendreq->req_send.req_bytes_packed;
    sendreq->is_flat =
        !sendreq->on_device && mca_pml_spec_is_flat(base->req_datatype, base->req_count);
    sendreq->flat = mca_pml_spec_flat_base(base->req_addr, base->req_datatype);
}

/* ---- small messages: one block, eager, in a mode that asks for nothing special ---- */

/* One gets its credit and its number. False: there is no credit now, and nothing was done. Takes send_lock. */
static inline bool mca_pml_spec_small_number(mca_pml_spec_peer_t *peer, size_t length, int32_t tag,
                                             uint32_t *seq)
{
    spec_ctl_t *ctl;
    spec_rtr_fate_t fate = SPEC_RTR_KEPT;
    mca_pml_spec_agent_accept();
    if (OPAL_UNLIKELY(MCA_PML_SPEC_GLANCE(peer->unnoticed_n) > 0)) {
        mca_pml_spec_rtr_notice(peer);
    }
    mca_pml_spec_lock(&peer->send_lock);
    if (OPAL_UNLIKELY(!mca_pml_spec_flow_spend(peer, spec_flow_cost(length)))) {
        mca_pml_spec_unlock(&peer->send_lock);
        return false;
    }
    *seq = spec_send_issue(&peer->send, tag, length, false, &ctl, &fate);
    mca_pml_spec_count_eager(peer, length);
    mca_pml_spec_agent_asks(peer->proc);
    mca_pml_spec_unlock(&peer->send_lock);
    if (OPAL_UNLIKELY(NULL != ctl)) {
        const int32_t wanted = ctl->tag; /* any, or the message's */
        mca_pml_spec_rtr_drop(peer, SPEC_ENTRY(ctl, mca_pml_spec_rtr_t, ctl), fate);
        mca_pml_spec_adapt_say(peer, wanted, *seq);
    }
    return true;
}

/* One with a number goes by this transport, and its request hears of its end. The request was reset. */
static inline void mca_pml_spec_small_send(mca_pml_spec_send_request_t *sendreq, uint32_t seq,
                                           mca_bml_base_btl_t *bml_btl, bool blocks)
{
    sendreq->seq = seq;
    sendreq->first = sendreq->req_send.req_bytes_packed;
    sendreq->fits = true;
    sendreq->gathers = false;
    sendreq->copies = true;
    sendreq->blocks = blocks;
    sendreq->stopped = false;
    mca_pml_spec_agent_watch(&sendreq->life, blocks, sendreq->req_send.req_bytes_packed,
                             sendreq->req_send.req_base.req_tag);
    mca_pml_spec_eager_start_copy(sendreq, bml_btl);
}

/* Start the message: give it its sequence number and choose the protocol. */
int mca_pml_spec_send_start(mca_pml_spec_send_request_t *sendreq, mca_pml_spec_by_t by);

/* Something that sends to the peer waited for has happened: those whose turn it is go. No lock is held. */
void mca_pml_spec_send_turns(mca_pml_spec_peer_t *peer);

/* Post the request, or give it the unexpected message that it wants. blocking: the caller waits for
 * it next. */
int mca_pml_spec_recv_start(mca_pml_spec_recv_request_t *recvreq, bool blocking);

#endif
