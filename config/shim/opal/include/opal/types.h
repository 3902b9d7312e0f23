/* The source tree's spelling of opal/types.h: some installed headers (and code written inside Open MPI's tree) name
 * opal/include/opal/..., a directory that does not exist in an installation. */
#ifndef SPEC_SHIM_OPAL_INCLUDE_TYPES_H
#define SPEC_SHIM_OPAL_INCLUDE_TYPES_H

#include "opal/types.h"

#endif
