/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See pml_spec_hold.h. */
#include "pml_spec_hold.h"

#include "pml_spec_proto.h"

#include "opal/include/spec/promises.h"
#include "opal/runtime/opal_params.h"

#include <stdlib.h>

/* What is held cannot be evicted: not more than hold_max of it. */
static volatile int64_t held; /* bytes, once for each transport */

struct mca_pml_spec_hold {
    int64_t size;
    int32_t n;
    struct {
        mca_btl_base_registration_handle_t *handle;
        mca_bml_base_btl_t *btl;
    } key[MCA_PML_SPEC_STRIPES];
};

mca_pml_spec_hold_t *mca_pml_spec_hold_new(mca_pml_spec_peer_t *peer, void *base, size_t size,
                                           uint32_t access)
{
    mca_bml_base_btl_t *btl[MCA_PML_SPEC_STRIPES];
    mca_bml_base_endpoint_t *endpoint = mca_pml_spec_endpoint(peer);
    if (NULL == endpoint || size <= peer->eager_limit) {
        return NULL;
    }
    mca_pml_spec_hold_t *hold = calloc(1, sizeof(*hold));
    const size_t n = NULL == hold ? 0 : mca_pml_spec_rdma_btls(endpoint, btl);
    for (size_t i = 0; i < n; ++i) {
        const bool holds = mca_btl_ibx_promises(btl[i]->btl) & MCA_BTL_IBX_HOLDS
                           && (uint64_t) MCA_PML_SPEC_GLANCE(held) + size <= mca_pml_spec.hold_max;
        mca_btl_base_registration_handle_t *handle = NULL;
        if (NULL == btl[i]->btl->btl_register_mem || (!holds && 1 != opal_leave_pinned)) {
            continue;
        }
        mca_bml_base_register_mem(btl[i], base, size, access | (holds ? MCA_BTL_IBX_REG_HOLD : 0),
                                  &handle);
        if (NULL != handle && holds) {
            (void) mca_pml_spec_add64(&held, (int64_t) size);
            hold->size = (int64_t) size;
            hold->key[hold->n].handle = handle;
            hold->key[hold->n++].btl = btl[i];
        } else if (NULL != handle) {
            mca_bml_base_deregister_mem(btl[i], handle);
        }
    }
    if (NULL != hold && 0 == hold->n) {
        free(hold);
        hold = NULL;
    }
    return hold;
}

void mca_pml_spec_hold_free(mca_pml_spec_hold_t *hold)
{
    while (NULL != hold && hold->n > 0) {
        --hold->n;
        (void) mca_pml_spec_add64(&held, -hold->size);
        mca_bml_base_deregister_mem(hold->key[hold->n].btl, hold->key[hold->n].handle);
    }
    free(hold);
}
