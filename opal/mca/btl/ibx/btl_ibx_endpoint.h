/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Other processes, as seen by one module: found when they are first wanted or speak first, given back when Open MPI deletes
 * them, reported when they are lost. The same for both transports. */
#ifndef BTL_IBX_ENDPOINT_H
#define BTL_IBX_ENDPOINT_H

#include "btl_ibx_module.h"

MCA_BTL_IBX_DECLARE(add_procs, mca_btl_ibx_add_procs);
MCA_BTL_IBX_DECLARE(del_procs, mca_btl_ibx_del_procs);

/* The endpoint of a process, made if need be; NULL: it is not to be reached by this module. lock is not held. */
mca_btl_base_endpoint_t *mca_btl_ibx_endpoint_of(mca_btl_ibx_module_t *module, opal_proc_t *proc);

/* A process that is not known spoke first; what it said is copied (data may be NULL). Forgotten where many do so at a time. lock
 * is held. */
void mca_btl_ibx_stranger(mca_btl_ibx_module_t *module, uint64_t name, const uint8_t *data, size_t length);

/* Slow path of the next. */
void mca_btl_ibx_look_up_strangers(mca_btl_ibx_module_t *module);

/* Finds the processes that spoke first, and lets the transport take what they said. lock is not held; any thread. */
static inline void mca_btl_ibx_meet_strangers(mca_btl_ibx_module_t *module)
{
    if (OPAL_UNLIKELY(0 != __atomic_load_n(&module->strangers_n, __ATOMIC_ACQUIRE))) {
        mca_btl_ibx_look_up_strangers(module);
    }
}

/* Reports that the process is lost, and why. lock is not held. */
void mca_btl_ibx_report_lost(const mca_btl_base_endpoint_t *endpoint, const char *why);

/* Ends the connection, since this process cannot go on: an error at both ends. lock is not held. */
void mca_btl_ibx_give_up(mca_btl_base_endpoint_t *endpoint, const char *why);

#endif
