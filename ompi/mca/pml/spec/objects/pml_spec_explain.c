/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Prints help texts so that they are seen although the job ends right after. */
#include "pml_spec_explain.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "pml_spec_compat.h"

#include "opal/util/proc.h"

#define HELP_FILE "help-mpi-pml-spec.txt"

/* What a program that goes on after errors provokes again and again is left to mpirun, which prints it once. */
#define MOST 4u

static bool may_tell(void)
{
    static uint32_t told;
    return __atomic_fetch_add(&told, 1, __ATOMIC_RELAXED) < MOST;
}

static void tell(const char *topic, va_list args)
{
    char *text = opal_show_help_vstring(HELP_FILE, topic, true, args);
    if (NULL != text) {
        fputs(text, stderr);
        free(text);
    }
}

void mca_pml_spec_explain(const char *topic, ...)
{
    va_list args;
    va_start(args, topic);
    if (0 == opal_process_info.my_local_rank && may_tell()) {
        tell(topic, args);
    } else {
        opal_show_vhelp(HELP_FILE, topic, true, args);
    }
    va_end(args);
}

void mca_pml_spec_explain_alone(const char *topic, ...)
{
    va_list args;
    va_start(args, topic);
    if (may_tell()) {
        tell(topic, args);
    } else {
        opal_show_vhelp(HELP_FILE, topic, true, args);
    }
    va_end(args);
}
