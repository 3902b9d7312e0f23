/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Registered memory, put and get over UDP. Atomic operations are messages (btl_ibx_atomic.h): iWARP has none. */
#ifndef BTL_IBX_UDP_RDMA_H
#define BTL_IBX_UDP_RDMA_H

#include "udp/btl_ibx_udp_module.h"

MCA_BTL_IBX_DECLARE(register_mem, mca_btl_ibx_udp_register_mem);
MCA_BTL_IBX_DECLARE(deregister_mem, mca_btl_ibx_udp_deregister_mem);

MCA_BTL_IBX_DECLARE(put, mca_btl_ibx_udp_put);
MCA_BTL_IBX_DECLARE(get, mca_btl_ibx_udp_get);

/* The transport's `word` (btl_ibx_module.h). */
char *mca_btl_ibx_udp_word(const mca_btl_base_endpoint_t *endpoint, uint32_t stag, uint64_t offset, uint64_t size);

/* A part of a job is done. lock is held. True: the whole job is, and mca_btl_ibx_job_end is to be
 * called when it is not held any more. */
bool mca_btl_ibx_udp_job_part_done(mca_btl_ibx_job_t *job, int status);

/* These put jobs that end into the module's list (mca_btl_ibx_tell_ended). lock is held. */

/* Go on with jobs that found no room. */
void mca_btl_ibx_udp_retry_jobs(mca_btl_ibx_udp_module_t *module);

/* An endpoint goes away: what waits for room or for its answer ends, unless parts are under way. */
void mca_btl_ibx_udp_drop_jobs(mca_btl_ibx_udp_module_t *module, const mca_btl_base_endpoint_t *endpoint);

#endif
