/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See pml_spec_comm.h for the words. */
#include "pml_spec_comm.h"

#include "pml_spec_arrive.h"
#include "pml_spec_explain.h"
#include "pml_spec_flow.h"
#include "pml_spec_hello.h"
#include "pml_spec_keys.h"
#include "pml_spec_lost.h"
#include "pml_spec_packet.h"
#include "pml_spec_proto.h"
#include "pml_spec_report.h"

#include "opal/include/spec/promises.h"

#include <stdlib.h>

mca_pml_spec_cid_slot_t *mca_pml_spec_cid_slot(uint16_t cid)
{
    mca_pml_spec_cid_slot_t **chunk = &mca_pml_spec.cids[cid / MCA_PML_SPEC_CID_CHUNK];
    if (NULL == MCA_PML_SPEC_SEEN(*chunk)) {
        mca_pml_spec_cid_slot_t *fresh = calloc(MCA_PML_SPEC_CID_CHUNK, sizeof(*fresh));
        mca_pml_spec_lock(&mca_pml_spec.lock);
        if (NULL == *chunk && NULL != fresh) {
            for (unsigned i = 0; i < MCA_PML_SPEC_CID_CHUNK; ++i) {
                spec_list_init(&fresh[i].parked);
                spec_list_init(&fresh[i].ended);
            }
            __atomic_store_n(chunk, fresh, __ATOMIC_RELEASE);
            fresh = NULL;
        }
        mca_pml_spec_unlock(&mca_pml_spec.lock);
        free(fresh);
    }
    return NULL == *chunk ? NULL : &(*chunk)[cid % MCA_PML_SPEC_CID_CHUNK];
}

static void comm_free(mca_pml_spec_comm_t *comm, bool group);

void mca_pml_spec_cids_fini(void)
{
    for (unsigned c = 0; c < sizeof(mca_pml_spec.cids) / sizeof(*mca_pml_spec.cids); ++c) {
        mca_pml_spec_cid_slot_t *chunk = mca_pml_spec.cids[c];
        for (unsigned i = 0; NULL != chunk && i < MCA_PML_SPEC_CID_CHUNK; ++i) {
            spec_node_t *n;
            while (NULL != (n = spec_list_pop(&chunk[i].parked))) {
                mca_pml_spec_frag_free(SPEC_ENTRY(n, mca_pml_spec_frag_t, item.node));
            }
            free(chunk[i].epitaphs);
            if (chunk[i].incarnations > 0) {
                OBJ_DESTRUCT(&chunk[i].lock);
            }
            while (NULL
                   != (n = spec_list_pop(&chunk[i].ended))) { /* its users will not come back */
                comm_free(SPEC_ENTRY(n, mca_pml_spec_comm_t, ended), false);
            }
        }
        free(chunk);
        mca_pml_spec.cids[c] = NULL;
    }
}

mca_pml_spec_peer_t *mca_pml_spec_peer_create(mca_pml_spec_comm_t *comm, int32_t rank)
{
    mca_pml_spec_peer_t *fresh = calloc(1, sizeof(*fresh));
    if (NULL == fresh) {
        return NULL;
    }
    fresh->comm = comm;
    fresh->rank = rank;
    fresh->proc = ompi_group_peer_lookup(comm->group, rank);
    OBJ_CONSTRUCT(&fresh->send_lock, opal_mutex_t);
    spec_list_init(&fresh->unnoticed);
    spec_list_init(&fresh->waiting);
    spec_list_init(&fresh->keys);
    fresh->is_self = fresh->proc == ompi_proc_local();
    if (comm->is_global || fresh->is_self) {
        fresh->ctx = comm->cid;
        fresh->ctx_known = true;
    } else {
        fresh->shut = true;
    }
    spec_recv_init(&fresh->recv);
    mca_pml_spec_flow_begin(fresh);

    mca_pml_spec_lock(&comm->slot->lock);
    mca_pml_spec_peer_t *peer = comm->peers[rank];
    if (NULL == peer) {
        peer = fresh;
        fresh = NULL;
        __atomic_store_n(&comm->peers[rank], peer, __ATOMIC_RELEASE);
    }
    mca_pml_spec_unlock(&comm->slot->lock);
    if (NULL != fresh) {
        OBJ_DESTRUCT(&fresh->send_lock);
        free(fresh);
    }
    return peer;
}

