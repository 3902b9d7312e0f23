/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Adaptation: stops receivers that offer their buffers (RTR) in vain, and lets them resume. Here the rules of
 * core/spec_adapt.h meet messages, and send the packets STOP, PING and PONG. Only with pml_spec_speculation auto.
 *
 * Threads: all functions take adapt_lock (innermost) themselves. */
#ifndef PML_SPEC_ADAPT_H
#define PML_SPEC_ADAPT_H

#include "../core/spec_adapt.h"
#include "../objects/pml_spec_comm.h"
#include "../objects/pml_spec_request.h"

static inline bool mca_pml_spec_adapts(void)
{
    return MCA_PML_SPEC_SPECULATION_AUTO == mca_pml_spec.speculation;
}

/* spec_adapt_entry_t.cookie of an envelope that the profile leaves out. */
#define MCA_PML_SPEC_NO_COOKIE UINT64_MAX

void mca_pml_spec_adapt_init(void);
void mca_pml_spec_adapt_fini(void);

/* The key of an envelope: the peer's rank in the peer's communicator. */
static inline spec_envelope_t mca_pml_spec_envelope(const mca_pml_spec_peer_t *peer, int32_t tag)
{
    return (spec_envelope_t){.ctx = (uint32_t) peer->comm->epoch << 16 | peer->comm->cid,
                             .peer = peer->rank,
                             .tag = tag};
}

/* ---- at the sender ---- */

/* Is speculation stopped for what I send with this tag? */
static inline bool mca_pml_spec_adapt_is_stopped(mca_pml_spec_peer_t *peer, int32_t tag)
{
    if (OPAL_LIKELY(0 == MCA_PML_SPEC_GLANCE(mca_pml_spec.adapt_out.n)) || !mca_pml_spec_adapts()) {
        return false;
    }
    mca_pml_spec_lock(&mca_pml_spec.adapt_lock);
    bool stopped = spec_adapt_recalls(&mca_pml_spec.adapt_out, &peer->stopped_out, tag);
    if (!stopped
        && spec_adapt_is_stopped(&mca_pml_spec.adapt_out, mca_pml_spec_envelope(peer, tag))) {
        spec_adapt_note(&mca_pml_spec.adapt_out, &peer->stopped_out, tag);
        stopped = true;
    }
    mca_pml_spec_unlock(&mca_pml_spec.adapt_lock);
    return stopped;
}

/* An RTR arrived, sent when its receiver expected message e. */
void mca_pml_spec_adapt_arrived(mca_pml_spec_peer_t *peer, int32_t tag, uint32_t e);

/* An RTR was used or dropped. */
void mca_pml_spec_adapt_settled(mca_pml_spec_peer_t *peer, int32_t tag, bool used);

/* An RTS leaves: its part of STOP and of the measurement. Sets rts_flags and sent_at. */
void mca_pml_spec_adapt_announce(mca_pml_spec_send_request_t *sendreq);

/* If STOP is to be said for this tag, say it in a packet of its own: an eager message used an RTR up, and no RTS may ever come; or RTRs of
 * receives for any tag are of no use, and an RTS has a tag. No lock is held. */
void mca_pml_spec_adapt_say(mca_pml_spec_peer_t *peer, int32_t tag, uint32_t seq);

/* ---- at the receiver ---- */

/* Is a receive with this tag known to be stopped without the table? */
static inline bool mca_pml_spec_adapt_recalls(mca_pml_spec_peer_t *peer, int32_t tag)
{
    if (OPAL_LIKELY(0 == MCA_PML_SPEC_GLANCE(mca_pml_spec.adapt_in.n))) {
        return false;
    }
    mca_pml_spec_lock(&mca_pml_spec.adapt_lock);
    const bool stopped = spec_adapt_recalls(&mca_pml_spec.adapt_in, &peer->stopped_in, tag);
    mca_pml_spec_unlock(&mca_pml_spec.adapt_lock);
    return stopped;
}

/* A receive predicts a rendezvous: may it speculate? */
bool mca_pml_spec_adapt_may(mca_pml_spec_peer_t *peer, int32_t tag);

/* The message of a receive that watched came, number seq, so many bytes. sent_at: as in the RTS, 0: not known;
 * in_time is false: it can be ruled out without the clocks. */
void mca_pml_spec_adapt_judge(mca_pml_spec_recv_request_t *recvreq, uint32_t seq, uint64_t length,
                              bool in_time, uint32_t sent_at);

/* A message with STOP was matched. */
void mca_pml_spec_adapt_stop(mca_pml_spec_peer_t *peer, int32_t tag);

/* Callbacks for the packets. */
SPEC_AM_DECLARE(mca_pml_spec_recv_stop);
SPEC_AM_DECLARE(mca_pml_spec_recv_ping);
SPEC_AM_DECLARE(mca_pml_spec_recv_pong);

#endif
