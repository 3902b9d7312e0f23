/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Which messages go out with their data: core/spec_costs.h bound to a peer's transports.
 *
 * What a copy and a single copy by the kernel cost is measured once in a process, in some 50 us, when the first message that is
 * longer than a transport's own eager limit is sent or received; so nothing is paid before, and there is nothing to be kept in a file.
 *
 * What copies take that meet another processor's lines shows when messages are copied, and is measured then.
 *
 * Threads: any. A peer's ends are written before ends_known, and of them only what follows those measurements changes later. */
#ifndef PML_SPEC_COSTS_H
#define PML_SPEC_COSTS_H

#include "pml_spec_copy.h"

/* Slow path of the next two. Takes send_lock. */
void mca_pml_spec_costs_learn(mca_pml_spec_peer_t *peer);

/* The ends of eager for a peer that has an endpoint. */
static inline const spec_ends_t *mca_pml_spec_ends(mca_pml_spec_peer_t *peer)
{
    if (OPAL_UNLIKELY(!MCA_PML_SPEC_SEEN(peer->ends_known))) {
        mca_pml_spec_costs_learn(peer);
    }
    return &peer->ends;
}

/* The same (spec_ends_fit), and costs are not measured for what the transport's own limit lets go. */
static inline bool mca_pml_spec_ends_fit(mca_pml_spec_peer_t *peer, size_t length, bool is_flat)
{
    return OPAL_LIKELY(length <= peer->eager_limit)
           || spec_ends_fit(mca_pml_spec_ends(peer), peer->eager_most, length, is_flat);
}

/* Does a message from one block go out in one packet? */
static inline bool mca_pml_spec_fits_packet(mca_pml_spec_peer_t *peer, size_t length)
{
    return OPAL_LIKELY(length <= peer->eager_limit)
           || (length <= peer->eager_most && mca_pml_spec_ends_fit(peer, length, true));
}

/* Does the message go out with its data, if its mode lets it? Asked once for each send. */
static inline bool mca_pml_spec_costs_fit(mca_pml_spec_peer_t *peer, size_t length, bool is_flat)
{
    return (mca_pml_spec_ends_fit(peer, length, is_flat)
            || (is_flat && spec_ends_tries(&peer->ends, &peer->far, length)))
           && (OPAL_LIKELY(length <= peer->eager_most)
               || mca_pml_spec_copy_has_room(
                   peer, (int32_t) spec_parts_count(length, mca_pml_spec_copy_most(peer))));
}

/* An eager message of so many bytes, or a part of it, is copied from here on: the time, if that is measured, else 0. copies: of
 * the peer's `far`. */
static inline uint64_t mca_pml_spec_costs_begin(mca_pml_spec_peer_t *peer, spec_copies_t *copies,
                                                size_t length)
{
    return length > peer->eager_limit && MCA_PML_SPEC_SEEN(peer->ends_known)
                   && spec_ends_samples(&peer->ends, copies, peer->eager_most, length)
               ? spec_now()
               : 0;
}

/* So many bytes of a copy took so long. */
void mca_pml_spec_costs_saw(mca_pml_spec_peer_t *peer, spec_copies_t *copies, uint64_t bytes,
                            uint64_t ns);

/* So many bytes of it were copied. */
static inline void mca_pml_spec_costs_end(mca_pml_spec_peer_t *peer, spec_copies_t *copies,
                                          uint64_t begin, uint64_t bytes)
{
    if (OPAL_UNLIKELY(begin > 0)) {
        mca_pml_spec_costs_saw(peer, copies, bytes, spec_now() - begin);
    }
}

#endif
