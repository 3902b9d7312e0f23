/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What differs between the Open MPI releases that mpool/freq is built for. Nothing else in this
 * component tests the version. */
#ifndef MPOOL_FREQ_COMPAT_H
#define MPOOL_FREQ_COMPAT_H

#include "ompi_config.h"

#include <stdbool.h>
#include <stddef.h>

#include "ompi/attribute/attribute.h"
#include "ompi/communicator/communicator.h"
#include "ompi/runtime/mpiruntime.h"
#include "opal/class/opal_list.h"
#include "opal/constants.h"
#include "opal/include/spec/release.h"
#include "opal/mca/base/mca_base_pvar.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/mca/btl/base/base.h"
#include "opal/mca/btl/btl.h"
#include "opal/mca/memory/base/base.h"
#include "opal/mca/mpool/base/base.h"
#include "opal/mca/mpool/mpool.h"
#include "opal/mca/rcache/base/base.h"
#include "opal/memoryhooks/memory.h"
#include "opal/runtime/opal_params.h"
#include "opal/util/output.h"

#if OPAL_MAJOR_VERSION < 5

#    define MCA_MPOOL_FREQ_BASE_VERSION MCA_MPOOL_BASE_VERSION_3_0_0

#else /* 5.0, 6.0 */

#    define MCA_MPOOL_FREQ_BASE_VERSION MCA_MPOOL_BASE_VERSION_3_1_0

#endif

#endif
