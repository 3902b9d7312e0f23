/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* MPI_Start and MPI_Startall on persistent requests. */
#include "pml_spec_calls.h"

/* The request is complete for MPI but the PML still works on it (a buffered send, or the completion
 * that woke the caller is not over yet): let it end by itself, and run this start on a new request
 * in its place. */
static int replace_busy(ompi_request_t **request)
{
    mca_pml_base_request_t *base = (mca_pml_base_request_t *) *request;
    ompi_request_t *fresh;
    int rc = MCA_PML_REQUEST_SEND == base->req_type
                 ? mca_pml_spec_isend_init(base->req_addr, base->req_count, base->req_datatype,
                                           base->req_peer, base->req_tag,
                                           MCA_PML_SPEC_SENDREQ(base)->req_send.req_send_mode,
                                           base->req_comm, &fresh)
                 : mca_pml_spec_irecv_init(base->req_addr, base->req_count, base->req_datatype,
                                           base->req_peer, base->req_tag, base->req_comm, &fresh);
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    fresh->req_complete_cb = (*request)->req_complete_cb;
    fresh->req_complete_cb_data = (*request)->req_complete_cb_data;
    ompi_request_free(request);
    *request = fresh;
    return OMPI_SUCCESS;
}

int mca_pml_spec_start(size_t count, ompi_request_t **requests)
{
    for (size_t i = 0; i < count; ++i) {
        mca_pml_base_request_t *base = (mca_pml_base_request_t *) requests[i];
        int rc = OMPI_SUCCESS;
        if (NULL == base || OMPI_REQUEST_PML != requests[i]->req_type) {
            continue;
        }
        if (OMPI_REQUEST_ACTIVE == requests[i]->req_state && !REQUEST_COMPLETE(requests[i])) {
            return OMPI_ERR_REQUEST; /* started twice */
        }
        const bool sends = MCA_PML_REQUEST_SEND == base->req_type;
        const volatile int32_t *life =
            sends ? &MCA_PML_SPEC_SENDREQ(base)->life : &MCA_PML_SPEC_RECVREQ(base)->life;
        if (!spec_life_is_done(MCA_PML_SPEC_SEEN(*life))) {
            rc = replace_busy(&requests[i]);
        }
        if (OMPI_SUCCESS == rc) {
            rc = sends ? mca_pml_spec_send_start(MCA_PML_SPEC_SENDREQ(requests[i]),
                                                 MCA_PML_SPEC_BY_ISEND)
                       : mca_pml_spec_recv_start(MCA_PML_SPEC_RECVREQ(requests[i]), false);
        }
        if (OMPI_SUCCESS != rc) {
            return rc;
        }
    }
    return OMPI_SUCCESS;
}
