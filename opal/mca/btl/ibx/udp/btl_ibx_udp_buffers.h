/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A free list of fragments whose buffers can go back to the system.
 *
 * What is copied to be sent stays in a fragment until it is acknowledged, and who talks with many peers at once has
 * many such fragments afterwards. They are small; the buffers are not, so these lie apart, in pieces of memory of
 * their own. When nothing was sent for a while all pages of the buffers are given back; their addresses stay.
 *
 * Threads: mca_btl_ibx_rooms_rest beside who takes and returns fragments, since it does what they do. */
#ifndef BTL_IBX_ROOMS_H
#define BTL_IBX_ROOMS_H

#include "btl_ibx_compat.h"

#include <stddef.h>

typedef struct mca_btl_ibx_rooms {
    opal_free_list_t list; /* mca_btl_ibx_frag_t */
    size_t each;           /* bytes of a buffer, and of what is before it (mca_btl_ibx_body_t) */
    struct mca_btl_ibx_rooms_piece *pieces; /* the newest first; under the list's own lock */
} mca_btl_ibx_rooms_t;

/* Fragments with room for so many bytes. Returns an Open MPI error code. */
int mca_btl_ibx_rooms_init(mca_btl_ibx_rooms_t *rooms, size_t room);

/* Nothing was sent for a while. False: a fragment is still in use, ask again; else all pages are given back. */
bool mca_btl_ibx_rooms_rest(mca_btl_ibx_rooms_t *rooms);

/* No fragment is in use. */
void mca_btl_ibx_rooms_fini(mca_btl_ibx_rooms_t *rooms);

#endif
