/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Processes over adapters that are not there (verbs_processes.h), for tests of what fails: allocations that do, by their
 * size, and a check of what is left open. */
#ifndef VERBS_FAULTS_H
#define VERBS_FAULTS_H

#include "verbs_processes.h"

#include "descriptors.h"
#include "faulty.h"

/* Allocations by their size, so that those of the adapters that are not there are not meant. */
static faulty_t out;

static inline bool is_out(size_t size)
{
    return (0 == out.size || size == out.size) && faulty_now(&out);
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    return is_out(size) ? NULL : __real_malloc(size);
}
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
    return is_out(n * size) ? NULL : __real_calloc(n, size);
}
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return is_out(size) ? NULL : __real_aligned_alloc(alignment, size);
}

static int open_before;

static inline int setup_faults(void **state)
{
    (void) setup(state);
    out = (faulty_t){.times = 0};
    open_before = descriptors();
    return 0;
}

/* Nothing is left: no descriptor either. */
static inline int teardown_faults(void **state)
{
    const int rc = teardown(state);
    assert_int_equal(descriptors(), open_before);
    return rc;
}

#endif
