/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* How a peer is reached: its transports, which of them can RDMA, whose turn it is, and polling them. */
#ifndef PML_SPEC_ENDPOINT_H
#define PML_SPEC_ENDPOINT_H

#include "pml_spec_comm.h"

/* Transports that may share one message. */
#define MCA_PML_SPEC_STRIPES 8

/* How often the peer's transports, which gather, have been polled. */
static inline uint32_t mca_pml_spec_polls(const mca_pml_spec_peer_t *peer)
{
    return __atomic_load_n(peer->polls, __ATOMIC_RELAXED);
}

/* Poll the peer's transports once, if mca_pml_spec_may_poll. Returns the number of events.
 *
 * A call that starts a message polls nothing but transports. opal_progress would also run the progress functions of
 * one-sided components and nonblocking collectives, from which the call may come: they are not made for being
 * entered again from a send or receive that they start, hold locks there, and wait for each other. A transport that
 * has no function of its own to poll it (tcp) is not polled. */
int mca_pml_spec_poll(const mca_pml_spec_peer_t *peer);

/* Slow path of the next. */
mca_bml_base_endpoint_t *mca_pml_spec_endpoint_create(mca_pml_spec_peer_t *peer);

/* How to reach the peer; NULL: no transport does, or it is lost (a message was given). */
static inline mca_bml_base_endpoint_t *mca_pml_spec_endpoint(mca_pml_spec_peer_t *peer)
{
    mca_bml_base_endpoint_t *endpoint = MCA_PML_SPEC_SEEN(peer->open);
    return OPAL_LIKELY(NULL != endpoint) ? endpoint : mca_pml_spec_endpoint_create(peer);
}

/* The transport whose turn it is. (Open MPI's own function for it reads and writes the turn like any variable, which
 * several threads must not.) */
static inline mca_bml_base_btl_t *mca_pml_spec_next_btl(mca_bml_base_btl_array_t *array)
{
    if (OPAL_LIKELY(1 == array->arr_size)) {
        return &array->bml_btls[0];
    }
    const size_t turn = __atomic_load_n(&array->arr_index, __ATOMIC_RELAXED);
    __atomic_store_n(&array->arr_index, turn + 1 < array->arr_size ? turn + 1 : 0,
                     __ATOMIC_RELAXED);
    return &array->bml_btls[turn < array->arr_size ? turn : 0];
}

/* Hands a packet to the transport. As mca_bml_base_send, but what it refuses (negative) is freed. */
static inline int mca_pml_spec_packet_send(mca_bml_base_btl_t *bml_btl,
                                           mca_btl_base_descriptor_t *des, uint8_t type)
{
    const int rc = mca_bml_base_send(bml_btl, des, type);
    if (OPAL_UNLIKELY(rc < 0)) {
        mca_bml_base_free(bml_btl, des);
    }
    return rc;
}

/* The BTL of the endpoint that is the local module btl, or NULL. */
mca_bml_base_btl_t *mca_pml_spec_find_btl(mca_bml_base_endpoint_t *endpoint,
                                          const mca_btl_base_module_t *btl);

/* The transports that data for this endpoint may use for RDMA: those selected for sending too.
 * Returns how many (at most MCA_PML_SPEC_STRIPES). */
size_t mca_pml_spec_rdma_btls(mca_bml_base_endpoint_t *endpoint, mca_bml_base_btl_t **btl);

#endif
