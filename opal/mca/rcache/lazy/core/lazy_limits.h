/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* How much memory a process keeps registered where no parameter says so: from the limit of locked memory, the memory of the
 * host and the processes on it. */
#ifndef LAZY_LIMITS_H
#define LAZY_LIMITS_H

#include <stddef.h>
#include <stdint.h>

typedef struct lazy_limits {
    size_t bytes, entries;
} lazy_limits_t;

/* memlock: what the process may lock (RLIMIT_MEMLOCK), UINT64_MAX: any amount. physical: memory of the
 * host. processes: of the job on this host, at least 1. All in bytes.
 *
 * A quarter of what may be locked is left to buffers that are never cached, and half of the memory,
 * divided evenly, to everything else on the host. Entries: as many as fill the bytes with
 * registrations of LAZY_TYPICAL bytes, within bounds that keep the adapter's tables and the work of
 * finding a victim small. */
#define LAZY_TYPICAL     (UINT64_C(64) << 10)
#define LAZY_ENTRIES_MIN 64
#define LAZY_ENTRIES_MAX 16384
lazy_limits_t lazy_limits_default(uint64_t memlock, uint64_t physical, uint32_t processes);

#endif
