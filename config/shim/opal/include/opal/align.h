/* The source tree's spelling of opal/align.h: some installed headers (and code written inside Open MPI's tree) name
 * opal/include/opal/..., a directory that does not exist in an installation. */
#ifndef SPEC_SHIM_OPAL_INCLUDE_ALIGN_H
#define SPEC_SHIM_OPAL_INCLUDE_ALIGN_H

#include "opal/align.h"

#endif
