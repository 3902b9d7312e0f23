/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Atomic operations as messages, for transports that have none of their own, or none that are atomic with the processor's.
 *
 * The target does them in its progress, one after the other under a lock, so they are atomic among each other, whatever the
 * module they came by; they are not atomic with operations of the target's processor on the same word, and the flags do not
 * claim so. Messages are in the byte order of the processors, which are alike. */
#ifndef BTL_IBX_ATOMIC_H
#define BTL_IBX_ATOMIC_H

#include "btl_ibx_module.h"

#define MCA_BTL_IBX_ATOMICS                                                                        \
    (MCA_BTL_ATOMIC_SUPPORTS_ADD | MCA_BTL_ATOMIC_SUPPORTS_AND | MCA_BTL_ATOMIC_SUPPORTS_OR        \
     | MCA_BTL_ATOMIC_SUPPORTS_XOR | MCA_BTL_ATOMIC_SUPPORTS_SWAP | MCA_BTL_ATOMIC_SUPPORTS_MIN    \
     | MCA_BTL_ATOMIC_SUPPORTS_MAX | MCA_BTL_ATOMIC_SUPPORTS_32BIT                                 \
     | MCA_BTL_ATOMIC_SUPPORTS_CSWAP)

enum { MCA_BTL_IBX_CSWAP = 0xff }; /* beside mca_btl_base_atomic_op_t */

/* Our own messages, below the tags of the PML. */
enum { MCA_BTL_IBX_TAG_ATOMIC = MCA_BTL_TAG_BTL + 8, MCA_BTL_IBX_TAG_ATOMIC_DONE };

typedef struct mca_btl_ibx_atomic_ask {
    uint64_t offset;  /* in the registered memory */
    uint64_t operand; /* of MCA_BTL_IBX_CSWAP: what is expected */
    uint64_t value;   /* of MCA_BTL_IBX_CSWAP: what is stored then */
    uint32_t stag;
    uint32_t number; /* comes back with the answer */
    uint8_t op;
    uint8_t is_32;
    uint8_t reserved[6];
} mca_btl_ibx_atomic_ask_t;
_Static_assert(sizeof(mca_btl_ibx_atomic_ask_t) == 40, "no holes on the wire");

/* Held while an operation is done. What registers memory for them holds it too, so that memory is not deregistered meanwhile. */
void mca_btl_ibx_atomic_lock(void);
void mca_btl_ibx_atomic_unlock(void);

/* btl_atomic_op, btl_atomic_fop, btl_atomic_cswap. */
MCA_BTL_IBX_DECLARE(atomic_op64, mca_btl_ibx_atomic_op);
MCA_BTL_IBX_DECLARE(atomic_fop64, mca_btl_ibx_atomic_fop);
MCA_BTL_IBX_DECLARE(atomic_cswap64, mca_btl_ibx_atomic_cswap);

/* A message of an atomic operation arrived; endpoint: which sent it, or NULL if that is not known. lock is not held. */
void mca_btl_ibx_atomic_arrived(mca_btl_ibx_module_t *module, mca_btl_base_endpoint_t *endpoint, uint8_t tag,
                                const void *data, size_t size);

/* A message arrived. False: it is none of an atomic operation. lock is not held. */
static inline bool mca_btl_ibx_atomic_message(mca_btl_ibx_module_t *module, mca_btl_base_endpoint_t *endpoint, uint8_t tag,
                                              const void *data, size_t size)
{
    if (OPAL_LIKELY(MCA_BTL_IBX_TAG_ATOMIC != tag && MCA_BTL_IBX_TAG_ATOMIC_DONE != tag)) {
        return false;
    }
    mca_btl_ibx_atomic_arrived(module, endpoint, tag, data, size);
    return true;
}

/* Answers for which there was no memory. lock is not held. */
void mca_btl_ibx_retry_answers(mca_btl_ibx_module_t *module);

/* Nothing comes from the endpoint any more: what waits for its answers goes to the module's list `ended`. lock is held. */
void mca_btl_ibx_fail_atomics(const mca_btl_base_endpoint_t *endpoint);

#endif
