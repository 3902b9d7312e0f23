/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Communicators and their peers, as pml/spec keeps them. A peer is one remote process of one communicator, both directions; it
 * is allocated when it is first sent to or heard of. A cid is reused after a communicator is freed; its epoch tells the
 * incarnations apart (docs/design/protocol.md, "Epochs").
 *
 * Life. The program's calls and requests hold Open MPI's communicator, and with it ours. A packet has no reference: its handler
 * is a user, which gets the communicator by its number (mca_pml_spec_comm_get) and puts it back, since the program may free it
 * meanwhile (docs/design/threads.md). One that is freed cannot be got any more at once; its memory goes with the last user of its
 * cid. Nothing of Open MPI's communicator is touched by users. */
#ifndef PML_SPEC_COMM_H
#define PML_SPEC_COMM_H

#include "../core/spec_clock.h"
#include "../core/spec_flow.h"
#include "../core/spec_match.h"
#include "../core/spec_recv.h"
#include "../core/spec_policy.h"
#include "../core/spec_send.h"
#include "pml_spec_packet.h"
#include "pml_spec_pending.h"

typedef struct mca_pml_spec_peer {
    struct mca_pml_spec_comm *comm;
    ompi_proc_t *proc;
    mca_bml_base_endpoint_t *endpoint; /* NULL before first use: see mca_pml_spec_endpoint */
    mca_bml_base_endpoint_t *open;     /* the same, NULL again when the process is lost */
    int32_t rank;
    uint16_t ctx; /* the peer's cid of the communicator, if known: pml_spec_hello.h */
    bool ctx_known;
    bool greeted; /* a HELLO has been sent (send_lock) */
    bool is_self;
    bool is_near;  /* on this host: pml_spec_claims.h */
    bool ringless; /* rings are of no use: pml_spec_cico.h */
    bool shut;     /* sends must wait for their turn: pml_spec_flow.h; changed under send_lock */
    size_t eager_limit; /* payload bytes that fit an eager packet; 0 before first use */
    size_t eager_most;  /* the same of the largest packet */
    spec_mover_t mover;
    bool
        one_queue; /* its only transport is shared memory, in a job that does not outlive processes */
    volatile int32_t
        slots_wait; /* so many messages do without slots: the transport refused one's packet */
    struct mca_pml_spec_slots_of *slots; /* its process: pml_spec_slots.h; NULL: not asked yet */
    spec_ends_t ends; /* pml_spec_costs.h */
    bool ends_known;
    spec_far_t far; /* what copies into its caches take; without a lock: a lost one costs nothing */
    spec_stage_gaps_t gaps; /* pml_spec_stage.h */
    const uint32_t
        *polls; /* of the transports, if all of them gather; else NULL: core/spec_burst.h */

    /* Me as the sender. send_lock covers all up to waiting. No call to a transport and no completion
     * happens under it; adapt_lock and the locks of free lists may be taken inside. */
    opal_mutex_t send_lock;
    spec_flow_out_t flow_out; /* each message changes it and the next two */
    spec_send_t send;
    uint64_t sent_eager, bytes_eager; /* counters: pml_spec_counters.h */
    spec_policy_t
        policy; /* what it reads without the lock may be old, which costs a turn at most */
    volatile int32_t fragments; /* sent by both ends' copying, and not given back */
    volatile int32_t announced; /* large sends whose RTS is out and that are not done */
    spec_node_t unnoticed;      /* send requests that use an RTR, MATCH and FIN not sent yet */
    volatile int32_t unnoticed_n;
    struct mca_pml_spec_share_of
        *words; /* of its offers: pml_spec_claims.h; NULL: not searched for yet */
    spec_node_t keys;               /* further keys of RTRs: pml_spec_keys.h */
    uint32_t keys_n;
    struct mca_pml_spec_share_of *rings; /* the same: pml_spec_rings.h */
    spec_node_t waiting; /* sends that wait for their turn (pml_spec_flow.h), in their order */

    /* Me as the receiver; under the communicator's lock. */
    spec_flow_in_t flow_in; /* each message changes it and the next */
    spec_recv_t recv;
    spec_node_t parts;       /* messages that come in parts and are not whole: core/spec_parts.h */
    bool is_plain; /* its epoch is known, and no receive has to be widened for its messages */
    bool flow_pends;         /* a CREDIT is to be sent */
    volatile int32_t offers; /* receives that sent an RTR and are not done */
    mca_pml_spec_pending_t flow_pending;
    spec_clock_t clock; /* under adapt_lock, as the next two */
    spec_adapt_memo_t stopped_in, stopped_out;
} mca_pml_spec_peer_t;

