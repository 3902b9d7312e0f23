/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Moves a range of a message by RDMA: cuts it into puts or gets that the transport can do, sends the peer a FIN behind the
 * last one, and accounts for the range when all have completed. */
#include "pml_spec_transfer.h"

#include <string.h>

#include "../objects/pml_spec_stage.h"
#include "pml_spec_control.h"
#include "pml_spec_patience.h"

#include "opal/include/spec/class.h"
#include "opal/include/spec/promises.h"

SPEC_CLASS(mca_pml_spec_transfer_t, opal_free_list_item_t, NULL, NULL);

bool mca_pml_spec_can_put(const mca_bml_base_btl_t *btl)
{
    return (btl->btl_flags & MCA_BTL_FLAGS_PUT) && NULL != btl->btl->btl_put
           && (MCA_PML_SPEC_SPECULATION_ON == mca_pml_spec.speculation
               || 0 != strcmp(btl->btl->btl_component->btl_version.mca_component_name, "ofi"));
}

bool mca_pml_spec_can_rdma(const mca_bml_base_btl_t *bml_btl, bool put, uint64_t local,
                           uint64_t remote, uint64_t length, bool has_key)
{
    const mca_btl_base_module_t *btl = bml_btl->btl;
    if (put ? !mca_pml_spec_can_put(bml_btl)
            : !(bml_btl->btl_flags & MCA_BTL_FLAGS_GET) || NULL == btl->btl_get) {
        return false;
    }
    const size_t alignment = put ? btl->btl_put_alignment : btl->btl_get_alignment;
    return (NULL == btl->btl_register_mem || has_key)
           && (alignment < 2 || 0 == ((local | remote | length) & (alignment - 1)));
}

size_t mca_pml_spec_share(mca_bml_base_btl_t **candidate, size_t candidates, uint64_t length,
                          mca_pml_spec_stripe_t *stripe)
{
    /* As many transports as get their minimum each; the first are as good as any. */
    uint64_t most = length / mca_pml_spec.stripe_min;
    size_t n = most < candidates ? (size_t) most : candidates;
    n = n < 1 ? 1 : n;
    double weight = 0;
    for (size_t i = 0; i < n; ++i) {
        weight += candidate[i]->btl_weight > 0 ? candidate[i]->btl_weight : 1e-6;
    }
    uint64_t offset = 0;
    for (size_t i = 0; i < n; ++i) {
        double w = candidate[i]->btl_weight > 0 ? candidate[i]->btl_weight : 1e-6;
        uint64_t part = (uint64_t) ((double) length * (w / weight)) & ~UINT64_C(4095);
        if (i + 1 == n || part > length - offset) {
            part = length - offset;
        }
        stripe[i] = (mca_pml_spec_stripe_t){.btl = candidate[i], .offset = offset, .length = part};
        offset += part;
    }
    size_t used = 0; /* a share may have rounded to nothing */
    for (size_t i = 0; i < n; ++i) {
        if (stripe[i].length > 0) {
            stripe[used++] = stripe[i];
        }
    }
    if (used > 1) {
        MCA_PML_SPEC_COUNT_N(stripes, used);
    }
    return used;
}

void mca_pml_spec_fall_back(const mca_pml_spec_transfer_args_t *args)
{
    if (!mca_pml_spec_lost(mca_pml_spec_transfer_peer(args))) {
        MCA_PML_SPEC_COUNT(fallbacks);
    }
    args->by_copy(args->request, args->offset, args->length);
}

static void account(const mca_pml_spec_transfer_t *t)
{
    const uint64_t length = t->args.length;
    mca_pml_spec_patience_moved(mca_pml_spec_transfer_peer(&t->args), length, t->started);
    if (t->args.is_put) {
        MCA_PML_SPEC_COUNT_N(bytes_put, length);
        mca_pml_spec_send_account(t->args.request, length, OMPI_SUCCESS);
    } else {
        MCA_PML_SPEC_COUNT_N(bytes_get, length);
        mca_pml_spec_stage_arrived(t->args.request, t->args.offset, length);
    }
}

