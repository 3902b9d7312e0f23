/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The module that Open MPI calls: it starts, learns of processes, hears of failed transports, and ends. */
#include "pml_spec_calls.h"

#include "../dispatch/pml_spec_arrive.h"
#include "../objects/pml_spec_agent.h"
#include "../objects/pml_spec_cico.h"
#include "../objects/pml_spec_complete.h"
#include "../objects/pml_spec_device.h"
#include "../objects/pml_spec_explain.h"
#include "../objects/pml_spec_slabs.h"
#include "../objects/pml_spec_stage.h"
#include "../objects/pml_spec_upward.h"
#include "../objects/pml_spec_wait.h"
#include "../objects/pml_spec_yield.h"
#include "../services/pml_spec_adapt.h"
#include "../services/pml_spec_cancel.h"
#include "../services/pml_spec_claims.h"
#include "../services/pml_spec_copy.h"
#include "../services/pml_spec_flow.h"
#include "../services/pml_spec_hello.h"
#include "../services/pml_spec_joint.h"
#include "../services/pml_spec_lost.h"
#include "../services/pml_spec_slots.h"
#include "../services/pml_spec_pin.h"
#include "../services/pml_spec_pipe.h"
#include "../services/pml_spec_transfer.h"
#include "../services/pml_spec_why.h"
#include "pml_spec_report.h"

/* The selected PML makes the last two, the lists of requests that debuggers read. */
#define LIST(list, type)                                                                           \
    {                                                                                              \
        &(list), sizeof(type), OBJ_CLASS(type)                                                     \
    }
static const struct {
    opal_free_list_t *list;
    size_t size;
    opal_class_t *class;
} lists[] = {
    LIST(mca_pml_spec.frags, mca_pml_spec_frag_t),
    LIST(mca_pml_spec.transfers, mca_pml_spec_transfer_t),
    LIST(mca_pml_spec.pipes, mca_pml_spec_pipe_t),
    LIST(mca_pml_spec.ranges, mca_pml_spec_range_t),
    LIST(mca_pml_spec.late_copies, mca_pml_spec_device_late_t),
    LIST(mca_pml_spec.rtrs, mca_pml_spec_rtr_t),
    LIST(mca_pml_base_send_requests, mca_pml_spec_send_request_t),
    LIST(mca_pml_base_recv_requests, mca_pml_spec_recv_request_t),
};
/* A list begins with a page of objects at most, so that the first message need not wait for more. */
enum { OWN_LISTS = 6, FIRST_OBJECTS = 4, LIST_GROWTH = 64 };

int mca_pml_spec_enable(bool enable)
{
    if (!enable || mca_pml_spec.enabled) {
        return OMPI_SUCCESS;
    }
    const char *agent = mca_pml_spec_agent_prepare();
    if (NULL != agent && mca_pml_spec.verbose >= MCA_PML_SPEC_WHY) {
        mca_pml_spec_why_agent(agent);
    }
    if (opal_using_threads() || ompi_mpi_thread_multiple) {
        mca_pml_spec.threaded = true;
        mca_pml_spec_yield_begin();
        mca_pml_spec_wait_begin();
        mca_pml_spec_avoid_fast_boxes();
    }
    mca_pml_spec.my_name = spec_name_of(&ompi_proc_local()->super);
    OBJ_CONSTRUCT(&mca_pml_spec.lock, opal_mutex_t);
    mca_pml_spec_slabs_init();
    mca_pml_spec_stage_init();
    mca_pml_spec_device_init();
    mca_pml_spec_adapt_init();
    mca_pml_spec_profile_load();
    mca_pml_spec_flow_init();
    spec_retry_init(&mca_pml_spec.retry);
    /* What the last session has left: it may have been waiting for a process that was lost. */
    mca_pml_spec.revokes = mca_pml_spec.late_revokes = 0;
    mca_pml_spec.offers = mca_pml_spec.announced = 0;
    mca_pml_spec_copy_init();
    mca_pml_spec_joint_init();
    mca_pml_spec_pin_init();
    spec_list_init(&mca_pml_spec.early_hellos);
    mca_pml_spec_bytes_convertor_init(&mca_pml_spec.bytes);
    for (size_t i = 0; i < OWN_LISTS; ++i) {
        OBJ_CONSTRUCT(lists[i].list, opal_free_list_t);
    }
    mca_pml_spec.enabled = true;
    int rc = OMPI_SUCCESS;
    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists) && OMPI_SUCCESS == rc; ++i) {
        rc = opal_free_list_init(lists[i].list, lists[i].size, opal_cache_line_size, lists[i].class,
                                 0, opal_cache_line_size, FIRST_OBJECTS, -1, LIST_GROWTH, NULL, 0,
                                 NULL, NULL, NULL);
    }
    return rc;
}