/* Receives for any source of a communicator in which one other process can send (core/spec_recv.h). */
typedef enum mca_pml_spec_narrows {
    MCA_PML_SPEC_WIDE, /* for any: the communicator has more, or one of them could have had a message of this process to itself */
    MCA_PML_SPEC_NARROWS, /* for that one */
    MCA_PML_SPEC_WIDENS, /* there is such a message: it, and those behind it, wait for the end of this */
} mca_pml_spec_narrows_t;

typedef struct mca_pml_spec_comm {
    spec_node_t ended; /* in the slot's list when the program has freed it */
    struct mca_pml_spec_cid_slot *slot;
    ompi_group_t *group; /* of the peers; referenced */
    volatile bool is_ended;
    uint16_t cid;
    uint8_t epoch;
    bool is_global;   /* all processes have the same cid for it */
    uint64_t name[2]; /* else this is what they all know it by */
    int32_t my_rank;
    uint32_t size;  /* peers: the remote group of an inter-communicator */
    uint32_t low_n; /* peers whose credit is low and not renewed for now (lock) */
    int32_t only;   /* the only other process that can send, if `narrows` */
    mca_pml_spec_narrows_t narrows; /* under the lock; read without, too */
    spec_match_t match;
    mca_pml_spec_peer_t **peers;
} mca_pml_spec_comm_t;

/* What remains of a freed communicator, for peers that had sent RTRs: the number of messages sent
 * to them, so that a late REVOKE gets the right answer. */
typedef struct mca_pml_spec_last_seq {
    uint64_t name;
    uint32_t s;
} mca_pml_spec_last_seq_t;

/* Under the module's lock, but for `lock` and for reading the first three. */
typedef struct mca_pml_spec_cid_slot {
    mca_pml_spec_comm_t *comm; /* NULL: none now. Atomic; changed under the module's lock */
    volatile int32_t users;
    volatile int32_t ended_n;
    /* Of the communicator that has the cid now: covers match, the creation of peers, and the receiver's side of all peers.
     * No call to a transport and no completion of a request happens under it; mca_pml_spec.lock and the locks of free
     * lists may be taken inside. It is here, where nothing is ever freed, so that a message is matched without being counted
     * as a user: while the lock is held the communicator stays, and after that the receive keeps it. Made with the
     * first communicator. */
    opal_mutex_t lock;
    uint32_t incarnations; /* communicators that had this cid so far */
    bool replays; /* parked packets are arriving again; atomic, from before `comm` can be seen */
    uint32_t last_seqs_n;
    mca_pml_spec_last_seq_t *last_seqs;
    spec_node_t parked; /* packets that came before their communicator: mca_pml_spec_frag_t.item */
    spec_node_t ended;  /* communicators that were freed and may still be in users' hands */
    char apart[64];     /* counting here does not slow the neighbours */
} mca_pml_spec_cid_slot_t;

/* A process that a transport has given up (services/pml_spec_lost.h). */
typedef struct mca_pml_spec_lost {
    mca_pml_spec_pending_t pending; /* until its requests were ended */
    struct mca_pml_spec_lost *next;
    opal_process_name_t name;
} mca_pml_spec_lost_t;

