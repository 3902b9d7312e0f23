# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# For the configure of an Open MPI source tree (docs/user/in-tree.md); a build against an installed one does not read it.

# MCA_opal_mpool_freq_POST_CONFIG(is it built)
AC_DEFUN([MCA_opal_mpool_freq_POST_CONFIG], [
    AM_CONDITIONAL([SPEC_STANDALONE], [false])
])

# MCA_opal_mpool_freq_CONFIG(if it can be built, if not)
AC_DEFUN([MCA_opal_mpool_freq_CONFIG], [
    AC_CONFIG_FILES([opal/mca/mpool/freq/Makefile])
    AC_CONFIG_FILES([opal/mca/mpool/freq/core/Makefile])
    mpool_freq_CPPFLAGS='-DSPEC_VERSION_MAJOR=OMPI_MAJOR_VERSION -DSPEC_VERSION_MINOR=OMPI_MINOR_VERSION'
    mpool_freq_CPPFLAGS="$mpool_freq_CPPFLAGS -DSPEC_VERSION_RELEASE=OMPI_RELEASE_VERSION"
    mpool_freq_CPPFLAGS="$mpool_freq_CPPFLAGS -DSPEC_VERSION='\"\$(PACKAGE_VERSION)\"' -DSPEC_HELP_DIR='\"\$(pkgdatadir)\"'"
    AC_SUBST([mpool_freq_CPPFLAGS])
    # 5.0 has the whole name in a variable, 4.1 the beginning.
    AS_IF([test -n "$OPAL_LIB_NAME"], [mpool_freq_OPAL=lib$OPAL_LIB_NAME.la], [mpool_freq_OPAL=lib${OPAL_LIB_PREFIX}open-pal.la])
    AC_SUBST([mpool_freq_OPAL])

    $1
])
