/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Processes that a transport has given up: every request with one ends in an error (docs/design/protocol.md, "A process is lost").
 *
 * Threads: any. A transport may tell from within any of its functions, so that the work is done from
 * opal_progress. */
#ifndef PML_SPEC_LOST_H
#define PML_SPEC_LOST_H

#include "../objects/pml_spec_comm.h"
#include "../objects/pml_spec_request.h"

/* A transport has given the process up. Once per process; a message is given. */
void mca_pml_spec_lost_report(opal_proc_t *proc, const char *transport, const char *why);

/* Forget all (at finalize). */
void mca_pml_spec_lost_fini(void);

#endif