static inline bool mca_pml_spec_is_same(opal_process_name_t a, opal_process_name_t b)
{
    return a.jobid == b.jobid && a.vpid == b.vpid;
}

/* Was it given up? */
bool mca_pml_spec_lost_is(const opal_proc_t *proc);
static inline bool mca_pml_spec_is_given_up(const ompi_proc_t *proc)
{
    return OPAL_UNLIKELY(mca_pml_spec.lost_n > 0) && mca_pml_spec_lost_is(&proc->super);
}

/* Or does the runtime say that it is gone, where MPI goes on without it? Nothing that is sent to it arrives any more. */
static inline bool mca_pml_spec_lost_proc(ompi_proc_t *proc)
{
    return mca_pml_spec_is_given_up(proc) || mca_pml_spec_is_dead(proc);
}

static inline bool mca_pml_spec_lost(const mca_pml_spec_peer_t *peer)
{
    return mca_pml_spec_lost_proc(peer->proc);
}

/* The rank of a process in the communicator (in the remote group of an inter-communicator), or -1. */
int32_t mca_pml_spec_rank_of(const mca_pml_spec_comm_t *comm, opal_process_name_t name);

/* Is the process a member of any communicator there is? */
bool mca_pml_spec_is_member(const opal_proc_t *proc);

/* The slot of a cid, created if need be; NULL when memory is out. */
mca_pml_spec_cid_slot_t *mca_pml_spec_cid_slot(uint16_t cid);

/* Keep a packet until a communicator with its cid exists; `behind`: also while those that are kept arrive again, which it must not
 * overtake. False: it exists, and that is over. */
bool mca_pml_spec_park(uint16_t cid, const mca_pml_spec_packet_t *packet, bool behind);

static inline mca_pml_spec_comm_t *mca_pml_spec_comm_of(const ompi_communicator_t *comm)
{
    return (mca_pml_spec_comm_t *) comm->c_pml_comm;
}

/* Slow path of the next: free what has ended, if nobody uses it. */
void mca_pml_spec_slot_reap(mca_pml_spec_cid_slot_t *slot);

static inline void mca_pml_spec_slot_put(mca_pml_spec_cid_slot_t *slot)
{
    if (0 == mca_pml_spec_add32(&slot->users, -1)
        && OPAL_UNLIKELY(MCA_PML_SPEC_GLANCE(slot->ended_n) > 0)) {
        mca_pml_spec_slot_reap(slot);
    }
}

/* The slot of a cid, or NULL: there was never a communicator of it or its neighbours. */
static inline mca_pml_spec_cid_slot_t *mca_pml_spec_slot_seen(uint16_t cid)
{
    mca_pml_spec_cid_slot_t *chunk =
        MCA_PML_SPEC_SEEN(mca_pml_spec.cids[cid / MCA_PML_SPEC_CID_CHUNK]);
    return OPAL_UNLIKELY(NULL == chunk) ? NULL : &chunk[cid % MCA_PML_SPEC_CID_CHUNK];
}

/* The communicator of a cid, to be put back; or NULL. Any thread. */
static inline mca_pml_spec_comm_t *mca_pml_spec_comm_get(uint16_t cid)
{
    mca_pml_spec_cid_slot_t *slot = mca_pml_spec_slot_seen(cid);
    if (OPAL_UNLIKELY(NULL == slot)) {
        return NULL;
    }
    (void) mca_pml_spec_add32(&slot->users, 1); /* before it is read: see del_comm */
    mca_pml_spec_comm_t *comm = MCA_PML_SPEC_SEEN(slot->comm);
    if (OPAL_UNLIKELY(NULL == comm)) {
        mca_pml_spec_slot_put(slot);
    }
    return comm;
}

