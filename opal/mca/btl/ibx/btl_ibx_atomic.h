/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Atomic operations. Those of datagrams are the protocol stack's, and an adapter may have some of its own (the transport's
 * `atomic_starts`). Else they are messages, which the target answers in its progress. Whatever this process does for a peer its
 * processor does (iwarp/iw_atomic.h), so it is atomic with the program's own operations and with what came another way.
 * Messages are in the byte order of the processors, which are alike. */
#ifndef BTL_IW_ATOMIC_H
#define BTL_IW_ATOMIC_H

#include "btl_ibx_module.h"
#include "iwarp/iw_atomic.h"

/* Not MIN and MAX: nothing in the interface says whether the numbers have a sign, and osc/rdma asks for both kinds. Refused, it makes them
 * of compare and swap. */
#define MCA_BTL_IBX_ATOMICS                                                                        \
    (MCA_BTL_ATOMIC_SUPPORTS_ADD | MCA_BTL_ATOMIC_SUPPORTS_AND | MCA_BTL_ATOMIC_SUPPORTS_OR        \
     | MCA_BTL_ATOMIC_SUPPORTS_XOR | MCA_BTL_ATOMIC_SUPPORTS_SWAP | MCA_BTL_ATOMIC_SUPPORTS_32BIT  \
     | MCA_BTL_ATOMIC_SUPPORTS_CSWAP | MCA_BTL_ATOMIC_SUPPORTS_GLOB)

/* Our own messages, below the tags of the PML. */
enum { MCA_BTL_IBX_TAG_ATOMIC = MCA_BTL_TAG_BTL + 8, MCA_BTL_IBX_TAG_ATOMIC_DONE };

typedef struct mca_btl_ibx_atomic_ask {
    uint64_t offset;  /* in the registered memory */
    uint64_t operand;
    uint64_t compare; /* of IW_ATOMIC_CSWAP */
    uint32_t stag;
    uint32_t number; /* comes back with the answer */
    uint8_t op; /* iw_atomic_op_t */
    uint8_t is_32;
    uint8_t reserved[6];
} mca_btl_ibx_atomic_ask_t;
_Static_assert(sizeof(mca_btl_ibx_atomic_ask_t) == 40, "no holes on the wire");

/* Held while an operation is done. What registers memory for them holds it too, so that memory is not deregistered meanwhile. */
void mca_btl_ibx_atomic_lock(void);
void mca_btl_ibx_atomic_unlock(void);

/* Where the caller wants what a word was before. */
static inline void mca_btl_ibx_atomic_keep(void *local, uint64_t before, bool is_32)
{
    const uint32_t before_32 = (uint32_t) before;
    memcpy(local, is_32 ? (const void *) &before_32 : &before, is_32 ? sizeof(before_32) : sizeof(before));
}

/* On a word of this process, whose address is the job's `remote`; the job ends. lock is not held. */
void mca_btl_ibx_atomic_here(mca_btl_ibx_module_t *module, mca_btl_ibx_job_t *job, const mca_btl_ibx_atomic_ask_t *ask);

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
