/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Send and receive requests. One is in one stage of one protocol (protocols/pml_spec_protocol.h).
 *
 * When its object goes back to its list: core/spec_life.h, by mca_pml_spec_end() and mca_pml_spec_let_go(). A request that
 * is started again before it is done is replaced by a new one. One whose peer is lost, in a job that goes on without it, is
 * completed with an error for MPI while transports may still have it; if they never let go, it is kept. */
#ifndef PML_SPEC_REQUEST_H
#define PML_SPEC_REQUEST_H

#include "../core/spec_joint.h"
#include "../core/spec_match.h"
#include "pml_spec.h"
#include "pml_spec_complete.h"
#include "pml_spec_endpoint.h"
#include "pml_spec_packet.h"
#include "pml_spec_pending.h"

struct mca_pml_spec_protocol; /* protocols/pml_spec_protocol.h */
struct mca_pml_spec_pin;      /* services/pml_spec_pin.h */
struct mca_pml_spec_cico;     /* pml_spec_cico.h */

/* The part of this process in a message that both ends move (services/pml_spec_joint.h). */
typedef struct mca_pml_spec_joint {
    mca_pml_spec_pending_t pending;
    spec_claim_t claim;      /* which pieces are taken */
    uint64_t offset, length; /* of the range in the message */
    uint64_t remote;         /* where the range begins at the other end */
    bool is_put;             /* this is the sender */
    void *request;           /* the one that it is in, and of that: */
    mca_pml_spec_peer_t *peer;
    uint64_t other; /* the other end's handle */
    char *local;
    volatile int64_t *owed;
    void (*by_copy)(void *request, uint64_t offset, uint64_t length);
    uint64_t left_since;    /* ns; it is left to the receiver, 0: not yet */
    uint64_t seen_by_agent; /* ns; the first time, 0: not yet */
    bool blocks;            /* as the request's */
    bool told;              /* the receiver has said that it waits */
    bool is_stacked;        /* those that begin soon are before it: services/pml_spec_joint.c */
    bool pipelined;         /* by fragments, while both ends are there */
    spec_joint_t seen;      /* of the other end; then only */
} mca_pml_spec_joint_t;

/* A fragment that was copied before it is wanted: services/pml_spec_copy.h. */
typedef struct mca_pml_spec_ahead {
    mca_btl_base_descriptor_t *des;
    mca_bml_base_btl_t *btl;
    uint64_t offset, length;
} mca_pml_spec_ahead_t;

/* A range of a message that is to be sent by copy. */
typedef struct mca_pml_spec_range {
    opal_free_list_item_t super;
    spec_node_t node;
    uint64_t offset, length;
} mca_pml_spec_range_t;
OBJ_CLASS_DECLARATION(mca_pml_spec_range_t);

typedef struct mca_pml_spec_send_request {
    mca_pml_base_send_request_t req_send;
    /* What each small message touches, in two lines of a cache. */
    mca_pml_spec_peer_t *peer;
    const struct mca_pml_spec_protocol *proto; /* NULL: none is chosen yet */
    int32_t stage;
    volatile int32_t life;
    char *flat; /* the data if it is one block (also of size 0), else NULL */
    bool is_flat;
    bool on_device; /* the user's buffer is in the memory of an accelerator: pml_spec_device.h */
    bool staged;    /* it goes through host memory: pml_spec_stage.h */
    bool fits;      /* goes out with its data, unless synchronous or by an RTR: pml_spec_costs.h */
    bool by_slot;   /* of those: pml_spec_slots.h */
    bool gathers;   /* eager: may wait for others (core/spec_burst.h); they take it along */
    bool
        copies; /* eager: copied from one block, whatever the transport; its convertor is not prepared */
    bool blocks;    /* the call that began it waits for it and does nothing else */
    bool noticed;   /* receiver first: MATCH or FIN was sent (peer->send_lock) */
    bool told;      /* complete for MPI before its data has left, which is a copy */
    bool stopped;   /* as adaptation had it when the send began */
    bool announced; /* among those of its peer */
    bool has_ahead; /* `ahead` is one */
    int32_t status; /* first error */
    uint32_t seq;
    size_t first;                            /* bytes of data that its first packet carries */
    uint64_t handle;                         /* mine on the wire, 0: none */
    uint64_t r;                              /* the receive's handle, once known; 0: not yet */
    volatile int64_t left;                   /* bytes not yet known to be delivered */
    mca_btl_base_registration_handle_t *key; /* sender first: registration offered by the RTS */
    struct mca_pml_spec_pin *pin;            /* of a persistent one, or NULL */
    struct mca_pml_spec_cico *cico;          /* through a ring, or NULL */
    char *packed; /* it had gaps, and `flat` is this: pml_spec_stage.h; else NULL */

    uint64_t packed_at;   /* when that began, ns */
    uint32_t set_apart;   /* credit: pml_spec_flow.h */
    bool joined;          /* both ends move it */
    bool awaits_cts;      /* a FIN overtook the CTS that has it join */
    bool sends_fragments; /* while both ends wait: pml_spec_joint.h */
    uint64_t parts_sent;  /* core/spec_parts.h: bytes */
    uint16_t rts_flags;   /* of adaptation: pml_spec_adapt.h */
    uint32_t sent_at;
    volatile int64_t owed; /* sender first: bytes that the receiver has not answered for */
    mca_bml_base_btl_t *key_btl;
    mca_pml_spec_pending_t pending;
    mca_pml_spec_joint_t joint;
    uint64_t ring;                  /* the name of the ring, if it is this process's */
    spec_node_t unnoticed;          /* in peer->unnoticed, or before that in peer->waiting */

    /* by copy (pml_spec_copy.c) */
    opal_mutex_t range_lock; /* covers ranges; innermost */
    mca_pml_spec_ahead_t ahead;
    spec_node_t ranges;
    volatile int32_t in_flight;
    volatile int32_t scheduling; /* > 0: the loop runs */
    volatile int32_t waiting;    /* 1: in the list of pending */
} mca_pml_spec_send_request_t;
OBJ_CLASS_DECLARATION(mca_pml_spec_send_request_t);

