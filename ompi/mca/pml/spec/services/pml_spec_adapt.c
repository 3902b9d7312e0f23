/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Stops and resumes the offering of buffers where it does not pay: counts, tells the peer, measures clocks.
 *
 * Would the RTR of a receive have been in time? It would, if it had reached the sender before the
 * sender issued the message: posted (my clock) + one way < sent (the sender's clock). The RTS of a
 * stopped envelope carries the time when it was sent; how far the clocks are apart and what one way
 * takes is measured with PING and PONG at each stop and after each window of observation. Judging
 * by the arrival of the RTS alone would not do: an RTS is seen when the receiver calls MPI, so that
 * a receiver which computes would find itself early every time. */
#include "pml_spec_adapt.h"

#include "../core/spec_clock.h"
#include "pml_spec_control.h"

static void lock(void)
{
    mca_pml_spec_lock(&mca_pml_spec.adapt_lock);
}

static void unlock(void)
{
    mca_pml_spec_unlock(&mca_pml_spec.adapt_lock);
}

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

/* ---- at the sender ---- */

void mca_pml_spec_adapt_arrived(mca_pml_spec_peer_t *peer, int32_t tag, uint32_t e)
{
    if (!mca_pml_spec_adapts() || 0 == MCA_PML_SPEC_GLANCE(mca_pml_spec.adapt_out.n)) {
        return;
    }
    lock();
    const bool resumed =
        spec_adapt_out_arrived(&mca_pml_spec.adapt_out, mca_pml_spec_envelope(peer, tag), e);
    unlock();
    if (resumed) {
        MCA_PML_SPEC_VERBOSE(10,
                             "sends to rank %d of communicator %u with tag %d: the receiver "
                             "offers its buffers again",
                             peer->rank, peer->comm->cid, tag);
    }
}

void mca_pml_spec_adapt_settled(mca_pml_spec_peer_t *peer, int32_t tag, bool used)
{
    if (!mca_pml_spec_adapts()) {
        return;
    }
    lock();
    const bool stopping =
        spec_adapt_out_settled(&mca_pml_spec.adapt_out, mca_pml_spec_envelope(peer, tag), used);
    unlock();
    if (stopping) {
        MCA_PML_SPEC_VERBOSE(10,
                             "sends to rank %d of communicator %u with tag %d: fewer than %d %% "
                             "of the latest RTRs (at most %d) were of use; the receiver will be "
                             "told STOP",
                             peer->rank, peer->comm->cid, tag, mca_pml_spec.adapt_threshold,
                             WINDOW);
    }
}

void mca_pml_spec_adapt_announce(mca_pml_spec_send_request_t *sendreq)
{
    sendreq->rts_flags = 0;
    sendreq->sent_at = 0;
    if (OPAL_LIKELY(0 == MCA_PML_SPEC_GLANCE(mca_pml_spec.adapt_out.n)) || !mca_pml_spec_adapts()) {
        return;
    }
    if (sendreq->stopped) {
        if (spec_adapt_samples(sendreq->seq, sendreq->req_send.req_bytes_packed)) {
            sendreq->sent_at = spec_stamp(mca_pml_spec_now_ns());
        }
        return;
    }
    const spec_envelope_t envelope =
        mca_pml_spec_envelope(sendreq->peer, sendreq->req_send.req_base.req_tag);
    lock();
    const bool say = spec_adapt_out_say(&mca_pml_spec.adapt_out, envelope, sendreq->seq);
    unlock();
    if (say) {
        sendreq->rts_flags = MCA_PML_SPEC_RTS_STOP;
        MCA_PML_SPEC_COUNT(stops_sent);
    }
}

void mca_pml_spec_adapt_say(mca_pml_spec_peer_t *peer, int32_t tag, uint32_t seq)
{
    if (!mca_pml_spec_adapts()) {
        return;
    }
    lock();
    const bool say =
        spec_adapt_out_say(&mca_pml_spec.adapt_out, mca_pml_spec_envelope(peer, tag), seq);
    unlock();
    mca_bml_base_endpoint_t *endpoint =
        say && MCA_PML_SPEC_SEEN(peer->ctx_known) ? mca_pml_spec_endpoint(peer) : NULL;
    if (NULL != endpoint) {
        const mca_pml_spec_stop_hdr_t stop = {
            .match = mca_pml_spec_match_hdr(MCA_PML_SPEC_STOP, peer, tag, seq)};
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
    lock();
    hdr.asked = mca_pml_spec_now_ns();
    const bool ask = NULL != endpoint && spec_clock_ask(&peer->clock, hdr.asked);
    unlock();
    if (ask) {
        mca_pml_spec_control_send(endpoint, NULL, &hdr, sizeof(hdr));
    }
}

bool mca_pml_spec_adapt_may(mca_pml_spec_peer_t *peer, int32_t tag)
{
    if (OPAL_LIKELY(0 == MCA_PML_SPEC_GLANCE(mca_pml_spec.adapt_in.n)) || !mca_pml_spec_adapts()) {
        return true;
    }
    lock();
    const bool may = spec_adapt_in_may(&mca_pml_spec.adapt_in, mca_pml_spec_envelope(peer, tag));
    if (!may) {
        spec_adapt_note(&mca_pml_spec.adapt_in, &peer->stopped_in, tag);
    }
    unlock();
    return may;
}

void mca_pml_spec_adapt_watch(mca_pml_spec_recv_request_t *recvreq)
{
    recvreq->watched_since = mca_pml_spec_now_ns();
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

    lock();
    if (in_time && !spec_clock_is_known(&peer->clock)) {
        unlock();
        ping(peer); /* cannot say: as if it had not been seen */
        return;
    }
    if (in_time) {
        in_time =
            0 == sent_at
                /* a sender that forgot about STOP: by its arrival, less one way */
                ? mca_pml_spec_now_ns() - posted > 2 * spec_clock_one_way(&peer->clock)
                : spec_stamp_after(sent_at, spec_stamp(spec_clock_arrival(&peer->clock, posted)));
    }
    const uint64_t one_way = spec_clock_one_way(&peer->clock);
    const spec_adapt_verdict_t verdict =
        spec_adapt_in_judge(&mca_pml_spec.adapt_in, mca_pml_spec_envelope(peer, tag), in_time);
    unlock();
    if (SPEC_ADAPT_WINDOW == verdict) {
        ping(peer);
    } else if (SPEC_ADAPT_RESUME == verdict) {
        MCA_PML_SPEC_COUNT(resumes);
        MCA_PML_SPEC_VERBOSE(10,
                             "receives from rank %d of communicator %u with tag %d: posted in "
                             "time again (one way takes %llu ns), speculation resumes",
                             peer->rank, peer->comm->cid, tag, (unsigned long long) one_way);
    }
}

void mca_pml_spec_adapt_stop(mca_pml_spec_peer_t *peer, int32_t tag)
{
    if (!mca_pml_spec_adapts()) {
        return;
    }
    lock();
    spec_adapt_entry_t *entry =
        spec_adapt_in_stop(&mca_pml_spec.adapt_in, mca_pml_spec_envelope(peer, tag));
    if (NULL != entry) {
        entry->cookie = cookie_of(peer);
    }
    unlock();
    if (NULL != entry) {
        MCA_PML_SPEC_COUNT(stops);
        MCA_PML_SPEC_VERBOSE(10,
                             "receives from rank %d of communicator %u with tag %d: STOP, "
                             "the sender comes first; speculation stops and is watched",
                             peer->rank, peer->comm->cid, tag);
        ping(peer);
    }
}

MCA_PML_SPEC_AM_CALLBACK(mca_pml_spec_recv_stop)
{
    (void) btl;
    const mca_pml_spec_stop_hdr_t *hdr = mca_pml_spec_header(seg, nseg, sizeof(*hdr), "STOP");
    if (NULL == hdr) {
        return;
    }
    mca_pml_spec_peer_t *peer = mca_pml_spec_peer_get(hdr->match.ctx, hdr->match.src);
    if (NULL == peer) {
        return; /* its communicator is gone: nobody to stop */
    }
    if (hdr->match.epoch == peer->recv.epoch) {
        mca_pml_spec_adapt_stop(peer, hdr->match.tag);
    }
    mca_pml_spec_peer_put(peer);
}

MCA_PML_SPEC_AM_CALLBACK(mca_pml_spec_recv_ping)
{
    (void) btl;
    const mca_pml_spec_ping_hdr_t *hdr = mca_pml_spec_header(seg, nseg, sizeof(*hdr), "PING");
    if (NULL == hdr) {
        return;
    }
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
                                              .clock = mca_pml_spec_now_ns()};
        mca_pml_spec_control_send(endpoint, NULL, &pong, sizeof(pong));
    }
    mca_pml_spec_peer_put(peer);
}

MCA_PML_SPEC_AM_CALLBACK(mca_pml_spec_recv_pong)
{
    (void) btl;
    const mca_pml_spec_pong_hdr_t *hdr = mca_pml_spec_header(seg, nseg, sizeof(*hdr), "PONG");
    if (NULL == hdr) {
        return;
    }
    mca_pml_spec_peer_t *peer = mca_pml_spec_peer_get(hdr->ctx, hdr->src);
    if (NULL == peer) {
        return; /* its communicator was freed meanwhile */
    }
    bool expected = true;
    if (hdr->epoch == peer->comm->epoch) {
        lock();
        expected = spec_clock_answer(&peer->clock, hdr->asked, hdr->clock, mca_pml_spec_now_ns());
        unlock();
    }
    mca_pml_spec_peer_put(peer);
    if (!expected) {
        mca_pml_spec_refuse("PONG", "it answers no open question");
    }
}
