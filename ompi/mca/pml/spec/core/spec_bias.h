/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A biased lock: the program owns it, and enters and leaves without an atomic operation, as long as the progress agent pauses.
 *
 * The state says whose it is. The owner says that it is inside and then reads the state; the agent, before it does anything that
 * both may do, changes the state, has the owner's processor finish what it has under way (a fence on the agent's side for both:
 * membarrier(2)), and waits until the owner is not inside. From then on both use real locks and atomic operations. When it pauses
 * the agent offers what it took, and the owner takes it the next time that it has no lock: so each lock is given
 * back the way it was taken.
 *
 * See D. Dice, H. Huang, M. Yang, "Asymmetric Dekker Synchronization", 2001, and K. Kawachiya et al., "Lock Reservation",
 * OOPSLA 2002.
 *
 * Pure. Threads: the owner's functions one at a time, by whichever thread of the program is in MPI; the agent's by the agent. Sections
 * are short, nest, and call nothing that waits. */
#ifndef SPEC_BIAS_H
#define SPEC_BIAS_H

#include <stdbool.h>
#include <stdint.h>

/* A test replaces them, to see each access. */
#ifndef SPEC_BIAS_GET
#    define SPEC_BIAS_GET(at)         __atomic_load_n(at, __ATOMIC_ACQUIRE)
#    define SPEC_BIAS_SET(at, value)  __atomic_store_n(at, value, __ATOMIC_RELEASE)
#    define SPEC_BIAS_CAS(at, of, to) spec_bias_exchange(at, of, to)
/* The compiler's only: the agent's fence stands for the processor's. */
#    define SPEC_BIAS_ORDER() __atomic_signal_fence(__ATOMIC_SEQ_CST)
#endif

typedef enum spec_bias_state {
    SPEC_BIAS_OWNED,   /* the owner enters without atomic operations */
    SPEC_BIAS_CLAIMED, /* it does so no more, but may be inside */
    SPEC_BIAS_SHARED,  /* it is not: as with any threads. The only state in which the agent works */
    SPEC_BIAS_OFFERED, /* the same, but the agent pauses */
} spec_bias_state_t;

typedef struct spec_bias {
    uint32_t state;
    int32_t inside; /* sections that the owner is in; the owner's */
} spec_bias_t;

static inline bool spec_bias_exchange(uint32_t *at, uint32_t of, uint32_t to)
{
    return __atomic_compare_exchange_n(at, &of, to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* ---- the owner's; where it is shared, any thread's ---- */

/* True: the section needs neither lock nor atomic operations, until spec_bias_leave. Within a section so is the next one. */
static inline bool spec_bias_enter(spec_bias_t *b)
{
    if (SPEC_BIAS_GET(&b->state) >= SPEC_BIAS_SHARED) {
        return false; /* this may be the agent */
    }
    const int32_t n = b->inside;
    SPEC_BIAS_SET(&b->inside, n + 1);
    SPEC_BIAS_ORDER();
    if (__builtin_expect(SPEC_BIAS_OWNED == SPEC_BIAS_GET(&b->state), 1) || n > 0) {
        return true;
    }
    SPEC_BIAS_SET(&b->inside, n);
    return false;
}

static inline void spec_bias_leave(spec_bias_t *b)
{
    SPEC_BIAS_SET(&b->inside, b->inside - 1);
}

/* The end of the section of a lock. False: it was taken as with any threads. */
static inline bool spec_bias_unlock(spec_bias_t *b)
{
    if (SPEC_BIAS_GET(&b->state) >= SPEC_BIAS_SHARED || 0 == b->inside) {
        return false;
    }
    spec_bias_leave(b);
    return true;
}

/* The caller has no lock and is in no section. */
static inline void spec_bias_accept(spec_bias_t *b)
{
    if (__builtin_expect(SPEC_BIAS_OFFERED == SPEC_BIAS_GET(&b->state), 0)) {
        (void) SPEC_BIAS_CAS(&b->state, SPEC_BIAS_OFFERED, SPEC_BIAS_OWNED);
    }
}

/* ---- the agent's ---- */

/* It does nothing that others may do until it has it again. */
static inline void spec_bias_offer(spec_bias_t *b)
{
    SPEC_BIAS_SET(&b->state, SPEC_BIAS_OFFERED);
}

/* True: it has it. False: after the fence, it waits for spec_bias_has. */
static inline bool spec_bias_claim(spec_bias_t *b)
{
    if (SPEC_BIAS_CAS(&b->state, SPEC_BIAS_OFFERED, SPEC_BIAS_SHARED)) {
        return true;
    }
    SPEC_BIAS_SET(&b->state, SPEC_BIAS_CLAIMED);
    return false;
}

/* Has the owner left? Then it has it. */
static inline bool spec_bias_has(spec_bias_t *b)
{
    if (0 != SPEC_BIAS_GET(&b->inside)) {
        return false;
    }
    SPEC_BIAS_SET(&b->state, SPEC_BIAS_SHARED);
    return true;
}

#endif
