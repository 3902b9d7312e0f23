/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The memory behind the free lists of fragments: mapped in pieces, its pages given back to the system when nothing is sent. */
#include "udp/btl_ibx_udp_buffers.h"

#include <sys/mman.h>

#define PIECE ((size_t) 1 << 20) /* bytes, about; nothing but address space until it is used */

/* Where the first buffer of a piece begins, which is the one that is used most. A copy to a place a little behind its
 * source's, as the processor sees it that compares but twelve bits of addresses, waits for itself at every step:
 * 4 KiB from the beginning of a page to the beginning of another one made a ping-pong take a quarter longer. */
#define SKEW ((size_t) 2560)
_Static_assert(0 == SKEW % _Alignof(mca_btl_ibx_udp_body_t), "a buffer begins where its headers want it to");

typedef struct mca_btl_ibx_udp_buffers_piece {
    struct mca_btl_ibx_udp_buffers_piece *next;
    char *memory;
    size_t size;
    size_t given; /* bytes, to fragments */
} piece_t;

static piece_t *piece_new(mca_btl_ibx_udp_buffers_t *buffers)
{
    piece_t *piece = malloc(sizeof(*piece));
    if (NULL == piece) {
        return NULL;
    }
    const size_t n = PIECE < buffers->each ? 1 : PIECE / buffers->each;
    piece->size = SKEW + n * buffers->each;
    piece->given = SKEW;
    piece->memory = mmap(NULL, piece->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (MAP_FAILED == (void *) piece->memory) {
        free(piece);
        return NULL;
    }
    piece->next = buffers->pieces;
    buffers->pieces = piece;
    return piece;
}

/* The list makes a fragment. */
static int give_buffer(opal_free_list_item_t *item, void *context)
{
    mca_btl_ibx_udp_buffers_t *buffers = context;
    piece_t *piece = buffers->pieces;
    if (NULL == piece || piece->given + buffers->each > piece->size) {
        piece = piece_new(buffers);
    }
    if (NULL == piece) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    ((mca_btl_ibx_udp_frag_t *) item)->body = (mca_btl_ibx_udp_body_t *) (void *) (piece->memory + piece->given);
    piece->given += buffers->each;
    return OPAL_SUCCESS;
}

int mca_btl_ibx_udp_buffers_init(mca_btl_ibx_udp_buffers_t *buffers, size_t room)
{
    const size_t line = _Alignof(mca_btl_ibx_udp_body_t);
    buffers->each = (sizeof(mca_btl_ibx_udp_body_t) + room + line - 1) / line * line;
    buffers->pieces = NULL;
    OBJ_CONSTRUCT(&buffers->list, opal_free_list_t);
    return opal_free_list_init(&buffers->list, sizeof(mca_btl_ibx_udp_frag_t), opal_cache_line_size,
                               OBJ_CLASS(mca_btl_ibx_udp_frag_t), 0, opal_cache_line_size, 0, -1, 8, NULL, 0, NULL,
                               give_buffer, buffers);
}

bool mca_btl_ibx_udp_buffers_give_back(mca_btl_ibx_udp_buffers_t *buffers)
{
    opal_list_item_t *item, *all = NULL;
    size_t n = 0;
    opal_mutex_lock(&buffers->list.fl_lock); /* none is made meanwhile */
    while (NULL != (item = opal_lifo_pop(&buffers->list.super))) {
        item->opal_list_next = all;
        all = item;
        ++n;
    }
    const bool is_idle = n == buffers->list.fl_num_allocated;
    for (piece_t *piece = is_idle ? buffers->pieces : NULL; NULL != piece; piece = piece->next) {
        (void) madvise(piece->memory, piece->size, MADV_DONTNEED);
    }
    while (NULL != (item = all)) {
        all = (opal_list_item_t *) item->opal_list_next;
        opal_lifo_push(&buffers->list.super, item);
    }
    opal_mutex_unlock(&buffers->list.fl_lock);
    return is_idle;
}

void mca_btl_ibx_udp_buffers_fini(mca_btl_ibx_udp_buffers_t *buffers)
{
    piece_t *piece;
    OBJ_DESTRUCT(&buffers->list);
    while (NULL != (piece = buffers->pieces)) {
        buffers->pieces = piece->next;
        munmap(piece->memory, piece->size);
        free(piece);
    }
}
