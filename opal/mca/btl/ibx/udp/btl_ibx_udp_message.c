/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Messages over UDP: fragments that the engine sends, receive buffers that it fills.
 *
 * A fragment belongs to the PML until it is sent, to the engine until it is acknowledged, and can be
 * reused when both are done with it. What lies in the buffer of a fragment that is ours (btl_ibx_fragment.h) is
 * complete for the PML as soon as the engine has it: the engine sends it again from there if need be. But when
 * MCA_BTL_IBX_UDP_AHEAD bytes of such copies are not acknowledged, more are complete with their acknowledgement: a
 * program that keeps a few sends in flight shall not have what its peer is late with in this memory. Everything
 * else is complete when it is acknowledged. */
#include "udp/btl_ibx_udp_message.h"

#include "udp/btl_ibx_udp_endpoint.h"

#include <sys/mman.h>

#include "opal/include/spec/class.h"

SPEC_CLASS(mca_btl_ibx_udp_frag_t, mca_btl_ibx_frag_t, NULL, NULL);

/* ---- out ---- */

/* What is ordered is behind the data of all puts before it (promises.h). */
static unsigned behind_puts(uint8_t order)
{
    return MCA_BTL_IBX_ORDER == order ? IW_BEHIND : 0;
}

/* A fragment of `size` bytes, at most btl_max_send_size. What is sent from the user's memory needs a place for headers
 * only, and many such fragments wait for their acknowledgement. */
static mca_btl_ibx_udp_frag_t *frag_new(mca_btl_ibx_udp_module_t *module, mca_btl_base_endpoint_t *endpoint,
                                    size_t size, uint8_t order, uint32_t flags)
{
    opal_free_list_t *list = size <= MCA_BTL_IBX_UDP_HEADER_ROOM  ? &module->headers.list
                             : size <= MCA_BTL_IBX_UDP_SMALL_ROOM ? &module->smalls.list
                                                              : &module->frags.list;
    mca_btl_ibx_udp_frag_t *frag = (mca_btl_ibx_udp_frag_t *) mca_btl_ibx_item_get(list);
    if (OPAL_LIKELY(NULL != frag)) {
        frag->list = list;
        mca_btl_ibx_frag_begin(&frag->super, endpoint, order, flags, frag->body->data, size);
    }
    return frag;
}

/* What a copied message takes until it is acknowledged. */
static size_t memory_of(const mca_btl_ibx_udp_frag_t *frag)
{
    return ((const mca_btl_ibx_udp_buffers_t *) frag->list)->each; /* its first member */
}

/* The engine has a fragment that is complete for the PML. lock is held. */
static void get_ahead(mca_btl_ibx_udp_module_t *module, mca_btl_ibx_udp_frag_t *frag)
{
    frag->super.is_complete = true;
    module->ahead += memory_of(frag);
}

void mca_btl_ibx_udp_acknowledged(mca_btl_ibx_udp_module_t *module,
                                  const mca_btl_ibx_udp_frag_t *frag)
{
    if (frag->super.is_complete) {
        module->ahead -= memory_of(frag);
    }
}

/* Do so many copies wait for acknowledgements that a send without MCA_BTL_IBX_BLOCKS does, too? lock is held. */
static bool is_ahead(const mca_btl_ibx_udp_module_t *module, uint32_t flags)
{
    return OPAL_UNLIKELY(module->ahead + iw_engine_posted(module->engine) >= MCA_BTL_IBX_UDP_AHEAD)
           && !(flags & MCA_BTL_IBX_BLOCKS);
}

void mca_btl_ibx_udp_frag_return(mca_btl_ibx_module_t *module, mca_btl_ibx_frag_t *frag)
{
    (void) module;
    mca_btl_ibx_item_return(((mca_btl_ibx_udp_frag_t *) frag)->list, &frag->base.super);
}

mca_btl_base_descriptor_t *mca_btl_ibx_udp_alloc(mca_btl_base_module_t *btl,
                                             mca_btl_base_endpoint_t *endpoint, uint8_t order,
                                             size_t size, uint32_t flags)
{
    mca_btl_ibx_udp_module_t *module = (mca_btl_ibx_udp_module_t *) btl;
    mca_btl_ibx_udp_frag_t *frag =
        OPAL_UNLIKELY(size > btl->btl_max_send_size) ? NULL : frag_new(module, endpoint, size, order, flags);
    return OPAL_UNLIKELY(NULL == frag) ? NULL : &frag->super.base;
}

