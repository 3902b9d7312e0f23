# Flags that every file of ours is compiled and every component linked with.

# SPEC_YES_OR_NO(FEATURE, VALUE): ends configure if --enable-FEATURE has another value.
AC_DEFUN([SPEC_YES_OR_NO], [
    AS_CASE([$2], [yes | no], [], [AC_MSG_ERROR([--enable-$1 takes yes or no, not '$2'])])])

# SPEC_DEFAULT_CFLAGS: before AC_PROG_CC. Without CFLAGS from the user autoconf would choose -g -O2.
AC_DEFUN([SPEC_DEFAULT_CFLAGS], [
    AC_ARG_ENABLE([debug],
        [AS_HELP_STRING([--enable-debug],
            [keep assertions and debugger information, do not optimise (default: no)])],
        [], [enable_debug=no])
    SPEC_YES_OR_NO([debug], [$enable_debug])
    AS_IF([test -z "${CFLAGS+set}"],
        [AS_IF([test "x$enable_debug" = xno],
            [CFLAGS='-O3 -DNDEBUG'],
            [CFLAGS='-O0 -g3'])])
])

# SPEC_TRY_CFLAG(FLAG): adds FLAG to SPEC_CFLAGS if the compiler takes it.
AC_DEFUN([SPEC_TRY_CFLAG], [
    AC_MSG_CHECKING([whether $CC takes $1])
    spec_save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS -Werror $1"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[]], [[]])],
        [AC_MSG_RESULT([yes])
         SPEC_CFLAGS="$SPEC_CFLAGS $1"],
        [AC_MSG_RESULT([no])])
    CFLAGS=$spec_save_CFLAGS
])

AC_DEFUN([SPEC_FLAGS], [
    AC_REQUIRE([AC_CANONICAL_HOST])

    SPEC_CFLAGS='-std=gnu11'
    # Open MPI's lists are lock-free with a 16-byte compare-and-swap; a component built without it would disagree with
    # the library about their layout.
    AS_CASE([$host_cpu], [x86_64], [SPEC_CFLAGS="$SPEC_CFLAGS -mcx16"])
    # Open MPI loads components into the global scope: whatever is visible may be taken for another component's symbol.
    SPEC_CFLAGS="$SPEC_CFLAGS -fvisibility=hidden"
    # Open MPI's object system casts between struct types freely.
    SPEC_CFLAGS="$SPEC_CFLAGS -fno-strict-aliasing"
    SPEC_CFLAGS="$SPEC_CFLAGS -Wall -Wextra"
    # Open MPI's component structs are made to be initialised in part.
    SPEC_TRY_CFLAG([-Wno-missing-field-initializers])
    SPEC_TRY_CFLAG([-Wstrict-prototypes])
    SPEC_TRY_CFLAG([-Wvla])
    # A function that an Open MPI newer than those tried calls in another way is an error, and no warning.
    SPEC_TRY_CFLAG([-Werror=incompatible-pointer-types])
    SPEC_TRY_CFLAG([-Werror=int-conversion])
    SPEC_TRY_CFLAG([-Werror=implicit-function-declaration])

    AC_MSG_CHECKING([whether a program with these flags links])
    spec_save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS $SPEC_CFLAGS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[]], [[]])],
        [AC_MSG_RESULT([yes])],
        [AC_MSG_RESULT([no])
         AC_MSG_ERROR([$CC does not take '$SPEC_CFLAGS'. A GNU C compiler or clang is needed: apt-get install gcc])])
    CFLAGS=$spec_save_CFLAGS
    AC_SUBST([SPEC_CFLAGS])

    # How a component is linked. The libraries are written as linker flags because libtool puts flags behind
    # libraries, where --as-needed would have no effect. libopen-pal and the library that only the series at hand has are
    # needed whether a symbol of them is used or not: they are what keeps one release of Open MPI from loading a component
    # built for another. (The soname of libopen-pal is .80 in 5.0, but .40 in 4.1 and in 6.0.) So is libmca_common_cuda, which pml/spec
    # uses; the other way round the component itself finds that it was built for a 4.1 with it (release.h).
    SPEC_DSO_LDFLAGS='-Wl,-z,defs -Wl,-Bsymbolic'
    spec_words=
    for spec_word in -lmpi $SPEC_OMPI_RTE_LIBS -lpthread; do
        spec_words="$spec_words,$spec_word"
    done
    SPEC_OMPI_DSO_LIBS="-Wl,--as-needed$spec_words -Wl,--no-as-needed${SPEC_OMPI_OWN_LIB:+,$SPEC_OMPI_OWN_LIB}${SPEC_CUDA_LIBS:+,$SPEC_CUDA_LIBS},-lopen-pal"
    AC_SUBST([SPEC_DSO_LDFLAGS])
    AC_SUBST([SPEC_OMPI_DSO_LIBS])
])
