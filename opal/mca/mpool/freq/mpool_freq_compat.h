/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What differs between the Open MPI releases that mpool/freq is built for. Nothing else in this
 * component tests the version. */
#ifndef MPOOL_FREQ_COMPAT_H
#define MPOOL_FREQ_COMPAT_H

#include "opal_config.h"

#include <stdbool.h>
#include <stddef.h>

#include "opal/class/opal_list.h"
#include "opal/constants.h"
#include "opal/mca/base/mca_base_pvar.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/mca/btl/base/base.h"
#include "opal/mca/btl/btl.h"
#include "opal/mca/hwloc/base/base.h"
#include "opal/mca/memory/base/base.h"
#include "opal/mca/mpool/base/base.h"
#include "opal/mca/mpool/mpool.h"
#include "opal/mca/rcache/base/base.h"
#include "opal/memoryhooks/memory.h"
#include "opal/runtime/opal_params.h"
#include "opal/util/output.h"
#include "opal/util/proc.h"
#include "opal/util/show_help.h"

#if OPAL_MAJOR_VERSION == 4 && OPAL_MINOR_VERSION == 1

#    define MCA_MPOOL_FREQ_BASE_VERSION MCA_MPOOL_BASE_VERSION_3_0_0

/* Where files of this job on this host go; NULL: nowhere. They go away with the job. */
static inline const char *mca_mpool_freq_job_dir(void)
{
    return opal_process_info.job_session_dir;
}

#elif OPAL_MAJOR_VERSION == 5 && OPAL_MINOR_VERSION == 0

#    define MCA_MPOOL_FREQ_BASE_VERSION MCA_MPOOL_BASE_VERSION_3_1_0

static inline const char *mca_mpool_freq_job_dir(void)
{
    return opal_process_info.job_session_dir;
}

#else
#    error "mpool/freq: this Open MPI release is not supported (configure should have said so)"
#endif

#endif
