/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Messages over verbs: fragments, and what becomes of them until the adapter is done. */
#include "verbs/btl_ibx_verbs_inplace.h"

#include "opal/include/spec/class.h"

/* What sendi builds on the stack, at most. */
#define STACK_MAX 512

SPEC_CLASS(mca_btl_ibx_verbs_frag_t, mca_btl_ibx_frag_t, NULL, NULL);

static vb_hdr_t *header_of(mca_btl_ibx_verbs_frag_t *frag)
{
    return frag->super.base.super.ptr;
}

static mca_btl_ibx_verbs_frag_t *frag_new(mca_btl_ibx_verbs_module_t *module, mca_btl_base_endpoint_t *endpoint,
                                          size_t size, uint8_t order, uint32_t flags)
{
    mca_btl_ibx_verbs_frag_t *frag =
        (mca_btl_ibx_verbs_frag_t *) mca_btl_ibx_item_get(&module->frags);
    if (OPAL_LIKELY(NULL != frag)) {
        mca_btl_ibx_frag_begin(&frag->super, endpoint, order, flags, header_of(frag) + 1, size);
    }
    return frag;
}

void mca_btl_ibx_verbs_frag_return(mca_btl_ibx_module_t *module, mca_btl_ibx_frag_t *base)
{
    mca_btl_ibx_verbs_frag_t *frag = (mca_btl_ibx_verbs_frag_t *) base;
    if (NULL != frag->user) {
        (void) module->rcache->rcache_deregister(module->rcache, &frag->user->super.base);
        frag->user = NULL;
    }
    mca_btl_ibx_item_return(&mca_btl_ibx_verbs_of(module)->frags, &base->base.super);
}

mca_btl_base_descriptor_t *mca_btl_ibx_verbs_alloc(mca_btl_base_module_t *btl,
                                                   mca_btl_base_endpoint_t *endpoint, uint8_t order,
                                                   size_t size, uint32_t flags)
{
    mca_btl_ibx_verbs_module_t *module = (mca_btl_ibx_verbs_module_t *) btl;
    mca_btl_ibx_verbs_frag_t *frag =
        OPAL_UNLIKELY(size > btl->btl_max_send_size) ? NULL : frag_new(module, endpoint, size, order, flags);
    return OPAL_UNLIKELY(NULL == frag) ? NULL : &frag->super.base;
}

/* The user's memory as the second piece, if that pays. What fits the work request is copied there in
 * any case. */
static bool in_place(mca_btl_ibx_verbs_module_t *module, mca_btl_ibx_verbs_frag_t *frag,
                     opal_convertor_t *convertor, size_t length, freq_gate_t **gate)
{
    void *data;
    mca_btl_ibx_verbs_endpoint_t *endpoint = (mca_btl_ibx_verbs_endpoint_t *) frag->super.endpoint;
    const vb_peer_t *peer = __atomic_load_n(&endpoint->peer, __ATOMIC_RELAXED);
    *gate = NULL;
    if (opal_convertor_need_buffers(convertor)
        || (NULL != peer
            && sizeof(vb_hdr_t) + frag->super.segment[0].seg_len + length <= vb_inline_max(peer))) {
        return false;
    }
    opal_convertor_get_current_pointer(convertor, &data);
    frag->user = mca_btl_ibx_verbs_inplace(module, data, length, 0, gate);
    if (NULL == frag->user) {
        return false;
    }
    frag->super.segment[1].seg_addr.pval = data;
    frag->super.segment[1].seg_len = length;
    frag->super.base.des_segment_count = 2;
    return true;
}

mca_btl_base_descriptor_t *mca_btl_ibx_verbs_prepare_src(mca_btl_base_module_t *btl,
                                                         mca_btl_base_endpoint_t *endpoint,
                                                         opal_convertor_t *convertor, uint8_t order,
                                                         size_t reserve, size_t *size,
                                                         uint32_t flags)
{
    mca_btl_ibx_verbs_module_t *module = (mca_btl_ibx_verbs_module_t *) btl;
    if (OPAL_UNLIKELY(reserve > btl->btl_max_send_size)) {
        return NULL;
    }
    mca_btl_ibx_verbs_frag_t *frag = frag_new(module, endpoint, reserve, order, flags);
    if (OPAL_UNLIKELY(NULL == frag)) {
        return NULL;
    }
    size_t length = btl->btl_max_send_size - reserve;
    length = *size < length ? *size : length;
    freq_gate_t *gate;
    if (length > 0 && !in_place(module, frag, convertor, length, &gate)) {
        struct iovec iov = {.iov_base = (char *) (header_of(frag) + 1) + reserve,
                            .iov_len = length};
        uint32_t n = 1;
        const uint64_t start = freq_gate_copy_starts(gate);
        if (0 > opal_convertor_pack(convertor, &iov, &n, &length)) {
            mca_btl_ibx_verbs_frag_return(&module->base, &frag->super);
            return NULL;
        }
        freq_gate_copy_ends(gate, start, length);
        frag->super.segment[0].seg_len = reserve + length;
    }
    *size = length;
    return &frag->super.base;
}

