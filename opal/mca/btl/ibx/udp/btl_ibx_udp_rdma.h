/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Put, get and atomic operations, and registered memory.
 *
 * Atomic operations are messages (MCA_BTL_IBX_TAG_ATOMIC): iWARP has none. The target does them in
 * its progress, one after the other, so they are atomic among each other; they are not atomic with
 * operations of the target's processor on the same word, and the flags do not claim so. */
#ifndef BTL_IBX_RDMA_H
#define BTL_IBX_RDMA_H

#include "btl_ibx.h"

mca_btl_base_registration_handle_t *mca_btl_ibx_register_mem(mca_btl_base_module_t *btl,
                                                             mca_btl_base_endpoint_t *endpoint,
                                                             void *base, size_t size,
                                                             uint32_t flags);
int mca_btl_ibx_deregister_mem(mca_btl_base_module_t *btl,
                               mca_btl_base_registration_handle_t *handle);

int mca_btl_ibx_put(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint, void *local,
                    uint64_t remote, mca_btl_base_registration_handle_t *local_handle,
                    mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                    int order, mca_btl_base_rdma_completion_fn_t callback, void *context,
                    void *cbdata);
int mca_btl_ibx_get(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint, void *local,
                    uint64_t remote, mca_btl_base_registration_handle_t *local_handle,
                    mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                    int order, mca_btl_base_rdma_completion_fn_t callback, void *context,
                    void *cbdata);

int mca_btl_ibx_atomic_op(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                          uint64_t remote, mca_btl_base_registration_handle_t *remote_handle,
                          mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                          mca_btl_base_rdma_completion_fn_t callback, void *context, void *cbdata);
int mca_btl_ibx_atomic_fop(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                           void *local, uint64_t remote,
                           mca_btl_base_registration_handle_t *local_handle,
                           mca_btl_base_registration_handle_t *remote_handle,
                           mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                           mca_btl_base_rdma_completion_fn_t callback, void *context, void *cbdata);
int mca_btl_ibx_atomic_cswap(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                             void *local, uint64_t remote,
                             mca_btl_base_registration_handle_t *local_handle,
                             mca_btl_base_registration_handle_t *remote_handle, uint64_t compare,
                             uint64_t value, int flags, int order,
                             mca_btl_base_rdma_completion_fn_t callback, void *context,
                             void *cbdata);

/* Messages of atomic operations; the endpoint is who sent them. lock is not held. */
void mca_btl_ibx_atomic_asked(mca_btl_ibx_module_t *module, mca_btl_ibx_endpoint_t *endpoint,
                              const void *data, size_t size);
/* Answers for which there was no memory. lock is not held. */
void mca_btl_ibx_retry_answers(mca_btl_ibx_module_t *module);
void mca_btl_ibx_atomic_answered(mca_btl_ibx_module_t *module, mca_btl_ibx_endpoint_t *endpoint,
                                 const void *data, size_t size);

/* A part of a job is done. lock is held. True: the whole job is, and mca_btl_ibx_job_end is to be
 * called when it is not held any more. */
bool mca_btl_ibx_job_part_done(mca_btl_ibx_module_t *module, mca_btl_ibx_job_t *job, int status);
void mca_btl_ibx_job_end(mca_btl_ibx_module_t *module, mca_btl_ibx_job_t *job);

/* These put jobs that end into the module's list (mca_btl_ibx_tell_ended). lock is held. */

/* Go on with jobs that found no room. */
void mca_btl_ibx_retry_jobs(mca_btl_ibx_module_t *module);

/* The endpoint is dead: its atomics get no answer. */
void mca_btl_ibx_fail_atomics(mca_btl_ibx_module_t *module, mca_btl_ibx_endpoint_t *endpoint);

/* An endpoint goes away: what waits for room or for its answer ends, unless parts are under way. */
void mca_btl_ibx_drop_jobs(mca_btl_ibx_module_t *module, mca_btl_ibx_endpoint_t *endpoint);

#endif
