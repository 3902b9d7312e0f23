/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A message in lines that fit a terminal, behind the names of host and process that Open MPI puts before the first. Pure. */
#ifndef SPEC_WRAP_H
#define SPEC_WRAP_H

#include <stddef.h>
#include <string.h>

enum {
    SPEC_WRAP_COLUMNS = 76, /* of a line: with up to 24 of "[host:pid] " it has 100 */
    SPEC_WRAP_TEXT = 1024,
};

/* Breaks text at spaces into lines of at most SPEC_WRAP_COLUMNS, those after the first indented by four; a word that is longer
 * has a line of its own. out has `size` bytes; what does not fit is cut off. */
static inline void spec_wrap(const char *text, char *out, size_t size)
{
    size_t n = 0, column = 0;
    while ('\0' != *text) {
        const size_t word = strcspn(text, " \n");
        const int breaks = n > 0 && column + 1 + word > SPEC_WRAP_COLUMNS;
        const char *between = breaks ? "\n    " : 0 == n ? "" : " ";
        const size_t gap = strlen(between);
        if (n + gap + word + 1 > size) {
            break;
        }
        memcpy(out + n, between, gap);
        memcpy(out + n + gap, text, word);
        n += gap + word;
        column = breaks ? 4 + word : column + gap + word;
        text += word;
        text += '\0' != *text;
    }
    out[n] = '\0';
}

#endif
