/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Keeps the buffers of persistent requests registered, so that starting them registers nothing. */
#include "pml_spec_pin.h"

#include "opal/include/spec/promises.h"
#include "opal/runtime/opal_params.h"

/* What is pinned cannot be evicted: not more than persistent_max of it. */
static volatile int64_t pinned; /* bytes, once for each transport */

void mca_pml_spec_pin_init(void)
{
    pinned = 0;
}

struct mca_pml_spec_pin {
    int64_t size;
    int32_t n;
    struct {
        mca_btl_base_registration_handle_t *handle;
        mca_bml_base_btl_t *btl;
    } key[MCA_PML_SPEC_STRIPES];
};

mca_pml_spec_pin_t *mca_pml_spec_pin_new(mca_pml_spec_peer_t *peer, void *base, size_t size,
                                         uint32_t access)
{
    mca_bml_base_btl_t *btl[MCA_PML_SPEC_STRIPES];
    mca_bml_base_endpoint_t *endpoint = mca_pml_spec_endpoint(peer);
    if (NULL == endpoint || size <= peer->eager_limit) {
        return NULL;
    }
    mca_pml_spec_pin_t *pin = calloc(1, sizeof(*pin));
    const size_t n = NULL == pin ? 0 : mca_pml_spec_rdma_btls(endpoint, btl);
    for (size_t i = 0; i < n; ++i) {
        const bool pins = mca_btl_ibx_promises(btl[i]->btl) & MCA_BTL_IBX_PINS
                          && (uint64_t) MCA_PML_SPEC_GLANCE(pinned) + size <= mca_pml_spec.persistent_max;
        mca_btl_base_registration_handle_t *handle = NULL;
        if (NULL == btl[i]->btl->btl_register_mem || (!pins && 1 != opal_leave_pinned)) {
            continue;
        }
        mca_bml_base_register_mem(btl[i], base, size, access | (pins ? MCA_BTL_IBX_REG_PIN : 0),
                                  &handle);
        if (NULL != handle && pins) {
            (void) mca_pml_spec_add64(&pinned, (int64_t) size);
            pin->size = (int64_t) size;
            pin->key[pin->n].handle = handle;
            pin->key[pin->n++].btl = btl[i];
        } else if (NULL != handle) {
            mca_bml_base_deregister_mem(btl[i], handle);
        }
    }
    if (NULL != pin && 0 == pin->n) {
        free(pin);
        pin = NULL;
    }
    return pin;
}

void mca_pml_spec_pin_free(mca_pml_spec_pin_t *pin)
{
    while (NULL != pin && pin->n > 0) {
        --pin->n;
        (void) mca_pml_spec_add64(&pinned, -pin->size);
        mca_bml_base_deregister_mem(pin->key[pin->n].btl, pin->key[pin->n].handle);
    }
    free(pin);
}
