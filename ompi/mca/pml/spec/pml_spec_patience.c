/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See pml_spec_patience.h. */
#include "pml_spec_patience.h"

void mca_pml_spec_patience_moved(mca_pml_spec_peer_t *peer, const mca_pml_spec_transfer_t *transfer)
{
    if (0 != transfer->started) {
        const uint64_t took = mca_pml_spec_now_ns() - transfer->started;
        mca_pml_spec_lock(&peer->send_lock);
        spec_patience_moved(&peer->patience, transfer->length, took);
        mca_pml_spec_unlock(&peer->send_lock);
    }
}

void mca_pml_spec_patience_wait(mca_pml_spec_send_request_t *sendreq)
{
    mca_pml_spec_peer_t *peer = sendreq->peer;
    const uint64_t length = sendreq->req_send.req_bytes_packed;
    if (OPAL_LIKELY(0 == MCA_PML_SPEC_GLANCE(peer->patience.wait)) || length < SPEC_PATIENCE_LEAST
        || 0 == MCA_PML_SPEC_GLANCE(peer->offers) || mca_pml_spec_rtr_is_here(sendreq)) {
        return;
    }
    mca_pml_spec_lock(&peer->send_lock);
    uint64_t most = spec_patience_of(&peer->patience);
    mca_pml_spec_unlock(&peer->send_lock);
    if (most / 1000 >= mca_pml_spec.patience_max) {
        most = mca_pml_spec.patience_max * 1000;
    }
    if (OPAL_LIKELY(0 == most)) {
        return;
    }
    const uint64_t start = mca_pml_spec_now_ns();
    uint64_t took = 0;
    bool came = false;
    do {
        opal_progress();
        took = mca_pml_spec_now_ns() - start;
        came = mca_pml_spec_rtr_is_here(sendreq);
    } while (!came && took < most);
    mca_pml_spec_lock(&peer->send_lock);
    spec_patience_waited(&peer->patience, length, took, came);
    mca_pml_spec_unlock(&peer->send_lock);
    MCA_PML_SPEC_COUNT(patience_waits);
    MCA_PML_SPEC_COUNT_N(patience_met, came);
    MCA_PML_SPEC_COUNT_N(patience_us, took / 1000);
}
