/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Policy: in an exchange of large messages through shared memory, where processors copy, both shall copy at the same
 * time. An exchange is Irecv, Send, Wait on both sides, as in MPI_Sendrecv, or Irecv, Isend, Wait.
 *
 * The second of the two finds the other's RTS inside Irecv and its RTR inside Send. Acting on both at
 * once, as is right when a computation follows, it would copy both messages while the other process,
 * which waits, has nothing to do. In an exchange the second one therefore announces its own message
 * first and copies then: both copy at the same time. If it computes between Isend and Wait it has one copy to make
 * instead of two, and the first one makes the other when it waits.
 *
 * An exchange is expected after SPEC_EXCHANGE_SURE receives in a row that were followed by a
 * send within SPEC_EXCHANGE_GAP_NS; one that was not ends the expectation.
 *
 * Pure; times in nanoseconds. Threads: the caller's lock. */
#ifndef SPEC_EXCHANGE_H
#define SPEC_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#define SPEC_EXCHANGE_SURE   2
#define SPEC_EXCHANGE_GAP_NS UINT64_C(5000)
/* Shorter messages, bytes, do not matter. */
#define SPEC_EXCHANGE_LEAST UINT64_C(65536)

typedef struct spec_exchange {
    uint64_t received_at; /* when a receive of note returned; 0: none, or it had its send */
    uint8_t hits;         /* receives in a row with their sends, at most SPEC_EXCHANGE_SURE */
    bool left;            /* the receive left alone what may have arrived */
} spec_exchange_t;

/* A nonblocking receive begins. Shall it leave alone what may have arrived? */
static inline bool spec_exchange_leaves(spec_exchange_t *x)
{
    if (0 != x->received_at) {
        x->hits = 0; /* no send came after the one before */
    }
    __atomic_store_n(&x->received_at, 0, __ATOMIC_RELAXED);
    x->left = x->hits >= SPEC_EXCHANGE_SURE;
    return x->left;
}

/* It returns, and has left alone what may have arrived or was copied inside the call. */
static inline void spec_exchange_received(spec_exchange_t *x, uint64_t now)
{
    __atomic_store_n(&x->received_at, now, __ATOMIC_RELAXED);
}

/* Is there a receive for a send to follow (does the answer depend on the time)? Asked without the lock, too. */
static inline bool spec_exchange_is_open(const spec_exchange_t *x)
{
    return 0 != __atomic_load_n(&x->received_at, __ATOMIC_RELAXED);
}

/* A send begins. True: it shall be announced before anything that has arrived is answered. */
static inline bool spec_exchange_send(spec_exchange_t *x, uint64_t now)
{
    const bool follows = spec_exchange_is_open(x) && now - x->received_at < SPEC_EXCHANGE_GAP_NS;
    const bool first = follows && x->left;
    x->hits = !follows ? 0 : x->hits < SPEC_EXCHANGE_SURE ? x->hits + 1 : x->hits;
    __atomic_store_n(&x->received_at, 0, __ATOMIC_RELAXED);
    x->left = false;
    return first;
}

#endif
