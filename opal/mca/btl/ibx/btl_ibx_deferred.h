/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Answers to atomic operations that could not be sent for lack of memory: kept here, without an allocation, until progress
 * sends them. An answer that finds no room here ends the connection to the process that waits for it, an error at both ends.
 *
 * Plain C, no Open MPI. Threads: under the lock of the module that has it; n is read without it, too, and so it is written
 * atomically. */
#ifndef BTL_IBX_DEFERRED_H
#define BTL_IBX_DEFERRED_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mca_btl_ibx_atomic_answer {
    uint64_t value; /* before the operation */
    uint32_t number;
    int32_t status;
} mca_btl_ibx_atomic_answer_t;
_Static_assert(sizeof(mca_btl_ibx_atomic_answer_t) == 16, "no holes on the wire");

#define MCA_BTL_IBX_DEFERRED 256u

typedef struct mca_btl_ibx_deferred {
    uint32_t n;
    struct {
        void *endpoint;
        mca_btl_ibx_atomic_answer_t answer;
    } at[MCA_BTL_IBX_DEFERRED];
} mca_btl_ibx_deferred_t;

/* False: no room. */
static inline bool mca_btl_ibx_deferred_keep(mca_btl_ibx_deferred_t *deferred, void *endpoint,
                                           const mca_btl_ibx_atomic_answer_t *answer)
{
    if (MCA_BTL_IBX_DEFERRED == deferred->n) {
        return false;
    }
    deferred->at[deferred->n].endpoint = endpoint;
    deferred->at[deferred->n].answer = *answer;
    __atomic_store_n(&deferred->n, deferred->n + 1, __ATOMIC_RELAXED);
    return true;
}

/* One of them, which is not kept any more. NULL: there is none. */
static inline void *mca_btl_ibx_deferred_take(mca_btl_ibx_deferred_t *deferred,
                                            mca_btl_ibx_atomic_answer_t *answer)
{
    if (0 == deferred->n) {
        return NULL;
    }
    const uint32_t last = deferred->n - 1;
    __atomic_store_n(&deferred->n, last, __ATOMIC_RELAXED);
    *answer = deferred->at[last].answer;
    return deferred->at[last].endpoint;
}

#endif
