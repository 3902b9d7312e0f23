/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The second connection to a process, for large transfers (vb_bulk.h): when it is made, and what becomes of those that wait for
 * one that cannot be. */
#include "verbs/btl_ibx_verbs_module.h"

#include "btl_ibx_endpoint.h"

#include "opal/include/spec/spec_now.h"

static bool is_open(const mca_btl_ibx_verbs_endpoint_t *endpoint)
{
    return NULL != endpoint->bulk_peer && VB_OPEN == vb_peer_connection(endpoint->bulk_peer)->state;
}

void mca_btl_ibx_verbs_bulk_meet(mca_btl_ibx_verbs_endpoint_t *endpoint)
{
    vb_peer_t *first = mca_btl_ibx_verbs_peer(endpoint);
    if (NULL != first) {
        endpoint->bulk_peer = vb_peer_add_bulk(first, endpoint);
    }
    if (NULL != endpoint->bulk_peer && mca_btl_ibx_verbs_modules_n > 1) {
        vb_peer_offer_elsewhere(endpoint->bulk_peer, true);
    }
}

void mca_btl_ibx_verbs_bulk_begins(mca_btl_ibx_verbs_endpoint_t *endpoint, uint64_t bytes)
{
    const uint64_t min = mca_btl_ibx_verbs_of(endpoint->base.module)->bulk_min;
    if (vb_bulk_wants(&endpoint->bulk, min, bytes)) {
        mca_btl_ibx_verbs_bulk_meet(endpoint);
        if (NULL == endpoint->bulk_peer || vb_peer_is_over(endpoint->bulk_peer)) {
            endpoint->bulk.state = VB_BULK_GIVEN_UP;
        } else {
            vb_peer_connect(endpoint->bulk_peer);
        }
    }
    if (VB_BULK_WANTED == endpoint->bulk.state) { /* the clock is not read for small ones before */
        vb_bulk_changes(&endpoint->bulk, min, bytes, is_open(endpoint),
                        atomic_load(&endpoint->transfers), spec_now());
    }
}

/* What waits takes the first connection, behind what waits for that. */
static void move_pending(mca_btl_ibx_verbs_endpoint_t *endpoint)
{
    opal_list_item_t *item;
    while (NULL != (item = opal_list_remove_first(&endpoint->bulk_pending))) {
        if (mca_btl_ibx_is_job(item)) {
            mca_btl_ibx_verbs_job_t *job = (mca_btl_ibx_verbs_job_t *) item;
            job->is_bulk = false;
            job->is_counted = true;
            atomic_fetch_add(&endpoint->transfers, 1);
        } else {
            ((mca_btl_ibx_verbs_frag_t *) item)->is_bulk = false;
        }
        opal_list_append(&endpoint->pending, item);
    }
    mca_btl_ibx_post_waiting(endpoint->base.module, &endpoint->pending);
}

bool mca_btl_ibx_verbs_bulk_failed(mca_btl_ibx_verbs_endpoint_t *endpoint)
{
    if (vb_bulk_gives_up(&endpoint->bulk, true, vb_peer_was_open(endpoint->bulk_peer),
                         spec_now())) {
        move_pending(endpoint);
    }
    return !vb_bulk_is_in_use(&endpoint->bulk, vb_peer_was_open(endpoint->bulk_peer));
}

void mca_btl_ibx_verbs_asked_for_second(void *context, vb_peer_t *first)
{
    (void) context;
    mca_btl_ibx_verbs_bulk_meet(vb_peer_user(first));
}

void mca_btl_ibx_verbs_bulk_check(mca_btl_ibx_verbs_module_t *module, uint64_t now)
{
    mca_btl_base_endpoint_t *base;
    OPAL_LIST_FOREACH (base, &module->base.endpoints, mca_btl_base_endpoint_t) {
        mca_btl_ibx_verbs_endpoint_t *endpoint = (mca_btl_ibx_verbs_endpoint_t *) base;
        if (NULL != endpoint->bulk_peer
            && vb_bulk_gives_up(&endpoint->bulk, false, vb_peer_was_open(endpoint->bulk_peer),
                                now)) {
            move_pending(endpoint);
        }
    }
}
