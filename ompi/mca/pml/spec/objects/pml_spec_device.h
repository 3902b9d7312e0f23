/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Buffers in the memory of an accelerator (GPU), which neither the processor nor a transport may touch: they are like buffers with
 * gaps, whose convertor asks the accelerator's component for each copy (docs/design/protocol.md, "Buffers in an accelerator").
 * A copy may fail. Open MPI's convertor ends the process then; ours notes it in the request, which ends in an error.
 *
 * Whole pieces of a message are copied beside the processor: by a stream of the device, which says by an event when a copy is over. Events
 * are polled from progress, while there are any.
 *
 * Threads: of the convertor, as the request's; of what follows, any. */
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

/* Where the bytes are of a buffer of one block. */
static inline char *mca_pml_spec_device_at(const mca_pml_base_request_t *base)
{
    return mca_pml_spec_flat_base(base->req_addr, base->req_datatype);
}

/* The request's convertor is prepared for such a buffer: from now on copies that fail are noted in the request, as
 * its status. */
void mca_pml_spec_device_convertor(mca_pml_base_request_t *base);

/* Copies n bytes for the request. False: the device failed, which is noted in the same way. */
bool mca_pml_spec_device_move(mca_pml_base_request_t *base, void *to, const void *from, size_t n);

/* A copy that the device makes by itself. */
typedef struct mca_pml_spec_device_job {
    mca_pml_base_request_t *base; /* where a failure is noted */
    bool to_device;               /* or from it; the other side is host memory */
    void *to;
    const void *from;
    uint64_t n; /* bytes */
    /* The copy is over; false: it failed, as is noted. Called once, with no lock, from progress or within the call that begins it. */
    void (*ended)(const struct mca_pml_spec_device_job *job, bool is_there);
    void *object; /* the caller's, as what follows */
    uint64_t offset;
    uint32_t slot;
} mca_pml_spec_device_job_t;

/* One that is under way. */
typedef struct mca_pml_spec_device_late {
    opal_free_list_item_t super;
    mca_pml_spec_pending_t pending;
    mca_pml_spec_device_job_t job;
    mca_pml_spec_event_t *event; /* behind it; NULL: never needed yet */
    int error;                   /* it could not be recorded */
} mca_pml_spec_device_late_t;
OBJ_CLASS_DECLARATION(mca_pml_spec_device_late_t);

/* Begins it, or where the device has no streams makes it. Until it has ended the caller keeps the request, and is a user of the
 * program's memory (mca_pml_spec_use). */
void mca_pml_spec_device_begin(const mca_pml_spec_device_job_t *job);

/* Is any under way? */
bool mca_pml_spec_device_is_busy(void);

void mca_pml_spec_device_init(void);

/* Waits for those that are under way; nobody is told of them. */
void mca_pml_spec_device_fini(void);

#endif
