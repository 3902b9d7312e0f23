/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What differs between the Open MPI releases that btl/ibx is built for. Nothing else in this
 * component tests the version. */
#ifndef BTL_IBX_COMPAT_H
#define BTL_IBX_COMPAT_H

#include "opal_config.h"

#include <stdbool.h>
#include <stddef.h>

#include "opal/class/opal_bitmap.h"
#include "opal/class/opal_free_list.h"
#include "opal/class/opal_hash_table.h"
#include "opal/class/opal_list.h"
#include "opal/datatype/opal_convertor.h"
#include "opal/mca/base/mca_base_pvar.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/mca/btl/base/base.h"
#include "opal/mca/btl/base/btl_base_error.h"
#include "opal/mca/btl/btl.h"
#include "opal/runtime/opal_progress.h"
#include "opal/include/spec/tell.h"
#include "opal/util/output.h"
#include "opal/util/proc.h"
#include "opal/util/show_help.h"

#if !defined(SPEC_UNTESTED_OPENMPI) && !(OPAL_MAJOR_VERSION == 4 && OPAL_MINOR_VERSION == 1)       \
    && !(OPAL_MAJOR_VERSION == 5 && OPAL_MINOR_VERSION == 0)                                       \
    && !(OPAL_MAJOR_VERSION == 6 && OPAL_MINOR_VERSION == 0)
#    error "btl/ibx: supported are Open MPI 4.1, 5.0 and 6.0 (others: -DSPEC_UNTESTED_OPENMPI)"
#endif

/* Declares a function of a module, with the arguments that the interface gives it (its parts: btl.h). */
#define MCA_BTL_IBX_DECLARE(part, name) __typeof__(*(mca_btl_base_module_##part##_fn_t) NULL) name

#if OPAL_MAJOR_VERSION < 5

#    include "opal/mca/pmix/pmix.h"
#    include "opal/threads/mutex.h"
#    include "opal/threads/threads.h"

_Static_assert(310 == BTL_VERSION, "btl/ibx is written for BTL 3.1.0 (4.1) and 3.3.0 (5.0, 6.0)");

#    define MCA_BTL_IBX_COMPONENT_VERSION MCA_BTL_BASE_VERSION_3_1_0
#    define MCA_BTL_IBX_MODULE_EXTRAS     .btl_ft_event = NULL
/* A put that is reported is in the target's memory: nobody asks. */
#    define MCA_BTL_IBX_FLAG_REMOTE_COMPLETION 0

/* Publish this process's addresses; fetch another's. */
static inline int mca_btl_ibx_modex_send(const mca_base_component_t *version, void *data,
                                         size_t size)
{
    int rc;
    OPAL_MODEX_SEND(rc, OPAL_PMIX_GLOBAL, version, data, size);
    return rc;
}

static inline int mca_btl_ibx_modex_recv(const mca_base_component_t *version,
                                         const opal_proc_t *proc, void **data, size_t *size)
{
    int rc;
    OPAL_MODEX_RECV(rc, version, &proc->proc_name, data, size);
    return rc;
}

/* A message for the callback of its tag. */
static inline void mca_btl_ibx_dispatch(mca_btl_base_module_t *btl,
                                        struct mca_btl_base_endpoint_t *endpoint, uint8_t tag,
                                        void *data, size_t size)
{
    const mca_btl_active_message_callback_t *trigger = mca_btl_base_active_message_trigger + tag;
    mca_btl_base_segment_t segment = {.seg_addr.pval = data, .seg_len = size};
    mca_btl_base_descriptor_t descriptor = {.des_segments = &segment, .des_segment_count = 1};
    (void) endpoint;
    if (NULL != trigger->cbfunc) {
        trigger->cbfunc(btl, tag, &descriptor, trigger->cbdata);
    }
}

static inline const char *mca_btl_ibx_host_of(const opal_proc_t *proc)
{
    return NULL == proc || NULL == proc->proc_hostname ? "unknown" : proc->proc_hostname;
}

/* How many processes the job has; 0: not known. */
static inline uint32_t mca_btl_ibx_job_size(void)
{
    const opal_process_name_t all = {.jobid = OPAL_PROC_MY_NAME.jobid, .vpid = OPAL_VPID_WILDCARD};
    uint32_t size = 0, *at = &size;
    int rc;
    OPAL_MODEX_RECV_VALUE_OPTIONAL(rc, OPAL_PMIX_JOB_SIZE, &all, &at, OPAL_UINT32);
    return OPAL_SUCCESS == rc ? size : 0;
}

