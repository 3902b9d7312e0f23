/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A ring of received messages and completions that progress took from the transport and has still to give to the PML, safe
 * for nested and concurrent calls of progress.
 *
 * Nobody keeps what it took (docs/design/threads.md): it lies here, and each call of progress, of whichever thread and
 * however deep below a callback, takes the next one only when it is about to tell it. The buffers of what has been told
 * lie here as well, for the next call that has the transport's lock.
 *
 * As long as one caller goes on telling, others leave it to that one: what came in its order is told so, and messages that
 * overtake each other cost the PML time. A caller that finds it where it was the last time helps.
 *
 * Pure: indices in two arrays of IBX_TOLD_MOST that the caller has. Threads: ibx_told_add, _next, _end and _give_back between
 * ibx_told_lock and ibx_told_unlock, and nothing else in between; it is taken below the transport's lock. The others at any time,
 * as a hint. */
#ifndef IBX_DELIVERY_H
#define IBX_DELIVERY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Enough to make the transport's lock cheap. */
#define IBX_TOLD_MOST 32u

typedef struct ibx_told {
    pthread_mutex_t lock;
    bool locks;         /* several threads */
    uint32_t first;     /* told so far, modulo 2^32: the number of the first that waits */
    uint32_t seen;      /* the same when somebody was turned away last */
    uint32_t tellers;   /* callers that tell, those that wait in a callback too */
    atomic_uint n;      /* so many wait */
    atomic_uint ended;  /* have been told, and are to be given back */
} ibx_told_t;

static inline void ibx_told_init(ibx_told_t *t, bool locks)
{
    pthread_mutex_init(&t->lock, NULL);
    t->locks = locks;
    t->first = t->seen = t->tellers = 0;
    atomic_init(&t->n, 0);
    atomic_init(&t->ended, 0);
}

static inline void ibx_told_fini(ibx_told_t *t)
{
    pthread_mutex_destroy(&t->lock);
}

static inline void ibx_told_lock(ibx_told_t *t)
{
    if (t->locks) {
        pthread_mutex_lock(&t->lock);
    }
}

static inline void ibx_told_unlock(ibx_told_t *t)
{
    if (t->locks) {
        pthread_mutex_unlock(&t->lock);
    }
}

/* How many wait, and how many have been told. */
static inline uint32_t ibx_told_waits(const ibx_told_t *t)
{
    return atomic_load_explicit(&t->n, memory_order_relaxed);
}

static inline uint32_t ibx_told_ended(const ibx_told_t *t)
{
    return atomic_load_explicit(&t->ended, memory_order_relaxed);
}

/* How many more there is room for: a caller that alone adds may ask without the lock, too. */
static inline uint32_t ibx_told_room(const ibx_told_t *t)
{
    return IBX_TOLD_MOST - ibx_told_waits(t);
}

/* Takes the lock. False: another caller is telling, and goes on. True: tell, and ibx_told_finish after that. */
static inline bool ibx_told_begin(ibx_told_t *t)
{
    ibx_told_lock(t);
    const bool leaves = t->tellers > 0 && t->first != t->seen;
    t->seen = t->first;
    t->tellers += !leaves;
    ibx_told_unlock(t);
    return !leaves;
}

static inline void ibx_told_finish(ibx_told_t *t)
{
    ibx_told_lock(t);
    --t->tellers;
    ibx_told_unlock(t);
}

/* The index of one more, for which there is room. */
static inline uint32_t ibx_told_add(ibx_told_t *t)
{
    const uint32_t n = ibx_told_waits(t);
    atomic_store_explicit(&t->n, n + 1, memory_order_relaxed);
    return (t->first + n) % IBX_TOLD_MOST;
}

/* The index of the one that has waited longest and does not any more, to be copied before the lock is left; -1: none. */
static inline int ibx_told_next(ibx_told_t *t)
{
    const uint32_t n = ibx_told_waits(t), at = t->first;
    if (0 == n) {
        return -1;
    }
    t->first = at + 1;
    atomic_store_explicit(&t->n, n - 1, memory_order_relaxed);
    return (int) (at % IBX_TOLD_MOST);
}

/* The index of one that has been told; -1: there is no room, and all are to be given back. */
static inline int ibx_told_end(ibx_told_t *t)
{
    const uint32_t n = ibx_told_ended(t);
    if (IBX_TOLD_MOST == n) {
        return -1;
    }
    atomic_store_explicit(&t->ended, n + 1, memory_order_relaxed);
    return (int) n;
}

/* How many of those, from index 0 on, are the caller's now to be given back. */
static inline uint32_t ibx_told_give_back(ibx_told_t *t)
{
    const uint32_t n = ibx_told_ended(t);
    atomic_store_explicit(&t->ended, 0, memory_order_relaxed);
    return n;
}

#endif