void mca_pml_spec_finalize(void)
{
    if (!mca_pml_spec.enabled) {
        return;
    }
    mca_pml_spec.enabled = false;
    mca_pml_spec_agent_end();
    mca_pml_spec_yield_end();
    mca_pml_spec_wait_end();
    mca_pml_spec_device_fini(); /* before the memory that is copied goes */
    mca_pml_spec_pending_close();
    spec_retry_fini(&mca_pml_spec.retry);
    mca_pml_spec_cids_fini();
    mca_pml_spec_hellos_fini();
    mca_pml_spec_lost_fini();
    mca_pml_spec_claims_fini();
    mca_pml_spec_cico_fini();
    mca_pml_spec_slots_fini();
    mca_pml_spec_adapt_fini();
    spec_handle_fini(&mca_pml_spec.send_handles);
    spec_handle_fini(&mca_pml_spec.recv_handles);
    OBJ_DESTRUCT(&mca_pml_spec.bytes);
    for (size_t i = 0; i < OWN_LISTS; ++i) {
        OBJ_DESTRUCT(lists[i].list);
    }
    mca_pml_spec_slabs_fini();
    mca_pml_spec_stage_fini();
    OBJ_DESTRUCT(&mca_pml_spec.lock);
}

/* Are only others used for the process? Then it carried for one of them (btl/ibx has tcp), which sees to what is lost. Where
 * none is used any more nobody would. */
static bool is_for_others(const mca_btl_base_module_t *btl, opal_proc_t *proc)
{
    mca_bml_base_endpoint_t *endpoint =
        NULL == proc ? NULL : ((ompi_proc_t *) proc)->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_BML];
    return NULL != endpoint && endpoint->btl_send.arr_size > 0
           && NULL == mca_pml_spec_find_btl(endpoint, btl);
}

/* A transport has given up one process, or altogether. */
static void transport_failed(mca_btl_base_module_t *btl, int32_t flags, opal_proc_t *proc,
                             char *info)
{
    (void) flags;
    if (mca_pml_spec_is_ending()) {
        return;
    }
    if (NULL != proc && proc->proc_name.jobid != mca_pml_spec_job_id()
        && !mca_pml_spec_is_member(proc)) {
        MCA_PML_SPEC_VERBOSE(10, "a process of another job that is disconnected has ended");
        return;
    }
    if (is_for_others(btl, proc) || mca_pml_spec_goes_on_without(proc)) {
        return;
    }
    if (NULL != proc) {
        mca_pml_spec_lost_report(proc, btl->btl_component->btl_version.mca_component_name, info);
        return;
    }
    const char *name = btl->btl_component->btl_version.mca_component_name;
    mca_pml_spec_explain_surely("transport failed", name, name, mca_pml_spec_my_rank(),
                                spec_host_of(&ompi_proc_local()->super),
                                NULL == info ? "no details" : info);
    mca_pml_spec_abort(OMPI_ERR_UNREACH);
}

