/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Registration keys for further transports, sent ahead of an offered buffer and kept at the sender. */
#include "pml_spec_keys.h"

#include "pml_spec_control.h"
#include "pml_spec_transfer.h"

void mca_pml_spec_keys_offer(mca_pml_spec_recv_request_t *recvreq)
{
    mca_pml_spec_peer_t *peer = recvreq->peer;
    mca_bml_base_btl_t *btl[MCA_PML_SPEC_STRIPES];
    if (OPAL_LIKELY(peer->endpoint->btl_rdma.arr_size < 2)
        || recvreq->capacity / 2 < mca_pml_spec.stripe_min) {
        return;
    }
    const size_t n = mca_pml_spec_rdma_btls(peer->endpoint, btl);
    for (size_t i = 0; i < n; ++i) {
        if (btl[i] == recvreq->rtr_btl || !mca_pml_spec_can_put(btl[i])
            || NULL == btl[i]->btl->btl_register_mem) {
            continue;
        }
        const mca_btl_base_registration_handle_t *key =
            mca_pml_spec_recv_register(recvreq, btl[i], 0, recvreq->capacity);
        if (NULL == key) {
            continue; /* one rail less */
        }
        struct {
            mca_pml_spec_key_hdr_t hdr;
            char key[MCA_PML_SPEC_KEY_MAX];
        } packet = {.hdr = {.type = MCA_PML_SPEC_KEY,
                            .epoch = peer->recv.epoch,
                            .ctx = peer->ctx,
                            .src = peer->comm->my_rank,
                            .r = MCA_PML_SPEC_GLANCE(recvreq->handle),
                            .name = mca_pml_spec.my_name,
                            .key_len = (uint16_t) btl[i]->btl->btl_registration_handle_size}};
        memcpy(packet.key, key, packet.hdr.key_len);
        MCA_PML_SPEC_COUNT(rtr_keys);
        mca_pml_spec_control_send(peer->endpoint, btl[i], &packet,
                                  sizeof(packet.hdr) + packet.hdr.key_len);
    }
}

void mca_pml_spec_keys_take(mca_pml_spec_peer_t *peer, uint64_t r, spec_node_t *keys)
{
    spec_node_t *next;
    if (OPAL_LIKELY(0 == MCA_PML_SPEC_GLANCE(peer->keys_n))) {
        return;
    }
    mca_pml_spec_lock(&peer->send_lock);
    for (spec_node_t *n = spec_list_first(&peer->keys); NULL != n; n = next) {
        next = spec_list_next(&peer->keys, n);
        if (SPEC_ENTRY(n, mca_pml_spec_rtr_t, ctl.item.node)->r == r) {
            spec_list_remove(n);
            spec_list_append(keys, n);
            __atomic_store_n(&peer->keys_n, peer->keys_n - 1, __ATOMIC_RELAXED);
        }
    }
    mca_pml_spec_unlock(&peer->send_lock);
}

const mca_pml_spec_rtr_t *mca_pml_spec_keys_find(const spec_node_t *keys,
                                                 const mca_btl_base_module_t *btl)
{
    SPEC_LIST_EACH (n, keys) {
        const mca_pml_spec_rtr_t *key = SPEC_ENTRY(n, mca_pml_spec_rtr_t, ctl.item.node);
        if (key->btl == btl) {
            return key;
        }
    }
    return NULL;
}

void mca_pml_spec_keys_free(spec_node_t *keys)
{
    spec_node_t *n;
    while (NULL != (n = spec_list_pop(keys))) {
        mca_pml_spec_put_back(&mca_pml_spec.rtrs,
                              &SPEC_ENTRY(n, mca_pml_spec_rtr_t, ctl.item.node)->super);
    }
}

static void keep(mca_pml_spec_peer_t *peer, mca_pml_spec_rtr_t *key)
{
    spec_node_t forgotten;
    spec_list_init(&forgotten);
    mca_pml_spec_lock(&peer->send_lock);
    spec_list_append(&peer->keys, &key->ctl.item.node);
    if (peer->keys_n == MCA_PML_SPEC_KEYS_MAX) {
        spec_list_append(&forgotten, spec_list_pop(&peer->keys));
    } else {
        __atomic_store_n(&peer->keys_n, peer->keys_n + 1, __ATOMIC_RELAXED);
    }
    mca_pml_spec_unlock(&peer->send_lock);
    mca_pml_spec_keys_free(&forgotten);
}

MCA_PML_SPEC_KEY_PACKET(key, "KEY", mca_pml_spec_key_hdr_t, true)
{
    const mca_pml_spec_key_hdr_t *hdr = mca_pml_spec_packet_hdr(packet);
    mca_pml_spec_comm_t *comm = mca_pml_spec_comm_get_epoch(hdr->ctx, hdr->epoch);
    if (NULL == comm) {
        return; /* too early or too late: without it the message takes one rail less */
    }
    mca_pml_spec_peer_t *peer = mca_pml_spec_peer_named(comm, hdr->src, hdr->name, "KEY");
    mca_pml_spec_rtr_t *key =
        NULL == peer ? NULL : (mca_pml_spec_rtr_t *) mca_pml_spec_get(&mca_pml_spec.rtrs);
    if (OPAL_LIKELY(NULL != key)) {
        key->btl = packet->btl;
        key->r = hdr->r;
        key->key_len = hdr->key_len;
        memcpy(key->key, hdr + 1, hdr->key_len);
        keep(peer, key);
    }
    mca_pml_spec_comm_put(comm);
}
