/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Finds communicators by the number that packets carry, makes peers, and parks packets that come too early. */
#include "pml_spec_comm.h"

#include "pml_spec_explain.h"
#include "pml_spec_upward.h"

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

SPEC_HOT mca_pml_spec_peer_t *mca_pml_spec_peer_create(mca_pml_spec_comm_t *comm, int32_t rank)
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
    fresh->is_near = fresh->is_self || OPAL_PROC_ON_LOCAL_NODE(fresh->proc->super.proc_flags);
    if (comm->is_global || fresh->is_self) {
        fresh->ctx = comm->cid;
        fresh->ctx_known = true;
    } else {
        fresh->shut = true;
    }
    spec_recv_init(&fresh->recv);
    spec_list_init(&fresh->parts);
    spec_flow_begin(&fresh->flow_in, mca_pml_spec.store.window);
    fresh->flow_out.told = mca_pml_spec.store.window;

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

bool mca_pml_spec_park(uint16_t cid, const mca_pml_spec_packet_t *packet, bool behind)
{
    mca_pml_spec_cid_slot_t *slot = mca_pml_spec_cid_slot(cid);
    mca_pml_spec_frag_t *frag = mca_pml_spec_frag_keep(packet);
    if (NULL == slot) {
        mca_pml_spec_no_memory("a message in a communicator that is not made yet", sizeof(*slot));
    }
    mca_pml_spec_lock(&mca_pml_spec.lock);
    const bool exists = NULL != slot->comm && !(behind && MCA_PML_SPEC_SEEN(slot->replays));
    if (!exists) {
        spec_list_append(&slot->parked, &frag->item.node);
    }
    mca_pml_spec_unlock(&mca_pml_spec.lock);
    if (exists) {
        mca_pml_spec_frag_free(frag);
    }
    return !exists;
}

bool mca_pml_spec_lost_is(const opal_proc_t *proc)
{
    bool found = false;
    mca_pml_spec_lock(&mca_pml_spec.lock);
    for (const mca_pml_spec_lost_t *l = mca_pml_spec.lost; NULL != l && !found; l = l->next) {
        found = mca_pml_spec_is_same(l->name, proc->proc_name);
    }
    mca_pml_spec_unlock(&mca_pml_spec.lock);
    return found;
}

int32_t mca_pml_spec_rank_of(const mca_pml_spec_comm_t *comm, opal_process_name_t name)
{
    for (uint32_t rank = 0; rank < comm->size; ++rank) {
        opal_process_name_t other = ompi_group_get_proc_name(comm->group, (int) rank);
        if (mca_pml_spec_is_same(other, name)) {
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

mca_pml_spec_comm_t *mca_pml_spec_comm_next(uint32_t *cid)
{
    mca_pml_spec_comm_t *comm = NULL;
    while (NULL == comm && *cid <= UINT16_MAX) {
        if (NULL == MCA_PML_SPEC_SEEN(mca_pml_spec.cids[*cid / MCA_PML_SPEC_CID_CHUNK])) {
            *cid |= MCA_PML_SPEC_CID_CHUNK - 1; /* to the next ones */
        } else {
            comm = mca_pml_spec_comm_get((uint16_t) *cid);
        }
        ++*cid;
    }
    return comm;
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
        mca_pml_spec_upward.comm_free(SPEC_ENTRY(n, mca_pml_spec_comm_t, ended));
    }
}

mca_pml_spec_peer_t *mca_pml_spec_peer_get(uint16_t ctx, int32_t src)
{
    mca_pml_spec_comm_t *comm = mca_pml_spec_comm_get(ctx);
    if (NULL == comm) {
        return NULL;
    }
    mca_pml_spec_peer_t *peer = (uint32_t) src >= comm->size ? NULL : mca_pml_spec_peer(comm, src);
    if (NULL == peer) {
        mca_pml_spec_comm_put(comm);
    }
    return peer;
}

mca_pml_spec_peer_t *mca_pml_spec_peer_named(mca_pml_spec_comm_t *comm, int32_t src, uint64_t name,
                                             const char *what)
{
    mca_pml_spec_peer_t *peer = (uint32_t) src < comm->size ? mca_pml_spec_peer(comm, src) : NULL;
    if (NULL == peer || spec_name_of(&peer->proc->super) != name) {
        mca_pml_spec_refuse(what, "it comes from another process than its rank says");
        return NULL;
    }
    return peer;
}
