/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Stops and resumes the offering of buffers where it does not pay: counts, tells the peer, measures clocks. */
#include "pml_spec_adapt.h"

#include "../core/spec_clock.h"
#include "pml_spec_control.h"

/* Offers, or receives, of which the share is taken: fewer are by chance, more change slowly. And for how many envelopes a
 * process remembers it in each direction, 40 bytes each, allocated with the first; the longest unused is forgotten. */
enum { WINDOW = 16, ENTRIES = 4096 };

void mca_pml_spec_adapt_init(void)
{
    const spec_adapt_policy_t policy = {
        .window = WINDOW,
        .stop_below = (uint32_t) mca_pml_spec.adapt_threshold,
        .resume_at = spec_adapt_resume_at((uint32_t) mca_pml_spec.adapt_threshold)};
    OBJ_CONSTRUCT(&mca_pml_spec.adapt_lock, opal_mutex_t);
    spec_adapt_init(&mca_pml_spec.adapt_in, ENTRIES, policy);
    spec_adapt_init(&mca_pml_spec.adapt_out, ENTRIES, policy);
}

void mca_pml_spec_adapt_fini(void)
{
    spec_adapt_fini(&mca_pml_spec.adapt_in);
    spec_adapt_fini(&mca_pml_spec.adapt_out);
    OBJ_DESTRUCT(&mca_pml_spec.adapt_lock);
}

/* For the profile: the peer's rank in MPI_COMM_WORLD and mine in the communicator. A process of
 * another job is not in this job's profile. */
static uint64_t cookie_of(const mca_pml_spec_peer_t *peer)
{
    const opal_process_name_t name = peer->proc->super.proc_name;
    return name.jobid != mca_pml_spec_job_id()
               ? MCA_PML_SPEC_NO_COOKIE
               : (uint64_t) name.vpid << 32 | (uint32_t) peer->comm->my_rank;
}