mca_btl_base_descriptor_t *mca_btl_ibx_udp_prepare_src(mca_btl_base_module_t *btl,
                                                   mca_btl_base_endpoint_t *endpoint,
                                                   opal_convertor_t *convertor, uint8_t order,
                                                   size_t reserve, size_t *size, uint32_t flags)
{
    mca_btl_ibx_udp_module_t *module = (mca_btl_ibx_udp_module_t *) btl;
    if (OPAL_UNLIKELY(reserve > btl->btl_max_send_size)) {
        return NULL;
    }
    size_t length = btl->btl_max_send_size - reserve;
    length = *size < length ? *size : length;
    const bool in_place = length > 0 && !opal_convertor_need_buffers(convertor);
    mca_btl_ibx_udp_frag_t *frag =
        frag_new(module, endpoint, in_place ? reserve : reserve + length, order, flags);
    if (OPAL_UNLIKELY(NULL == frag)) {
        return NULL;
    }
    if (in_place) {
        void *data;
        opal_convertor_get_current_pointer(convertor, &data);
        frag->super.segment[1].seg_addr.pval = data;
        frag->super.segment[1].seg_len = length;
        frag->super.base.des_segment_count = 2;
    } else {
        struct iovec iov = {.iov_base = frag->body->data + reserve, .iov_len = length};
        uint32_t n = 1;
        if (length > 0 && 0 > opal_convertor_pack(convertor, &iov, &n, &length)) {
            mca_btl_ibx_udp_frag_return(&module->base, &frag->super);
            return NULL;
        }
        frag->super.segment[0].seg_len = reserve + length;
    }
    *size = length;
    return &frag->super.base;
}

int mca_btl_ibx_udp_frag_post(mca_btl_ibx_frag_t *base)
{
    mca_btl_ibx_udp_frag_t *frag = (mca_btl_ibx_udp_frag_t *) base;
    iw_peer_t *peer = mca_btl_ibx_udp_peer(base->endpoint);
    if (OPAL_UNLIKELY(NULL == peer)) {
        return base->endpoint->is_dead ? OPAL_ERR_UNREACH : OPAL_ERR_RESOURCE_BUSY;
    }
    struct iovec piece[2] = {
        {.iov_base = &frag->body->hdr, .iov_len = sizeof(frag->body->hdr) + base->segment[0].seg_len},
        {.iov_base = base->segment[1].seg_addr.pval, .iov_len = base->segment[1].seg_len},
    };
    /* Its sender waits for the end: a receiver that only waits as well has nothing that would bring the acknowledgement. */
    const unsigned prompt = base->base.des_flags & MCA_BTL_DES_SEND_ALWAYS_CALLBACK ? IW_PROMPT : 0;
    return mca_btl_ibx_udp_rc(iw_post_send(peer, piece, (unsigned) base->base.des_segment_count,
                                           IW_HEADROOM | prompt | behind_puts(base->base.order), frag));
}

/* Nothing that was posted before still waits for room: what is posted now overtakes nothing. Puts count
 * as well, because an ordered message comes after the data of those before it (promises.h). lock is held. */
static bool is_next(mca_btl_ibx_udp_module_t *module)
{
    return opal_list_is_empty(&module->waiting);
}

/* What was posted leaves, now or with more. lock is held. */
static void leave(mca_btl_ibx_udp_module_t *module, uint32_t flags)
{
    if (flags & MCA_BTL_IBX_MORE) {
        iw_agent_gather(module->agent);
    } else {
        iw_agent_flush(module->agent);
    }
}

int mca_btl_ibx_udp_send(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                     mca_btl_base_descriptor_t *des, mca_btl_base_tag_t tag)
{
    mca_btl_ibx_udp_module_t *module = (mca_btl_ibx_udp_module_t *) btl;
    mca_btl_ibx_udp_frag_t *frag = (mca_btl_ibx_udp_frag_t *) des;
    const uint32_t flags = des->des_flags;

    frag->body->hdr.tag = tag;
    frag->super.endpoint = endpoint;
    if (OPAL_UNLIKELY(endpoint->is_self)) {
        return mca_btl_ibx_frag_to_self(&module->base, &frag->super, tag);
    }
    mca_btl_ibx_udp_lock(module);
    const int rc = is_next(module) ? mca_btl_ibx_udp_frag_post(&frag->super) : OPAL_ERR_RESOURCE_BUSY;
    const bool at_once = mca_btl_ibx_is_sent_at_once(des) && !is_ahead(module, flags);
    const bool gathers = at_once && OPAL_SUCCESS == rc && (flags & MCA_BTL_IBX_MORE);
    const bool tell = at_once && OPAL_SUCCESS == rc && !gathers && (flags & MCA_BTL_DES_SEND_ALWAYS_CALLBACK);
    if (OPAL_LIKELY(OPAL_SUCCESS == rc)) {
        frag->super.users = tell || gathers ? 2 : 1;
        if (at_once) {
            get_ahead(module, frag);
        }
        if (gathers) {
            opal_list_append(&module->gathered, (opal_list_item_t *) frag);
        }
        leave(module, flags);
    } else if (OPAL_ERR_RESOURCE_BUSY == rc) {
        frag->super.users = 1;
        opal_list_append(&module->waiting, (opal_list_item_t *) frag);
        iw_agent_flush(module->agent); /* what was to leave with it */
    }
    mca_btl_ibx_udp_unlock_sent(module);
    return mca_btl_ibx_frag_sent(&module->base, &frag->super, rc, at_once && !gathers, tell);
}

