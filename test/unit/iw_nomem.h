/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Memory that is out for the engine when a test wants it: malloc, calloc and realloc of the test's own, linked in place of the
 * system's; the simulated network has the real ones. */
#ifndef IW_NOMEM_H
#define IW_NOMEM_H

#include "faulty.h"

/* Whichever of the three is called: the n-th time. */
static faulty_t out;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);

void *__wrap_malloc(size_t size)
{
    return faulty_now(&out) ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return faulty_now(&out) ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
    return faulty_now(&out) ? NULL : __real_realloc(p, size);
}

/* The simulated network's memory is not what is tested. */
#define malloc  __real_malloc
#define realloc __real_realloc
#include "iw_wicked.h"
#undef malloc
#undef realloc

#endif
