/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Help texts of a component that is built outside the source tree of Open MPI 6.0.
 *
 * Since 6.0 opal_show_help() reads no file: it knows the texts that were compiled into Open MPI, and says of every other
 * topic that there is no such. So such a component has its texts in itself (help_texts.c, made by texts.awk) and brings
 * them to the user the way opal_show_help() does: through PMIx, which lets the launcher print one of equal messages and
 * count the others. These functions take the names of Open MPI's. */
#ifndef SPEC_SHOW_HELP_H
#define SPEC_SHOW_HELP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "opal_config.h"

#include "opal/util/show_help.h"

#define opal_show_help         spec_show_help
#define opal_show_vhelp        spec_show_vhelp
#define opal_show_help_vstring spec_show_help_vstring

typedef struct spec_help_text_t {
    const char *topic; /* NULL ends the table */
    const char *text;  /* a format of printf's */
} spec_help_text_t;

/* The texts of this component. */
extern const spec_help_text_t spec_help_texts[];

/* Say it: to the launcher, or on the standard error where there is none. Returns an Open MPI code; never blocks, any thread.
 * The file is the name that counts equal messages together. */
int spec_show_help(const char *file, const char *topic, int with_lines, ...);
int spec_show_vhelp(const char *file, const char *topic, int with_lines, va_list args);

/* The text, to be freed; NULL without memory. */
char *spec_show_help_vstring(const char *file, const char *topic, int with_lines, va_list args);

#endif
