/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* MPI's probe calls: search the unexpected messages, and for matched probes take one out. */
#include "pml_spec_calls.h"

#include "../dispatch/pml_spec_arrive.h"
#include "../services/pml_spec_flow.h"

/* Search once. With `message` what is found leaves the queue, into it. What is told of it is copied under the
 * lock: otherwise another thread may receive it meanwhile. */
static bool probe_once(ompi_communicator_t *ompi_comm, int src, int tag, ompi_message_t *message,
                       ompi_status_public_t *status)
{
    ompi_status_public_t found = ompi_status_empty;
    mca_pml_spec_comm_t *comm = mca_pml_spec_comm_of(ompi_comm);
    mca_pml_spec_lock(&comm->slot->lock);
    spec_unexp_t *unexp = spec_match_find_unexp(&comm->match, src, tag);
    if (NULL != unexp) {
        mca_pml_spec_frag_t *frag = SPEC_ENTRY(unexp, mca_pml_spec_frag_t, unexp);
        found.MPI_SOURCE = unexp->src;
        found.MPI_TAG = unexp->tag;
        found._ucount = mca_pml_spec_message_length(frag);
        if (NULL != message) {
            mca_pml_spec_unexp_take(comm, frag);
            message->req_ptr = frag;
            message->peer = found.MPI_SOURCE;
            message->count = found._ucount;
        }
    } else {
        mca_pml_spec_flow_wants(comm, src);
    }
    mca_pml_spec_unlock(&comm->slot->lock);
    if (NULL != unexp && MPI_STATUS_IGNORE != status) {
        OMPI_COPY_STATUS(status, found, false);
    }
    return NULL != unexp;
}

/* Why a probe that finds nothing will never find anything, or MPI_SUCCESS. */
static int why_never(ompi_communicator_t *ompi_comm, int src, int tag)
{
    mca_pml_spec_comm_t *comm = mca_pml_spec_comm_of(ompi_comm);
    if (OPAL_UNLIKELY(mca_pml_spec.lost_n > 0) && src >= 0) {
        mca_pml_spec_peer_t *peer = mca_pml_spec_peer(comm, src);
        if (NULL != peer && mca_pml_spec_lost(peer)) {
            return mca_pml_spec_mpi_error(OMPI_ERR_UNREACH);
        }
    }
    return mca_pml_spec_probe_error(ompi_comm, src, tag);
}

/* Search; if there is nothing, let the transports bring what they have and search again: once, or, if the caller waits, until
 * there is something or an error that will not go away. */
static int probe(ompi_communicator_t *comm, int src, int tag, bool waits, ompi_message_t *message,
                 ompi_status_public_t *status, int *found)
{
    bool last = false;
    while (!(*found = probe_once(comm, src, tag, message, status))) {
        const int error = waits || last ? why_never(comm, src, tag) : MPI_SUCCESS;
        if (last || OPAL_UNLIKELY(MPI_SUCCESS != error)) {
            return error;
        }
        opal_progress();
        last = !waits;
    }
    return OMPI_SUCCESS;
}

/* What is found leaves the queue, into an object that was made before, so that none is lost for want of memory. It keeps the
 * communicator, which the program may free before it receives the message. */
static int probe_matched(ompi_communicator_t *comm, int src, int tag, bool waits,
                         ompi_message_t **message, ompi_status_public_t *status, int *found)
{
    ompi_message_t *fresh = ompi_message_alloc();
    *found = false;
    if (NULL == fresh) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    OBJ_RETAIN(comm);
    fresh->comm = comm;
    const int rc = probe(comm, src, tag, waits, fresh, status, found);
    if (*found) {
        *message = fresh;
    } else {
        OBJ_RELEASE(comm);
        ompi_message_return(fresh);
    }
    return rc;
}

int mca_pml_spec_iprobe(int src, int tag, ompi_communicator_t *comm, int *matched,
                        ompi_status_public_t *status)
{
    return probe(comm, src, tag, false, NULL, status, matched);
}

int mca_pml_spec_probe(int src, int tag, ompi_communicator_t *comm, ompi_status_public_t *status)
{
    int found;
    return probe(comm, src, tag, true, NULL, status, &found);
}

int mca_pml_spec_improbe(int src, int tag, ompi_communicator_t *comm, int *matched,
                         ompi_message_t **message, ompi_status_public_t *status)
{
    return probe_matched(comm, src, tag, false, message, status, matched);
}

int mca_pml_spec_mprobe(int src, int tag, ompi_communicator_t *comm, ompi_message_t **message,
                        ompi_status_public_t *status)
{
    int found;
    return probe_matched(comm, src, tag, true, message, status, &found);
}
