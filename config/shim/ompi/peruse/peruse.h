/* PERUSE's public header, reduced to the one type that other headers need.
 *
 * Open MPI installs it only when built with PERUSE, yet the base request headers of the PML framework include
 * ompi/peruse/peruse-internal.h, which includes this file whatever the build. PERUSE is off in every build this package
 * accepts for it, so the handle is never looked into: an opaque pointer is enough. */
#ifndef SPEC_SHIM_OMPI_PERUSE_H
#define SPEC_SHIM_OMPI_PERUSE_H

typedef void *peruse_event_h;

#endif
