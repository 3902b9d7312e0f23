/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See btl_ibx_udp_buffers.h. */
#include "udp/btl_ibx_udp_buffers.h"

#include "btl_ibx.h"

#include <stdlib.h>
#include <sys/mman.h>

#define PIECE ((size_t) 1 << 20) /* bytes, about; nothing but address space until it is used */

/* Where the first buffer of a piece begins, which is the one that is used most. A copy to a place a little behind its
 * source's, as the processor sees it that compares but twelve bits of addresses, waits for itself at every step:
 * 4 KiB from the beginning of a page to the beginning of another one made a ping-pong take a quarter longer. */
#define SKEW ((size_t) 2560)
_Static_assert(0 == SKEW % _Alignof(mca_btl_ibx_body_t), "a buffer begins where its headers want it to");

typedef struct mca_btl_ibx_rooms_piece {
    struct mca_btl_ibx_rooms_piece *next;
    char *memory;
    size_t size;
    size_t given; /* bytes, to fragments */
} piece_t;

static piece_t *piece_new(mca_btl_ibx_rooms_t *rooms)
{
    piece_t *piece = malloc(sizeof(*piece));
    if (NULL == piece) {
        return NULL;
    }
    const size_t n = PIECE < rooms->each ? 1 : PIECE / rooms->each;
    piece->size = SKEW + n * rooms->each;
    piece->given = SKEW;
    piece->memory = mmap(NULL, piece->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (MAP_FAILED == (void *) piece->memory) {
        free(piece);
        return NULL;
    }
    piece->next = rooms->pieces;
    rooms->pieces = piece;
    return piece;
}

/* The list makes a fragment. */
static int give_room(opal_free_list_item_t *item, void *context)
{
    mca_btl_ibx_rooms_t *rooms = context;
    piece_t *piece = rooms->pieces;
    if (NULL == piece || piece->given + rooms->each > piece->size) {
        piece = piece_new(rooms);
    }
    if (NULL == piece) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    ((mca_btl_ibx_frag_t *) item)->body = (mca_btl_ibx_body_t *) (void *) (piece->memory + piece->given);
    piece->given += rooms->each;
    return OPAL_SUCCESS;
}

int mca_btl_ibx_rooms_init(mca_btl_ibx_rooms_t *rooms, size_t room)
{
    const size_t line = _Alignof(mca_btl_ibx_body_t);
    rooms->each = (sizeof(mca_btl_ibx_body_t) + room + line - 1) / line * line;
    rooms->pieces = NULL;
    OBJ_CONSTRUCT(&rooms->list, opal_free_list_t);
    return opal_free_list_init(&rooms->list, sizeof(mca_btl_ibx_frag_t), opal_cache_line_size,
                               OBJ_CLASS(mca_btl_ibx_frag_t), 0, opal_cache_line_size, 0, -1, 8, NULL, 0, NULL,
                               give_room, rooms);
}

bool mca_btl_ibx_rooms_rest(mca_btl_ibx_rooms_t *rooms)
{
    opal_list_item_t *item, *all = NULL;
    size_t n = 0;
    opal_mutex_lock(&rooms->list.fl_lock); /* none is made meanwhile */
    while (NULL != (item = opal_lifo_pop(&rooms->list.super))) {
        item->opal_list_next = all;
        all = item;
        ++n;
    }
    const bool rests = n == rooms->list.fl_num_allocated;
    for (piece_t *piece = rests ? rooms->pieces : NULL; NULL != piece; piece = piece->next) {
        (void) madvise(piece->memory, piece->size, MADV_DONTNEED);
    }
    while (NULL != (item = all)) {
        all = (opal_list_item_t *) item->opal_list_next;
        opal_lifo_push(&rooms->list.super, item);
    }
    opal_mutex_unlock(&rooms->list.fl_lock);
    return rests;
}

void mca_btl_ibx_rooms_fini(mca_btl_ibx_rooms_t *rooms)
{
    piece_t *piece;
    OBJ_DESTRUCT(&rooms->list);
    while (NULL != (piece = rooms->pieces)) {
        rooms->pieces = piece->next;
        munmap(piece->memory, piece->size);
        free(piece);
    }
}
