/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Atomic operations on a word, done by the processor: so they are atomic with the program's own, whichever thread of the
 * process does them for a peer. Pure. */
#ifndef IW_ATOMIC_H
#define IW_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

/* The first three as RFC 7306, 5.2, numbers them; it has no others. */
typedef enum iw_atomic_op {
    IW_ATOMIC_ADD = 0,
    IW_ATOMIC_SWAP = 1,
    IW_ATOMIC_CSWAP = 2,
    IW_ATOMIC_AND,
    IW_ATOMIC_OR,
    IW_ATOMIC_XOR,
    IW_ATOMIC_OPS,
} iw_atomic_op_t;

/* What becomes of a word. compare: of IW_ATOMIC_CSWAP, which stores the operand where the word is that. */
static inline uint64_t iw_atomic_result(iw_atomic_op_t op, uint64_t word, uint64_t operand, uint64_t compare)
{
    switch (op) {
    case IW_ATOMIC_ADD:
        return word + operand;
    case IW_ATOMIC_SWAP:
        return operand;
    case IW_ATOMIC_CSWAP:
        return word == compare ? operand : word;
    case IW_ATOMIC_AND:
        return word & operand;
    case IW_ATOMIC_OR:
        return word | operand;
    case IW_ATOMIC_XOR:
        return word ^ operand;
    default:
        return word;
    }
}

/* Processors do it on aligned words only. */
static inline bool iw_atomic_is_aligned(const void *at, bool is_32)
{
    return 0 == ((uintptr_t) at & (is_32 ? 3 : 7));
}

/* Does it, on an aligned word of 32 or 64 bits; returns what the word was before. Any thread. */
static inline uint64_t iw_atomic_do(iw_atomic_op_t op, bool is_32, void *at, uint64_t operand, uint64_t compare)
{
    if (is_32) {
        uint32_t *const word = at;
        uint32_t before = __atomic_load_n(word, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(
            word, &before, (uint32_t) iw_atomic_result(op, before, (uint32_t) operand, (uint32_t) compare), true,
            __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
        }
        return before;
    }
    uint64_t *const word = at;
    uint64_t before = __atomic_load_n(word, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(word, &before, iw_atomic_result(op, before, operand, compare), true,
                                        __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
    }
    return before;
}

#endif