static void finish(mca_pml_spec_transfer_t *transfer)
{
    void (*const ended)(void *, uint32_t) = transfer->args.ended;
    void *pipe = transfer->args.pipe;
    const uint32_t slot = transfer->args.slot;
    if (NULL != transfer->local_key) {
        mca_bml_base_deregister_mem(transfer->args.btl, transfer->local_key);
    }
    if (OPAL_UNLIKELY(transfer->status < 0)) {
        mca_pml_spec_fall_back(&transfer->args);
    } else {
        if (!transfer->told) {
            transfer->args.tell(transfer);
        }
        account(transfer);
    }
    mca_pml_spec_put_back(&mca_pml_spec.transfers, &transfer->super);
    if (OPAL_UNLIKELY(NULL != ended)) {
        ended(pipe, slot);
    }
}

static void release(mca_pml_spec_transfer_t *transfer)
{
    if (0 == mca_pml_spec_add32(&transfer->refs, -1)) {
        finish(transfer);
    }
}

static void operation_done(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *ep,
                           void *local, mca_btl_base_registration_handle_t *local_key,
                           void *context, void *cbdata, int status)
{
    (void) btl, (void) ep, (void) local, (void) local_key, (void) context;
    mca_pml_spec_transfer_t *transfer = cbdata;
    if (OPAL_UNLIKELY(status < 0)) {
        transfer->status = status;
    }
    release(transfer);
}

/* May the packet that tells of the data be given to the transport directly behind the operation? */
static bool keeps_order(const mca_pml_spec_transfer_t *t)
{
    return mca_btl_ibx_promises(t->args.btl->btl)
           & (t->args.is_put ? MCA_BTL_IBX_ORDERED : MCA_BTL_IBX_FENCED);
}

void mca_pml_spec_transfer_told(const mca_pml_spec_transfer_t *t, const void *hdr, size_t len)
{
    mca_bml_base_endpoint_t *endpoint = mca_pml_spec_transfer_peer(&t->args)->endpoint;
    (NULL == t->args.pipe ? mca_pml_spec_control_send
                          : mca_pml_spec_control_gather)(endpoint, t->args.btl, hdr, len);
}

/* Gives the transport what it takes; the issuer's reference and the request's memory are held. False: it has no room now. */
static bool give(mca_pml_spec_transfer_t *t)
{
    const mca_btl_base_module_t *btl = t->args.btl->btl;
    const size_t limit = t->args.is_put ? btl->btl_put_limit : btl->btl_get_limit;
    mca_btl_base_registration_handle_t *local_key =
        NULL == t->local_key ? t->args.local_key : t->local_key;
    while (t->issued < t->args.length && t->status >= 0) {
        const uint64_t left = t->args.length - t->issued;
        const size_t n = 0 == limit || left < limit ? (size_t) left : limit;
        char *local = t->args.local + t->issued;
        const uint64_t remote = t->args.remote + t->issued;
        void *key = t->args.key_len > 0 ? t->remote_key.bytes : NULL;
        (void) mca_pml_spec_add32(&t->refs, 1);
        t->issued += n;
        /* The last may wait for the packet that tells of all, which follows by the same transport. */
        const int flags = t->args.is_put && n == left && keeps_order(t) ? MCA_BTL_IBX_MORE : 0;
        const int rc = t->args.is_put
                           ? mca_bml_base_put(t->args.btl, local, remote, local_key, key, n, flags,
                                              MCA_BTL_NO_ORDER, operation_done, t)
                           : mca_bml_base_get(t->args.btl, local, remote, local_key, key, n, 0,
                                              MCA_BTL_NO_ORDER, operation_done, t);
        if (OPAL_LIKELY(rc >= 0)) {
            if (OPAL_UNLIKELY(1 == rc)) {
                (void) mca_pml_spec_add32(&t->refs, -1); /* complete, no callback follows */
            }
            continue;
        }
        (void) mca_pml_spec_add32(&t->refs, -1);
        t->issued -= n;
        if (OPAL_ERR_OUT_OF_RESOURCE == rc || OPAL_ERR_TEMP_OUT_OF_RESOURCE == rc
            || OPAL_ERR_RESOURCE_BUSY == rc) {
            return false;
        }
        t->status = rc;
    }
    return true;
}

