/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Copies from and to the memory of an accelerator, for Open MPI's convertor. */
#include "pml_spec_device.h"

#include "pml_spec_explain.h"

static void failed(mca_pml_base_request_t *base, size_t n, int error)
{
    const bool sends = MCA_PML_REQUEST_SEND == base->req_type;
    int peer = base->req_peer;
    if (sends) {
        MCA_PML_SPEC_SENDREQ(base)->status = OMPI_ERROR;
    } else {
        MCA_PML_SPEC_RECVREQ(base)->status = OMPI_ERROR;
        peer =
            MCA_PML_SPEC_RECVREQ(base)->peer->rank; /* the data is here, so the sender is known */
    }
    MCA_PML_SPEC_COUNT(device_faults);
    mca_pml_spec_explain("device copy failed", spec_host_of(&ompi_proc_local()->super),
                         mca_pml_spec_my_rank(),
                         sends ? "read by a send to" : "written by a receive from", peer, n,
                         base->req_addr, opal_strerror(error), error);
}

bool mca_pml_spec_device_move(mca_pml_base_request_t *base, void *to, const void *from, size_t n)
{
    const int error = mca_pml_spec_device_copy(to, from, n);
    MCA_PML_SPEC_COUNT_N(bytes_device, n);
    if (OPAL_UNLIKELY(OPAL_SUCCESS != error)) {
        failed(base, n, error);
    }
    return OPAL_SUCCESS == error;
}

/* The memcpy of a convertor. */
static void *copy(void *to, const void *from, size_t n, opal_convertor_t *convertor)
{
    (void) mca_pml_spec_device_move(SPEC_ENTRY(convertor, mca_pml_base_request_t, req_convertor),
                                    to, from, n);
    return to;
}

void mca_pml_spec_device_convertor(mca_pml_base_request_t *base)
{
    mca_pml_spec_convertor_copies_by(&base->req_convertor, copy);
}
