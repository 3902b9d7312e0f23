/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Ends all requests with a process that a transport has given up. */
#include "pml_spec_lost.h"

#include "../objects/pml_spec_complete.h"
#include "../objects/pml_spec_explain.h"
#include "../objects/pml_spec_packet.h"
#include "pml_spec_cancel.h"

/* ---- ending what was going on with it ---- */

/* Messages that were coming from it in parts to receives, into *parts; no more parts come. The communicator's lock is held. */
static void take_parts(mca_pml_spec_peer_t *peer, spec_node_t *parts)
{
    spec_node_t *n;
    while (NULL != (n = spec_list_pop(&peer->parts))) {
        if (!SPEC_ENTRY(n, spec_parts_t, node)->is_kept) { /* else no receive has taken it yet */
            spec_list_append(parts, n);
        }
    }
}

/* Other threads may be copying what has come. */
static void fail_parts(spec_node_t *parts)
{
    spec_node_t *n;
    while (NULL != (n = spec_list_pop(parts))) {
        mca_pml_spec_recv_request_t *recvreq =
            SPEC_ENTRY(n, mca_pml_spec_recv_request_t, parts.node);
        mca_pml_spec_recv_give_up(recvreq, spec_parts_left(&recvreq->parts));
    }
}

/* Receives that wait for the process in one communicator, and sends that wait to know its number. */
static void fail_waiting(mca_pml_spec_comm_t *comm, int32_t rank)
{
    spec_node_t receives, parts, sends, *n;
    spec_list_init(&receives);
    spec_list_init(&parts);
    spec_list_init(&sends);
    mca_pml_spec_peer_t *peer = mca_pml_spec_peer(comm, rank);
    mca_pml_spec_lock(&comm->slot->lock);
    if (NULL != peer) {
        __atomic_store_n(&peer->open, NULL, __ATOMIC_RELEASE);
        /* No REVOKED will come. */
        (void) mca_pml_spec_add32(&mca_pml_spec.revokes,
                                  -(int32_t) spec_recv_answer_all(&peer->recv));
    }
    spec_match_take_source(&comm->match, rank, &receives);
    if (NULL != peer) {
        take_parts(peer, &parts);
    }
    mca_pml_spec_unlock(&comm->slot->lock);
    if (NULL != peer) {
        mca_pml_spec_lock(&peer->send_lock);
        while (NULL != (n = spec_list_pop(&peer->waiting))) {
            spec_list_append(&sends, n);
        }
        mca_pml_spec_unlock(&peer->send_lock);
        mca_pml_spec_revokes_finish(peer);
    }
    while (NULL != (n = spec_list_pop(&receives))) {
        mca_pml_spec_recv_fail(SPEC_ENTRY(n, mca_pml_spec_recv_request_t, posted.node),
                               OMPI_ERR_UNREACH);
    }
    fail_parts(&parts);
    while (NULL != (n = spec_list_pop(&sends))) {
        mca_pml_spec_send_unreachable(SPEC_ENTRY(n, mca_pml_spec_send_request_t, unnoticed));
    }
}

static void set_lost(mca_pml_base_request_t *base, int32_t source, int32_t tag)
{
    ompi_status_public_t *status = &base->req_ompi.req_status;
    status->MPI_SOURCE = source;
    status->MPI_TAG = tag;
    status->MPI_ERROR = mca_pml_spec_mpi_error(OMPI_ERR_UNREACH);
    status->_ucount = 0;
}

/* Requests that wait for a packet of it: those have handles. While a handle is open its request is
 * not DONE, so that nobody can take away what was claimed. */
