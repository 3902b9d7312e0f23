/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Help texts of the component: each is told once on a host, and seen although the job ends right after. */
#ifndef PML_SPEC_EXPLAIN_H
#define PML_SPEC_EXPLAIN_H

#include "pml_spec_compat.h"

#include "opal/include/spec/explain.h"

/* topic: of help-mpi-pml-spec.txt; what follows is what its text has places for. Any thread. */
#define mca_pml_spec_explain(topic, ...)                                                           \
    spec_explain("help-mpi-pml-spec.txt", topic, "", ##__VA_ARGS__)

/* The same after MPI_Init, also when processes are lost; once on a host for all that it is `about`, or "". */
#define mca_pml_spec_explain_surely(topic, about, ...)                                             \
    spec_explain_if(spec_tell_surely, "help-mpi-pml-spec.txt", topic, about, ##__VA_ARGS__)

/* Ends the job: there is no memory for `what` (a noun), of `bytes` bytes or more; 0: not known. Any thread, also with locks held. */
#define mca_pml_spec_no_memory(what, bytes)                                                        \
    do {                                                                                           \
        char spec_size[48] = "not known";                                                          \
        if ((bytes) > 0) {                                                                         \
            snprintf(spec_size, sizeof(spec_size), "%zu bytes or more", (size_t) (bytes));         \
        }                                                                                          \
        mca_pml_spec_explain_surely("out of memory", what,                                         \
                                    spec_host_of(&ompi_proc_local()->super),                       \
                                    mca_pml_spec_my_rank(), what, spec_size);                      \
        mca_pml_spec_abort(OMPI_ERR_OUT_OF_RESOURCE);                                              \
    } while (0)

#endif