#define TELL(direction, peer, tag, text, ...)                                                      \
    MCA_PML_SPEC_VERBOSE(10, direction " rank %d of communicator %u with tag %d: " text,           \
                         (peer)->rank, (peer)->comm->cid, tag, ##__VA_ARGS__)

/* ---- at the sender ---- */

void mca_pml_spec_adapt_arrived(mca_pml_spec_peer_t *peer, int32_t tag, uint32_t e)
{
    if (!mca_pml_spec_adapts() || 0 == MCA_PML_SPEC_GLANCE(mca_pml_spec.adapt_out.n)) {
        return;
    }
    mca_pml_spec_lock(&mca_pml_spec.adapt_lock);
    const bool resumed =
        spec_adapt_out_arrived(&mca_pml_spec.adapt_out, mca_pml_spec_envelope(peer, tag), e);
    mca_pml_spec_unlock(&mca_pml_spec.adapt_lock);
    if (resumed) {
        TELL("sends to", peer, tag, "the receiver offers its buffers again");
    }
}

void mca_pml_spec_adapt_settled(mca_pml_spec_peer_t *peer, int32_t tag, bool used)
{
    if (!mca_pml_spec_adapts()) {
        return;
    }
    mca_pml_spec_lock(&mca_pml_spec.adapt_lock);
    const bool stopping =
        spec_adapt_out_settled(&mca_pml_spec.adapt_out, mca_pml_spec_envelope(peer, tag), used);
    mca_pml_spec_unlock(&mca_pml_spec.adapt_lock);
    if (stopping) {
        TELL("sends to", peer, tag,
             "fewer than %d %% of the latest RTRs (at most %d) were of use; the receiver will be "
             "told STOP",
             mca_pml_spec.adapt_threshold, WINDOW);
    }
}

/* Is message seq to say STOP? */
static bool says_stop(const mca_pml_spec_peer_t *peer, int32_t tag, uint32_t seq)
{
    mca_pml_spec_lock(&mca_pml_spec.adapt_lock);
    const bool says =
        spec_adapt_out_say(&mca_pml_spec.adapt_out, mca_pml_spec_envelope(peer, tag), seq);
    mca_pml_spec_unlock(&mca_pml_spec.adapt_lock);
    return says;
}

void mca_pml_spec_adapt_announce(mca_pml_spec_send_request_t *sendreq)
{
    sendreq->rts_flags = 0;
    sendreq->sent_at = 0;
    if (OPAL_LIKELY(0 == MCA_PML_SPEC_GLANCE(mca_pml_spec.adapt_out.n)) || !mca_pml_spec_adapts()) {
        return;
    }
    if (says_stop(sendreq->peer, sendreq->req_send.req_base.req_tag, sendreq->seq)) {
        sendreq->rts_flags = MCA_PML_SPEC_RTS_STOP;
        MCA_PML_SPEC_COUNT(stops_sent);
    } else if (sendreq->stopped
               && spec_adapt_samples(sendreq->seq, sendreq->req_send.req_bytes_packed)) {
        sendreq->sent_at = spec_stamp(spec_now());
    }
    mca_pml_spec_adapt_say(sendreq->peer, SPEC_ANY, sendreq->seq);
}

void mca_pml_spec_adapt_say(mca_pml_spec_peer_t *peer, int32_t tag, uint32_t seq)
{
    const bool says = mca_pml_spec_adapts() && says_stop(peer, tag, seq);
    mca_bml_base_endpoint_t *endpoint =
        says && MCA_PML_SPEC_SEEN(peer->ctx_known) ? mca_pml_spec_endpoint(peer) : NULL;
    if (NULL != endpoint) {
        const mca_pml_spec_match_hdr_t stop =
            mca_pml_spec_match_hdr(MCA_PML_SPEC_STOP, peer, tag, seq);
        MCA_PML_SPEC_COUNT(stops_sent);
        mca_pml_spec_control_send(endpoint, NULL, &stop, sizeof(stop));
    }
}

/* ---- at the receiver ---- */

/* Ask the peer for its clock, if no question is open. */
static void ping(mca_pml_spec_peer_t *peer)
{
    mca_pml_spec_comm_t *comm = peer->comm;
    mca_pml_spec_ping_hdr_t hdr = {
        .type = MCA_PML_SPEC_PING, .epoch = comm->epoch, .src = comm->my_rank};
    mca_bml_base_endpoint_t *endpoint =
        MCA_PML_SPEC_SEEN(peer->ctx_known) ? mca_pml_spec_endpoint(peer) : NULL;
    hdr.ctx = peer->ctx;
    mca_pml_spec_lock(&mca_pml_spec.adapt_lock);
    hdr.asked = spec_now();
    const bool ask = NULL != endpoint && spec_clock_ask(&peer->clock, hdr.asked);
    mca_pml_spec_unlock(&mca_pml_spec.adapt_lock);
    if (ask) {
        mca_pml_spec_control_send(endpoint, NULL, &hdr, sizeof(hdr));
    }
}

bool mca_pml_spec_adapt_may(mca_pml_spec_peer_t *peer, int32_t tag)
{
    if (OPAL_LIKELY(0 == MCA_PML_SPEC_GLANCE(mca_pml_spec.adapt_in.n)) || !mca_pml_spec_adapts()) {
        return true;
    }
    mca_pml_spec_lock(&mca_pml_spec.adapt_lock);
    const bool may = spec_adapt_in_may(&mca_pml_spec.adapt_in, mca_pml_spec_envelope(peer, tag));
    if (!may) {
        spec_adapt_note(&mca_pml_spec.adapt_in, &peer->stopped_in, tag);
    }
    mca_pml_spec_unlock(&mca_pml_spec.adapt_lock);
    return may;
}

void mca_pml_spec_adapt_judge(mca_pml_spec_recv_request_t *recvreq, uint32_t seq, uint64_t length,
                              bool in_time, uint32_t sent_at)
{
    mca_pml_spec_peer_t *peer = recvreq->peer;
    const int32_t tag = recvreq->req_recv.req_base.req_tag;
    const uint64_t posted = recvreq->watched_since;
    recvreq->watched_since = 0;
    if (!spec_adapt_samples(seq, length)) {
        return;
    }

    mca_pml_spec_lock(&mca_pml_spec.adapt_lock);
    if (in_time && !spec_clock_is_known(&peer->clock)) {
        mca_pml_spec_unlock(&mca_pml_spec.adapt_lock);
        ping(peer); /* cannot say: as if it had not been seen */
        return;
    }
    if (in_time) {
        in_time =
            0 == sent_at
                /* a sender that forgot about STOP: by its arrival, less one way */
                ? spec_now() - posted > 2 * spec_clock_one_way(&peer->clock)
                : spec_stamp_after(sent_at, spec_stamp(spec_clock_arrival(&peer->clock, posted)));
    }
    const uint64_t one_way = spec_clock_one_way(&peer->clock);
    const spec_adapt_verdict_t verdict =
        spec_adapt_in_judge(&mca_pml_spec.adapt_in, mca_pml_spec_envelope(peer, tag), in_time);
    mca_pml_spec_unlock(&mca_pml_spec.adapt_lock);
    if (SPEC_ADAPT_WINDOW == verdict) {
        ping(peer);
    } else if (SPEC_ADAPT_RESUME == verdict) {
        MCA_PML_SPEC_COUNT(resumes);
        TELL("receives from", peer, tag,
             "posted in time again (one way takes %llu ns), speculation resumes",
             (unsigned long long) one_way);
    }
}

void mca_pml_spec_adapt_stop(mca_pml_spec_peer_t *peer, int32_t tag)
{
    if (!mca_pml_spec_adapts()) {
        return;
    }
    mca_pml_spec_lock(&mca_pml_spec.adapt_lock);
    spec_adapt_entry_t *entry =
        spec_adapt_in_stop(&mca_pml_spec.adapt_in, mca_pml_spec_envelope(peer, tag));
    if (NULL != entry) {
        entry->cookie = cookie_of(peer);
    }
    mca_pml_spec_unlock(&mca_pml_spec.adapt_lock);
    if (NULL != entry) {
        MCA_PML_SPEC_COUNT(stops);
        TELL("receives from", peer, tag,
             "STOP, the sender comes first; speculation stops and is watched");
        ping(peer);
    }
}

MCA_PML_SPEC_PACKET(stop, "STOP", mca_pml_spec_match_hdr_t)
{
    const mca_pml_spec_match_hdr_t *hdr = mca_pml_spec_packet_hdr(packet);
    mca_pml_spec_peer_t *peer = mca_pml_spec_peer_get(hdr->ctx, hdr->src);
    if (NULL == peer) {
        return; /* its communicator is gone: nobody to stop */
    }
    if (hdr->epoch == peer->recv.epoch) {
        mca_pml_spec_adapt_stop(peer, hdr->tag);
    }
    mca_pml_spec_peer_put(peer);
}

MCA_PML_SPEC_PACKET(ping, "PING", mca_pml_spec_ping_hdr_t)
{
    const mca_pml_spec_ping_hdr_t *hdr = mca_pml_spec_packet_hdr(packet);
    mca_pml_spec_peer_t *peer = mca_pml_spec_peer_get(hdr->ctx, hdr->src);
    if (NULL == peer) {
        return; /* asked in a communicator that is gone */
    }
    const bool is_old = peer->recv.epoch_is_known && hdr->epoch != peer->recv.epoch;
    mca_bml_base_endpoint_t *endpoint =
        is_old || !MCA_PML_SPEC_SEEN(peer->ctx_known) ? NULL : mca_pml_spec_endpoint(peer);
    if (NULL != endpoint) {
        const mca_pml_spec_pong_hdr_t pong = {.type = MCA_PML_SPEC_PONG,
                                              .epoch = hdr->epoch,
                                              .ctx = peer->ctx,
                                              .src = peer->comm->my_rank,
                                              .asked = hdr->asked,
                                              .clock = spec_now()};
        mca_pml_spec_control_send(endpoint, NULL, &pong, sizeof(pong));
    }
    mca_pml_spec_peer_put(peer);
}

MCA_PML_SPEC_PACKET(pong, "PONG", mca_pml_spec_pong_hdr_t)
{
    const mca_pml_spec_pong_hdr_t *hdr = mca_pml_spec_packet_hdr(packet);
    mca_pml_spec_peer_t *peer = mca_pml_spec_peer_get(hdr->ctx, hdr->src);
    if (NULL == peer) {
        return; /* its communicator was freed meanwhile */
    }
    bool expected = true;
    if (hdr->epoch == peer->comm->epoch) {
        mca_pml_spec_lock(&mca_pml_spec.adapt_lock);
        expected = spec_clock_answer(&peer->clock, hdr->asked, hdr->clock, spec_now());
        mca_pml_spec_unlock(&mca_pml_spec.adapt_lock);
    }
    mca_pml_spec_peer_put(peer);
    if (!expected) {
        mca_pml_spec_refuse("PONG", "it answers no open question");
    }
}
