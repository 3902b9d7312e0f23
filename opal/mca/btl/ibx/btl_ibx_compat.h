/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What differs between the Open MPI releases that btl/ibx is built for. Nothing else in this
 * component tests the version. */
#ifndef BTL_IBX_COMPAT_H
#define BTL_IBX_COMPAT_H

#include "opal_config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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
#include "opal/runtime/opal.h"
#include "opal/runtime/opal_progress.h"
#include "opal/include/spec/release.h"
#include "opal/include/spec/tell.h"
#include "opal/util/output.h"

/* Declares a function of a module, with the arguments that the interface gives it (its parts: btl.h). */
#define MCA_BTL_IBX_DECLARE(part, name) __typeof__(*(mca_btl_base_module_##part##_fn_t) NULL) name

/* Memory of an accelerator (GPU): its component's name, NULL: there is none; is an address there? Flags of the BTL that puts and
 * gets there, and of the registration. */
#if OPAL_MAJOR_VERSION < 5

#    define MCA_BTL_IBX_FLAG_DEVICES 0
#    define MCA_BTL_IBX_REG_DEVICE   0

static inline const char *mca_btl_ibx_device_component(void)
{
    return NULL;
}

static inline bool mca_btl_ibx_on_device(const void *p)
{
    (void) p;
    return false;
}

#else

#    include "opal/mca/accelerator/accelerator.h"
#    include "opal/mca/accelerator/base/base.h"
#    include "opal/mca/rcache/rcache.h"

#    define MCA_BTL_IBX_FLAG_DEVICES MCA_BTL_FLAGS_ACCELERATOR_RDMA
#    define MCA_BTL_IBX_REG_DEVICE   MCA_RCACHE_FLAGS_ACCELERATOR_MEM

static inline const char *mca_btl_ibx_device_component(void)
{
    const char *name = opal_accelerator_base_selected_component.base_version.mca_component_name;
    return NULL != opal_accelerator.check_addr && 0 != strcmp(name, "null") ? name : NULL;
}

static inline bool mca_btl_ibx_on_device(const void *p)
{
    int device;
    uint64_t flags;
    return opal_accelerator.check_addr(p, &device, &flags) > 0;
}

#endif

#if OPAL_MAJOR_VERSION < 5

#    include "opal/mca/pmix/pmix.h"
#    include "opal/threads/mutex.h"
#    include "opal/threads/threads.h"

_Static_assert(310 == BTL_VERSION, "btl/ibx is written for BTL 3.1.0 (4.1) and 3.3.0 (5.0, 6.0)");

#    define MCA_BTL_IBX_COMPONENT_VERSION MCA_BTL_BASE_VERSION_3_1_0
#    define MCA_BTL_IBX_MODULE_EXTRAS     .btl_ft_event = NULL
/* A put that is reported is in the target's memory: nobody asks. */
#    define MCA_BTL_IBX_FLAG_REMOTE_COMPLETION 0

#    define MCA_BTL_IBX_GLOBAL OPAL_PMIX_GLOBAL

/* How many processes the job has; 0: not known. */
static inline uint32_t mca_btl_ibx_job_size(void)
{
    const opal_process_name_t all = {.jobid = OPAL_PROC_MY_NAME.jobid, .vpid = OPAL_VPID_WILDCARD};
    uint32_t size = 0, *at = &size;
    int rc;
    OPAL_MODEX_RECV_VALUE_OPTIONAL(rc, OPAL_PMIX_JOB_SIZE, &all, &at, OPAL_UINT32);
    return OPAL_SUCCESS == rc ? size : 0;
}

/* There modules end before PMIx does. */
#    define MCA_BTL_IBX_BEFORE_PMIX_ENDS(function) (void) (function)

#else /* 5.0, 6.0 */

#    include "opal/mca/pmix/pmix-internal.h"
#    include "opal/mca/threads/mutex.h"
#    include "opal/mca/threads/threads.h"

_Static_assert(330 == BTL_VERSION, "btl/ibx is written for BTL 3.1.0 (4.1) and 3.3.0 (5.0, 6.0)");

