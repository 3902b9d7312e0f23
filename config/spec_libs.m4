# Libraries besides Open MPI. Every miss names the Debian package to install.

# SPEC_REQUIRE_LIB(NAME, HEADER, LIBRARY, FUNCTION, PACKAGE)
# Defines the output variable NAME_LIBS, or ends configure. LIBS is left alone: each component names what it uses.
AC_DEFUN([SPEC_REQUIRE_LIB], [
    AC_CHECK_HEADER([$2], [],
        [AC_MSG_ERROR([the header $2 is missing.
  On Debian: apt-get install $5])])
    AC_CHECK_LIB([$3], [$4], [$1_LIBS=-l$3],
        [AC_MSG_ERROR([the library lib$3 is missing, although its header $2 is there.
  On Debian: apt-get install $5])])
    AC_SUBST([$1_LIBS])
])

# SPEC_COMPONENTS: which of the four are built. Sets spec_components, spec_build_NAME and spec_all_components.
AC_DEFUN([SPEC_COMPONENTS], [
    AC_ARG_ENABLE([components],
        [AS_HELP_STRING([--enable-components=LIST],
            [build only these of spec, ibx, lazy and freq, separated by commas (default: all four); what the others need
             need not be there])],
        [], [enable_components=yes])
    AS_CASE([$enable_components],
        [yes], [enable_components=spec,ibx,lazy,freq],
        [no], [enable_components=])
    spec_build_spec=no spec_build_ibx=no spec_build_lazy=no spec_build_freq=no
    for spec_each in `AS_ECHO(["$enable_components"]) | tr , ' '`; do
        AS_CASE([$spec_each],
            [spec], [spec_build_spec=yes],
            [ibx], [spec_build_ibx=yes],
            [lazy], [spec_build_lazy=yes],
            [freq], [spec_build_freq=yes],
            [AC_MSG_ERROR([--enable-components: there is no component '$spec_each'. There are spec, ibx, lazy and freq.])])
    done
    AS_CASE([$spec_build_spec$spec_build_ibx$spec_build_lazy$spec_build_freq],
        [nononono], [AC_MSG_ERROR([--enable-components needs a list of components: spec, ibx, lazy, freq])])
    spec_components= spec_all_components=yes
    for spec_each in spec ibx lazy freq; do
        AS_IF([eval "test \$spec_build_$spec_each = yes"],
            [spec_components="$spec_components${spec_components:+ }$spec_each"], [spec_all_components=no])
    done
    AM_CONDITIONAL([BUILD_SPEC], [test $spec_build_spec = yes])
    AM_CONDITIONAL([BUILD_IBX], [test $spec_build_ibx = yes])
    AM_CONDITIONAL([BUILD_LAZY], [test $spec_build_lazy = yes])
    AM_CONDITIONAL([BUILD_FREQ], [test $spec_build_freq = yes])
    AM_CONDITIONAL([BUILD_ALL], [test $spec_all_components = yes])
])

AC_DEFUN([SPEC_CHECK_LIBS], [
    # RDMA adapters: without them btl/ibx has its other transport alone.
    AC_ARG_WITH([verbs], [AS_HELP_STRING([--with-verbs@<:@=DIR@:>@],
        [where libibverbs and librdmacm are, if not where the compiler looks; --without-verbs builds btl/ibx without its
         transport for RDMA adapters])], [], [with_verbs=yes])
    AS_CASE([$with_verbs],
        [yes | no], [],
        [AS_IF([test ! -f "$with_verbs/include/infiniband/verbs.h"],
            [AC_MSG_ERROR([--with-verbs=$with_verbs: there is no file $with_verbs/include/infiniband/verbs.h.
  DIR is the directory that has include/ and lib/ of libibverbs. Those of the system need no DIR: --with-verbs])])
         CPPFLAGS="$CPPFLAGS -I$with_verbs/include"
         for spec_dir in lib lib64; do
             AS_IF([test -d "$with_verbs/$spec_dir"], [LDFLAGS="$LDFLAGS -L$with_verbs/$spec_dir"])
         done])
    AS_IF([test $spec_build_ibx = no], [with_verbs=no])
    AS_IF([test "$with_verbs" != no], [
        SPEC_REQUIRE_LIB([IBVERBS], [infiniband/verbs.h], [ibverbs], [ibv_get_device_list],
            [libibverbs-dev (or configure --without-verbs)])
        SPEC_REQUIRE_LIB([RDMACM], [rdma/rdma_cma.h], [rdmacm], [rdma_create_event_channel],
            [librdmacm-dev (or configure --without-verbs)])
        # rdma-core 34: memory of accelerators.
        AC_CHECK_LIB([ibverbs], [ibv_reg_dmabuf_mr], [:], [CPPFLAGS="$CPPFLAGS -DSPEC_NO_DMABUF"])
        VERBS=1], [VERBS=0])
    AM_CONDITIONAL([VERBS], [test $VERBS = 1])
    AC_SUBST([VERBS])

    # Open MPI's headers include them.
    SPEC_REQUIRE_LIB([EVENT], [event2/event.h], [event_core], [event_base_new], [libevent-dev])
    SPEC_REQUIRE_LIB([HWLOC], [hwloc.h], [hwloc], [hwloc_get_api_version], [libhwloc-dev])

    # The datagram-iWARP stack: tags of datagrams.
    AS_IF([test $spec_build_ibx = yes],
        [SPEC_REQUIRE_LIB([SODIUM], [sodium.h], [sodium], [crypto_shorthash], [libsodium-dev])])

    # Only the unit tests need it, so it may be missing.
    AC_CHECK_HEADER([cmocka.h], [spec_cmocka=yes], [spec_cmocka=no], [[
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
]])
    AS_IF([test $spec_cmocka = yes],
        [AC_CHECK_LIB([cmocka], [_cmocka_run_group_tests], [CMOCKA_LIBS=-lcmocka], [spec_cmocka=no])])
    AC_SUBST([CMOCKA_LIBS])
    AM_CONDITIONAL([HAVE_CMOCKA], [test $spec_cmocka = yes])
])
