/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Doubly linked lists with the links in the objects. A list's head links the first and the last;
 * an object that is in no list has NULL links. */
#ifndef IW_LIST_H
#define IW_LIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct iw_link {
    struct iw_link *next, *prev;
} iw_link_t;

#define IW_ITEM(link, type, field) ((type *) ((char *) (link) -offsetof(type, field)))

static inline void iw_list_init(iw_link_t *head)
{
    head->next = head->prev = head;
}
static inline bool iw_list_empty(const iw_link_t *head)
{
    return head->next == head;
}
static inline bool iw_linked(const iw_link_t *l)
{
    return NULL != l->next;
}
/* Insert behind at, which may be the head. */
static inline void iw_list_insert(iw_link_t *at, iw_link_t *l)
{
    l->prev = at;
    l->next = at->next;
    at->next->prev = l;
    at->next = l;
}
static inline void iw_list_append(iw_link_t *head, iw_link_t *l)
{
    iw_list_insert(head->prev, l);
}
static inline void iw_list_remove(iw_link_t *l)
{
    l->prev->next = l->next;
    l->next->prev = l->prev;
    l->next = l->prev = NULL;
}

#endif
