/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Atomic operations as messages, for transports that have none of their own, or none that are atomic with
 * the processor's: what goes over the wire (between equal processors, in their byte order), and the operation
 * itself, on a word of the process that was asked.
 *
 * The target does them in its progress, one after the other under a lock, so they are atomic among each
 * other; they are not atomic with operations of the target's processor on the same word, and the flags do
 * not claim so. Who calls mca_btl_ibx_atomic_perform has checked that the word may be changed. */
#ifndef BTL_IBX_ATOMIC_H
#define BTL_IBX_ATOMIC_H

#include "btl_ibx.h"

#include <string.h>

#define MCA_BTL_IBX_ATOMICS                                                                        \
    (MCA_BTL_ATOMIC_SUPPORTS_ADD | MCA_BTL_ATOMIC_SUPPORTS_AND | MCA_BTL_ATOMIC_SUPPORTS_OR        \
     | MCA_BTL_ATOMIC_SUPPORTS_XOR | MCA_BTL_ATOMIC_SUPPORTS_SWAP | MCA_BTL_ATOMIC_SUPPORTS_MIN    \
     | MCA_BTL_ATOMIC_SUPPORTS_MAX | MCA_BTL_ATOMIC_SUPPORTS_32BIT                                 \
     | MCA_BTL_ATOMIC_SUPPORTS_CSWAP)

enum { MCA_BTL_IBX_CSWAP = 0xff }; /* beside mca_btl_base_atomic_op_t */

typedef struct mca_btl_ibx_atomic_ask {
    uint64_t offset;  /* iWARP over UDP: in the registered memory; verbs: address */
    uint64_t operand; /* of MCA_BTL_IBX_CSWAP: what is expected */
    uint64_t value;   /* of MCA_BTL_IBX_CSWAP: what is stored then */
    uint32_t stag;
    uint32_t number; /* comes back with the answer */
    uint8_t op;
    uint8_t is_32;
    uint8_t reserved[6];
} mca_btl_ibx_atomic_ask_t;
_Static_assert(sizeof(mca_btl_ibx_atomic_ask_t) == 40, "no holes on the wire");

static inline bool mca_btl_ibx_atomic_compute(uint64_t *word, const mca_btl_ibx_atomic_ask_t *ask)
{
    const uint64_t old = *word, operand = ask->operand;
    switch (ask->op) {
    case MCA_BTL_ATOMIC_ADD:
        *word = old + operand;
        break;
    case MCA_BTL_ATOMIC_AND:
        *word = old & operand;
        break;
    case MCA_BTL_ATOMIC_OR:
        *word = old | operand;
        break;
    case MCA_BTL_ATOMIC_XOR:
        *word = old ^ operand;
        break;
    case MCA_BTL_ATOMIC_SWAP:
        *word = operand;
        break;
    case MCA_BTL_ATOMIC_MIN:
        *word = ask->is_32 ? (uint64_t) ((int32_t) old < (int32_t) operand ? old : operand)
                           : (uint64_t) ((int64_t) old < (int64_t) operand ? old : operand);
        break;
    case MCA_BTL_ATOMIC_MAX:
        *word = ask->is_32 ? (uint64_t) ((int32_t) old > (int32_t) operand ? old : operand)
                           : (uint64_t) ((int64_t) old > (int64_t) operand ? old : operand);
        break;
    case MCA_BTL_IBX_CSWAP:
        *word = old == operand ? ask->value : old;
        break;
    default:
        return false;
    }
    return true;
}

/* Do it on a word of this process; *before is the word before. A lock is held that all who do so take. */
static inline int mca_btl_ibx_atomic_perform(char *at, mca_btl_ibx_atomic_ask_t *ask,
                                             uint64_t *before)
{
    if (ask->is_32) {
        uint32_t word32;
        memcpy(&word32, at, sizeof(word32));
        uint64_t word = *before = word32;
        ask->operand &= UINT32_MAX;
        if (!mca_btl_ibx_atomic_compute(&word, ask)) {
            return OPAL_ERR_NOT_SUPPORTED;
        }
        word32 = (uint32_t) word;
        memcpy(at, &word32, sizeof(word32));
        return OPAL_SUCCESS;
    }
    uint64_t word;
    memcpy(&word, at, sizeof(word));
    *before = word;
    if (!mca_btl_ibx_atomic_compute(&word, ask)) {
        return OPAL_ERR_NOT_SUPPORTED;
    }
    memcpy(at, &word, sizeof(word));
    return OPAL_SUCCESS;
}

#endif
