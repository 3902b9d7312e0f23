/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Open MPI makes and frees communicators: pml/spec's are made, and freed when their last user is gone. */
#include "pml_spec_calls.h"

#include "../dispatch/pml_spec_arrive.h"
#include "../objects/pml_spec_rings.h"
#include "../protocols/pml_spec_rtr.h"
#include "../services/pml_spec_claims.h"
#include "../services/pml_spec_flow.h"
#include "../services/pml_spec_hello.h"
#include "../services/pml_spec_keys.h"
#include "pml_spec_pvars.h"
#include "pml_spec_report.h"

#include <stdlib.h>

/* Where one other process can send, receives for any source are for that one, and may be offered to it. Not in jobs that outlive
 * their processes, where a failure is to be told of receives for any source. */
static void set_only(mca_pml_spec_comm_t *comm, bool is_inter)
{
    if (comm->size == (is_inter ? 1u : 2u) && !mca_pml_spec_outlives()
        && MCA_PML_SPEC_SPECULATION_OFF != mca_pml_spec.speculation) {
        comm->only = is_inter ? 0 : 1 - comm->my_rank;
        comm->narrows = MCA_PML_SPEC_NARROWS;
    }
}

/* From here on packets find the communicator; those that came too early follow in the order of their arrival. Sequence numbers
 * put right what overtakes them; parts of messages stay behind them. */
static void publish(mca_pml_spec_cid_slot_t *slot, mca_pml_spec_comm_t *comm)
{
    mca_pml_spec_lock(&mca_pml_spec.lock);
    __atomic_store_n(&slot->replays, true, __ATOMIC_RELEASE);
    __atomic_store_n(&slot->comm, comm, __ATOMIC_RELEASE);
    ++slot->incarnations;
    free(slot->last_seqs);
    slot->last_seqs = NULL;
    slot->last_seqs_n = 0;
    spec_node_t *n;
    while (NULL != (n = spec_list_pop(&slot->parked))) {
        mca_pml_spec_unlock(&mca_pml_spec.lock);
        mca_pml_spec_frag_t *frag = SPEC_ENTRY(n, mca_pml_spec_frag_t, item.node);
        mca_pml_spec_packet_t packet = mca_pml_spec_frag_view(frag);
        mca_pml_spec_arrive_again(&packet);
        mca_pml_spec_frag_free(frag);
        mca_pml_spec_lock(&mca_pml_spec.lock);
    }
    __atomic_store_n(&slot->replays, false, __ATOMIC_RELEASE);
    mca_pml_spec_unlock(&mca_pml_spec.lock);
}

int mca_pml_spec_add_comm(ompi_communicator_t *ompi_comm)
{
    uint32_t cid = mca_pml_spec_cid(ompi_comm);
    if (cid > mca_pml_spec.super.pml_max_contextid) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    mca_pml_spec_cid_slot_t *slot = mca_pml_spec_cid_slot((uint16_t) cid);
    mca_pml_spec_comm_t *comm = calloc(1, sizeof(*comm));
    if (NULL == slot || NULL == comm) {
        free(comm);
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    comm->slot = slot;
    comm->group = ompi_comm->c_remote_group;
    comm->cid = (uint16_t) cid;
    comm->epoch =
        spec_recv_epoch_of(slot->incarnations); /* the next is made when this one is gone */
    comm->is_global = mca_pml_spec_is_global(ompi_comm, &comm->name[0], &comm->name[1]);
    comm->my_rank = ompi_comm->c_my_rank;
    comm->size = (uint32_t) ompi_comm->c_remote_group->grp_proc_count;
    comm->peers = calloc(comm->size + 1u, sizeof(*comm->peers));
    if (NULL == comm->peers || 0 != spec_match_init(&comm->match)) {
        free(comm->peers);
        free(comm);
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    OBJ_RETAIN(comm->group);
    set_only(comm, OMPI_COMM_IS_INTER(ompi_comm));
    if (MPI_COMM_SELF == ompi_comm) {
        mca_pml_spec_report_arm();
    }
    if (0 == slot->incarnations) {
        OBJ_CONSTRUCT(&slot->lock, opal_mutex_t);
    }
    ompi_comm->c_pml_comm = (struct mca_pml_comm_t *) comm;

    publish(slot, comm);
    if (!comm->is_global) {
        mca_pml_spec_hellos_again(comm);
    }
    return OMPI_SUCCESS;
}

/* What is left of the peers from which RTRs may still come; NULL: nothing, or no memory, which makes a REVOKE's answer as if
 * the RTR had not been used. */
static mca_pml_spec_last_seq_t *last_seqs_of(mca_pml_spec_comm_t *comm, uint32_t *n)
{
    mca_pml_spec_last_seq_t *last_seqs = NULL;
    *n = 0;
    for (uint32_t i = 0; i < comm->size; ++i) {
        mca_pml_spec_peer_t *peer = MCA_PML_SPEC_SEEN(comm->peers[i]);
        if (NULL == peer) {
            continue;
        }
        mca_pml_spec_lock(&peer->send_lock);
        const bool has_ledger = NULL != peer->send.ledger;
        const uint32_t s = peer->send.nxt;
        mca_pml_spec_unlock(&peer->send_lock);
        if (has_ledger && NULL == last_seqs) {
            last_seqs = calloc(comm->size - i, sizeof(*last_seqs));
        }
        if (has_ledger && NULL != last_seqs) {
            last_seqs[(*n)++] =
                (mca_pml_spec_last_seq_t){.name = spec_name_of(&peer->proc->super), .s = s};
        }
    }
    return last_seqs;
}

/* REVOKEs whose answers will find no communicator. Its lock is held. */
static int32_t unanswered(mca_pml_spec_comm_t *comm)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < comm->size; ++i) {
        mca_pml_spec_peer_t *peer = MCA_PML_SPEC_SEEN(comm->peers[i]);
        n += NULL == peer ? 0 : spec_recv_answer_all(&peer->recv);
    }
    return (int32_t) n;
}