/* How far a receive has come. Its protocol is its message's. */
typedef enum mca_pml_spec_recv_stage {
    MCA_PML_SPEC_POSTED,   /* or about to be */
    MCA_PML_SPEC_OFFERED,  /* its RTR is out */
    MCA_PML_SPEC_MATCHED,  /* its message is known */
    MCA_PML_SPEC_FETCHING, /* sender first: its data is asked for */
} mca_pml_spec_recv_stage_t;

typedef struct mca_pml_spec_recv_request {
    mca_pml_base_recv_request_t req_recv;
    mca_pml_spec_peer_t *peer; /* the sender: exact source, or since the match */
    spec_posted_t posted;
    /* What every small message touches is in one line of the caches; */
    char *flat; /* as above */
    volatile int32_t life;
    volatile int32_t stage; /* mca_pml_spec_recv_stage_t */
    int32_t status;         /* first error */
    int32_t keys;
    size_t capacity; /* bytes that fit the buffer */
    /* Bytes of the message that are not here yet, as soon as its length is known; before that,
     * minus the bytes that came already. Bringing it to 0 completes the request. */
    volatile int64_t missing;
    bool is_flat;
    bool on_device, staged; /* as above */
    bool converts;          /* the convertor is prepared */
    bool offered;           /* among the offers of `offered_to` */
    bool blocks;            /* as above */
    bool starts;            /* its call has not posted it yet */
    bool awaits_rts;        /* pml_spec_patience.h: its RTS was about to come when it was posted */
    uint64_t handle;        /* mine on the wire, 0: none */
    struct mca_pml_spec_cico *cico; /* through a ring, or offered one; or NULL */
    /* what it sets or asks of this in the next; */
    struct mca_pml_spec_pin *pin; /* as above */
    uint64_t watched_since;       /* speculation is stopped: when this was posted, ns; else 0 */
    uint64_t waive; /* sender first: bytes the sender need not deliver by our answer */
    volatile int64_t
        owed; /* bytes that the sender was asked to bring, by RTR or CTS, and has not */
    volatile int64_t
        delivered; /* bytes of a staged one that are in its buffer; of one with gaps the first */
    /* and none of what follows. */
    uint64_t s; /* the sender's handle, once known */
    mca_pml_spec_peer_t *offered_to;
    mca_bml_base_btl_t *rtr_btl;  /* receiver first: what the RTR names; NULL: a ring */
    struct {                      /* registrations of the buffer that were offered to the sender */
        mca_btl_base_registration_handle_t *handle;
        mca_bml_base_btl_t *btl;
    } key[MCA_PML_SPEC_STRIPES];
    mca_pml_spec_joint_t joint;
    spec_parts_t parts; /* its message is coming in parts */
    /* By copy into a buffer with gaps (pml_spec_copy.c): the convertor goes through the
     * message from front to back, so fragments that overtook others wait. */
    opal_mutex_t convert_lock; /* covers the convertor and the next three; innermost */
    uint64_t nxt;              /* next byte of the message to be unpacked */
    spec_node_t early;         /* fragments that came too early, by offset */
    uint64_t early_bytes;
} mca_pml_spec_recv_request_t;
OBJ_CLASS_DECLARATION(mca_pml_spec_recv_request_t);

