/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* An input as a script: bytes are taken until none is left, then all that is asked for is 0. */
#ifndef FUZZ_SCRIPT_H
#define FUZZ_SCRIPT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

typedef struct script {
    const uint8_t *at;
    size_t left;
} script_t;

static inline unsigned next(script_t *s)
{
    if (0 == s->left) {
        return 0;
    }
    --s->left;
    return *s->at++;
}

static inline unsigned next16(script_t *s)
{
    const unsigned high = next(s);
    return high << 8 | next(s);
}

static inline uint32_t next32(script_t *s)
{
    const uint32_t high = next16(s);
    return high << 16 | next16(s);
}

#endif
