/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Fragments of the UDP transport, in free lists whose buffers can go back to the system.
 *
 * What is copied to be sent stays in a fragment until it is acknowledged, and a process that talks with many peers at once has
 * many such fragments afterwards. They are small; the buffers are not, so these lie apart, in pieces of memory of
 * their own. When nothing was sent for a while all pages of the buffers are given back; their addresses stay.
 *
 * Threads: mca_btl_ibx_udp_buffers_give_back beside those that take and return fragments, since it does what they do. */
#ifndef BTL_IBX_UDP_BUFFERS_H
#define BTL_IBX_UDP_BUFFERS_H

#include "btl_ibx_fragment.h"
#include "iwarp/iw_engine.h"

/* What a message begins with on the wire. */
typedef struct mca_btl_ibx_udp_hdr {
    uint8_t tag; /* active message tag */
    uint8_t reserved[7];
} mca_btl_ibx_udp_hdr_t;
_Static_assert(sizeof(mca_btl_ibx_udp_hdr_t) == 8, "what follows the header stays aligned");

#define MCA_BTL_IBX_UDP_HEADER_ROOM 256 /* bytes that a fragment has room for of which the message is the user's memory */
#define MCA_BTL_IBX_UDP_SMALL_ROOM  4352 /* the same, of a copied message of up to 4 KiB: one for each of many peers is soon touched */

/* Bytes of copies that may wait for their acknowledgement while their sends are complete. More than what a path holds that
 * a few sends in flight keep busy. */
#define MCA_BTL_IBX_UDP_AHEAD ((size_t) 4 << 20)

/* What is sent from a fragment, and what the engine puts before it. */
typedef struct mca_btl_ibx_udp_body {
    _Alignas(64) uint8_t hole[8];       /* so that user data behind 16 bytes of a PML begins a cache line */
    uint8_t headroom[IW_HEADROOM_SIZE]; /* the engine's, directly before what is sent */
    mca_btl_ibx_udp_hdr_t hdr;          /* directly before the data */
    char data[];
} mca_btl_ibx_udp_body_t;
_Static_assert(offsetof(mca_btl_ibx_udp_body_t, hdr) == offsetof(mca_btl_ibx_udp_body_t, headroom) + IW_HEADROOM_SIZE,
               "no hole between headers and data");
_Static_assert(48 == offsetof(mca_btl_ibx_udp_body_t, data) % 64, "user data begins a cache line");

typedef struct mca_btl_ibx_udp_frag {
    mca_btl_ibx_frag_t super;
    opal_free_list_t *list; /* where it is from */
    mca_btl_ibx_udp_body_t *body;
} mca_btl_ibx_udp_frag_t;
OBJ_CLASS_DECLARATION(mca_btl_ibx_udp_frag_t);

typedef struct mca_btl_ibx_udp_buffers {
    opal_free_list_t list; /* mca_btl_ibx_udp_frag_t */
    size_t each;           /* bytes of a buffer, and of what is before it (mca_btl_ibx_udp_body_t) */
    struct mca_btl_ibx_udp_buffers_piece *pieces; /* the newest first; under the list's own lock */
} mca_btl_ibx_udp_buffers_t;

/* Fragments with room for so many bytes. Returns an Open MPI error code. */
int mca_btl_ibx_udp_buffers_init(mca_btl_ibx_udp_buffers_t *buffers, size_t room);

/* Nothing was sent for a while. False: a fragment is still in use, ask again; else all pages are given back. */
bool mca_btl_ibx_udp_buffers_give_back(mca_btl_ibx_udp_buffers_t *buffers);

/* No fragment is in use. */
void mca_btl_ibx_udp_buffers_fini(mca_btl_ibx_udp_buffers_t *buffers);

#endif