#define MCA_PML_SPEC_SENDREQ(base) ((mca_pml_spec_send_request_t *) (base))
#define MCA_PML_SPEC_RECVREQ(base) ((mca_pml_spec_recv_request_t *) (base))

/* A peer's packet accounts for so many bytes: they must be among those that it owes. What this process moves itself
 * is not, so that no packet completes a request on which a transport still works. */
static inline bool mca_pml_spec_take_owed(volatile int64_t *owed, uint64_t bytes)
{
    int64_t have = MCA_PML_SPEC_SEEN(*owed);
    do {
        if (OPAL_UNLIKELY(bytes > (uint64_t) have)) {
            return false;
        }
        if (OPAL_LIKELY(!mca_pml_spec.threaded)) {
            *owed = have - (int64_t) bytes;
            return true;
        }
    } while (!__atomic_compare_exchange_n(owed, &have, have - (int64_t) bytes, true,
                                          __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    return true;
}

/* The handle of a request, opened if need be: transports that share a message may ask for it in several threads. */
uint64_t mca_pml_spec_handle_open(spec_handle_table_t *table, void *request, uint64_t *handle);

/* The handle of a send is about to go into a packet. What this thread did with the request comes before what the one does that claims
 * it for the answer; the order goes through another process, so both say it. */
static inline uint64_t mca_pml_spec_handle_tell(uint64_t *handle)
{
    const uint64_t open = MCA_PML_SPEC_GLANCE(*handle);
    __atomic_store_n(handle, open, __ATOMIC_RELEASE);
    return open;
}

/* Its end. */
void mca_pml_spec_handle_end(spec_handle_table_t *table, uint64_t *handle);

/* If it is open. The thread that put it into a packet read it before, since an answer has come; but that order is
 * another process's, so both say that they share it (MCA_PML_SPEC_GLANCE). */
static inline void mca_pml_spec_handle_close(spec_handle_table_t *table, uint64_t *handle)
{
    if (OPAL_UNLIKELY(0 != MCA_PML_SPEC_GLANCE(*handle))) {
        mca_pml_spec_handle_end(table, handle);
    }
}

/* Is a request counted, as it was when this was set? Then no more: the caller takes it off the counts. It is done, or has been completed
 * as lost, in two threads perhaps. */
static inline bool mca_pml_spec_uncounts(bool *counted)
{
    return OPAL_UNLIKELY(__atomic_load_n(counted, __ATOMIC_RELAXED))
           && __atomic_exchange_n(counted, false, __ATOMIC_ACQ_REL);
}

/* ---- send requests: pml_spec_sendreq.c ---- */

static inline void mca_pml_spec_send_set_status(mca_pml_spec_send_request_t *sendreq, int mpi_error)
{
    mca_pml_base_request_t *base = &sendreq->req_send.req_base;
    base->req_ompi.req_status.MPI_SOURCE = sendreq->peer->comm->my_rank;
    base->req_ompi.req_status.MPI_TAG = base->req_tag;
    base->req_ompi.req_status.MPI_ERROR = mpi_error;
    base->req_ompi.req_status._ucount = sendreq->req_send.req_bytes_packed;
}

/* All of the message, by the request's convertor, which is at its beginning, into memory of one block. */
void mca_pml_spec_send_pack(mca_pml_spec_send_request_t *sendreq, char *to);

/* From now on it is sent from there. */
void mca_pml_spec_send_packed(mca_pml_spec_send_request_t *sendreq, char *flat);

/* And from the program's buffer again. */
void mca_pml_spec_send_unpacked(mca_pml_spec_send_request_t *sendreq);

/* Where a transport finds the data of a send from one block, from offset on. NULL: a staged one's is not there yet. */
static inline char *mca_pml_spec_send_at(const mca_pml_spec_send_request_t *sendreq,
                                         uint64_t offset)
{
    return OPAL_UNLIKELY(sendreq->staged) ? NULL : sendreq->flat + offset;
}

/* It is not wanted. */
static inline void mca_pml_spec_ahead_drop(mca_pml_spec_send_request_t *sendreq)
{
    mca_bml_base_free(sendreq->ahead.btl, sendreq->ahead.des);
    sendreq->has_ahead = false;
}

/* The PML is done with the request: complete it for MPI (unless that was before) and return it if
 * the user has freed it. The caller touches it no more. */
void mca_pml_spec_send_done(mca_pml_spec_send_request_t *sendreq);

/* The peer is lost, and no transport holds the request: done, with an error. */
void mca_pml_spec_send_unreachable(mca_pml_spec_send_request_t *sendreq);

/* As mca_pml_spec_recv_lost. */
void mca_pml_spec_send_lost(mca_pml_spec_send_request_t *sendreq);

/* Slow path of the next. */
void mca_pml_spec_send_tell(mca_pml_spec_send_request_t *sendreq);

/* A thread that reads the program's memory is no longer a user of it (mca_pml_spec_use). No lock is held. */
static inline void mca_pml_spec_send_leave(mca_pml_spec_send_request_t *sendreq)
{
    if (mca_pml_spec_unuse(&sendreq->life)) {
        mca_pml_spec_send_tell(sendreq);
    }
}

/* Was it given up? Then nothing more of it is sent. */
static inline bool mca_pml_spec_send_is_lost(const mca_pml_spec_send_request_t *sendreq)
{
    return MCA_PML_SPEC_SEEN(sendreq->life) & SPEC_LIFE_LOST;
}

/* bytes more are delivered (or given up, with a negative status); done at the last. */
void mca_pml_spec_send_account(mca_pml_spec_send_request_t *sendreq, uint64_t bytes, int status);

/* Checks a peer's packet and takes the bytes that it accounts for off those that are owed. NULL, or what is wrong. */
typedef const char *(*mca_pml_spec_send_take_t)(mca_pml_spec_send_request_t *sendreq,
                                                const void *packet);

/* The request of a handle that a peer names, after `take`, with which it is one step under the module's lock: what was
 * taken keeps the request from ending until the caller accounts for it. NULL (and counted): there is none, or the
 * packet is wrong. It may be LOST: then the program has its memory back. what: the packet's name. */
mca_pml_spec_send_request_t *mca_pml_spec_send_claim(uint64_t handle, const char *what,
                                                     const void *packet,
                                                     mca_pml_spec_send_take_t take);

/* ---- receive requests: pml_spec_recvreq.c ---- */

/* Its convertor, which small messages do not use: its lines stay out of the caches. */
static inline void mca_pml_spec_recv_unprepare(mca_pml_spec_recv_request_t *recvreq)
{
    if (OPAL_UNLIKELY(recvreq->converts)) {
        opal_convertor_cleanup(&recvreq->req_recv.req_base.req_convertor);
        recvreq->converts = false;
    }
}

/* Make the request ready for a (new) start. */
static inline void mca_pml_spec_recv_reset(mca_pml_spec_recv_request_t *recvreq)
{
    mca_pml_base_request_t *base = &recvreq->req_recv.req_base;
    MCA_PML_BASE_RECV_START(&recvreq->req_recv);
    base->req_free_called = false;
    recvreq->life = 0;
    recvreq->status = OMPI_SUCCESS;
    recvreq->stage = MCA_PML_SPEC_POSTED;
    mca_pml_spec_recv_unprepare(recvreq); /* a restart may have another peer */
    recvreq->missing = 0;
    recvreq->owed = 0;
    recvreq->waive = 0;
    recvreq->watched_since = 0;
    recvreq->awaits_rts = false;
    recvreq->blocks = recvreq->starts = false;
    recvreq->posted.cancel_wanted = false;
    recvreq->peer = NULL;
    recvreq->capacity = base->req_count * base->req_datatype->super.size;
    recvreq->is_flat =
        !recvreq->on_device && mca_pml_spec_is_flat(base->req_datatype, base->req_count);
    recvreq->flat = mca_pml_spec_flat_base(base->req_addr, base->req_datatype);
}

/* Other stages than MATCHED, which every small message comes through. */
void mca_pml_spec_recv_enter(mca_pml_spec_recv_request_t *recvreq, mca_pml_spec_recv_stage_t stage);

/* A message was matched: note source, tag and length. mca_pml_spec_recv_placed follows. */
static inline void mca_pml_spec_recv_matched(mca_pml_spec_recv_request_t *recvreq,
                                             const mca_pml_spec_match_hdr_t *hdr, size_t length)
{
    mca_pml_base_request_t *base = &recvreq->req_recv.req_base;
    recvreq->req_recv.req_bytes_packed = length;
    base->req_ompi.req_status.MPI_SOURCE = hdr->src;
    base->req_ompi.req_status.MPI_TAG = hdr->tag;
    base->req_sequence = hdr->seq;
}

/* What came with the match is in the buffer: from now on another thread may give the receive up. */
static inline void mca_pml_spec_recv_placed(mca_pml_spec_recv_request_t *recvreq)
{
    __atomic_store_n(&recvreq->stage, MCA_PML_SPEC_MATCHED, __ATOMIC_RELEASE);
}

/* Slow path of the next: through the convertor. Pieces come in the order of their offsets; where
 * two threads could be here the caller holds convert_lock. */
void mca_pml_spec_recv_unpack(mca_pml_spec_recv_request_t *recvreq,
                              const mca_pml_spec_packet_t *packet, size_t skip, size_t offset,
                              size_t length);

/* Put data of the packet (from byte skip on) at offset of the message; what the buffer has no room
 * for is left out. */
static inline void mca_pml_spec_recv_store(mca_pml_spec_recv_request_t *recvreq,
                                           const mca_pml_spec_packet_t *packet, size_t skip,
                                           size_t offset, size_t length)
{
    if (offset >= recvreq->capacity) {
        return;
    }
    if (length > recvreq->capacity - offset) {
        length = recvreq->capacity - offset;
    }
    if (0 == length) {
        return;
    }
    if (OPAL_LIKELY(recvreq->is_flat)) {
        mca_pml_spec_packet_copy(packet, skip, recvreq->flat + offset, length);
    } else {
        mca_pml_spec_recv_unpack(recvreq, packet, skip, offset, length);
    }
}

/* Registers part of the buffer, which the sender may write, with a transport until the receive is over. NULL: refused. */
mca_btl_base_registration_handle_t *mca_pml_spec_recv_register(mca_pml_spec_recv_request_t *recvreq,
                                                               mca_bml_base_btl_t *bml_btl,
                                                               uint64_t offset, uint64_t length);

/* No transport uses the buffer any more. */
void mca_pml_spec_recv_drop_keys(mca_pml_spec_recv_request_t *recvreq);

/* The user is done with the request; it goes back to its list, now or when the PML is done too. */
void mca_pml_spec_recv_release(mca_pml_spec_recv_request_t *recvreq);

/* bytes more are in place (or given up, with a negative status); done at the last. */
void mca_pml_spec_recv_account(mca_pml_spec_recv_request_t *recvreq, uint64_t bytes, int status);

/* Its message is known, and so many bytes of it that it waits for do not come. What others have, they account for; the last one
 * ends it, in an error. */
void mca_pml_spec_recv_give_up(mca_pml_spec_recv_request_t *recvreq, uint64_t bytes);

/* Its peer is lost, as its status says, and the caller gives it up (spec_life_lose): complete for MPI, now or when the last user of
 * its memory leaves, whatever transports may still do. The caller touches it no more. */
void mca_pml_spec_recv_lost(mca_pml_spec_recv_request_t *recvreq);

/* Slow path of the next. */
void mca_pml_spec_recv_tell(mca_pml_spec_recv_request_t *recvreq);

/* As mca_pml_spec_send_leave. */
static inline void mca_pml_spec_recv_leave(mca_pml_spec_recv_request_t *recvreq)
{
    if (mca_pml_spec_unuse(&recvreq->life)) {
        mca_pml_spec_recv_tell(recvreq);
    }
}

/* It ends without a message: it is in no queue, no transport holds it, and its status is set. What other threads have claimed of it, for
 * packets that came before their MATCH, they account for, and the last one ends it. The caller touches it no more. */
void mca_pml_spec_recv_unmatched(mca_pml_spec_recv_request_t *recvreq);

/* The same, in this error. */
void mca_pml_spec_recv_fail(mca_pml_spec_recv_request_t *recvreq, int status);

/* The receive is complete. The caller touches it no more. */
void mca_pml_spec_recv_done(mca_pml_spec_recv_request_t *recvreq);

static inline uint64_t mca_pml_spec_recv_handle(mca_pml_spec_recv_request_t *recvreq)
{
    return mca_pml_spec_handle_open(&mca_pml_spec.recv_handles, recvreq, &recvreq->handle);
}

/* As mca_pml_spec_send_claim, for so many bytes of the message from offset on. */
mca_pml_spec_recv_request_t *mca_pml_spec_recv_claim(uint64_t handle, const char *what,
                                                     uint64_t offset, uint64_t bytes);

/* Match bits common to the packets that carry them. */
static inline mca_pml_spec_match_hdr_t
mca_pml_spec_match_hdr(uint8_t type, const mca_pml_spec_peer_t *peer, int32_t tag, uint32_t seq)
{
    const mca_pml_spec_comm_t *comm = peer->comm;
    return (mca_pml_spec_match_hdr_t){.type = type,
                                      .epoch = comm->epoch,
                                      .ctx = peer->ctx,
                                      .src = comm->my_rank,
                                      .tag = tag,
                                      .seq = seq};
}

#endif
