/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A macro for the names by which Open MPI finds a component that is built into one of its libraries (docs/user/in-tree.md): that
 * of the structure, and since 6.0 of a pointer to it, mca_FRAMEWORK_NAME_component_ptr. A file of its own is found by the structure. */
#ifndef SPEC_COMPONENT_H
#define SPEC_COMPONENT_H

#include "opal/mca/mca.h"

/* Defines the pointer where there is one; behind the structure, and without a semicolon. */
#ifdef MCA_BASE_COMPONENT_INIT
#    define SPEC_COMPONENT_POINTER(project, framework, name)                                       \
        MCA_BASE_COMPONENT_INIT(project, framework, name)
#else
#    define SPEC_COMPONENT_POINTER(project, framework, name)
#endif

#endif
