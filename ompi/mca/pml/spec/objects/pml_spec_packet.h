/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Packets: how they are sent, looked at, and kept.
 *
 * An arriving packet is a list of segments that belong to the transport and are gone when the
 * callback returns; a kept one (mca_pml_spec_frag_t) is a copy. Both are read through
 * mca_pml_spec_packet_t. A header lies in the first segment whole. */
#ifndef PML_SPEC_PACKET_H
#define PML_SPEC_PACKET_H

#include "../core/spec_match.h"
#include "../core/spec_stream.h"
#include "pml_spec.h"

#include <string.h>

typedef struct mca_pml_spec_packet {
    mca_btl_base_module_t *btl; /* by which it came */
    const mca_btl_base_segment_t *seg;
    size_t nseg;
    size_t size; /* bytes, all segments */
} mca_pml_spec_packet_t;

/* Bytes that a kept packet holds without further memory. */
#define MCA_PML_SPEC_FRAG_INLINE 192

/* A kept packet. Places: the communicator's unexpected queue (unexp), a peer's stream or a cid's
 * parked list (item), or a matched probe's hands. */
typedef struct mca_pml_spec_frag {
    opal_free_list_item_t super;
    spec_unexp_t unexp;
    spec_item_t item;
    uint32_t cost; /* while it is unexpected: core/spec_flow.h */
    mca_btl_base_module_t *btl;
    mca_btl_base_segment_t seg;
    _Alignas(8) char space[MCA_PML_SPEC_FRAG_INLINE];
} mca_pml_spec_frag_t;
OBJ_CLASS_DECLARATION(mca_pml_spec_frag_t);

static inline size_t mca_pml_spec_seg_bytes(const mca_btl_base_segment_t *seg, size_t nseg)
{
    if (OPAL_LIKELY(1 == nseg)) {
        return seg[0].seg_len;
    }
    size_t bytes = 0;
    for (size_t i = 0; i < nseg; ++i) {
        bytes += seg[i].seg_len;
    }
    return bytes;
}

static inline mca_pml_spec_packet_t mca_pml_spec_packet_view(mca_btl_base_module_t *btl,
                                                             const mca_btl_base_segment_t *seg,
                                                             size_t nseg)
{
    return (mca_pml_spec_packet_t){
        .btl = btl, .seg = seg, .nseg = nseg, .size = mca_pml_spec_seg_bytes(seg, nseg)};
}

static inline mca_pml_spec_packet_t mca_pml_spec_frag_view(const mca_pml_spec_frag_t *frag)
{
    return mca_pml_spec_packet_view(frag->btl, &frag->seg, 1);
}

static inline const void *mca_pml_spec_packet_hdr(const mca_pml_spec_packet_t *packet)
{
    return packet->seg[0].seg_addr.pval;
}

static inline const mca_pml_spec_match_hdr_t *mca_pml_spec_frag_hdr(const mca_pml_spec_frag_t *frag)
{
    return (const mca_pml_spec_match_hdr_t *) frag->seg.seg_addr.pval;
}

/* Copy at most max bytes of the packet, from byte skip on. Returns the number copied. */
static inline size_t mca_pml_spec_packet_copy(const mca_pml_spec_packet_t *packet, size_t skip,
                                              void *to, size_t max)
{
    size_t done = 0;
    if (OPAL_LIKELY(packet->seg[0].seg_len >= skip + max)) {
        memcpy(to, (const char *) packet->seg[0].seg_addr.pval + skip, max);
        return max;
    }
    for (size_t i = 0; i < packet->nseg && done < max; ++i) {
        size_t len = packet->seg[i].seg_len;
        if (skip >= len) {
            skip -= len;
            continue;
        }
        size_t n = len - skip < max - done ? len - skip : max - done;
        memcpy((char *) to + done, (const char *) packet->seg[i].seg_addr.pval + skip, n);
        done += n;
        skip = 0;
    }
    return done;
}

/* Keep a copy; NULL when memory is out. */
mca_pml_spec_frag_t *mca_pml_spec_frag_keep(const mca_pml_spec_packet_t *packet);
void mca_pml_spec_frag_free(mca_pml_spec_frag_t *frag);

/* A completion callback for descriptors that nobody waits for. */
void mca_pml_spec_sent_cb(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *ep,
                          mca_btl_base_descriptor_t *des, int status);

/* Send a packet that carries no user data: header of len bytes (<= MCA_PML_SPEC_CONTROL_MAX), whose
 * first byte is its type. bml_btl: by which transport; any of the endpoint's if NULL. Never fails:
 * what the transport refuses is copied and tried again from progress. */
void mca_pml_spec_control_send(mca_bml_base_endpoint_t *endpoint, mca_bml_base_btl_t *bml_btl,
                               const void *hdr, size_t len);

/* The transport whose turn it is. (Open MPI's own function for it reads and writes the turn like any variable, which
 * several threads must not.) */
static inline mca_bml_base_btl_t *mca_pml_spec_next_btl(mca_bml_base_btl_array_t *array)
{
    if (OPAL_LIKELY(1 == array->arr_size)) {
        return &array->bml_btls[0];
    }
    const size_t turn = __atomic_load_n(&array->arr_index, __ATOMIC_RELAXED);
    __atomic_store_n(&array->arr_index, turn + 1 < array->arr_size ? turn + 1 : 0, __ATOMIC_RELAXED);
    return &array->bml_btls[turn < array->arr_size ? turn : 0];
}

/* The BTL of the endpoint that is the local module btl, or NULL. */
mca_bml_base_btl_t *mca_pml_spec_find_btl(mca_bml_base_endpoint_t *endpoint,
                                          const mca_btl_base_module_t *btl);

/* What is kept for a later try (core/spec_retry.h). Embedded in requests and transfers. */
typedef struct mca_pml_spec_pending {
    spec_retry_item_t item;
    /* Try again; no lock is held. False: still no room. It may complete requests, whose callbacks may do
     * anything; others may be in their tries meanwhile. */
    bool (*retry)(struct mca_pml_spec_pending *pending);
} mca_pml_spec_pending_t;

/* What has no room: one address each, for those who wait for the same to wait in one lane. */
#define MCA_PML_SPEC_RES_EAGER(endpoint)  (&(endpoint)->btl_eager)       /* any of its transports */
#define MCA_PML_SPEC_RES_FRAG(endpoint)   (&(endpoint)->btl_send)        /* the same, for large fragments */
#define MCA_PML_SPEC_RES_CONTROL(bml_btl) (bml_btl)                      /* this transport, for packets */
#define MCA_PML_SPEC_RES_RDMA(bml_btl)    (&(bml_btl)->btl_flags)        /* the same, for put and get */
#define MCA_PML_SPEC_RES_NONE             ((const void *) &mca_pml_spec) /* no transport: work for later */

/* Keep it until its retry returns true. */
void mca_pml_spec_pend(mca_pml_spec_pending_t *pending, const void *resource);

/* Does something wait for this resource already? */
bool mca_pml_spec_is_crowded(const void *resource);

/* A packet made no sense: count it. The first is told on the standard error, for what it should have done will not
 * happen: a damaged packet, a forged one or a fault of this component. */
void mca_pml_spec_refuse(const char *what, const char *why);
/* The same for what a process that was given up may still send. */
void mca_pml_spec_refuse_late(const char *what, const char *why);

#endif
