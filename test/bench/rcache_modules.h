/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Modules of Open MPI's rcache framework, for a program that is no component: by name, with an adapter
 * that only takes its time. */
#ifndef RCACHE_MODULES_H
#define RCACHE_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct rcache_module rcache_module_t;

typedef struct rcache_module_count {
    uint64_t made, bytes; /* registrations, and what they were of */
} rcache_module_count_t;

/* What registering takes: by itself, and for each page. */
extern double rcache_register_ns, rcache_register_ns_page;

int rcache_modules_start(int *argc, char ***argv); /* 0: fine */
void rcache_modules_end(void);

rcache_module_t *rcache_module_new(const char *component); /* NULL: there is none */
void rcache_module_delete(rcache_module_t *module);
void *rcache_module_register(rcache_module_t *module, void *address, size_t size); /* NULL: refused */
void rcache_module_deregister(rcache_module_t *module, void *registration);
bool rcache_module_evict(rcache_module_t *module);
rcache_module_count_t rcache_module_count(const rcache_module_t *module);

#endif
