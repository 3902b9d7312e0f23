/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Copies from and to the memory of an accelerator: for Open MPI's convertor, and beside the processor. */
#include "pml_spec_device.h"

#include "pml_spec_explain.h"

#include "opal/include/spec/class.h"

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

/* A copy for the request is over. Has it succeeded? */
static bool account(mca_pml_base_request_t *base, size_t n, int error)
{
    MCA_PML_SPEC_COUNT_N(bytes_device, n);
    if (OPAL_UNLIKELY(OPAL_SUCCESS != error)) {
        failed(base, n, error);
    }
    return OPAL_SUCCESS == error;
}

bool mca_pml_spec_device_move(mca_pml_base_request_t *base, void *to, const void *from, size_t n)
{
    return account(base, n, mca_pml_spec_device_copy(to, from, n));
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

/* ---- beside the processor ---- */

/* One for each direction: a device copies both ways at a time. The lock is real whatever the program's threads, since a component is
 * called under it: an event that is recorded behind the copy of another thread would tell of that one's failure. */
static struct side {
    opal_mutex_t lock;
    mca_pml_spec_stream_t *stream;
    bool is_off; /* there is none: the component has no streams, or refused a copy */
} sides[2];

static volatile int32_t under_way;

static void late_destruct(mca_pml_spec_device_late_t *late)
{
    if (NULL != late->event) {
        mca_pml_spec_event_free(late->event);
    }
}

SPEC_CLASS(mca_pml_spec_device_late_t, opal_free_list_item_t, NULL, late_destruct);

/* Streams and events belong to the context of the thread; one that has none gets that of the memory (mca_pml_spec_device_copy). */
static void enter_context(const mca_pml_spec_device_job_t *job)
{
    (void) mca_pml_spec_on_device(job->to_device ? job->to : job->from);
}

/* Can the event be used for the stream? Not if another device was current when they were made. A copy that no event can be recorded
 * behind must not begin: nothing would tell when its memory is no longer in use. */
static bool fits(mca_pml_spec_device_late_t *late, mca_pml_spec_stream_t *stream)
{
    const bool good = OPAL_SUCCESS == mca_pml_spec_event_record(late->event, stream);
    if (OPAL_UNLIKELY(!good)) {
        mca_pml_spec_event_free(late->event);
        late->event = NULL;
    }
    return good;
}

/* The stream has the copy, and the event is behind it. The side's lock is held. False: the device was not asked to copy. */
static bool give(struct side *side, mca_pml_spec_device_late_t *late)
{
    const mca_pml_spec_device_job_t *job = &late->job;
    if (NULL == side->stream && !side->is_off) {
        side->stream = mca_pml_spec_stream_new();
    }
    if (NULL == late->event) {
        late->event = mca_pml_spec_event_new();
    }
    if (NULL != side->stream && NULL != late->event && !fits(late, side->stream)) {
        return false;
    }
    if (NULL == side->stream || NULL == late->event
        || OPAL_SUCCESS
               != mca_pml_spec_stream_copy(side->stream, job->to_device, job->to, job->from,
                                           job->n)) {
        __atomic_store_n(&side->is_off, true, __ATOMIC_RELAXED);
        return false;
    }
    late->error = mca_pml_spec_event_record(late->event, side->stream);
    return true;
}

/* Is it over? A device that records no event any more, or cannot be asked for one, is broken, and copies no more. */
static bool is_over(mca_pml_spec_pending_t *pending)
{
    mca_pml_spec_device_late_t *late = SPEC_ENTRY(pending, mca_pml_spec_device_late_t, pending);
    const mca_pml_spec_device_job_t job = late->job;
    enter_context(&job);
    const int error =
        OPAL_SUCCESS == late->error ? mca_pml_spec_event_query(late->event) : late->error;
    if (OPAL_ERR_RESOURCE_BUSY == error) {
        return false;
    }
    mca_pml_spec_put_back(&mca_pml_spec.late_copies, &late->super);
    job.ended(&job, account(job.base, job.n, error));
    (void) mca_pml_spec_add32(&under_way, -1);
    return true;
}

void mca_pml_spec_device_begin(const mca_pml_spec_device_job_t *job)
{
    struct side *side = &sides[job->to_device];
    mca_pml_spec_device_late_t *late =
        MCA_PML_SPEC_GLANCE(side->is_off)
            ? NULL
            : (mca_pml_spec_device_late_t *) mca_pml_spec_get(&mca_pml_spec.late_copies);
    bool is_given = false;
    if (OPAL_LIKELY(NULL != late)) {
        late->job = *job;
        enter_context(job);
        opal_mutex_lock(&side->lock);
        is_given = give(side, late);
        opal_mutex_unlock(&side->lock);
    }
    if (OPAL_LIKELY(is_given)) {
        (void) mca_pml_spec_add32(&under_way, 1);
        late->pending.retry = is_over;
        mca_pml_spec_poll_for(&late->pending, side);
        return;
    }
    if (NULL != late) {
        mca_pml_spec_put_back(&mca_pml_spec.late_copies, &late->super);
    }
    job->ended(job, mca_pml_spec_device_move(job->base, job->to, job->from, job->n));
}

bool mca_pml_spec_device_is_busy(void)
{
    return 0 != MCA_PML_SPEC_SEEN(under_way);
}

void mca_pml_spec_device_init(void)
{
    for (int i = 0; i < 2; ++i) {
        OBJ_CONSTRUCT(&sides[i].lock, opal_mutex_t);
        sides[i].stream = NULL;
        sides[i].is_off = false;
    }
    under_way = 0;
}

/* An event behind all that it has tells when it has nothing. */
static void drain(mca_pml_spec_stream_t *stream)
{
    mca_pml_spec_event_t *event = mca_pml_spec_event_new();
    if (NULL == event) {
        return;
    }
    if (OPAL_SUCCESS == mca_pml_spec_event_record(event, stream)) {
        while (OPAL_ERR_RESOURCE_BUSY == mca_pml_spec_event_query(event)) {}
    }
    mca_pml_spec_event_free(event);
}

void mca_pml_spec_device_fini(void)
{
    for (int i = 0; i < 2; ++i) {
        if (NULL != sides[i].stream) {
            drain(sides[i].stream);
            mca_pml_spec_stream_free(sides[i].stream);
        }
        OBJ_DESTRUCT(&sides[i].lock);
    }
}