static void fail_answerless(const mca_pml_spec_lost_t *lost)
{
    for (uint32_t cursor = 0;;) {
        mca_pml_spec_send_request_t *sendreq;
        mca_pml_spec_lock(&mca_pml_spec.lock);
        while (NULL != (sendreq = spec_handle_next(&mca_pml_spec.send_handles, &cursor))
               && !(mca_pml_spec_is_same(sendreq->peer->proc->super.proc_name, lost->name)
                    && spec_life_lose(&sendreq->life))) {}
        mca_pml_spec_unlock(&mca_pml_spec.lock);
        if (NULL == sendreq) {
            break;
        }
        if (!sendreq->told) {
            set_lost(&sendreq->req_send.req_base, sendreq->peer->comm->my_rank,
                     sendreq->req_send.req_base.req_tag);
        }
        mca_pml_spec_send_lost(sendreq);
    }
    for (uint32_t cursor = 0;;) {
        mca_pml_spec_recv_request_t *recvreq;
        mca_pml_spec_lock(&mca_pml_spec.lock);
        while (NULL != (recvreq = spec_handle_next(&mca_pml_spec.recv_handles, &cursor))
               && !(MCA_PML_SPEC_SEEN(recvreq->stage) >= MCA_PML_SPEC_MATCHED
                    && mca_pml_spec_is_same(recvreq->peer->proc->super.proc_name, lost->name)
                    && spec_life_lose(&recvreq->life))) {}
        mca_pml_spec_unlock(&mca_pml_spec.lock);
        if (NULL == recvreq) {
            break;
        }
        const ompi_status_public_t *status = &recvreq->req_recv.req_base.req_ompi.req_status;
        set_lost(&recvreq->req_recv.req_base, status->MPI_SOURCE, status->MPI_TAG);
        mca_pml_spec_recv_lost(recvreq);
    }
}

static bool turn(mca_pml_spec_pending_t *pending)
{
    const mca_pml_spec_lost_t *lost = SPEC_ENTRY(pending, mca_pml_spec_lost_t, pending);
    mca_pml_spec_comm_t *comm;
    for (uint32_t cid = 0; NULL != (comm = mca_pml_spec_comm_next(&cid));) {
        const int32_t rank = mca_pml_spec_rank_of(comm, lost->name);
        if (rank >= 0) {
            fail_waiting(comm, rank);
        }
        mca_pml_spec_comm_put(comm);
    }
    fail_answerless(lost);
    return true;
}

static void tell(const mca_pml_spec_lost_t *lost, const opal_proc_t *proc, const char *transport,
                 const char *why)
{
    const bool is_of_this_job = lost->name.jobid == mca_pml_spec_job_id();
    char about[32];
    snprintf(about, sizeof(about), "%x.%x", (unsigned) lost->name.jobid,
             (unsigned) lost->name.vpid);
    mca_pml_spec_explain_surely("process lost", about, (unsigned) lost->name.vpid,
                                is_of_this_job ? "this job" : "another job", spec_host_of(proc),
                                mca_pml_spec_my_rank(), spec_host_of(&ompi_proc_local()->super),
                                transport, why);
}

void mca_pml_spec_lost_report(opal_proc_t *proc, const char *transport, const char *why)
{
    mca_pml_spec_lost_t *lost = malloc(sizeof(*lost));
    if (NULL == lost) {
        mca_pml_spec_no_memory("the name of a process that is lost", sizeof(*lost));
    }
    *lost = (mca_pml_spec_lost_t){.pending = {.retry = turn}, .name = proc->proc_name};
    mca_pml_spec_lock(&mca_pml_spec.lock);
    const mca_pml_spec_lost_t *known = mca_pml_spec.lost;
    while (NULL != known && !mca_pml_spec_is_same(known->name, lost->name)) {
        known = known->next;
    }
    if (NULL == known) {
        lost->next = mca_pml_spec.lost;
        mca_pml_spec.lost = lost;
        ++mca_pml_spec.lost_n;
    }
    mca_pml_spec_unlock(&mca_pml_spec.lock);
    if (NULL != known) {
        free(lost);
        return;
    }
    tell(lost, proc, transport, NULL == why ? "no details" : why);
    mca_pml_spec_pend(&lost->pending, MCA_PML_SPEC_RES_NONE);
}

void mca_pml_spec_lost_fini(void)
{
    while (NULL != mca_pml_spec.lost) {
        mca_pml_spec_lost_t *lost = mca_pml_spec.lost;
        mca_pml_spec.lost = lost->next;
        free(lost);
    }
    mca_pml_spec.lost_n = 0;
}
