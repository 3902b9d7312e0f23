/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The memory of the test accelerator: one file in memory, mapped twice. At its device address no access is allowed, so that a
 * program, a PML or a transport that touches it dies there, and the kernel refuses it to system calls (EFAULT). At its shadow
 * address the same bytes can be read and written: by the accelerator's copies, and by a test that looks at the result.
 *
 * Threads: any. Blocks are aligned as those of real devices are. */
#ifndef ARENA_H
#define ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reserves size bytes, once in a process; they take memory when they are written. False: the system has none, see errno. */
bool arena_open(size_t size);

/* A block of n bytes, by its device address; NULL: there is no room, or no arena. */
void *arena_take(size_t n);

/* The device address of a block that arena_take returned. */
void arena_give(void *device);

bool arena_is_device(const void *p);

/* The other address of the same byte; p itself if it is none of the one that is converted. */
void *arena_shadow(const void *p);
void *arena_device(const void *p);

/* The block that holds n bytes from p on, a device address: where it begins, how long it is, and a number that no other block
 * ever has. False: there is none. Pointers may be NULL. */
bool arena_block(const void *p, size_t n, void **base, size_t *size, uint64_t *id);

/* A file of the device's memory that can be mapped, opened anew at this device address; the caller closes it. -1: it is none,
 * or it cannot be opened. */
int arena_file(const void *p);

#endif
