/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Where the payload of a small message, put or get lies while the adapter works on it: in the user's
 * memory, registered, or copied into a buffer of ours (000 chapter 5).
 *
 * docs/design/mpool.md, Which transport asks, says which it is.
 *
 * What is in place may be read by the adapter until its completion: such a work request asks for
 * one, and the sender is told then and not before. A completion means that the adapter reads
 * the memory no more, to repeat it neither (InfiniBand, RoCE: it is acknowledged; iWARP, siw: what
 * asks for a completion is copied into the stream before that). */
#ifndef BTL_IBX_VERBS_INPLACE_H
#define BTL_IBX_VERBS_INPLACE_H

#include "verbs/btl_ibx_verbs_module.h"

/* A table for the module, whose cache is open; and its end, while the cache still is. */
void mca_btl_ibx_verbs_inplace_open(mca_btl_ibx_verbs_module_t *module);
void mca_btl_ibx_verbs_inplace_close(mca_btl_ibx_verbs_module_t *module);

/* Parts of the next: the table is asked; there is no table that knows of such buffers. */
mca_btl_ibx_verbs_reg_t *mca_btl_ibx_verbs_inplace_asked(mca_btl_ibx_verbs_module_t *module,
                                                       void *data, size_t length, int32_t access);
mca_btl_ibx_verbs_reg_t *mca_btl_ibx_verbs_inplace_any(mca_btl_ibx_verbs_module_t *module, void *data,
                                                     size_t length, int32_t access);

/* A use of the user's memory as payload of a message; `access` are rights of the rcache framework
 * that the adapter needs. Its registration, to be given back to the cache when the use is over; NULL:
 * copy it, and count that at *gate (freq_gate_copy_starts, freq_gate_copy_ends). The port's lock is not held. */
static inline mca_btl_ibx_verbs_reg_t *mca_btl_ibx_verbs_inplace(mca_btl_ibx_verbs_module_t *module,
                                                               void *data, size_t length,
                                                               int32_t access, freq_gate_t **gate)
{
    *gate = NULL;
    if (NULL == module->table || length > MCA_MPOOL_FREQ_SIZE_MAX) {
        return mca_btl_ibx_verbs_inplace_any(module, data, length, access);
    }
    if (0 == module->base.public.in_place_min || length < module->base.public.in_place_min) {
        return NULL;
    }
    *gate = &module->gate;
    return freq_gate_passes(&module->gate, data)
               ? NULL
               : mca_btl_ibx_verbs_inplace_asked(module, data, length, access);
}

/* The same for a put or get of the job, which has no registration: in place, in the work request, or
 * by way of a buffer. False: there is no buffer. */
bool mca_btl_ibx_verbs_inplace_job(mca_btl_ibx_verbs_module_t *module, mca_btl_ibx_verbs_job_t *job);
/* The job is over: what was fetched goes where it belongs, and the buffer or registration back. */
void mca_btl_ibx_verbs_inplace_end(mca_btl_ibx_module_t *module, mca_btl_ibx_job_t *job);

#endif