int mca_btl_ibx_verbs_frag_post(mca_btl_ibx_frag_t *base)
{
    mca_btl_ibx_verbs_frag_t *frag = (mca_btl_ibx_verbs_frag_t *) base;
    vb_peer_t *peer = mca_btl_ibx_verbs_peer_of(
        (mca_btl_ibx_verbs_endpoint_t *) frag->super.endpoint, frag->is_bulk);
    if (OPAL_UNLIKELY(NULL == peer)) {
        return OPAL_ERR_UNREACH;
    }
    const mca_btl_ibx_verbs_reg_t *own = (mca_btl_ibx_verbs_reg_t *) frag->super.base.super.registration;
    vb_hdr_t *hdr = header_of(frag);
    struct ibv_sge piece[2] = {
        {.addr = (uintptr_t) hdr,
         .length = (uint32_t) (sizeof(*hdr) + frag->super.segment[0].seg_len),
         .lkey = own->mr->lkey},
    };
    uint32_t size = piece[0].length;
    const int pieces = (int) frag->super.base.des_segment_count;
    if (2 == pieces) {
        piece[1] = (struct ibv_sge){.addr = (uintptr_t) frag->super.segment[1].seg_addr.pval,
                                    .length = (uint32_t) frag->super.segment[1].seg_len,
                                    .lkey = frag->user->mr->lkey};
        size += piece[1].length;
    }
    unsigned flags = size <= vb_inline_max(peer) ? VB_INLINE : 0;
    flags |= MCA_BTL_NO_ORDER != frag->super.base.order ? VB_FENCE : 0;
    /* Somebody waits for it, unless it lies in a buffer that is ours and was posted at once. */
    flags |= 2 == pieces || frag->super.users > 0 || !mca_btl_ibx_is_ours(&frag->super.base) ? VB_SIGNAL : 0;
    return mca_btl_ibx_verbs_rc(vb_post_send(peer, hdr, frag->tag, piece, pieces, flags, frag));
}

int mca_btl_ibx_verbs_send(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *to,
                           mca_btl_base_descriptor_t *des, mca_btl_base_tag_t tag)
{
    mca_btl_ibx_verbs_module_t *module = (mca_btl_ibx_verbs_module_t *) btl;
    mca_btl_ibx_verbs_frag_t *frag = (mca_btl_ibx_verbs_frag_t *) des;
    mca_btl_ibx_verbs_endpoint_t *endpoint = (mca_btl_ibx_verbs_endpoint_t *) to;
    const uint32_t flags = des->des_flags;
    const bool at_once = mca_btl_ibx_is_sent_at_once(des);

    frag->tag = tag;
    frag->super.endpoint = to;
    if (OPAL_UNLIKELY(endpoint->base.is_self)) {
        return mca_btl_ibx_frag_to_self(&module->base, &frag->super, tag);
    }
    vb_port_lock(module->port);
    frag->is_bulk = mca_btl_ibx_verbs_bulk_takes(endpoint, 0, MCA_BTL_NO_ORDER != des->order);
    opal_list_t *pending = mca_btl_ibx_verbs_pending_of(endpoint, frag->is_bulk);
    const int rc = opal_list_is_empty(pending) ? mca_btl_ibx_verbs_frag_post(&frag->super)
                                               : OPAL_ERR_RESOURCE_BUSY;
    const bool tell = at_once && OPAL_SUCCESS == rc && (flags & MCA_BTL_DES_SEND_ALWAYS_CALLBACK);
    if (OPAL_LIKELY(OPAL_SUCCESS == rc)) {
        frag->super.is_complete = at_once;
        frag->super.users = tell ? 2 : 1;
    } else if (OPAL_ERR_RESOURCE_BUSY == rc) {
        frag->super.users = 1;
        opal_list_append(pending, (opal_list_item_t *) frag);
    }
    vb_port_unlock(module->port);
    return mca_btl_ibx_frag_sent(&module->base, &frag->super, rc, at_once, tell);
}

int mca_btl_ibx_verbs_sendi(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *to,
                            opal_convertor_t *convertor, void *header, size_t header_size,
                            size_t payload_size, uint8_t order, uint32_t flags,
                            mca_btl_base_tag_t tag, mca_btl_base_descriptor_t **descriptor)
{
    mca_btl_ibx_verbs_module_t *module = (mca_btl_ibx_verbs_module_t *) btl;
    mca_btl_ibx_verbs_endpoint_t *endpoint = (mca_btl_ibx_verbs_endpoint_t *) to;
    union {
        vb_hdr_t hdr;
        char bytes[STACK_MAX];
    } packet;
    const size_t size = sizeof(packet.hdr) + header_size + payload_size;

    /* Read once, and without the lock: it changes only when the way to the peer does, or the peer is deleted, and is read again
     * below. (A peer's memory stays until the port is closed.) */
    const vb_peer_t *hint = __atomic_load_n(&endpoint->peer, __ATOMIC_RELAXED);
    if (OPAL_LIKELY(size <= sizeof(packet) && NULL != hint && size <= vb_inline_max(hint))) {
        bool sent = false;
        mca_btl_ibx_assemble(packet.bytes + sizeof(packet.hdr), header, header_size, convertor, payload_size);
        struct ibv_sge piece = {.addr = (uintptr_t) &packet, .length = (uint32_t) size};
        vb_port_lock(module->port);
        const bool is_bulk = mca_btl_ibx_verbs_bulk_takes(endpoint, 0, MCA_BTL_NO_ORDER != order);
        vb_peer_t *peer = OPAL_UNLIKELY(is_bulk) ? endpoint->bulk_peer : endpoint->peer;
        if (OPAL_LIKELY(NULL != peer
                        && opal_list_is_empty(mca_btl_ibx_verbs_pending_of(endpoint, is_bulk))
                        && size <= vb_inline_max(peer))) {
            sent = VB_OK
                   == vb_post_send(peer, &packet.hdr, tag, &piece, 1,
                                   VB_INLINE | (MCA_BTL_NO_ORDER != order ? VB_FENCE : 0), NULL);
        }
        vb_port_unlock(module->port);
        if (OPAL_LIKELY(sent)) {
            return OPAL_SUCCESS;
        }
    }
    return mca_btl_ibx_not_sent(btl, to, convertor, header_size, payload_size, order, flags, descriptor);
}
