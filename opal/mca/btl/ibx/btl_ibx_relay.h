/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What one module has for its like in another process, and its own network does not carry, as a message of another module or BTL
 * that reaches the process (udp/btl_ibx_udp_failover.c, verbs/btl_ibx_verbs_failover.c), behind a header of 8 bytes.
 *
 * Threads: any; no lock is held. */
#ifndef BTL_IBX_RELAY_H
#define BTL_IBX_RELAY_H

#include "btl_ibx_module.h"

#include <sys/uio.h>

/* Sends these bytes to the process's module of that number. Returns OPAL_SUCCESS, or an error of Open MPI, OPAL_ERR_OUT_OF_RESOURCE if
 * there is no memory now. */
int mca_btl_ibx_relay_send(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *to, mca_btl_base_tag_t tag, uint8_t module,
                           const struct iovec *bytes, int pieces);
/* What came so: its bytes, and the number of my module that it is for, below `modules`, of which there is one at least. One that is none
 * of ours has no bytes. Returns how many. */
size_t mca_btl_ibx_relay_read(const mca_btl_base_segment_t *segment, size_t segments, uint32_t modules, uint8_t *module,
                              const uint8_t **bytes);

#endif