void mca_btl_ibx_udp_tell_gathered(mca_btl_ibx_udp_module_t *module)
{
    opal_list_item_t *item;
    /* Not those that callbacks send meanwhile. */
    for (size_t n = opal_list_get_size(&module->gathered);
         n > 0 && NULL != (item = opal_list_remove_first(&module->gathered)); --n) {
        mca_btl_ibx_udp_frag_t *frag = (mca_btl_ibx_udp_frag_t *) item;
        if (NULL != frag->super.base.des_cbfunc) {
            mca_btl_ibx_udp_unlock(module);
            frag->super.base.des_cbfunc(&module->base.super, frag->super.endpoint, &frag->super.base, OPAL_SUCCESS);
            mca_btl_ibx_udp_lock(module);
        }
        if (0 == --frag->super.users) {
            mca_btl_ibx_udp_frag_return(&module->base, &frag->super);
        }
    }
}

/* A message that the engine copies, from the stack. */
static bool sendi_inline(mca_btl_ibx_udp_module_t *module, mca_btl_base_endpoint_t *endpoint,
                         opal_convertor_t *convertor, const void *header, size_t header_size,
                         size_t payload_size, uint8_t order, uint32_t flags, mca_btl_base_tag_t tag)
{
    char packet[IW_INLINE_MAX];
    bool sent = false;
    memcpy(packet, &(mca_btl_ibx_udp_hdr_t){.tag = tag}, sizeof(mca_btl_ibx_udp_hdr_t));
    mca_btl_ibx_assemble(packet + sizeof(mca_btl_ibx_udp_hdr_t), header, header_size, convertor, payload_size);
    mca_btl_ibx_udp_lock(module);
    iw_peer_t *peer = mca_btl_ibx_udp_peer(endpoint);
    if (OPAL_LIKELY(NULL != peer && is_next(module) && !is_ahead(module, flags))) {
        struct iovec piece = {.iov_base = packet,
                              .iov_len = sizeof(mca_btl_ibx_udp_hdr_t) + header_size + payload_size};
        sent = IW_OK == iw_post_send(peer, &piece, 1, IW_INLINE | IW_QUIET | behind_puts(order), NULL);
        if (OPAL_LIKELY(sent)) {
            leave(module, flags);
        }
    }
    mca_btl_ibx_udp_unlock_sent(module);
    return sent;
}

/* A longer one, in a fragment that the PML never sees. */
static bool sendi_fragment(mca_btl_ibx_udp_module_t *module, mca_btl_base_endpoint_t *endpoint,
                           opal_convertor_t *convertor, const void *header, size_t header_size,
                           size_t payload_size, uint8_t order, uint32_t flags, mca_btl_base_tag_t tag)
{
    mca_btl_ibx_udp_frag_t *frag = frag_new(module, endpoint, header_size + payload_size, order,
                                            MCA_BTL_DES_FLAGS_BTL_OWNERSHIP);
    if (OPAL_UNLIKELY(NULL == frag)) {
        return false;
    }
    mca_btl_ibx_assemble(frag->body->data, header, header_size, convertor, payload_size);
    frag->body->hdr.tag = tag;
    frag->super.users = 1;
    mca_btl_ibx_udp_lock(module);
    const bool sent = is_next(module) && !is_ahead(module, flags) && OPAL_SUCCESS == mca_btl_ibx_udp_frag_post(&frag->super);
    if (OPAL_LIKELY(sent)) {
        get_ahead(module, frag);
        leave(module, flags);
    }
    mca_btl_ibx_udp_unlock_sent(module);
    if (OPAL_UNLIKELY(!sent)) {
        mca_btl_ibx_udp_frag_return(&module->base, &frag->super);
    }
    return sent;
}