/* Control packets are sent whole: no transport may have a smaller eager limit. *is_told: an error has been told. */
static int check_transports(bool *is_told)
{
    mca_btl_base_selected_module_t *selected;
    OPAL_LIST_FOREACH (selected, &mca_btl_base_modules_initialized,
                       mca_btl_base_selected_module_t) {
        const mca_btl_base_module_t *btl = selected->btl_module;
        const size_t least = sizeof(mca_pml_spec_rtr_hdr_t) + btl->btl_registration_handle_size;
        if ((btl->btl_flags & MCA_BTL_FLAGS_SEND)
            && (btl->btl_eager_limit < least || btl->btl_max_send_size < least)) {
            const char *name = selected->btl_component->btl_version.mca_component_name;
            mca_pml_spec_explain("eager limit too small", name, name, (size_t) btl->btl_eager_limit,
                                 name, (size_t) btl->btl_max_send_size, least);
            *is_told = true;
            return OMPI_ERR_BAD_PARAM;
        }
    }
    return OMPI_SUCCESS;
}

/* Do all of them use this component, on machines of one kind? If not, that is told. */
static int check_procs(ompi_proc_t **procs, size_t nprocs)
{
    const int rc = mca_pml_base_pml_check_selected("spec", procs, nprocs);
    if (OMPI_ERR_UNREACH == rc) {
        mca_pml_spec_explain("mixed selection");
        return OMPI_ERR_NOT_SUPPORTED;
    }
    if (OMPI_SUCCESS != rc) {
        mca_pml_spec_explain("selection unknown", opal_strerror(rc));
        return rc;
    }
    for (size_t i = 0; i < nprocs; ++i) {
        if (procs[i]->super.proc_arch != ompi_proc_local()->super.proc_arch) {
            mca_pml_spec_explain("mixed architectures", spec_host_of(&procs[i]->super));
            return OMPI_ERR_NOT_SUPPORTED;
        }
    }
    return OMPI_SUCCESS;
}

/* *is_told: an error has been told. */
static int add(ompi_proc_t **procs, size_t nprocs, bool *is_told)
{
    *is_told = false;
    if (0 == nprocs) {
        return OMPI_SUCCESS;
    }
    int rc = check_procs(procs, nprocs);
    if (OMPI_SUCCESS != rc) {
        *is_told = true;
        return rc;
    }
    opal_bitmap_t reachable;
    OBJ_CONSTRUCT(&reachable, opal_bitmap_t);
    rc = opal_bitmap_init(&reachable, (int) nprocs);
    if (OMPI_SUCCESS == rc) {
        rc = mca_bml.bml_add_procs(nprocs, procs, &reachable);
    }
    OBJ_DESTRUCT(&reachable);
    if (OMPI_SUCCESS == rc) {
        rc = check_transports(is_told);
    }
    if (OMPI_SUCCESS == rc) {
        rc = mca_pml_spec_arrive_register();
    }
    if (OMPI_SUCCESS == rc) {
        rc = mca_bml.bml_register_error(transport_failed);
    }
    return rc;
}

/* The transports in use, each once, as text. */
static const char *transports(char *text, size_t size)
{
    mca_btl_base_selected_module_t *selected;
    const char *before = "";
    size_t at = 0;
    text[0] = '\0';
    OPAL_LIST_FOREACH (selected, &mca_btl_base_modules_initialized,
                       mca_btl_base_selected_module_t) {
        const char *name = selected->btl_component->btl_version.mca_component_name;
        if (0 != strcmp(name, before) && at < size) {
            at += (size_t) snprintf(text + at, size - at, "%s%s", 0 == at ? "" : ", ", name);
        }
        before = name;
    }
    return 0 == at ? "none" : text;
}

/* Open MPI has no words for an MPI_Init that fails ("Unknown error"), whatever it returns. So the cause is told, once, and the
 * job ends, here. A session that cannot begin (5.0) returns the error. */
