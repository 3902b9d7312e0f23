/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Which of PML and BTL owns a fragment, and so when its callback may be called: the same for both transports.
 *
 * With MCA_BTL_DES_FLAGS_BTL_OWNERSHIP it is ours as soon as it is sent: nobody writes to it any more, so its callback
 * may come before the network is done with its buffer. Without, its user may write to it and send it again from the
 * callback on (Open MPI 5.0's active-message RDMA sends one descriptor for all of a large put): the callback
 * waits for the network, and afterwards the fragment is not touched. */
#ifndef BTL_IBX_FRAGMENT_H
#define BTL_IBX_FRAGMENT_H

#include "opal/datatype/opal_convertor.h"
#include "opal/mca/btl/btl.h"

#include <string.h>

static inline bool mca_btl_ibx_is_ours(const mca_btl_base_descriptor_t *des)
{
    return 0 != (des->des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP);
}

/* All of it lies in the fragment's own buffer: once posted, there is nothing more for its user to wait for. */
static inline bool mca_btl_ibx_is_sent_at_once(const mca_btl_base_descriptor_t *des)
{
    return 1 == des->des_segment_count && mca_btl_ibx_is_ours(des);
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