/* The communicator of a cid with its lock held; or NULL. */
static inline mca_pml_spec_comm_t *mca_pml_spec_comm_lock(uint16_t cid)
{
    mca_pml_spec_cid_slot_t *slot = mca_pml_spec_slot_seen(cid);
    if (OPAL_UNLIKELY(NULL == slot) || OPAL_UNLIKELY(NULL == MCA_PML_SPEC_SEEN(slot->comm))) {
        return NULL; /* perhaps there never was one, nor a lock */
    }
    mca_pml_spec_lock(&slot->lock);
    mca_pml_spec_comm_t *comm = MCA_PML_SPEC_SEEN(slot->comm);
    if (OPAL_UNLIKELY(NULL == comm)) {
        mca_pml_spec_unlock(&slot->lock);
    }
    return comm;
}

/* The first communicator there is from *cid on, to be put back; *cid moves behind it. NULL: there are no more. */
mca_pml_spec_comm_t *mca_pml_spec_comm_next(uint32_t *cid);

/* Another user of one that the caller has for certain. */
static inline void mca_pml_spec_comm_retain(mca_pml_spec_comm_t *comm)
{
    (void) mca_pml_spec_add32(&comm->slot->users, 1);
}

static inline void mca_pml_spec_comm_put(mca_pml_spec_comm_t *comm)
{
    mca_pml_spec_slot_put(comm->slot);
}

/* What comm_get gave, if it is in this of its incarnations here; else it is put back. */
static inline mca_pml_spec_comm_t *mca_pml_spec_comm_in_epoch(mca_pml_spec_comm_t *comm,
                                                              uint8_t epoch)
{
    if (NULL != comm && epoch != comm->epoch) {
        mca_pml_spec_comm_put(comm);
        return NULL;
    }
    return comm;
}

static inline mca_pml_spec_comm_t *mca_pml_spec_comm_get_epoch(uint16_t cid, uint8_t epoch)
{
    return mca_pml_spec_comm_in_epoch(mca_pml_spec_comm_get(cid), epoch);
}

/* Slow path of the next: creates the peer. NULL when memory is out. */
mca_pml_spec_peer_t *mca_pml_spec_peer_create(mca_pml_spec_comm_t *comm, int32_t rank);

/* The peer of a rank that is known to be in range. */
static inline mca_pml_spec_peer_t *mca_pml_spec_peer(mca_pml_spec_comm_t *comm, int32_t rank)
{
    mca_pml_spec_peer_t *peer = MCA_PML_SPEC_SEEN(comm->peers[rank]);
    return OPAL_LIKELY(NULL != peer) ? peer : mca_pml_spec_peer_create(comm, rank);
}

/* The peer that a packet names by communicator id and rank, to be put back; or NULL. */
mca_pml_spec_peer_t *mca_pml_spec_peer_get(uint16_t ctx, int32_t src);

/* The peer of a communicator that a packet names by rank and process; NULL: they do not belong together, or memory is out,
 * and the packet, whose name is `what`, was refused. */
mca_pml_spec_peer_t *mca_pml_spec_peer_named(mca_pml_spec_comm_t *comm, int32_t src, uint64_t name,
                                             const char *what);

/* The peer of a rank that a packet names; NULL: nothing was ever sent to or heard of it. */
static inline mca_pml_spec_peer_t *mca_pml_spec_peer_known(const mca_pml_spec_comm_t *comm,
                                                           int32_t src)
{
    return (uint32_t) src < comm->size ? MCA_PML_SPEC_SEEN(comm->peers[src]) : NULL;
}

static inline void mca_pml_spec_peer_put(mca_pml_spec_peer_t *peer)
{
    mca_pml_spec_comm_put(peer->comm);
}

/* A message of the peer goes out with its data: counted here, since each message is under the peer's send_lock anyway,
 * and an atomic counter of the process would be felt. */
static inline void mca_pml_spec_count_eager(mca_pml_spec_peer_t *peer, size_t length)
{
    ++peer->sent_eager;
    peer->bytes_eager += length;
}

#endif
