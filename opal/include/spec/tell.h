/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What the components print on a stream of opal_output: as this does it, but in lines of at most 100 columns. Any thread. */
#ifndef SPEC_TELL_H
#define SPEC_TELL_H

#include "opal_config.h"

#include <stdarg.h>
#include <stdio.h>

#include "opal/util/output.h"

#include "wrap.h"

static __attribute__((format(printf, 2, 3), cold, unused)) void spec_tell(int stream, const char *format, ...)
{
    char text[SPEC_WRAP_TEXT], lines[SPEC_WRAP_TEXT + 256];
    va_list words;
    va_start(words, format);
    (void) vsnprintf(text, sizeof(text), format, words);
    va_end(words);
    spec_wrap(text, lines, sizeof(lines));
    opal_output(stream, "%s", lines); /* in one piece: other processes write too */
}

/* Only if the stream is as verbose as that. */
#define SPEC_TELL(level, stream, ...)                                                              \
    do {                                                                                           \
        if (opal_output_get_verbosity(stream) >= (level)) {                                        \
            spec_tell(stream, __VA_ARGS__);                                                        \
        }                                                                                          \
    } while (0)

#endif
