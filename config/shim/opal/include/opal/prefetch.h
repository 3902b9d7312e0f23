/* The source tree's spelling of opal/prefetch.h: some installed headers (and code written inside Open MPI's tree) name
 * opal/include/opal/..., a directory that does not exist in an installation. */
#ifndef SPEC_SHIM_OPAL_INCLUDE_PREFETCH_H
#define SPEC_SHIM_OPAL_INCLUDE_PREFETCH_H

#include "opal/prefetch.h"

#endif