static volatile int32_t *life_of(const mca_pml_spec_transfer_args_t *args)
{
    return args->is_put ? &((mca_pml_spec_send_request_t *) args->request)->life
                        : &((mca_pml_spec_recv_request_t *) args->request)->life;
}

static void leave(const mca_pml_spec_transfer_args_t *args)
{
    if (args->is_put) {
        mca_pml_spec_send_leave(args->request);
    } else {
        mca_pml_spec_recv_leave(args->request);
    }
}

/* Issue what is left; the issuer's reference is held. False: the transport has no room now. A processor copies within the call, so it is
 * a user; what a transport does by itself goes on when the request is given up. */
static bool issue(mca_pml_spec_transfer_t *t)
{
    /* The program may have its memory back, and another transport would still work. */
    if (mca_pml_spec_lost(mca_pml_spec_transfer_peer(&t->args))
        || !mca_pml_spec_use(life_of(&t->args))) {
        t->status = OMPI_ERR_UNREACH;
        return true;
    }
    const bool is_issued = give(t);
    leave(&t->args);
    if (is_issued && t->status >= 0 && keeps_order(t)) {
        t->args.tell(t);
        t->told = true;
    }
    return is_issued;
}

static bool retry(mca_pml_spec_pending_t *pending)
{
    mca_pml_spec_transfer_t *transfer = SPEC_ENTRY(pending, mca_pml_spec_transfer_t, pending);
    if (!issue(transfer)) {
        return false;
    }
    release(transfer);
    return true;
}

bool mca_pml_spec_transfer_register(const mca_pml_spec_transfer_args_t *args,
                                    mca_btl_base_registration_handle_t **key)
{
    const mca_btl_base_module_t *btl = args->btl->btl;
    const size_t unregistered = args->is_put ? btl->btl_put_local_registration_threshold
                                             : btl->btl_get_local_registration_threshold;
    *key = NULL;
    if (NULL == btl->btl_register_mem || args->length <= unregistered || NULL != args->local_key) {
        return true;
    }
    /* a get writes here, a put reads here */
    mca_bml_base_register_mem(args->btl, args->local, args->length,
                              args->is_put ? 0 : MCA_BTL_REG_FLAG_LOCAL_WRITE, key);
    return NULL != *key;
}

/* Not by a transfer. */
static void refused(const mca_pml_spec_transfer_args_t *args)
{
    mca_pml_spec_fall_back(args);
    if (NULL != args->ended) {
        args->ended(args->pipe, args->slot);
    }
}

void mca_pml_spec_transfer_start(const mca_pml_spec_transfer_args_t *args)
{
    mca_pml_spec_transfer_t *t =
        (mca_pml_spec_transfer_t *) mca_pml_spec_get(&mca_pml_spec.transfers);
    if (OPAL_UNLIKELY(NULL == t)) {
        refused(args);
        return;
    }
    t->args = *args;
    memcpy(t->remote_key.bytes, args->key, args->key_len);
    if (!mca_pml_spec_transfer_register(args, &t->local_key)) {
        mca_pml_spec_put_back(&mca_pml_spec.transfers, &t->super);
        refused(args);
        return;
    }
    t->issued = 0;
    t->told = false;
    t->status = OMPI_SUCCESS;
    t->refs = 1; /* the issuer */
    t->started = args->is_timed ? mca_pml_spec_patience_begins(args->length) : 0;
    if (OPAL_LIKELY(issue(t))) {
        if (1 == MCA_PML_SPEC_GLANCE(t->refs)) { /* it was a copy */
            t->started = 0;
        }
        release(t);
    } else {
        t->pending.retry = retry;
        mca_pml_spec_pend(&t->pending, MCA_PML_SPEC_RES_RDMA(t->args.btl));
    }
}
