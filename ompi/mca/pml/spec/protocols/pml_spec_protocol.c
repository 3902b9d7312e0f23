/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What protocols do alike when a transport has no room for a message's first packet. */
#include "pml_spec_protocol.h"

static bool retry(mca_pml_spec_pending_t *pending)
{
    mca_pml_spec_send_request_t *sendreq =
        SPEC_ENTRY(pending, mca_pml_spec_send_request_t, pending);
    if (mca_pml_spec_lost(sendreq->peer)) {
        sendreq->proto->abort(sendreq);
        return true;
    }
    return sendreq->proto->again(sendreq);
}

void mca_pml_spec_send_later(mca_pml_spec_send_request_t *sendreq)
{
    sendreq->pending.retry = retry;
    mca_pml_spec_pend(&sendreq->pending, MCA_PML_SPEC_RES_EAGER(sendreq->peer->endpoint));
}

void mca_pml_spec_send_unreachable(mca_pml_spec_send_request_t *sendreq)
{
    sendreq->status = OMPI_ERR_UNREACH;
    mca_pml_spec_send_done(sendreq);
}
