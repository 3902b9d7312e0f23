/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What btl/ibx promises beyond btl.h, for those who use it (pml/spec). Open MPI's interface has no flag
 * for this, and no component links against another: look at it with mca_btl_ibx_promises(), which reads
 * only a module whose component is named ibx and which begins with this struct of this version.
 *
 * MCA_BTL_IBX_ORDERED: for one endpoint of one module, a message given to btl_send or btl_sendi after a
 * btl_put was is seen by the peer - its callback is called - only after all data of that put is in the
 * peer's memory, whatever gets lost or overtaken and however many puts there are. It need not wait for
 * the put's callback; a FIN directly behind its put leaves while both processes compute. The message goes
 * the same way whatever `order` says: there is one lane for each endpoint, MCA_BTL_IBX_LANE, and
 * descriptors of btl_alloc and btl_prepare_src carry it in their field `order`.
 * MCA_BTL_IBX_FENCED: a message with order MCA_BTL_IBX_LANE given after a btl_get leaves only after all data
 * of that get is here, so that a FIN may be given directly behind its get. Without this promise, or with
 * another order, nothing is said about what is posted behind a get (its data comes the other way: wait for
 * its callback).
 * MCA_BTL_IBX_HOLDS: registrations (btl_register_mem) are kept in a cache, and one that is held while its
 * memory is given back to the system does no harm: nobody is given it any more. A caller that only holds one says
 * so with MCA_BTL_IBX_REG_HOLD in the flags, and never gives its handle to a peer or to a transfer.
 * MCA_BTL_IBX_GATHERS: with MCA_BTL_IBX_MORE in des_flags btl_send says that the message may wait, in its order, for others that
 * follow: until one without the flag takes it along, or the component's progress is called. If it lies in the BTL's
 * buffer its callback is called by the next progress, and btl_send does not return 1. *looks counts the calls of progress.
 * Not promised: anything about puts behind a message, between endpoints, or between modules. If the put fails the
 * connection has ended, and the message is not delivered either. */
#ifndef BTL_IBX_PUBLIC_H
#define BTL_IBX_PUBLIC_H

#include "opal/mca/btl/btl.h"

#include <stdint.h>
#include <string.h>

#define MCA_BTL_IBX_MAGIC   UINT32_C(0x69627870)
#define MCA_BTL_IBX_VERSION UINT32_C(2) /* changes when the meaning of anything here does */

enum { MCA_BTL_IBX_LANE = 0 };
enum { MCA_BTL_IBX_REG_HOLD = 1 << 30 }; /* beyond MCA_BTL_REG_FLAG_* */
enum { MCA_BTL_IBX_MORE = 1 << 30 };     /* beyond MCA_BTL_DES_* */
enum {
    MCA_BTL_IBX_ORDERED = 1,
    MCA_BTL_IBX_FENCED = 2,
    MCA_BTL_IBX_HOLDS = 4,
    MCA_BTL_IBX_GATHERS = 8,
};

/* The beginning of each module. */
typedef struct mca_btl_ibx_public {
    mca_btl_base_module_t super;
    uint32_t magic;
    uint32_t version;
    uint32_t promises;
    uint32_t place_min; /* see mca_btl_ibx_places */
    const uint32_t *looks; /* with MCA_BTL_IBX_GATHERS; to be read atomically */
} mca_btl_ibx_public_t;

/* MCA_BTL_IBX_ORDERED and the like of this module; 0 of any other BTL's. */
static inline uint32_t mca_btl_ibx_promises(const mca_btl_base_module_t *btl)
{
    const mca_btl_ibx_public_t *module = (const mca_btl_ibx_public_t *) btl;
    if (0 != strcmp("ibx", btl->btl_component->btl_version.mca_component_name)
        || MCA_BTL_IBX_MAGIC != module->magic || MCA_BTL_IBX_VERSION != module->version) {
        return 0;
    }
    return module->promises;
}

/* Messages of this size are worth btl_prepare_src: it finds out by itself which of them to copy and
 * which to send in place. False of smaller ones, of any other BTL, and where it does not find out. */
static inline bool mca_btl_ibx_places(const mca_btl_base_module_t *btl, size_t size)
{
    return 0 != mca_btl_ibx_promises(btl) && 0 != ((const mca_btl_ibx_public_t *) btl)->place_min
           && size >= ((const mca_btl_ibx_public_t *) btl)->place_min;
}

/* How often this transport was polled, if it gathers; NULL of any other BTL. */
static inline const uint32_t *mca_btl_ibx_looks(const mca_btl_base_module_t *btl)
{
    return mca_btl_ibx_promises(btl) & MCA_BTL_IBX_GATHERS
               ? ((const mca_btl_ibx_public_t *) btl)->looks
               : NULL;
}

#endif
