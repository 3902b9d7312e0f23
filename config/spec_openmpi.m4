# Finding the Open MPI to build for, and refusing one that cannot work.
#
# The wrapper compiler says where headers and libraries are, ompi_info where components live. The version comes from
# opal_config.h through the preprocessor, so what is judged is what would be compiled against, and nothing is run.

# SPEC_FIND_OPENMPI
# Sets MPICC, OMPI_INFO, MPIRUN, OMPI_INCDIRS, OMPI_LIBDIRS, OMPI_VERSION, SPEC_OMPI_CPPFLAGS (for components),
# SPEC_OMPI_LIBFLAGS (-L...), MPI_CPPFLAGS and MPI_LIBS (for plain MPI programs), SPEC_OMPI_PKGLIBDIR.
AC_DEFUN([SPEC_FIND_OPENMPI], [
    AC_ARG_VAR([MPICC], [wrapper compiler of the Open MPI to build for (default: mpicc)])
    AC_ARG_VAR([OMPI_INFO], [the ompi_info that belongs to it (default: the one beside MPICC, then the one in PATH)])
    AC_ARG_WITH([mpicc],
        [AS_HELP_STRING([--with-mpicc=PROGRAM],
            [the wrapper compiler of the Open MPI to build for; the same as MPICC=PROGRAM])],
        [AS_CASE([$withval],
            [yes|no|''], [AC_MSG_ERROR([--with-mpicc needs the name or path of a wrapper compiler])],
            [MPICC=$withval])])

    spec_mpicc_named=yes
    AS_CASE([$MPICC],
        [''], [spec_mpicc_named=no
               AC_PATH_PROGS([spec_mpicc_path], [mpicc mpicc.openmpi])],
        [*/*], [AS_IF([test -x "$MPICC"],
                   [spec_mpicc_path=`cd "\`AS_DIRNAME(["$MPICC"])\`" && pwd`/`AS_BASENAME(["$MPICC"])`])],
        [AC_PATH_PROG([spec_mpicc_path], [$MPICC])])
    AS_IF([test -z "$spec_mpicc_path"],
        [AS_IF([test $spec_mpicc_named = yes],
            [AC_MSG_ERROR([cannot find the wrapper compiler '$MPICC'. Give an existing one with --with-mpicc=PROGRAM.])],
            [AC_MSG_ERROR([no Open MPI found: there is no mpicc in PATH.
  On Debian: apt-get install openmpi-bin libopenmpi-dev
  For an Open MPI elsewhere: --with-mpicc=/that/place/bin/mpicc])])])
    MPICC=$spec_mpicc_path

    AC_MSG_CHECKING([whether $MPICC is Open MPI's])
    spec_wrapper=`$MPICC --showme:version 2>/dev/null </dev/null`
    AS_CASE([$spec_wrapper],
        [*"Open MPI"*], [AC_MSG_RESULT([yes ($spec_wrapper)])],
        [AC_MSG_RESULT([no])
         AC_MSG_ERROR([$MPICC is not the wrapper compiler of an Open MPI: it does not understand --showme:version.
  Where several MPIs are installed, Debian calls Open MPI's one mpicc.openmpi: --with-mpicc=mpicc.openmpi
  Where none is: apt-get install openmpi-bin libopenmpi-dev])])

    OMPI_INCDIRS=`$MPICC --showme:incdirs 2>/dev/null </dev/null`
    OMPI_LIBDIRS=`$MPICC --showme:libdirs 2>/dev/null </dev/null`
    MPI_CPPFLAGS=`$MPICC --showme:compile 2>/dev/null </dev/null`
    MPI_LIBS=`$MPICC --showme:link 2>/dev/null </dev/null`

    # Headers of Open MPI are not ours to mend: as system headers they give no warnings. /usr/include must not be named
    # that way, it would be searched too early.
    SPEC_OMPI_CPPFLAGS=
    for spec_dir in $OMPI_INCDIRS; do
        AS_CASE([$spec_dir],
            [/usr/include|/usr/include/], [],
            [SPEC_OMPI_CPPFLAGS="$SPEC_OMPI_CPPFLAGS -isystem $spec_dir"])
    done
    SPEC_OMPI_LIBFLAGS=
    for spec_dir in $OMPI_LIBDIRS; do
        SPEC_OMPI_LIBFLAGS="$SPEC_OMPI_LIBFLAGS -L$spec_dir"
    done

    _SPEC_OPENMPI_HEADERS
    _SPEC_OPENMPI_VERSION
    _SPEC_OPENMPI_FEATURES
    _SPEC_OPENMPI_INFO
    _SPEC_OPENMPI_ABI

    AC_SUBST([SPEC_OMPI_CPPFLAGS])
    AC_SUBST([SPEC_OMPI_LIBFLAGS])
    AC_SUBST([MPI_CPPFLAGS])
    AC_SUBST([MPI_LIBS])
    AC_SUBST([OMPI_VERSION])
])

# What to tell somebody whose Open MPI lacks development headers.
m4_define([_SPEC_NEED_HEADERS],
[the Open MPI of $MPICC has no development headers ($1 was not found).
  On Debian: apt-get install libopenmpi-dev
  For an Open MPI built by hand: configure it with --with-devel-headers and install it again
  With its sources and no such headers: build the components inside them (docs/user/in-tree.md)])

AC_DEFUN([_SPEC_OPENMPI_HEADERS], [
    spec_save_CPPFLAGS=$CPPFLAGS
    CPPFLAGS="$CPPFLAGS $SPEC_OMPI_CPPFLAGS"
    AC_MSG_CHECKING([for the development headers of Open MPI])
    for spec_header in mpi.h opal_config.h ompi/mca/pml/pml.h opal/mca/btl/btl.h; do
        # Only whether it is there: some of them cannot be preprocessed alone.
        spec_found=no
        for spec_dir in $OMPI_INCDIRS /usr/include; do
            AS_IF([test -f "$spec_dir/$spec_header"], [spec_found=yes])
        done
        AS_IF([test $spec_found = no],
            [AC_MSG_RESULT([no])
             AC_MSG_ERROR([_SPEC_NEED_HEADERS([$spec_header])])])
    done
    AC_MSG_RESULT([yes])
    CPPFLAGS=$spec_save_CPPFLAGS
])

# _SPEC_OPAL_MACRO(VARIABLE, MACRO)
# VARIABLE becomes what MACRO of opal_config.h stands for, or 'undefined'.
AC_DEFUN([_SPEC_OPAL_MACRO], [
    spec_save_CPPFLAGS=$CPPFLAGS
    CPPFLAGS="$CPPFLAGS $SPEC_OMPI_CPPFLAGS"
    AC_LANG_CONFTEST([AC_LANG_SOURCE([[
#include <opal_config.h>
#ifdef $2
spec_value_is $2 .
#else
spec_value_is undefined .
#endif
]])])
    $1=`(eval "$ac_cpp conftest.$ac_ext") 2>&AS_MESSAGE_LOG_FD | grep -v '^#' | tr '\n' ' ' |
        sed -n 's/.*spec_value_is *\(@<:@^ @:>@*\) *\. *$/\1/p'`
    rm -f conftest.$ac_ext
    CPPFLAGS=$spec_save_CPPFLAGS
])

AC_DEFUN([_SPEC_OPENMPI_VERSION], [
    AC_MSG_CHECKING([the version of Open MPI])
    _SPEC_OPAL_MACRO([spec_major], [OMPI_MAJOR_VERSION])
    _SPEC_OPAL_MACRO([spec_minor], [OMPI_MINOR_VERSION])
    _SPEC_OPAL_MACRO([spec_release], [OMPI_RELEASE_VERSION])
    OMPI_VERSION=$spec_major.$spec_minor.$spec_release
    AC_MSG_RESULT([$OMPI_VERSION])
    AC_ARG_WITH([untested-openmpi],
        [AS_HELP_STRING([--with-untested-openmpi],
            [build for a release of Open MPI that nobody has tried, as for the nearest that is supported])],
        [], [with_untested_openmpi=no])
    SPEC_UNTESTED_CPPFLAGS=
    AS_CASE([$spec_major.$spec_minor],
        [4.1 | 5.0 | 6.0], [spec_series=$spec_major.$spec_minor],
        [AS_IF([test "x$with_untested_openmpi" = xno],
            [AC_MSG_ERROR([this is Open MPI $OMPI_VERSION, but this package builds for Open MPI 4.1, 5.0 and 6.0 only.
  For another Open MPI on this machine: --with-mpicc=/that/place/bin/mpicc
  To try it all the same: --with-untested-openmpi])])
         AS_CASE([$spec_major], [@<:@0-4@:>@], [spec_series=4.1], [5], [spec_series=5.0], [spec_series=6.0])
         SPEC_UNTESTED_CPPFLAGS=-DSPEC_UNTESTED_OPENMPI
         AC_MSG_WARN([nobody has tried Open MPI $OMPI_VERSION; the components are built as for Open MPI $spec_series])])
    # The library that only this series has, besides libopen-pal (spec_flags.m4).
    AS_CASE([$spec_series],
        [4.1], [spec_shims=shim
                SPEC_OMPI_OWN_LIB=-lopen-rte],
        [5.0], [spec_shims='shim shim-5.0'
                SPEC_OMPI_OWN_LIB=],
        [6.0], [spec_shims='shim shim-5.0'
                SPEC_OMPI_OWN_LIB=-lopen_mpi])
    SPEC_OMPI_RTE_LIBS=
    AS_IF([test $spec_series != 4.1], [_SPEC_OPENMPI_PMIX])
    # The headers that an installation lacks (config/shim/README.md): behind all others, here and in the Makefiles.
    SPEC_OMPI_SHIM_CPPFLAGS=
    spec_shim_cppflags=
    for spec_dir in $spec_shims; do
        SPEC_OMPI_SHIM_CPPFLAGS="$SPEC_OMPI_SHIM_CPPFLAGS -idirafter \$(top_srcdir)/config/$spec_dir"
        spec_shim_cppflags="$spec_shim_cppflags -idirafter $srcdir/config/$spec_dir"
    done
    SPEC_OMPI_CPPFLAGS="$SPEC_OMPI_CPPFLAGS $SPEC_UNTESTED_CPPFLAGS"
    AC_SUBST([SPEC_OMPI_SHIM_CPPFLAGS])
    AM_CONDITIONAL([SPEC_HELP_COMPILED], [test $spec_series = 6.0])
    AM_CONDITIONAL([ACCELERATORS], [test $spec_series != 4.1])
])

# Since 5.0 Open MPI talks to PMIx directly, in macros that components use; mpicc does not tell where its header is.
AC_DEFUN([_SPEC_OPENMPI_PMIX], [
    AC_MSG_CHECKING([for the headers of PMIx])
    spec_pmix=`(pkg-config --cflags-only-I pmix) 2>&AS_MESSAGE_LOG_FD </dev/null`
    spec_pmix_libs=`(pkg-config --libs-only-L pmix) 2>&AS_MESSAGE_LOG_FD </dev/null`
    # Without pkg-config: where Debian has it, and where an Open MPI that brings its own PMIx puts it.
    AS_IF([test -z "$spec_pmix"],
        [for spec_dir in /usr/lib/*/pmix2/include $OMPI_INCDIRS; do
            AS_IF([test -z "$spec_pmix" && test -f "$spec_dir/pmix.h"],
                [spec_pmix="-I$spec_dir"
                 spec_pmix_libs="-L`AS_DIRNAME(["$spec_dir"])`/lib"])
         done])
    spec_save_CPPFLAGS=$CPPFLAGS
    for spec_dir in $spec_pmix; do
        SPEC_OMPI_CPPFLAGS="$SPEC_OMPI_CPPFLAGS `AS_ECHO(["$spec_dir"]) | sed 's/^-I/-isystem /'`"
    done
    CPPFLAGS="$CPPFLAGS $SPEC_OMPI_CPPFLAGS"
    AC_PREPROC_IFELSE([AC_LANG_SOURCE([[#include <pmix.h>]])],
        [AC_MSG_RESULT([yes])],
        [AC_MSG_RESULT([no])
         AC_MSG_ERROR([pmix.h, which the headers of Open MPI $OMPI_VERSION use, was not found.
  On Debian: apt-get install libpmix-dev
  Elsewhere: CPPFLAGS=-I/that/place/include])])
    CPPFLAGS=$spec_save_CPPFLAGS
    SPEC_OMPI_RTE_LIBS="$spec_pmix_libs -lpmix"
])

AC_DEFUN([_SPEC_OPENMPI_FEATURES], [
    AC_MSG_CHECKING([that Open MPI was built for equal machines])
    _SPEC_OPAL_MACRO([spec_hetero], [OPAL_ENABLE_HETEROGENEOUS_SUPPORT])
    AS_IF([test "x$spec_hetero" = x1],
        [AC_MSG_RESULT([no])
         AC_MSG_ERROR([this Open MPI was configured with --enable-heterogeneous.
  The components exchange addresses and headers in the byte order of the machine and cannot serve a job whose machines
  differ. Use an Open MPI configured without that option, as Debian's is, with --with-mpicc=/that/place/bin/mpicc])])
    AC_MSG_RESULT([yes])

    # Since 5.0 buffers in GPUs are a matter of a framework; 4.1 was configured --with-cuda for them or was not.
    spec_cuda=0
    SPEC_CUDA_LIBS=
    AS_IF([test $spec_series = 4.1],
        [AC_MSG_CHECKING([whether it was built for buffers in GPUs])
         _SPEC_OPAL_MACRO([spec_cuda], [OPAL_CUDA_SUPPORT])
         AS_IF([test "x$spec_cuda" = x1],
            [AC_MSG_RESULT([yes])
             spec_save_LIBS=$LIBS
             LIBS="$SPEC_OMPI_LIBFLAGS $LIBS"
             # (Which does not name libopen-pal among what it needs.)
             AC_CHECK_LIB([mca_common_cuda], [mca_common_cuda_stage_one_init],
                [# A component of ours may be the first that needs it, and only Open MPI's own say where it is.
                 SPEC_CUDA_LIBS=-lmca_common_cuda
                 for spec_dir in $OMPI_LIBDIRS; do
                     SPEC_CUDA_LIBS="$SPEC_CUDA_LIBS,-rpath,$spec_dir"
                 done],
                [AC_MSG_ERROR([this Open MPI was configured --with-cuda, but its library libmca_common_cuda was not found beside the
  others, and without it nothing can ask where a buffer is. Was it configured with --enable-mca-static=common-cuda?
  For another Open MPI on this machine: --with-mpicc=/that/place/bin/mpicc])],
                [$MPI_LIBS -lopen-pal])
             LIBS=$spec_save_LIBS],
            [AC_MSG_RESULT([no])])])
    AM_CONDITIONAL([CUDA], [test "x$spec_cuda" = x1])

    AS_IF([test $spec_series != 4.1],
        [AC_MSG_CHECKING([that its threads are POSIX threads])
         _SPEC_OPAL_MACRO([spec_threads], [MCA_threads_mutex_base_include_HEADER])
         AS_CASE([$spec_threads],
            [*/pthreads/*], [AC_MSG_RESULT([yes])],
            [AC_MSG_RESULT([no])
             AC_MSG_ERROR([this Open MPI was configured for other threads than those of the system ($spec_threads).
  The components share locks with it and would disagree about them. Use an Open MPI configured --with-threads=pthreads,
  which is its default and Debian's choice, with --with-mpicc=/that/place/bin/mpicc])])])

    # With the headers that an installation lacks the rest must compile.
    AC_MSG_CHECKING([that components can be compiled for it])
    spec_save_CPPFLAGS=$CPPFLAGS
    CPPFLAGS="$CPPFLAGS $SPEC_OMPI_CPPFLAGS $spec_shim_cppflags"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[
#include "ompi_config.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/mca/pml/base/pml_base_sendreq.h"
#include "ompi/mca/pml/base/pml_base_recvreq.h"
#include "ompi/mca/bml/bml.h"
#include "opal/mca/btl/btl.h"
#include "opal/mca/rcache/rcache.h"
#include "opal/mca/mpool/mpool.h"
]], [[]])],
        [AC_MSG_RESULT([yes])],
        [AC_MSG_RESULT([no])
         AC_MSG_ERROR([a component cannot be compiled against this Open MPI; the compiler's words are in config.log.
  If a header is missing on Debian: apt-get install libopenmpi-dev])])
    CPPFLAGS=$spec_save_CPPFLAGS
])

AC_DEFUN([_SPEC_OPENMPI_INFO], [
    spec_bindir=`AS_DIRNAME([$MPICC])`
    AS_IF([test -z "$OMPI_INFO"],
        [AC_PATH_PROG([OMPI_INFO], [ompi_info], [], [$spec_bindir$PATH_SEPARATOR$PATH])])
    AC_PATH_PROG([MPIRUN], [mpirun], [mpirun], [$spec_bindir$PATH_SEPARATOR$PATH])
    AC_ARG_VAR([MPIRUN], [the mpirun that belongs to it, for the tests])
    AS_IF([test -z "$OMPI_INFO"],
        [AC_MSG_ERROR([there is no ompi_info beside $MPICC nor in PATH.
  On Debian: apt-get install openmpi-bin
  Otherwise name it: OMPI_INFO=/that/place/bin/ompi_info])])

    AC_MSG_CHECKING([where this Open MPI keeps its components])
    # Its error output is of no interest: some releases complain there about things that are no concern here.
    SPEC_OMPI_PKGLIBDIR=`$OMPI_INFO --parsable --path pkglibdir 2>/dev/null </dev/null |
        sed -n 's/^path:pkglibdir://p' | sed 1q`
    AS_IF([test -z "$SPEC_OMPI_PKGLIBDIR"],
        [AC_MSG_RESULT([unknown])
         AC_MSG_ERROR([$OMPI_INFO does not tell the component directory (--path pkglibdir).
  If it belongs to another MPI, name the right one: OMPI_INFO=/that/place/bin/ompi_info])])
    AC_MSG_RESULT([$SPEC_OMPI_PKGLIBDIR])

    spec_info_version=`$OMPI_INFO --parsable --version ompi full 2>/dev/null </dev/null |
        sed -n 's/^ompi:version:full://p' | sed 1q`
    AS_CASE([$spec_info_version],
        ['' | $spec_major.$spec_minor.*], [],
        [AC_MSG_ERROR([$OMPI_INFO belongs to Open MPI $spec_info_version, but $MPICC to Open MPI $OMPI_VERSION.
  Name the right one: OMPI_INFO=/that/place/bin/ompi_info])])
])

# What programs of the standard ABI of MPI (6.0) are built with, for tests: the components serve them as all others.
AC_DEFUN([_SPEC_OPENMPI_ABI], [
    MPI_ABI_CPPFLAGS=
    for spec_dir in $OMPI_INCDIRS; do
        AS_IF([test -f "$spec_dir/standard_abi/mpi.h"], [MPI_ABI_CPPFLAGS=-I$spec_dir/standard_abi])
    done
    MPI_ABI_LIBS="$SPEC_OMPI_LIBFLAGS -lmpi_abi"
    AC_SUBST([MPI_ABI_CPPFLAGS])
    AC_SUBST([MPI_ABI_LIBS])
    AM_CONDITIONAL([MPI_ABI], [test -n "$MPI_ABI_CPPFLAGS"])
])
