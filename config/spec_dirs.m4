# Where things are installed.
#
#   components   --with-component-dir=DIR, or ~/.openmpi/components with --enable-user-install, or else where the
#                Open MPI that was found keeps its own.
#   help texts   $(pkgdatadir), that is PREFIX/share/ompi-spec. If the component directory was chosen but no --prefix
#                given, PREFIX is the parent of that directory: a user install then stays within ~/.openmpi.

AC_DEFUN([SPEC_DIRS], [
    AC_ARG_WITH([component-dir],
        [AS_HELP_STRING([--with-component-dir=DIR],
            [install the components in DIR (default: the component directory of the Open MPI found). Unless --prefix
             is given, help texts then go to DIR/../share/ompi-spec])])
    AC_ARG_ENABLE([user-install],
        [AS_HELP_STRING([--enable-user-install],
            [install for yourself: components in ~/.openmpi/components, where Open MPI looks by default, help texts in
             ~/.openmpi/share/ompi-spec])],
        [], [enable_user_install=no])

    AS_CASE([$with_component_dir],
        [yes], [AC_MSG_ERROR([--with-component-dir needs a directory: --with-component-dir=DIR])],
        [''], [AS_IF([test "${with_component_dir+set}" = set],
            [AC_MSG_ERROR([--with-component-dir has an empty value: --with-component-dir=DIR])])],
        [no], [with_component_dir=])
    SPEC_YES_OR_NO([user-install], [$enable_user_install])
    AS_IF([test "x$enable_user_install" != xno],
        [AS_IF([test -n "$with_component_dir"],
            [AC_MSG_ERROR([--enable-user-install and --with-component-dir both say where components go: give one of them])])
         AS_IF([test -z "$HOME"],
            [AC_MSG_ERROR([--enable-user-install needs HOME to be set])])
         with_component_dir=$HOME/.openmpi/components])

    AS_CASE([$with_component_dir],
        [''], [SPEC_COMPONENT_DIR=$SPEC_OMPI_PKGLIBDIR
               spec_component_dir_hint="run 'make install' as root, for example with sudo, or configure with --enable-user-install"],
        [/*], [SPEC_COMPONENT_DIR=$with_component_dir
               spec_component_dir_hint="choose another one with --with-component-dir=DIR, or configure with --enable-user-install"],
        [AC_MSG_ERROR([--with-component-dir needs an absolute path, not '$with_component_dir'])])
    AS_IF([test -n "$with_component_dir" && test "x$prefix" = xNONE],
        [prefix=`AS_DIRNAME(["$with_component_dir"])`])
    AC_SUBST([SPEC_COMPONENT_DIR])

    AC_MSG_CHECKING([whether components can be installed in $SPEC_COMPONENT_DIR])
    spec_why=`$SHELL "$srcdir/config/check-writable.sh" "$SPEC_COMPONENT_DIR" 2>&1`
    AS_IF([test -z "$spec_why"],
        [AC_MSG_RESULT([yes])],
        [AC_MSG_RESULT([no])
         AC_MSG_WARN([$spec_why
  The build will work, 'make install' as you are now will not: $spec_component_dir_hint.])])
])

# What the Makefile.am of a component asks of the source tree of Open MPI when it is built there (docs/user/in-tree.md).
AC_DEFUN([SPEC_AS_IN_TREE], [
    AM_CONDITIONAL([SPEC_STANDALONE], [true])
    AM_CONDITIONAL([MCA_BUILD_ompi_pml_spec_DSO], [true])
    AM_CONDITIONAL([MCA_BUILD_opal_btl_ibx_DSO], [true])
    AM_CONDITIONAL([MCA_BUILD_opal_rcache_lazy_DSO], [true])
    AM_CONDITIONAL([MCA_BUILD_opal_mpool_freq_DSO], [true])
    ompidatadir= ompilibdir= opaldatadir= opallibdir=
    AC_SUBST([ompidatadir])
    AC_SUBST([ompilibdir])
    AC_SUBST([opaldatadir])
    AC_SUBST([opallibdir])
])
