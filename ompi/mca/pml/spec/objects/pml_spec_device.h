/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Buffers in the memory of an accelerator (GPU), which neither the processor nor a transport may touch: they are like buffers with
 * gaps, whose convertor asks the accelerator's component for each copy (docs/design/protocol.md, "Buffers in an accelerator").
 * A copy may fail. Open MPI's convertor ends the process then; ours notes it in the request, which ends in an error.
 *
 * Threads: as the request's. */
#ifndef PML_SPEC_DEVICE_H
#define PML_SPEC_DEVICE_H

#include "pml_spec_request.h"

/* Is the buffer of an MPI call in the memory of an accelerator? */
static inline bool mca_pml_spec_is_device(const void *buf, const ompi_datatype_t *dtype,
                                          size_t count)
{
    return OPAL_UNLIKELY(mca_pml_spec.devices) && count > 0
           && mca_pml_spec_on_device(mca_pml_spec_flat_base(buf, dtype));
}

/* The request's convertor is prepared for such a buffer: from now on copies that fail are noted in the request, as
 * its status. */
void mca_pml_spec_device_convertor(mca_pml_base_request_t *base);

/* Copies n bytes for the request. False: the device failed, which is noted in the same way. */
bool mca_pml_spec_device_move(mca_pml_base_request_t *base, void *to, const void *from, size_t n);

#endif
