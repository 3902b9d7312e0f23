/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Which transports reach a peer, and polling them without Open MPI's other progress functions. */
#include "pml_spec_endpoint.h"

#include "pml_spec_explain.h"

#include "opal/include/spec/promises.h"

/* How large messages to it move. What gets without a registration copies with the processor that calls it. */
static spec_mover_t mover_of(mca_bml_base_endpoint_t *endpoint)
{
    mca_bml_base_btl_t *btl[MCA_PML_SPEC_STRIPES];
    const size_t n = mca_pml_spec_rdma_btls(endpoint, btl);
    if (!(endpoint->btl_flags_or & (MCA_BTL_FLAGS_PUT | MCA_BTL_FLAGS_GET))) {
        return SPEC_BY_FRAGMENTS;
    }
    for (size_t i = 0; i < n; ++i) {
        if (!(btl[i]->btl_flags & MCA_BTL_FLAGS_GET) || NULL != btl[i]->btl->btl_register_mem) {
            return SPEC_BY_RDMA;
        }
    }
    return n > 0 ? SPEC_BY_SINGLE : SPEC_BY_RDMA;
}

/* Is shared memory the only transport to the peer, in a job that ends when a process is lost? Then what the transport has taken
 * arrives, and long packets do in their order. */
static bool has_one_queue(const mca_pml_spec_peer_t *peer, const mca_bml_base_endpoint_t *endpoint)
{
    const mca_bml_base_btl_array_t *btls = &endpoint->btl_send;
    if (!peer->is_near || peer->is_self || 1 != btls->arr_size || mca_pml_spec_outlives()) {
        return false;
    }
    const char *name = btls->bml_btls[0].btl->btl_component->btl_version.mca_component_name;
    return 0 == strcmp("vader", name) || 0 == strcmp("sm", name);
}

/* Bytes of data that fit an eager message in a packet of so many. */
static size_t data_of(size_t packet)
{
    const size_t data = packet - sizeof(mca_pml_spec_match_hdr_t);
    return data < SPEC_FLOW_DATA_MAX ? data : SPEC_FLOW_DATA_MAX;
}

SPEC_HOT mca_bml_base_endpoint_t *mca_pml_spec_endpoint_create(mca_pml_spec_peer_t *peer)
{
    if (mca_pml_spec_is_given_up(peer->proc)) {
        return NULL; /* said before */
    }
    mca_bml_base_endpoint_t *endpoint = mca_bml_base_get_endpoint(peer->proc);
    if (NULL == endpoint || 0 == endpoint->btl_eager.arr_size) {
        mca_pml_spec_explain("unreachable", peer->rank, (unsigned) peer->comm->cid,
                             spec_host_of(&peer->proc->super));
        return NULL;
    }
    size_t limit = SIZE_MAX, most = SIZE_MAX;
    const uint32_t *polls = mca_btl_ibx_polls(endpoint->btl_eager.bml_btls[0].btl);
    for (size_t i = 0; i < endpoint->btl_eager.arr_size; ++i) {
        const mca_btl_base_module_t *btl = endpoint->btl_eager.bml_btls[i].btl;
        limit = btl->btl_eager_limit < limit ? btl->btl_eager_limit : limit;
        most = btl->btl_max_send_size < most ? btl->btl_max_send_size : most;
        if (NULL == mca_btl_ibx_polls(btl)) {
            polls = NULL;
        }
    }
    const spec_mover_t mover = peer->is_self ? SPEC_BY_RDMA : mover_of(endpoint);
    mca_pml_spec_lock(&mca_pml_spec.lock);
    if (OPAL_LIKELY(NULL == peer->endpoint)) { /* no other thread was faster */
        /* Some calls read these before they have the endpoint, as MCA_PML_SPEC_GLANCE. */
        __atomic_store_n(&peer->polls, polls, __ATOMIC_RELAXED);
        __atomic_store_n(&peer->eager_limit, data_of(limit), __ATOMIC_RELAXED);
        __atomic_store_n(&peer->mover, mover, __ATOMIC_RELAXED);
        peer->one_queue = has_one_queue(peer, endpoint);
        peer->eager_most = SPEC_BY_RDMA == mover ? data_of(limit) : data_of(most);
        __atomic_store_n(&peer->endpoint, endpoint, __ATOMIC_RELEASE);
    }
    mca_pml_spec_unlock(&mca_pml_spec.lock);
    __atomic_store_n(&peer->open, endpoint, __ATOMIC_SEQ_CST);
    if (mca_pml_spec_is_given_up(peer->proc)) { /* meanwhile, and its requests may have been ended before this */
        __atomic_store_n(&peer->open, NULL, __ATOMIC_RELEASE);
        return NULL;
    }
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
    ++*mca_pml_spec_depth();
    for (size_t i = 0; i < endpoint->btl_send.arr_size; ++i) {
        const mca_btl_base_component_t *component =
            endpoint->btl_send.bml_btls[i].btl->btl_component;
        if (component != last && NULL != component->btl_progress) {
            events += component->btl_progress();
        }
        last = component;
    }
    --*mca_pml_spec_depth();
    return events;
}

static mca_bml_base_btl_t *find(mca_bml_base_btl_array_t *array, const mca_btl_base_module_t *btl)
{
    return mca_bml_base_btl_array_find(array, (mca_btl_base_module_t *) (uintptr_t) btl);
}

mca_bml_base_btl_t *mca_pml_spec_find_btl(mca_bml_base_endpoint_t *endpoint,
                                          const mca_btl_base_module_t *btl)
{
    mca_bml_base_btl_t *found = find(&endpoint->btl_rdma, btl);
    return NULL != found ? found : find(&endpoint->btl_send, btl);
}

size_t mca_pml_spec_rdma_btls(mca_bml_base_endpoint_t *endpoint, mca_bml_base_btl_t **btl)
{
    size_t n = 0;
    for (size_t i = 0; i < endpoint->btl_rdma.arr_size && n < MCA_PML_SPEC_STRIPES; ++i) {
        mca_bml_base_btl_t *candidate = &endpoint->btl_rdma.bml_btls[i];
        if (NULL != find(&endpoint->btl_send, candidate->btl)) {
            btl[n++] = candidate;
        }
    }
    return n;
}
