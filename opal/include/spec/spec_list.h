/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Intrusive circular lists with a head node, for the cores of all components.
 *
 * A node that is in no list has next == NULL, so "is it queued?" needs no second flag. Lists own
 * nothing: the object around the node does. No locking here. */
#ifndef SPEC_LIST_H
#define SPEC_LIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct spec_node {
    struct spec_node *next;
    struct spec_node *prev;
} spec_node_t;

/* The object of type `type` whose member `member` is the node `ptr`. */
#define SPEC_ENTRY(ptr, type, member) ((type *) (void *) ((char *) (ptr) -offsetof(type, member)))

static inline void spec_list_init(spec_node_t *head)
{
    head->next = head->prev = head;
}

static inline bool spec_list_is_empty(const spec_node_t *head)
{
    return head->next == head;
}

/* First node, or NULL. */
static inline spec_node_t *spec_list_first(const spec_node_t *head)
{
    return head->next == head ? NULL : head->next;
}

/* The node behind `node`, or NULL at the end. */
static inline spec_node_t *spec_list_next(const spec_node_t *head, const spec_node_t *node)
{
    return node->next == head ? NULL : node->next;
}

/* For each node n of a list, of which none may be taken out on the way. */
#define SPEC_LIST_EACH(n, head)                                                                    \
    for (spec_node_t *n = spec_list_first(head); NULL != n; n = spec_list_next(head, n))

static inline void spec_list_insert_after(spec_node_t *at, spec_node_t *node)
{
    node->prev = at;
    node->next = at->next;
    at->next->prev = node;
    at->next = node;
}

static inline void spec_list_append(spec_node_t *head, spec_node_t *node)
{
    spec_list_insert_after(head->prev, node);
}

static inline bool spec_node_is_queued(const spec_node_t *node)
{
    return NULL != node->next;
}

static inline void spec_list_remove(spec_node_t *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->next = node->prev = NULL;
}

/* Take the first node out, or NULL. */
static inline spec_node_t *spec_list_pop(spec_node_t *head)
{
    spec_node_t *node = spec_list_first(head);
    if (NULL != node) {
        spec_list_remove(node);
    }
    return node;
}

#endif
