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

AC_DEFUN([SPEC_CHECK_LIBS], [
    # RDMA adapters: without them btl/ibx has its other transport alone.
    AC_ARG_WITH([verbs], [AS_HELP_STRING([--without-verbs],
        [build btl/ibx without its transport for RDMA adapters (libibverbs, librdmacm)])], [], [with_verbs=yes])
    AS_IF([test "$with_verbs" != no], [
        SPEC_REQUIRE_LIB([IBVERBS], [infiniband/verbs.h], [ibverbs], [ibv_get_device_list],
            [libibverbs-dev (or configure --without-verbs)])
        SPEC_REQUIRE_LIB([RDMACM], [rdma/rdma_cma.h], [rdmacm], [rdma_create_event_channel],
            [librdmacm-dev (or configure --without-verbs)])
        VERBS=1], [VERBS=0])
    AM_CONDITIONAL([VERBS], [test $VERBS = 1])
    AC_SUBST([VERBS])

    SPEC_REQUIRE_LIB([HWLOC], [hwloc.h], [hwloc], [hwloc_get_api_version], [libhwloc-dev])
    SPEC_REQUIRE_LIB([EVENT], [event2/event.h], [event_core], [event_base_new], [libevent-dev])

    # The datagram-iWARP stack: tags of datagrams and CRC32C.
    SPEC_REQUIRE_LIB([SODIUM], [sodium.h], [sodium], [crypto_shorthash], [libsodium-dev])
    SPEC_REQUIRE_LIB([ISAL], [isa-l.h], [isal], [crc32_iscsi], [libisal-dev])

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
