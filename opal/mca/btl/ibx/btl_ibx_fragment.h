/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Which of PML and BTL owns a fragment, and so when its callback may be called: the same for both transports.
 *
 * With MCA_BTL_DES_FLAGS_BTL_OWNERSHIP it is ours as soon as it is sent: nobody writes to it any more, so its callback
 * may come before the network is done with its buffer. Without, its user may write to it and send it again from the
 * callback on (Open MPI 5.0's active-message RDMA sends one descriptor for all of a large put): the callback
 * waits for the network, and afterwards the fragment is not touched. */
#ifndef BTL_IBX_FRAGMENT_H
#define BTL_IBX_FRAGMENT_H

#include "opal/mca/btl/btl.h"

static inline bool mca_btl_ibx_is_ours(const mca_btl_base_descriptor_t *des)
{
    return 0 != (des->des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP);
}

/* All of it lies in the fragment's own buffer: once posted, there is nothing more for its user to wait for. */
static inline bool mca_btl_ibx_is_sent_at_once(const mca_btl_base_descriptor_t *des)
{
    return 1 == des->des_segment_count && mca_btl_ibx_is_ours(des);
}

#endif
