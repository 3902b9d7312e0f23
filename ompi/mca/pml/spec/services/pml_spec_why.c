/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Prints why a protocol was chosen, each time the choice for a peer and tag changes. */
#include "pml_spec_why.h"

#include "pml_spec_adapt.h"

/* Remember a choice (not 0); true if the last one was another. */
static bool is_news(spec_adapt_t *table, const mca_pml_spec_peer_t *peer, int32_t tag,
                    uint8_t choice, bool *stopped)
{
    mca_pml_spec_lock(&mca_pml_spec.adapt_lock);
    spec_adapt_entry_t *entry = spec_adapt_open(table, mca_pml_spec_envelope(peer, tag));
    const bool news = NULL == entry || entry->note != choice;
    *stopped = NULL != entry && SPEC_ADAPT_STOPPED == entry->state;
    if (NULL != entry) {
        entry->note = choice;
    }
    mca_pml_spec_unlock(&mca_pml_spec.adapt_lock);
    return news;
}

const char *mca_pml_spec_why_fate(spec_rtr_fate_t fate)
{
    static const char *const words[SPEC_RTR_FATES] = {
        [SPEC_RTR_KEPT] = "its communicator ends",
        [SPEC_RTR_USED] = "it is used",
        [SPEC_RTR_CROSSED] = "its message is under way already",
        [SPEC_RTR_TOO_OLD] = "it came too late to tell for which message it is",
        [SPEC_RTR_MISPREDICTED] = "its message is small or not fit for RDMA",
        [SPEC_RTR_TOO_SHORT] = "its buffer is shorter than its message",
        [SPEC_RTR_FULL] = "too many are kept",
        [SPEC_RTR_REVOKED] = "the receiver took it back",
        [SPEC_RTR_REFUSED] = "it is nonsense",
    };
    return words[fate];
}

/* Of messages from one block, as far as it is known. */
static size_t eager_end(const mca_pml_spec_peer_t *peer)
{
    return MCA_PML_SPEC_SEEN(peer->ends_known) ? (size_t) spec_ends_last(&peer->ends)
                                               : peer->eager_limit;
}

static const char *size_text(uint64_t size, char text[32])
{
    (void) snprintf(text, 32, UINT64_MAX == size ? "any size" : "%llu bytes",
                    (unsigned long long) size);
    return text;
}

void mca_pml_spec_why_ends(const mca_pml_spec_peer_t *peer, const spec_costs_t *costs)
{
    char why[160] = "", size[32];
    if (NULL != costs && costs->known) {
        (void) snprintf(
            why, sizeof(why),
            ": a single copy by the kernel takes %u ns, and %u ns for each KiB; a copy by this "
            "process %u ns for each KiB",
            costs->call_ns, costs->single_ps * 128 / 125, costs->copy_ps * 128 / 125);
    } else if (NULL != costs) {
        (void) snprintf(why, sizeof(why), ": a single copy by the kernel could not be measured");
    }
    spec_tell(
        mca_pml_spec.output,
        "why: messages to rank %d of communicator %u are eager up to %zu bytes, with gaps "
        "up to %zu; longer ones up to %s go in fragments while both ends wait; from %zu bytes on "
        "either end may move them%s",
        peer->rank, peer->comm->cid, (size_t) peer->ends.alone, (size_t) peer->ends.gaps,
        size_text(peer->ends.pipeline, size), (size_t) peer->ends.either, why);
}

/* What copies have taken lately, where eager ends by that. */
static const char *copies_text(const mca_pml_spec_peer_t *peer, char *text, size_t size)
{
    const spec_far_t *far = &peer->far;
    text[0] = '\0';
    if (MCA_PML_SPEC_SEEN(peer->ends_known) && peer->ends.follows && spec_copies_known(&far->in)) {
        const spec_costs_t *costs = &mca_pml_spec.costs;
        (void) snprintf(text, size, "; a copy to it takes %zu ns for each KiB, from it %zu",
                        (size_t) spec_copies_ps(&far->in, costs) * 128 / 125,
                        (size_t) spec_copies_ps(&far->out, costs) * 128 / 125);
    }
    return text;
}