#    define MCA_BTL_IBX_COMPONENT_VERSION      MCA_BTL_BASE_VERSION_3_3_0
#    define MCA_BTL_IBX_MODULE_EXTRAS          .btl_accelerator_max_send_size = 0
/* A put that is reported is in the target's memory: without this osc/rdma makes messages of puts. */
#    define MCA_BTL_IBX_FLAG_REMOTE_COMPLETION MCA_BTL_FLAGS_RDMA_REMOTE_COMPLETION

#    define MCA_BTL_IBX_GLOBAL PMIX_GLOBAL

/* How many processes the job has; 0: not known. */
static inline uint32_t mca_btl_ibx_job_size(void)
{
    return opal_process_info.num_procs;
}

/* Calls it when MPI ends, before PMIx does: that comes ahead of the end of the modules, and a thread that waits for PMIx then waits for
 * ever. Once it is registered this component must not be unloaded before: not until a PML uses it. */
#    define MCA_BTL_IBX_BEFORE_PMIX_ENDS(function) opal_finalize_register_cleanup(function)

#endif

/* A message for the callback of its tag. */
static inline void mca_btl_ibx_dispatch(mca_btl_base_module_t *btl,
                                        struct mca_btl_base_endpoint_t *endpoint, uint8_t tag,
                                        void *data, size_t size)
{
    const mca_btl_active_message_callback_t *trigger = mca_btl_base_active_message_trigger + tag;
    mca_btl_base_segment_t segment = {.seg_addr.pval = data, .seg_len = size};
    if (NULL == trigger->cbfunc) {
        return;
    }
#if OPAL_MAJOR_VERSION < 5
    (void) endpoint;
    mca_btl_base_descriptor_t descriptor = {.des_segments = &segment, .des_segment_count = 1};
    trigger->cbfunc(btl, tag, &descriptor, trigger->cbdata);
#else
    const mca_btl_base_receive_descriptor_t descriptor = {.endpoint = endpoint,
                                                          .des_segments = &segment,
                                                          .des_segment_count = 1,
                                                          .tag = tag,
                                                          .cbdata = trigger->cbdata};
    trigger->cbfunc(btl, &descriptor);
#endif
}

/* Defines the callback `name` of a tag: `function` gets the segments of each message. */
#define MCA_BTL_IBX_RECEIVER(name, function)                                                       \
    static SPEC_AM_DECLARE(name)                                                                   \
    {                                                                                              \
        (void) btl;                                                                                \
        function(des->des_segments, des->des_segment_count);                                       \
    }

/* Publish this process's addresses; fetch another's. False: that is not possible. (Codes are Open MPI's or PMIx's, whose
 * success is the same.) */
static inline bool mca_btl_ibx_modex_send(const mca_base_component_t *version, void *data,
                                          size_t size)
{
    int rc;
    OPAL_MODEX_SEND(rc, MCA_BTL_IBX_GLOBAL, version, data, size);
    return OPAL_SUCCESS == rc;
}

/* NULL: it has published nothing. The caller frees. */
static inline void *mca_btl_ibx_modex_recv(const mca_base_component_t *version,
                                           const opal_proc_t *proc, size_t *size)
{
    int rc;
    void *data = NULL;
    *size = 0;
    OPAL_MODEX_RECV(rc, version, &proc->proc_name, &data, size);
    return OPAL_SUCCESS == rc ? data : NULL;
}

/* Has each process of the job what all others published, from MPI_Init on? Else it is fetched when it is asked for. */
static inline bool mca_btl_ibx_modex_is_here(void)
{
    return opal_pmix_collect_all_data && !opal_pmix_base_async_modex;
}

/* The host of a process, for messages to people; this one's. */
static inline const char *mca_btl_ibx_host(void)
{
    return spec_host_of(opal_proc_local_get());
}

static inline opal_process_name_t mca_btl_ibx_name(uint64_t name)
{
    return (opal_process_name_t){.jobid = (uint32_t) (name >> 32), .vpid = (uint32_t) name};
}

#endif
