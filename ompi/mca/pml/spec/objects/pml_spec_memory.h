/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* How much memory the processes of this host may use together. */
#ifndef PML_SPEC_MEMORY_H
#define PML_SPEC_MEMORY_H

#include <stdint.h>

/* Bytes: that of the machine, or less where the process's control group has a limit (a container, a batch system);
 * 0: not to be found out. */
uint64_t mca_pml_spec_memory_of_host(void);

#endif