void mca_pml_spec_why_send(const mca_pml_spec_send_request_t *sendreq, bool rtr,
                           spec_rtr_fate_t fate)
{
    const mca_pml_spec_peer_t *peer = sendreq->peer;
    const size_t length = sendreq->req_send.req_bytes_packed;
    const int32_t tag = sendreq->req_send.req_base.req_tag;
    const uint32_t flags = peer->endpoint->btl_flags_or;
    const bool synchronous = MCA_PML_BASE_SEND_SYNCHRONOUS == sendreq->req_send.req_send_mode;
    const bool eager = !rtr && sendreq->fits && !synchronous;
    const bool rdma = sendreq->is_flat && (flags & (MCA_BTL_FLAGS_PUT | MCA_BTL_FLAGS_GET));
    char copies[96];
    bool stopped;
    if (!is_news(&mca_pml_spec.adapt_out, peer, tag,
                 (uint8_t) (rtr     ? 1
                            : eager ? 2
                            : rdma  ? 3
                                    : 4),
                 &stopped)) {
        return;
    }
    spec_tell(mca_pml_spec.output,
              "why: send to rank %d of communicator %u, tag %d: %s; %zu bytes (eager up to %zu)%s, "
              "%s, transports can%s%s%s, %s%s%s%s",
              peer->rank, peer->comm->cid, tag,
              rtr     ? "receiver first (RTR, put)"
              : eager ? "eager"
              : rdma  ? "sender first (RTS)"
                      : "sender first (RTS), by copy",
              length, eager_end(peer), synchronous ? ", synchronous" : "",
              sendreq->staged           ? "on an accelerator, staged"
              : sendreq->on_device      ? "on an accelerator"
              : NULL != sendreq->packed ? "with gaps, packed"
              : sendreq->is_flat        ? "one block"
                                        : "with gaps",
              flags & MCA_BTL_FLAGS_PUT ? " put" : "", flags & MCA_BTL_FLAGS_GET ? " get" : "",
              flags & (MCA_BTL_FLAGS_PUT | MCA_BTL_FLAGS_GET) ? "" : " only send",
              rtr                     ? "an RTR is here"
              : SPEC_RTR_KEPT == fate ? "no RTR is here"
                                      : "its RTR is not used: ",
              rtr || SPEC_RTR_KEPT == fate ? "" : mca_pml_spec_why_fate(fate),
              stopped ? ", the receiver was told STOP" : "",
              copies_text(peer, copies, sizeof(copies)));
}

static const char *const reasons[] = {
    [MCA_PML_SPEC_RTR_GOES] = "it stands before its message, which may be large",
    [MCA_PML_SPEC_RTR_SMALL] = "its messages are eager",
    [MCA_PML_SPEC_RTR_SHORT] =
        "its messages are copied so soon that an RTR takes too long beside it",
    [MCA_PML_SPEC_RTR_OFF] = "speculation is off",
    [MCA_PML_SPEC_RTR_ANY_SOURCE] = "it takes any source, and several can send",
    [MCA_PML_SPEC_RTR_DEVICE] = "its buffer is on an accelerator, and is not staged",
    [MCA_PML_SPEC_RTR_GAPS] = "its buffer has gaps, and is not staged",
    [MCA_PML_SPEC_RTR_NO_WAY] = "no transport reaches the sender",
    [MCA_PML_SPEC_RTR_NO_PUT] = "no transport can put, and it goes through no ring",
    [MCA_PML_SPEC_RTR_NO_NUMBER] = "the sender's number of the communicator is not known yet",
    [MCA_PML_SPEC_RTR_CROWD] = "the transport has no room for what waits already",
    [MCA_PML_SPEC_RTR_NO_MEMORY] = "there is no memory by which it could be taken back, or filled",
    [MCA_PML_SPEC_RTR_BEHIND] = "an earlier receive, or a cancel, stands before it",
    [MCA_PML_SPEC_RTR_STOPPED] = "the sender said STOP",
    [MCA_PML_SPEC_RTR_WAITS] = "it waits, and can copy the message itself",
};

void mca_pml_spec_why_recv(const mca_pml_spec_recv_request_t *recvreq, mca_pml_spec_no_rtr_t why)
{
    const mca_pml_spec_peer_t *peer = recvreq->peer;
    const int32_t tag = recvreq->req_recv.req_base.req_tag;
    bool stopped;
    if (NULL == peer->endpoint) {
        return;
    }
    if (is_news(&mca_pml_spec.adapt_in, peer, tag, (uint8_t) (why + 1), &stopped)) {
        spec_tell(mca_pml_spec.output,
                  "why: receive from rank %d of communicator %u, tag %d: %s, because %s; room for "
                  "%zu bytes (eager up to %zu)",
                  peer->rank, peer->comm->cid, tag,
                  MCA_PML_SPEC_RTR_GOES == why ? "RTR" : "no RTR", reasons[why],
                  recvreq->capacity, eager_end(peer));
    }
}

void mca_pml_spec_why_agent(const char *found)
{
    spec_tell(mca_pml_spec.output, "why: %s progress agent (pml_spec_progress %s): %s",
              mca_pml_spec.has_agent ? "a" : "no",
              MCA_PML_SPEC_PROGRESS_ON == mca_pml_spec.progress ? "on" : "auto", found);
}
