/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Registered memory, put and get over UDP. Atomic operations are messages (btl_ibx_atomic.h): iWARP has none. */
#ifndef BTL_IBX_UDP_RDMA_H
#define BTL_IBX_UDP_RDMA_H

#include "udp/btl_ibx_udp_module.h"

MCA_BTL_IBX_DECLARE(register_mem, mca_btl_ibx_udp_register_mem);
MCA_BTL_IBX_DECLARE(deregister_mem, mca_btl_ibx_udp_deregister_mem);

/* The transport's `job_starts` and `word` (btl_ibx_module.h). */
int mca_btl_ibx_udp_job_starts(mca_btl_ibx_module_t *module, mca_btl_ibx_job_t *job,
                               const mca_btl_base_registration_handle_t *remote_handle, int order);
char *mca_btl_ibx_udp_word(const mca_btl_base_endpoint_t *endpoint, uint32_t stag, uint64_t offset, uint64_t size);

/* These put jobs that end into the module's list (mca_btl_ibx_tell_ended). lock is held. */

/* Go on with jobs that found no room. */
void mca_btl_ibx_udp_retry_jobs(mca_btl_ibx_udp_module_t *module);

/* An endpoint goes away: what waits for room or for its answer ends, unless parts are under way. */
void mca_btl_ibx_udp_drop_jobs(mca_btl_ibx_udp_module_t *module, const mca_btl_base_endpoint_t *endpoint);

#endif