static int add_procs(ompi_proc_t **procs, size_t nprocs)
{
    bool is_told;
    const int rc = add(procs, nprocs, &is_told);
    if (OMPI_SUCCESS != rc && mca_pml_spec_is_starting()) {
        const char *host = spec_host_of(&ompi_proc_local()->super);
        char text[256];
        if (OMPI_ERR_UNREACH == rc && !is_told) {
            mca_pml_spec_explain("no transport", host, transports(text, sizeof(text)));
        } else if (!is_told) {
            mca_pml_spec_explain("cannot begin", host, opal_strerror(rc));
        }
        mca_pml_spec_abort(rc);
    }
    return rc;
}

static int del_procs(ompi_proc_t **procs, size_t nprocs)
{
    return mca_bml.bml_del_procs(nprocs, procs);
}

static int dump(ompi_communicator_t *ompi_comm, int verbose)
{
    mca_pml_spec_comm_t *comm = mca_pml_spec_comm_of(ompi_comm);
    if (NULL == comm) {
        return OMPI_SUCCESS;
    }
    opal_output(0, "communicator %s: id %u, epoch %u, %u receives posted, %u messages unexpected",
                mca_pml_spec_comm_name(ompi_comm), comm->cid, comm->epoch, comm->match.posted_n,
                comm->match.unexp_n);
    for (uint32_t i = 0; i < comm->size; ++i) {
        mca_pml_spec_peer_t *peer = comm->peers[i];
        if (NULL == peer) {
            continue;
        }
        opal_output(0, "  rank %u: sent %u messages, processed %u, keeps %u RTRs", i,
                    peer->send.nxt, peer->recv.msgs.nxt, spec_send_kept(&peer->send));
        for (size_t b = 0;
             verbose && NULL != peer->endpoint && b < peer->endpoint->btl_eager.arr_size; ++b) {
            mca_bml_base_btl_t *bml_btl = &peer->endpoint->btl_eager.bml_btls[b];
            if (NULL != bml_btl->btl->btl_dump) {
                bml_btl->btl->btl_dump(bml_btl->btl, bml_btl->btl_endpoint, verbose);
            }
        }
    }
    return OMPI_SUCCESS;
}

_Thread_local int mca_pml_spec_thread_depth;

const mca_pml_spec_upward_t mca_pml_spec_upward = {
    .start = mca_pml_spec_start,
    .cancel = mca_pml_spec_recv_cancel,
    .turns = mca_pml_spec_send_turns,
    .widened = mca_pml_spec_arrive_kept,
    .unpin = mca_pml_spec_pin_free,
    .comm_free = mca_pml_spec_comm_free,
};

mca_pml_spec_module_t mca_pml_spec = {
    .super = {.pml_add_procs = add_procs,
              .pml_del_procs = del_procs,
              .pml_enable = mca_pml_spec_enable,
              .pml_add_comm = mca_pml_spec_add_comm,
              .pml_del_comm = mca_pml_spec_del_comm,
              .pml_irecv_init = mca_pml_spec_irecv_init,
              .pml_irecv = mca_pml_spec_irecv,
              .pml_recv = mca_pml_spec_recv,
              .pml_isend_init = mca_pml_spec_isend_init,
              .pml_isend = mca_pml_spec_isend,
              .pml_send = mca_pml_spec_send,
              .pml_iprobe = mca_pml_spec_iprobe,
              .pml_probe = mca_pml_spec_probe,
              .pml_start = mca_pml_spec_start,
              .pml_improbe = mca_pml_spec_improbe,
              .pml_mprobe = mca_pml_spec_mprobe,
              .pml_imrecv = mca_pml_spec_imrecv,
              .pml_mrecv = mca_pml_spec_mrecv,
              .pml_dump = dump,
              .pml_max_contextid = 65535,
              .pml_max_tag = INT_MAX,
              .pml_flags = MCA_PML_SPEC_ABILITIES,
              MCA_PML_SPEC_MODULE_EXTRAS},
};