mca_bml_base_endpoint_t *mca_pml_spec_endpoint_create(mca_pml_spec_peer_t *peer)
{
    if (mca_pml_spec_lost(peer)) {
        return NULL; /* said before */
    }
    mca_bml_base_endpoint_t *endpoint = mca_bml_base_get_endpoint(peer->proc);
    if (NULL == endpoint || 0 == endpoint->btl_eager.arr_size) {
        mca_pml_spec_explain("unreachable", peer->rank, (unsigned) peer->comm->cid,
                             mca_pml_spec_host_of(&peer->proc->super));
        return NULL;
    }
    size_t limit = SIZE_MAX;
    const uint32_t *looks = mca_btl_ibx_looks(endpoint->btl_eager.bml_btls[0].btl);
    for (size_t i = 0; i < endpoint->btl_eager.arr_size; ++i) {
        const mca_btl_base_module_t *btl = endpoint->btl_eager.bml_btls[i].btl;
        limit = btl->btl_eager_limit < limit ? btl->btl_eager_limit : limit;
        if (NULL == mca_btl_ibx_looks(btl)) {
            looks = NULL;
        }
    }
    limit -= sizeof(mca_pml_spec_match_hdr_t);
    peer->looks = looks;
    peer->eager_limit = limit < SPEC_FLOW_DATA_MAX ? limit : SPEC_FLOW_DATA_MAX;
    __atomic_store_n(&peer->endpoint, endpoint, __ATOMIC_RELEASE);
    __atomic_store_n(&peer->open, endpoint, __ATOMIC_RELEASE);
    return endpoint;
}

int mca_pml_spec_poll(const mca_pml_spec_peer_t *peer)
{
    const mca_bml_base_endpoint_t *endpoint = MCA_PML_SPEC_SEEN(peer->endpoint);
    const mca_btl_base_component_t *last = NULL;
    int events = 0;
    if (!mca_pml_spec_may_poll() || NULL == endpoint) {
        return 0;
    }
    ++mca_pml_spec_depth;
    for (size_t i = 0; i < endpoint->btl_send.arr_size; ++i) {
        const mca_btl_base_component_t *component =
            endpoint->btl_send.bml_btls[i].btl->btl_component;
        if (component != last && NULL != component->btl_progress) {
            events += component->btl_progress();
        }
        last = component;
    }
    --mca_pml_spec_depth;
    return events;
}

int32_t mca_pml_spec_rank_of(const mca_pml_spec_comm_t *comm, opal_process_name_t name)
{
    for (uint32_t rank = 0; rank < comm->size; ++rank) {
        opal_process_name_t other = ompi_group_get_proc_name(comm->group, (int) rank);
        if (other.jobid == name.jobid && other.vpid == name.vpid) {
            return (int32_t) rank;
        }
    }
    return -1;
}

bool mca_pml_spec_is_member(const opal_proc_t *proc)
{
    bool found = false;
    mca_pml_spec_lock(&mca_pml_spec.lock);
    for (unsigned c = 0; !found && c < sizeof(mca_pml_spec.cids) / sizeof(*mca_pml_spec.cids);
         ++c) {
        const mca_pml_spec_cid_slot_t *chunk = mca_pml_spec.cids[c];
        for (unsigned i = 0; !found && NULL != chunk && i < MCA_PML_SPEC_CID_CHUNK; ++i) {
            found =
                NULL != chunk[i].comm && mca_pml_spec_rank_of(chunk[i].comm, proc->proc_name) >= 0;
        }
    }
    mca_pml_spec_unlock(&mca_pml_spec.lock);
    return found;
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
    OBJ_RETAIN(comm->group);
    comm->cid = (uint16_t) cid;
    comm->epoch = (uint8_t) slot->incarnations; /* the next is made when this one is gone */
    comm->is_global = mca_pml_spec_is_global(ompi_comm, &comm->name[0], &comm->name[1]);
    comm->my_rank = ompi_comm->c_my_rank;
    comm->size = (uint32_t) ompi_comm->c_remote_group->grp_proc_count;
    comm->peers = calloc(comm->size + 1u, sizeof(*comm->peers));
    if (NULL == comm->peers || 0 != spec_match_init(&comm->match)) {
        OBJ_RELEASE(comm->group);
        free(comm->peers);
        free(comm);
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    if (MPI_COMM_SELF == ompi_comm) {
        mca_pml_spec_report_arm();
    }
    if (0 == slot->incarnations) {
        OBJ_CONSTRUCT(&slot->lock, opal_mutex_t);
    }
    ompi_comm->c_pml_comm = (struct mca_pml_comm_t *) comm;

    /* From here on packets find the communicator; those that came too early follow in the order of
     * their arrival (their sequence numbers put right what overtakes them). */
    mca_pml_spec_lock(&mca_pml_spec.lock);
    __atomic_store_n(&slot->comm, comm, __ATOMIC_RELEASE);
    ++slot->incarnations;
    free(slot->epitaphs);
    slot->epitaphs = NULL;
    slot->epitaphs_n = 0;
    spec_node_t *n = spec_list_pop(&slot->parked);
    mca_pml_spec_unlock(&mca_pml_spec.lock);
    while (NULL != n) {
        mca_pml_spec_frag_t *frag = SPEC_ENTRY(n, mca_pml_spec_frag_t, item.node);
        mca_pml_spec_packet_t packet = mca_pml_spec_frag_view(frag);
        mca_pml_spec_arrive_again(&packet);
        mca_pml_spec_frag_free(frag);
        mca_pml_spec_lock(&mca_pml_spec.lock);
        n = spec_list_pop(&slot->parked);
        mca_pml_spec_unlock(&mca_pml_spec.lock);
    }
    if (!comm->is_global) {
        mca_pml_spec_hellos_again(comm);
    }
    return OMPI_SUCCESS;
}

/* What is left of those to whom RTRs may still come; NULL: nothing, or no memory, which makes a REVOKE's answer as if
 * the RTR had not been used. */
static mca_pml_spec_epitaph_t *bury(mca_pml_spec_comm_t *comm, uint32_t *n)
{
    mca_pml_spec_epitaph_t *epitaphs = NULL;
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
        if (has_ledger && NULL == epitaphs) {
            epitaphs = calloc(comm->size - i, sizeof(*epitaphs));
        }
        if (has_ledger && NULL != epitaphs) {
            epitaphs[(*n)++] =
                (mca_pml_spec_epitaph_t){.name = mca_pml_spec_name_of(peer->proc), .s = s};
        }
    }
    return epitaphs;
}

