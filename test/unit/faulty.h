/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Functions of the system (or of another library) that fail when a test says so. A program that uses FAULTY is
 * linked with -Wl,--wrap=NAME for each; test/coverage and test/unit/mutants read the names from its source and
 * from the headers that it includes, where each FAULTY begins a line. */
#ifndef FAULTY_H
#define FAULTY_H

#include <errno.h>
#include <stdbool.h>

typedef struct faulty {
    unsigned skip;      /* calls that succeed before */
    unsigned times;     /* then so many fail */
    int error;          /* with this errno */
    unsigned hits;      /* so many have failed */
    unsigned long size; /* for allocations: only those of so many bytes; 0: all */
} faulty_t;

static inline bool faulty_now(faulty_t *f)
{
    if (0 == f->times) {
        return false;
    }
    if (f->skip > 0) {
        --f->skip;
        return false;
    }
    --f->times;
    ++f->hits;
    errno = f->error;
    return true;
}

/* FAULTY(result, name, what it returns when it fails, (parameters), (arguments)): faulty_NAME is what goes wrong. */
#define FAULTY(type, name, failure, parameters, arguments)                                         \
    static faulty_t faulty_##name;                                                                 \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        return faulty_now(&faulty_##name) ? failure : __real_##name arguments;                     \
    }

#endif
