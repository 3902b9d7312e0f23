/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Sends packets of the protocols that carry no user data, now or when the transport has room. */
#include "pml_spec_control.h"

#include "../objects/pml_spec_agent.h"
#include "../objects/pml_spec_comm.h"
#include "../objects/pml_spec_explain.h"
#include "../objects/pml_spec_pending.h"

#include "opal/include/spec/promises.h"

#include <stdlib.h>

void mca_pml_spec_sent_cb(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *ep,
                          mca_btl_base_descriptor_t *des, int status)
{
    (void) btl, (void) ep, (void) des, (void) status;
}

/* What tells of data stays behind the transfers before it (promises.h; other transports ignore it). */
static uint8_t order_of(const void *hdr)
{
    const mca_pml_spec_match_notice_t *notice = hdr;
    const bool tells = MCA_PML_SPEC_FIN == notice->match.type
                       || (MCA_PML_SPEC_MATCH == notice->match.type && notice->bytes > 0);
    return tells ? MCA_BTL_IBX_ORDER : MCA_BTL_NO_ORDER;
}

static bool control_try(mca_bml_base_btl_t *bml_btl, const void *hdr, size_t len, uint32_t more)
{
    const uint8_t type = *(const uint8_t *) hdr;
    const uint32_t flags = MCA_BTL_DES_FLAGS_PRIORITY | MCA_BTL_DES_FLAGS_BTL_OWNERSHIP
                           | MCA_BTL_DES_FLAGS_SIGNAL | more;
    const uint8_t order = order_of(hdr);
    mca_btl_base_descriptor_t *des = NULL;

    if (NULL != bml_btl->btl->btl_sendi
        && 0 <= mca_bml_base_sendi(bml_btl, NULL, (void *) (uintptr_t) hdr, len, 0, order, flags,
                                   type, NULL)) {
        return true;
    }
    mca_bml_base_alloc(bml_btl, &des, order, len, flags);
    if (NULL == des) {
        return false;
    }
    memcpy(des->des_segments[0].seg_addr.pval, hdr, len);
    des->des_segments[0].seg_len = len;
    des->des_cbfunc = mca_pml_spec_sent_cb;
    return 0 <= mca_pml_spec_packet_send(bml_btl, des, type);
}

/* A control packet that waits for its transport. */
typedef struct waiting_control {
    mca_pml_spec_pending_t pending;
    mca_bml_base_endpoint_t *endpoint;
    mca_bml_base_btl_t *bml_btl;
    size_t len;
    char hdr[];
} waiting_control_t;

static bool control_retry(mca_pml_spec_pending_t *pending)
{
    waiting_control_t *w = SPEC_ENTRY(pending, waiting_control_t, pending);
    if (!mca_pml_spec_lost_proc(w->endpoint->btl_proc)
        && !control_try(w->bml_btl, w->hdr, w->len, 0)) {
        return false;
    }
    free(w);
    return true;
}

static void control(mca_bml_base_endpoint_t *endpoint, mca_bml_base_btl_t *bml_btl, const void *hdr,
                    size_t len, uint32_t more)
{
    if (NULL == bml_btl) {
        bml_btl = mca_pml_spec_next_btl(&endpoint->btl_eager);
    }
    MCA_PML_SPEC_COUNT_N(bytes_control, len);
    mca_pml_spec_agent_asks(endpoint->btl_proc);
    if (OPAL_LIKELY(control_try(bml_btl, hdr, len, more))
        || mca_pml_spec_lost_proc(endpoint->btl_proc)) {
        return;
    }
    mca_btl_ibx_flush(bml_btl->btl); /* a put that was to leave with it */
    waiting_control_t *w = malloc(sizeof(*w) + len);
    if (NULL == w) {
        mca_pml_spec_no_memory("a control packet that waits for the transport", sizeof(*w) + len);
    }
    w->pending.retry = control_retry;
    w->endpoint = endpoint;
    w->bml_btl = bml_btl;
    w->len = len;
    memcpy(w->hdr, hdr, len);
    mca_pml_spec_pend(&w->pending, MCA_PML_SPEC_RES_CONTROL(bml_btl));
}

void mca_pml_spec_control_send(mca_bml_base_endpoint_t *endpoint, mca_bml_base_btl_t *bml_btl,
                               const void *hdr, size_t len)
{
    control(endpoint, bml_btl, hdr, len, 0);
}

void mca_pml_spec_control_gather(mca_bml_base_endpoint_t *endpoint, mca_bml_base_btl_t *bml_btl,
                                 const void *hdr, size_t len)
{
    control(endpoint, bml_btl, hdr, len, MCA_BTL_IBX_MORE);
    mca_pml_spec_flush_later(bml_btl->btl);
}