/* What the peer's ledger keeps. */
static void drop_rtrs(mca_pml_spec_peer_t *peer)
{
    spec_node_t left, *n;
    spec_list_init(&left);
    spec_send_close_ledger(&peer->send, &left);
    while (NULL != (n = spec_list_pop(&left))) {
        mca_pml_spec_rtr_t *rtr = SPEC_ENTRY(n, mca_pml_spec_rtr_t, ctl.item.node);
        mca_pml_spec_rtr_drop(peer, rtr, SPEC_RTR_KEPT);
    }
}

static void peer_free(mca_pml_spec_peer_t *peer)
{
    spec_node_t *n;
    while (NULL != (n = spec_list_pop(&peer->recv.msgs.early))) {
        mca_pml_spec_frag_free(SPEC_ENTRY(n, mca_pml_spec_frag_t, item.node));
    }
    while (NULL != (n = spec_list_pop(&peer->recv.revokes))) {
        free(SPEC_ENTRY(n, spec_revoke_t, node));
    }
    drop_rtrs(peer);
    mca_pml_spec_keys_free(&peer->keys);
    OBJ_DESTRUCT(&peer->send_lock);
    free(peer);
}

/* Nobody has it any more. group: Open MPI's groups are still there. */
static void comm_free(mca_pml_spec_comm_t *comm, bool group)
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
    if (group) {
        OBJ_RELEASE(comm->group);
    }
    free(comm->peers);
    free(comm);
}

void mca_pml_spec_slot_reap(mca_pml_spec_cid_slot_t *slot)
{
    spec_node_t ended, *n;
    spec_list_init(&ended);
    mca_pml_spec_lock(&mca_pml_spec.lock);
    /* Under the lock those in the list cannot be got any more. So if there are no users, there are none of them;
     * else the last one comes here. */
    while (0 == MCA_PML_SPEC_SEEN(slot->users) && NULL != (n = spec_list_pop(&slot->ended))) {
        spec_list_append(&ended, n);
        __atomic_store_n(&slot->ended_n, slot->ended_n - 1, __ATOMIC_RELAXED);
    }
    mca_pml_spec_unlock(&mca_pml_spec.lock);
    while (NULL != (n = spec_list_pop(&ended))) {
        comm_free(SPEC_ENTRY(n, mca_pml_spec_comm_t, ended), true);
    }
}

int mca_pml_spec_del_comm(ompi_communicator_t *ompi_comm)
{
    mca_pml_spec_comm_t *comm = mca_pml_spec_comm_of(ompi_comm);
    if (NULL == comm) {
        return OMPI_SUCCESS;
    }
    mca_pml_spec_cid_slot_t *slot = comm->slot;
    uint32_t epitaphs_n;
    mca_pml_spec_epitaph_t *epitaphs = bury(comm, &epitaphs_n);
    mca_pml_spec_counters_fold_peers(comm);
    ompi_comm->c_pml_comm = NULL;
    comm->is_ended = true;

    /* A handler counts itself, or takes the lock, and then looks for the communicator; here it is taken away under the
     * lock and then they are counted. */
    mca_pml_spec_comm_hold(comm);
    mca_pml_spec_lock(&slot->lock);
    mca_pml_spec_lock(&mca_pml_spec.lock);
    __atomic_store_n(&slot->comm, NULL, __ATOMIC_RELEASE);
    slot->epitaphs = epitaphs;
    slot->epitaphs_n = epitaphs_n;
    spec_list_append(&slot->ended, &comm->ended);
    __atomic_store_n(&slot->ended_n, slot->ended_n + 1, __ATOMIC_RELAXED);
    mca_pml_spec_unlock(&mca_pml_spec.lock);
    mca_pml_spec_unlock(&slot->lock);
    mca_pml_spec_slot_put(slot);
    return OMPI_SUCCESS;
}