#else /* 5.0, 6.0 */

/* 6.0 knows no help texts but those of its own tree. */
#    ifdef SPEC_HELP_COMPILED
#        include "help/show_help.h"
#    endif

#    include "opal/mca/pmix/pmix-internal.h"
#    include "opal/mca/threads/mutex.h"
#    include "opal/mca/threads/threads.h"

_Static_assert(330 == BTL_VERSION, "btl/ibx is written for BTL 3.1.0 (4.1) and 3.3.0 (5.0, 6.0)");

#    define MCA_BTL_IBX_COMPONENT_VERSION      MCA_BTL_BASE_VERSION_3_3_0
#    define MCA_BTL_IBX_MODULE_EXTRAS          .btl_accelerator_max_send_size = 0
/* A put that is reported is in the target's memory: without this osc/rdma makes messages of puts. */
#    define MCA_BTL_IBX_FLAG_REMOTE_COMPLETION MCA_BTL_FLAGS_RDMA_REMOTE_COMPLETION

/* An error of PMIx, in Open MPI's terms. */
static inline int mca_btl_ibx_modex_error(int pmix)
{
    return PMIX_SUCCESS == pmix           ? OPAL_SUCCESS
           : PMIX_ERR_NOT_FOUND == pmix   ? OPAL_ERR_NOT_FOUND
                                          : opal_pmix_convert_status(pmix);
}

static inline int mca_btl_ibx_modex_send(const mca_base_component_t *version, void *data,
                                         size_t size)
{
    int rc;
    OPAL_MODEX_SEND(rc, PMIX_GLOBAL, version, data, size);
    return mca_btl_ibx_modex_error(rc);
}

static inline int mca_btl_ibx_modex_recv(const mca_base_component_t *version,
                                         const opal_proc_t *proc, void **data, size_t *size)
{
    int rc;
    OPAL_MODEX_RECV(rc, version, &proc->proc_name, data, size);
    return mca_btl_ibx_modex_error(rc);
}

static inline void mca_btl_ibx_dispatch(mca_btl_base_module_t *btl,
                                        struct mca_btl_base_endpoint_t *endpoint, uint8_t tag,
                                        void *data, size_t size)
{
    const mca_btl_active_message_callback_t *trigger = mca_btl_base_active_message_trigger + tag;
    const mca_btl_base_segment_t segment = {.seg_addr.pval = data, .seg_len = size};
    const mca_btl_base_receive_descriptor_t descriptor = {.endpoint = endpoint,
                                                          .des_segments = &segment,
                                                          .des_segment_count = 1,
                                                          .tag = tag,
                                                          .cbdata = trigger->cbdata};
    if (NULL != trigger->cbfunc) {
        trigger->cbfunc(btl, &descriptor);
    }
}

/* Not given back: it belongs to the process by the header of 5.0, and is a copy in its code. */
static inline const char *mca_btl_ibx_host_of(const opal_proc_t *proc)
{
    const char *host = NULL == proc ? NULL : opal_get_proc_hostname(proc);
    return NULL == host ? "unknown" : host;
}

/* How many processes the job has; 0: not known. */
static inline uint32_t mca_btl_ibx_job_size(void)
{
    return opal_process_info.num_procs;
}

#endif

/* Has each process of the job what all others published, from MPI_Init on? Else it is fetched when it is asked for. */
static inline bool mca_btl_ibx_modex_is_here(void)
{
    return opal_pmix_collect_all_data && !opal_pmix_base_async_modex;
}

/* This one. */
static inline const char *mca_btl_ibx_host(void)
{
    return mca_btl_ibx_host_of(opal_proc_local_get());
}

static inline uint64_t mca_btl_ibx_name_of(const opal_proc_t *proc)
{
    return (uint64_t) proc->proc_name.jobid << 32 | proc->proc_name.vpid;
}

static inline opal_process_name_t mca_btl_ibx_name(uint64_t name)
{
    return (opal_process_name_t){.jobid = (uint32_t) (name >> 32), .vpid = (uint32_t) name};
}

/* How many processes of the job run on this host, me included. */
static inline uint32_t mca_btl_ibx_local_ranks(void)
{
    return (uint32_t) opal_process_info.num_local_peers + 1;
}

/* My number among these. */
static inline uint32_t mca_btl_ibx_local_rank(void)
{
    return (uint32_t) opal_process_info.my_local_rank;
}

#endif
