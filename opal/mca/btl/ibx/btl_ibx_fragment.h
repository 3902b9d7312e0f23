/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What a fragment is, and which of PML and BTL owns it, and so when its callback may be called: the same for both transports.
 *
 * With MCA_BTL_DES_FLAGS_BTL_OWNERSHIP it is ours as soon as it is sent: nobody writes to it any more, so its callback
 * may come before the network is done with its buffer. Without, its user may write to it and send it again from the
 * callback on (Open MPI 5.0's active-message RDMA sends one descriptor for all of a large put): the callback
 * waits for the network, and afterwards the fragment is not touched. */
#ifndef BTL_IBX_FRAGMENT_H
#define BTL_IBX_FRAGMENT_H

#include "btl_ibx_module.h"

/* A fragment is with the PML, waits, is with the transport, or is in the module's list of what ended; free when the PML and the
 * transport are both done with it. Each transport's fragments begin with this. */
typedef struct mca_btl_ibx_frag {
    mca_btl_base_descriptor_t base;
    mca_btl_base_segment_t segment[2]; /* after the header: buffer, user's memory */
    mca_btl_base_endpoint_t *endpoint;
    int status;
    uint8_t users;    /* besides the PML: the transport, a send that still has to tell */
    bool is_complete; /* the PML was told, or is not to be told */
    bool is_freed;    /* by the PML, or never its own */
} mca_btl_ibx_frag_t;
OBJ_CLASS_DECLARATION(mca_btl_ibx_frag_t);

/* One from a list, as the PML gets it, with `size` bytes at `data`, behind its header. */
static inline void mca_btl_ibx_frag_begin(mca_btl_ibx_frag_t *frag, mca_btl_base_endpoint_t *endpoint, uint8_t order,
                                          uint32_t flags, void *data, size_t size)
{
    frag->endpoint = endpoint;
    frag->status = OPAL_SUCCESS;
    frag->users = 0;
    frag->is_complete = false;
    frag->is_freed = false;
    frag->base.order = order;
    frag->base.des_flags = flags;
    frag->base.des_cbfunc = NULL;
    frag->base.des_segment_count = 1;
    frag->segment[0].seg_addr.pval = data;
    frag->segment[0].seg_len = size;
}

MCA_BTL_IBX_DECLARE(free, mca_btl_ibx_frag_free);

/* One user less of a fragment that is ours; the last one gives it back. lock is not held. */
void mca_btl_ibx_frag_release(mca_btl_ibx_module_t *module, mca_btl_ibx_frag_t *frag);

/* The transport is done with it, as its status says. lock is not held. */
void mca_btl_ibx_frag_end(mca_btl_ibx_module_t *module, mca_btl_ibx_frag_t *frag);

/* To ourselves: no network. Returns an Open MPI error code. lock is not held. */
int mca_btl_ibx_frag_to_self(mca_btl_ibx_module_t *module, mca_btl_ibx_frag_t *frag, mca_btl_base_tag_t tag);

/* Is it a job, and not a fragment? */
static inline bool mca_btl_ibx_is_job(const opal_list_item_t *item)
{
    return OBJ_CLASS(mca_btl_ibx_frag_t) != ((const opal_object_t *) item)->obj_class->cls_parent;
}

/* Posts the fragments and jobs of a list that wait for room, in their order, until there is none again. What cannot be
 * posted any more, and a job that is over, goes to the module's list of what ended. lock is held. */
void mca_btl_ibx_post_waiting(mca_btl_ibx_module_t *module, opal_list_t *waiting);
/* Those that wait for this endpoint fail, and go there. lock is held. */
void mca_btl_ibx_drop_waiting(mca_btl_ibx_module_t *module, opal_list_t *waiting, const mca_btl_base_endpoint_t *endpoint);

/* Tells of the fragments and jobs in the module's list of what ended. lock is held, but not while one is told. */
void mca_btl_ibx_tell_ended(mca_btl_ibx_module_t *module);

static inline bool mca_btl_ibx_is_ours(const mca_btl_base_descriptor_t *des)
{
    return 0 != (des->des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP);
}

/* All of it lies in the fragment's own buffer: once posted, there is nothing more for its user to wait for. */
static inline bool mca_btl_ibx_is_sent_at_once(const mca_btl_base_descriptor_t *des)
{
    return 1 == des->des_segment_count && mca_btl_ibx_is_ours(des);
}

/* The end of btl_send, and what it returns: rc is what posting gave. at_once: its user then has nothing to wait for; tells:
 * and is told by the callback, which counts among its users. lock is not held. */
static inline int mca_btl_ibx_frag_sent(mca_btl_ibx_module_t *module, mca_btl_ibx_frag_t *frag,
                                        int rc, bool at_once, bool tells)
{
    if (OPAL_UNLIKELY(OPAL_SUCCESS != rc && OPAL_ERR_RESOURCE_BUSY != rc)) {
        return rc;
    }
    if (OPAL_SUCCESS != rc || !at_once) {
        return OPAL_SUCCESS;
    }
    if (tells) {
        frag->base.des_cbfunc(&module->super, frag->endpoint, &frag->base, OPAL_SUCCESS);
        mca_btl_ibx_frag_release(module, frag);
    }
    return 1;
}

/* Header and data of a message in a row; what is packed must fit. */
static inline void mca_btl_ibx_assemble(char *to, const void *header, size_t header_size, opal_convertor_t *convertor,
                                        size_t payload_size)
{
    memcpy(to, header, header_size);
    if (payload_size > 0) {
        struct iovec iov = {.iov_base = to + header_size, .iov_len = payload_size};
        uint32_t n = 1;
        size_t length = payload_size;
        opal_convertor_pack(convertor, &iov, &n, &length);
    }
}

/* btl_sendi could not send it: the caller gets a descriptor if it wants one, and packs again. */
static inline int mca_btl_ibx_not_sent(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                                       opal_convertor_t *convertor, size_t header_size, size_t payload_size, uint8_t order,
                                       uint32_t flags, mca_btl_base_descriptor_t **descriptor)
{
    if (payload_size > 0) {
        size_t back = 0;
        opal_convertor_set_position(convertor, &back);
    }
    if (NULL != descriptor) {
        *descriptor = btl->btl_alloc(btl, endpoint, order, header_size + payload_size, flags);
    }
    return OPAL_ERR_RESOURCE_BUSY;
}

#endif
