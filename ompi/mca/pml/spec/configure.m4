# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# For the configure of an Open MPI source tree (docs/user/in-tree.md); a build against an installed one does not read it.

# MCA_ompi_pml_spec_POST_CONFIG(is it built)
AC_DEFUN([MCA_ompi_pml_spec_POST_CONFIG], [
    AM_CONDITIONAL([SPEC_STANDALONE], [false])
])

# MCA_ompi_pml_spec_CONFIG(if it can be built, if not)
AC_DEFUN([MCA_ompi_pml_spec_CONFIG], [
    AC_CONFIG_FILES([ompi/mca/pml/spec/Makefile])
    pml_spec_CPPFLAGS='-DSPEC_VERSION_MAJOR=OMPI_MAJOR_VERSION -DSPEC_VERSION_MINOR=OMPI_MINOR_VERSION'
    pml_spec_CPPFLAGS="$pml_spec_CPPFLAGS -DSPEC_VERSION_RELEASE=OMPI_RELEASE_VERSION"
    pml_spec_CPPFLAGS="$pml_spec_CPPFLAGS -DSPEC_VERSION='\"\$(PACKAGE_VERSION)\"' -DSPEC_HELP_DIR='\"\$(pkgdatadir)\"'"
    AC_SUBST([pml_spec_CPPFLAGS])
    # 4.1 with buffers in GPUs. (Later trees have no such directory.)
    pml_spec_LIBS=
    AS_IF([test "x$CUDA_SUPPORT" = x1 && test -f "$srcdir/opal/mca/common/cuda/common_cuda.h"],
        [pml_spec_LIBS='$(top_builddir)/opal/mca/common/cuda/lib$(OPAL_LIB_PREFIX)mca_common_cuda.la'])
    AC_SUBST([pml_spec_LIBS])
    $1
])
