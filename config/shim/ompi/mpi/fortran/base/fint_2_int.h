/* Conversions between C's int and Fortran's INTEGER, for an Open MPI where both have the same size.
 *
 * ompi/op/op.h uses them in an inline function and names this header, which is not installed. No code of this package
 * calls that function; were INTEGER of another size, its conversion would be wrong, so such a build is refused here. */
#ifndef SPEC_SHIM_FINT_2_INT_H
#define SPEC_SHIM_FINT_2_INT_H

#include "ompi_config.h"

#if defined(OMPI_SIZEOF_FORTRAN_INTEGER) && OMPI_SIZEOF_FORTRAN_INTEGER > 0 && \
    OMPI_SIZEOF_FORTRAN_INTEGER != SIZEOF_INT
#    error "Open MPI with a Fortran INTEGER that differs from C's int is not supported"
#endif

#define OMPI_FINT_2_INT(value)   (value)
#define OMPI_INT_2_FINT(value)   (value)
#define OMPI_PFINT_2_PINT(array) (array)

#endif
