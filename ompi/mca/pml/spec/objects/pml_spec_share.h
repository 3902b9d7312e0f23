/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Memory that other processes of this host map: a file without a name in any file system, so that nothing of it outlives the
 * process, found among the open files of its process below /proc. It cannot shrink, and its pages are there: so no access to it
 * fails later. A process of another user, or of a container with processes of its own, does not reach it.
 *
 * Threads: any. */
#ifndef PML_SPEC_SHARE_H
#define PML_SPEC_SHARE_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed memory of this process; *fd is its file, to be closed when it is unmapped. NULL: there is none to be had. */
void *mca_pml_spec_share_make(const char *name, size_t size, int *fd);

/* Another process's memory of that size. NULL: it is not reached, or the file is none of these. What is in it the other process may
 * change at any time. */
void *mca_pml_spec_share_reach(uint32_t pid, uint16_t fd, size_t size);

#endif
