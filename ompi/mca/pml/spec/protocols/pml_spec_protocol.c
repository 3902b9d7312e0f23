/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What protocols do alike when a message's first packet cannot go: the transport has no room, or the data cannot be read. */
#include "pml_spec_protocol.h"

#include "../objects/pml_spec_upward.h"
#include "../services/pml_spec_control.h"
#include "../services/pml_spec_flow.h"

static bool retry(mca_pml_spec_pending_t *pending)
{
    mca_pml_spec_send_request_t *sendreq =
        SPEC_ENTRY(pending, mca_pml_spec_send_request_t, pending);
    if (mca_pml_spec_lost(sendreq->peer)) {
        mca_pml_spec_send_unreachable(sendreq);
        return true;
    }
    if (OPAL_UNLIKELY(mca_pml_spec_send_is_lost(sendreq))) { /* but its number is used */
        mca_pml_spec_send_faulty(sendreq);
        return true;
    }
    return sendreq->proto->again(sendreq);
}

void mca_pml_spec_send_later(mca_pml_spec_send_request_t *sendreq)
{
    sendreq->pending.retry = retry;
    mca_pml_spec_pend(&sendreq->pending, MCA_PML_SPEC_RES_EAGER(sendreq->peer->endpoint));
}

void mca_pml_spec_send_faulty(mca_pml_spec_send_request_t *sendreq)
{
    mca_pml_spec_peer_t *peer = sendreq->peer;
    const mca_pml_spec_rts_hdr_t rts = {
        .match = mca_pml_spec_match_hdr(MCA_PML_SPEC_RTS, peer, sendreq->req_send.req_base.req_tag,
                                        sendreq->seq),
        .length = sendreq->req_send.req_bytes_packed,
        .flags = MCA_PML_SPEC_RTS_FAULT};
    mca_pml_spec_control_send(peer->endpoint, NULL, &rts, sizeof(rts));
    mca_pml_spec_flow_brings(peer, sendreq->first, 0);
    if (OPAL_UNLIKELY(MCA_PML_SPEC_SEEN(peer->shut))) {
        mca_pml_spec_upward.turns(peer); /* that credit may be what another send waits for */
    }
    mca_pml_spec_send_done(sendreq);
}