static void peer_free(mca_pml_spec_peer_t *peer)
{
    spec_node_t left, *n;
    spec_list_init(&left);
    spec_recv_drain(&peer->recv, &left);
    while (NULL != (n = spec_list_pop(&left))) {
        mca_pml_spec_frag_free(SPEC_ENTRY(n, mca_pml_spec_frag_t, item.node));
    }
    while (NULL != (n = spec_list_pop(&peer->recv.revokes))) {
        free(SPEC_ENTRY(n, spec_revoke_t, node));
    }
    spec_send_close_ledger(&peer->send, &left);
    while (NULL != (n = spec_list_pop(&left))) {
        mca_pml_spec_rtr_drop(peer, SPEC_ENTRY(n, mca_pml_spec_rtr_t, ctl.item.node),
                              SPEC_RTR_KEPT);
    }
    mca_pml_spec_keys_free(&peer->keys);
    mca_pml_spec_claims_forget(peer);
    mca_pml_spec_rings_forget(peer);
    OBJ_DESTRUCT(&peer->send_lock);
    free(peer);
}

void mca_pml_spec_comm_free(mca_pml_spec_comm_t *comm)
{
    spec_node_t *n;
    while (NULL != (n = spec_list_first(&comm->match.arrival))) {
        mca_pml_spec_frag_t *frag = SPEC_ENTRY(n, mca_pml_spec_frag_t, unexp.arrival);
        comm->peers[frag->unexp.src]->flow_in.is_low = false; /* nobody is told any more */
        mca_pml_spec_unexp_take(comm, frag);
        mca_pml_spec_frag_free(frag);
    }
    for (uint32_t i = 0; i < comm->size; ++i) {
        if (NULL != comm->peers[i]) {
            peer_free(comm->peers[i]);
        }
    }
    mca_pml_spec_counters_fold(comm);
    spec_match_fini(&comm->match);
    if (NULL != comm->group) {
        OBJ_RELEASE(comm->group);
    }
    free(comm->peers);
    free(comm);
}

void mca_pml_spec_cids_fini(void)
{
    for (unsigned c = 0; c < sizeof(mca_pml_spec.cids) / sizeof(*mca_pml_spec.cids); ++c) {
        mca_pml_spec_cid_slot_t *chunk = mca_pml_spec.cids[c];
        for (unsigned i = 0; NULL != chunk && i < MCA_PML_SPEC_CID_CHUNK; ++i) {
            spec_node_t *n;
            while (NULL != (n = spec_list_pop(&chunk[i].parked))) {
                mca_pml_spec_frag_free(SPEC_ENTRY(n, mca_pml_spec_frag_t, item.node));
            }
            free(chunk[i].last_seqs);
            if (chunk[i].incarnations > 0) {
                OBJ_DESTRUCT(&chunk[i].lock);
            }
            while (NULL != (n = spec_list_pop(&chunk[i].ended))) {
                mca_pml_spec_comm_t *comm = SPEC_ENTRY(n, mca_pml_spec_comm_t, ended);
                comm->group = NULL; /* Open MPI's groups are gone; its users will not come back */
                mca_pml_spec_comm_free(comm);
            }
        }
        free(chunk);
        mca_pml_spec.cids[c] = NULL;
    }
}

int mca_pml_spec_del_comm(ompi_communicator_t *ompi_comm)
{
    mca_pml_spec_comm_t *comm = mca_pml_spec_comm_of(ompi_comm);
    if (NULL == comm) {
        return OMPI_SUCCESS;
    }
    mca_pml_spec_cid_slot_t *slot = comm->slot;
    uint32_t last_seqs_n;
    mca_pml_spec_last_seq_t *last_seqs = last_seqs_of(comm, &last_seqs_n);
    mca_pml_spec_counters_fold_peers(comm);
    ompi_comm->c_pml_comm = NULL;
    comm->is_ended = true;

    /* A handler counts itself, or takes the lock, and then reads the slot; here it is taken away under the
     * lock and then they are counted. */
    mca_pml_spec_comm_retain(comm);
    mca_pml_spec_lock(&slot->lock);
    (void) mca_pml_spec_add32(&mca_pml_spec.late_revokes, unanswered(comm));
    mca_pml_spec_lock(&mca_pml_spec.lock);
    __atomic_store_n(&slot->comm, NULL, __ATOMIC_RELEASE);
    slot->last_seqs = last_seqs;
    slot->last_seqs_n = last_seqs_n;
    spec_list_append(&slot->ended, &comm->ended);
    __atomic_store_n(&slot->ended_n, slot->ended_n + 1, __ATOMIC_RELAXED);
    mca_pml_spec_unlock(&mca_pml_spec.lock);
    mca_pml_spec_unlock(&slot->lock);
    mca_pml_spec_slot_put(slot);
    return OMPI_SUCCESS;
}
