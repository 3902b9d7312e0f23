# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# For the configure of an Open MPI source tree (docs/user/in-tree.md); a build against an installed one does not read it.

# MCA_opal_btl_ibx_POST_CONFIG(is it built)
AC_DEFUN([MCA_opal_btl_ibx_POST_CONFIG], [
    AM_CONDITIONAL([SPEC_STANDALONE], [false])
    AM_CONDITIONAL([VERBS], [test "$VERBS" = 1])
])

# MCA_opal_btl_ibx_CONFIG(if it can be built, if not)
AC_DEFUN([MCA_opal_btl_ibx_CONFIG], [
    AC_CONFIG_FILES([opal/mca/btl/ibx/Makefile])
    AC_CONFIG_FILES([opal/mca/btl/ibx/iwarp/Makefile])
    AC_CONFIG_FILES([opal/mca/btl/ibx/verbs/Makefile])
    AC_CONFIG_FILES([opal/mca/btl/ibx/window/Makefile])
    btl_ibx_CPPFLAGS='-DSPEC_VERSION_MAJOR=OMPI_MAJOR_VERSION -DSPEC_VERSION_MINOR=OMPI_MINOR_VERSION'
    btl_ibx_CPPFLAGS="$btl_ibx_CPPFLAGS -DSPEC_VERSION_RELEASE=OMPI_RELEASE_VERSION"
    btl_ibx_CPPFLAGS="$btl_ibx_CPPFLAGS -DSPEC_VERSION='\"\$(PACKAGE_VERSION)\"' -DSPEC_HELP_DIR='\"\$(pkgdatadir)\"'"
    AC_SUBST([btl_ibx_CPPFLAGS])
    # 5.0 has the whole name in a variable, 4.1 the beginning.
    AS_IF([test -n "$OPAL_LIB_NAME"], [btl_ibx_OPAL=lib$OPAL_LIB_NAME.la], [btl_ibx_OPAL=lib${OPAL_LIB_PREFIX}open-pal.la])
    AC_SUBST([btl_ibx_OPAL])

    # Adapters only where their libraries are, and unless --without-verbs says no.
    VERBS=0
    AS_IF([test "x$with_verbs" != xno],
        [AC_CHECK_HEADERS([infiniband/verbs.h rdma/rdma_cma.h], [VERBS=1], [VERBS=0; break])])
    AC_SUBST([VERBS])
    AS_IF([test $VERBS = 1],
        [AC_CHECK_LIB([ibverbs], [ibv_reg_dmabuf_mr], [:], [CPPFLAGS="$CPPFLAGS -DSPEC_NO_DMABUF"])])
    AS_IF([test $VERBS = 1],
        [AC_CHECK_MEMBER([struct ibv_port_attr.active_speed_ex], [CPPFLAGS="$CPPFLAGS -DSPEC_HAS_SPEED_EX"], [],
            [[@%:@include <infiniband/verbs.h>]])])
    AS_IF([test $VERBS = 1], [IBVERBS_LIBS=-libverbs RDMACM_LIBS=-lrdmacm], [IBVERBS_LIBS= RDMACM_LIBS=])
    SODIUM_LIBS=-lsodium
    btl_ibx_LIBS="$RDMACM_LIBS $IBVERBS_LIBS $SODIUM_LIBS"
    AC_SUBST([IBVERBS_LIBS])
    AC_SUBST([RDMACM_LIBS])
    AC_SUBST([SODIUM_LIBS])
    AC_SUBST([btl_ibx_LIBS])

    btl_ibx_happy=yes
    AC_CHECK_HEADERS([sodium.h], [], [btl_ibx_happy=no])
    AS_IF([test $btl_ibx_happy = yes], [$1], [$2])
])
