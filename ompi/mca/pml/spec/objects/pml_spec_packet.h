/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Packets that arrive: how they are read, and kept for later.
 *
 * An arriving packet is a list of segments that belong to the transport and are gone when the
 * callback returns; a kept one (mca_pml_spec_frag_t) is a copy. Both are read through
 * mca_pml_spec_packet_t. A header lies in the first segment whole. */
#ifndef PML_SPEC_PACKET_H
#define PML_SPEC_PACKET_H

#include "../core/spec_match.h"
#include "../core/spec_parts.h"
#include "../core/spec_send.h"
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

/* A kept packet. It is in one of: the communicator's unexpected queue (unexp), a peer's stream or a cid's
 * parked list (item), or a matched probe's hands. */
typedef struct mca_pml_spec_frag {
    opal_free_list_item_t super;
    spec_unexp_t unexp;
    spec_item_t item;
    uint32_t cost; /* while it is unexpected: core/spec_flow.h */
    bool in_parts; /* it came as the first part of a message; then its memory is elsewhere */
    mca_btl_base_module_t *btl;
    mca_btl_base_segment_t seg;
    union {
        _Alignas(8) char space[MCA_PML_SPEC_FRAG_INLINE];
        spec_parts_t parts;
    };
} mca_pml_spec_frag_t;
OBJ_CLASS_DECLARATION(mca_pml_spec_frag_t);

/* An RTR or REVOKE at the sender, from its arrival until it is used or dropped. */
typedef struct mca_pml_spec_rtr {
    opal_free_list_item_t super;
    spec_ctl_t ctl;
    mca_btl_base_module_t *btl; /* by which it came */
    uint64_t r;
    uint64_t addr;
    uint8_t back_epoch; /* of a REVOKE */
    bool is_ring;       /* addr is the name of one */
    bool is_staged;     /* what is put there goes in pieces */
    uint16_t key_len;
    char key[MCA_PML_SPEC_KEY_MAX];
} mca_pml_spec_rtr_t;
OBJ_CLASS_DECLARATION(mca_pml_spec_rtr_t);

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

static inline mca_pml_spec_packet_t
mca_pml_spec_packet_view(mca_btl_base_module_t *btl, const mca_btl_base_segment_t *seg, size_t nseg)
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

/* Keep a copy, in memory of so many bytes, which is its size from then on; when memory is out the job ends. */
mca_pml_spec_frag_t *mca_pml_spec_frag_keep_for(const mca_pml_spec_packet_t *packet, size_t size);
static inline mca_pml_spec_frag_t *mca_pml_spec_frag_keep(const mca_pml_spec_packet_t *packet)
{
    return mca_pml_spec_frag_keep_for(packet, packet->size);
}
/* One whose message may be in its sender's list of those that are not whole is taken out there before. */
void mca_pml_spec_frag_free(mca_pml_spec_frag_t *frag);

/* A packet made no sense: count it. The first is told on the standard error, for what it should have done will not
 * happen: a damaged packet, a forged one or a fault of this component. */
void mca_pml_spec_refuse(const char *what, const char *why);
/* The same for what a process that was given up may still send. */
void mca_pml_spec_refuse_late(const char *what, const char *why);

/* Are the first `size` bytes of the packet in its first segment? Else it is refused; what: its name. */
static inline bool mca_pml_spec_packet_has(const mca_pml_spec_packet_t *packet, size_t size,
                                           const char *what)
{
    const bool has = packet->nseg > 0 && packet->seg[0].seg_len >= size;
    if (OPAL_UNLIKELY(!has)) {
        mca_pml_spec_refuse(what, "it is shorter than its header");
    }
    return has;
}

/* What is wrong with the key behind a header of `size` bytes, which the packet has; NULL: nothing. It is one of the transport by which
 * it came: that one reads all of it. needed: else there may be none. */
static inline const char *mca_pml_spec_key_check(const mca_pml_spec_packet_t *packet, size_t size,
                                                 uint16_t key_len, bool needed)
{
    return packet->seg[0].seg_len - size < key_len || key_len > MCA_PML_SPEC_KEY_MAX
               ? "it is shorter than its header and key"
           : (needed || key_len > 0) && key_len != packet->btl->btl_registration_handle_size
               ? "its key is not of the length that its transport's have"
               : NULL;
}

/* The same; what is wrong is refused. */
static inline bool mca_pml_spec_packet_has_key(const mca_pml_spec_packet_t *packet, size_t size,
                                               uint16_t key_len, bool needed, const char *what)
{
    const char *wrong = mca_pml_spec_key_check(packet, size, key_len, needed);
    if (OPAL_UNLIKELY(NULL != wrong)) {
        mca_pml_spec_refuse(what, wrong);
    }
    return NULL == wrong;
}

/* Define NAME_arrived(packet) of a packet that begins with a header of this type; its body follows. It is called by
 * mca_pml_spec_recv_NAME, the callback, which refuses what is shorter. */
#define MCA_PML_SPEC_PACKET(name, what, type) MCA_PML_SPEC_PACKET_IF(name, what, type, true)
/* The same if the field key_len of the header says how long a key follows; needed: one must. */
#define MCA_PML_SPEC_KEY_PACKET(name, what, type, needed)                                          \
    MCA_PML_SPEC_PACKET_IF(                                                                        \
        name, what, type,                                                                          \
        mca_pml_spec_packet_has_key(&packet, sizeof(type),                                         \
                                    ((const type *) mca_pml_spec_packet_hdr(&packet))->key_len,    \
                                    needed, what))
#define MCA_PML_SPEC_PACKET_IF(name, what, type, fits)                                             \
    static void name##_arrived(const mca_pml_spec_packet_t *packet);                               \
    MCA_PML_SPEC_AM_CALLBACK(mca_pml_spec_recv_##name)                                             \
    {                                                                                              \
        const mca_pml_spec_packet_t packet = mca_pml_spec_packet_view(btl, seg, nseg);             \
        if (OPAL_LIKELY(mca_pml_spec_packet_has(&packet, sizeof(type), what) && (fits))) {         \
            name##_arrived(&packet);                                                               \
        }                                                                                          \
    }                                                                                              \
    static void name##_arrived(const mca_pml_spec_packet_t *packet)

#endif