int mca_btl_ibx_udp_sendi(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                      opal_convertor_t *convertor, void *header, size_t header_size,
                      size_t payload_size, uint8_t order, uint32_t flags, mca_btl_base_tag_t tag,
                      mca_btl_base_descriptor_t **descriptor)
{
    mca_btl_ibx_udp_module_t *module = (mca_btl_ibx_udp_module_t *) btl;
    const size_t size = header_size + payload_size;

    if (OPAL_LIKELY(size <= btl->btl_max_send_size && !endpoint->is_self)) {
        const bool sent = sizeof(mca_btl_ibx_udp_hdr_t) + size <= IW_INLINE_MAX
                              ? sendi_inline(module, endpoint, convertor, header, header_size,
                                             payload_size, order, flags, tag)
                              : sendi_fragment(module, endpoint, convertor, header, header_size,
                                               payload_size, order, flags, tag);
        if (OPAL_LIKELY(sent)) {
            return OPAL_SUCCESS;
        }
    }
    return mca_btl_ibx_not_sent(btl, endpoint, convertor, header_size, payload_size, order, flags, descriptor);
}

/* ---- in ---- */

/* How many buffers keep their memory when nothing comes: as many as a ping-pong with some peers uses. */
#define KEPT 4

static size_t message_size(const mca_btl_ibx_udp_module_t *module)
{
    return sizeof(mca_btl_ibx_udp_message_t) + module->base.super.btl_max_send_size;
}

static mca_btl_ibx_udp_receive_t *receive_new(mca_btl_ibx_udp_module_t *module)
{
    mca_btl_ibx_udp_receive_t *receive = calloc(1, sizeof(*receive));
    if (NULL == receive) {
        return NULL;
    }
    receive->message = mmap(NULL, message_size(module), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (MAP_FAILED == receive->message) {
        free(receive);
        return NULL;
    }
    receive->next = module->receives;
    if (NULL != receive->next) {
        receive->next->previous = receive;
    }
    module->receives = receive;
    return receive;
}

static void receive_free(mca_btl_ibx_udp_module_t *module, mca_btl_ibx_udp_receive_t *receive)
{
    if (NULL != receive->next) {
        receive->next->previous = receive->previous;
    }
    *(NULL == receive->previous ? &module->receives : &receive->previous->next) = receive->next;
    munmap(receive->message, message_size(module));
    free(receive);
}

static bool receive_post(mca_btl_ibx_udp_module_t *module, mca_btl_ibx_udp_receive_t *receive)
{
    return IW_OK
           == iw_post_receive(module->engine, receive->message, (uint32_t) message_size(module), receive);
}

int mca_btl_ibx_udp_fill_window(mca_btl_ibx_udp_module_t *module)
{
    while (iw_receives_free(module->engine) < module->window.current) {
        mca_btl_ibx_udp_receive_t *receive = receive_new(module);
        if (NULL == receive) {
            return OPAL_ERR_OUT_OF_RESOURCE;
        }
        if (!receive_post(module, receive)) {
            receive_free(module, receive);
            return OPAL_ERR_OUT_OF_RESOURCE;
        }
    }
    iw_arm_limit(module->engine, ibx_window_limit(&module->window));
    return OPAL_SUCCESS;
}

void mca_btl_ibx_udp_check_window(void *context, iw_engine_t *engine, uint64_t now)
{
    mca_btl_ibx_udp_module_t *module = context;
    const uint32_t limit = ibx_window_limit(&module->window);
    const uint32_t window = ibx_window_check(&module->window, iw_receives_lowest(engine), now);
    void *receive;
    while (iw_receives_free(engine) > window && iw_withdraw_receive(engine, &receive)) {
        receive_free(module, receive);
    }
    if (limit != ibx_window_limit(&module->window)) {
        iw_arm_limit(engine, ibx_window_limit(&module->window));
    }
    iw_engine_alarm(engine, ibx_window_check_at(&module->window));
}

void mca_btl_ibx_udp_receive_return(mca_btl_ibx_udp_module_t *module, mca_btl_ibx_udp_receive_t *receive)
{
    receive->is_touched = true;
    if (iw_receives_free(module->engine) >= module->window.current || !receive_post(module, receive)) {
        receive_free(module, receive); /* the window has shrunk */
    }
}

void mca_btl_ibx_udp_receives_give_back(mca_btl_ibx_udp_module_t *module)
{
    mca_btl_ibx_udp_receive_t *receive;
    for (uint32_t i = KEPT; NULL != (receive = iw_receive_idle(module->engine, i)); ++i) {
        if (receive->is_touched) {
            receive->is_touched = false;
            (void) madvise(receive->message, message_size(module), MADV_DONTNEED);
        }
    }
}

void mca_btl_ibx_udp_receives_free(mca_btl_ibx_udp_module_t *module)
{
    while (NULL != module->receives) {
        receive_free(module, module->receives);
    }
}
