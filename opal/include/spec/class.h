/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Classes of Open MPI's object system whose new objects are zero. */
#ifndef SPEC_CLASS_H
#define SPEC_CLASS_H

#include <stddef.h>
#include <string.h>

#include "opal/class/opal_object.h"

/* As OBJ_CLASS_INSTANCE, but all behind the parent is zero before `construct` is called; malloc gives the memory as it is. So a new
 * field needs no line of its own. Either function may be NULL. */
#define SPEC_CLASS(type, parent, construct, destruct)                                              \
    static void type##_begin(type *object)                                                         \
    {                                                                                              \
        void (*const go_on)(type *) = construct;                                                   \
        memset((char *) object + sizeof(parent), 0, sizeof(*object) - sizeof(parent));             \
        if (NULL != go_on) {                                                                       \
            go_on(object);                                                                         \
        }                                                                                          \
    }                                                                                              \
    OBJ_CLASS_INSTANCE(type, parent, type##_begin, destruct)

#endif
