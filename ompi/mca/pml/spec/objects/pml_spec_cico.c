/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Messages that go through rings, and the thread that copies while the program computes. */
#include "pml_spec_compat.h" /* first: it asks for GNU's functions */

#include "pml_spec_cico.h"

#include "pml_spec_agent.h"
#include "pml_spec_give.h"
#include "pml_spec_rings.h"
#include "spec_thread.h"

#include <pthread.h>
#include <sched.h>

/* Messages beyond these go in fragments. */
enum { JOBS = 16 };

/* Units that one call of progress copies of a message: others want their turn, too. */
enum { STEPS = 4 };

/* Without anything to copy the thread goes on for so long before it sleeps, ns. */
#define LINGER UINT64_C(20000)

/* How far a message is. From OPEN, in which its data may be copied, only one thread takes it. */
enum { FREE, OPEN, STOPPED, ENDED };

/* The part of this process in a message. */
typedef struct mca_pml_spec_cico {
    mca_pml_spec_pending_t pending;
    uint32_t state;
    uint32_t users; /* threads that may be copying */
    spec_cico_end_t end;
    void *request; /* NULL: it has no part in it any more */
    mca_pml_spec_peer_t *peer;
    uint64_t want; /* bytes that the request waits for: of a receive, what fits its buffer */
    bool is_mine;  /* the ring */
    mca_pml_spec_rings_of_t *there; /* the other process, to call it; NULL: not known */
    bool has_asked;                 /* for that */
    uint32_t seen;                  /* units, when it last went on: before `stuck` */
    uint64_t stuck, called;         /* ns; 0: it is not, it has not */
} job_t;

/* Jobs are given out under the lock; nothing of MPI is called under it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static job_t jobs[JOBS];

static struct {
    bool begins, is_there; /* under the lock */
    uint32_t stops, has_ended;
    pthread_t thread;
} copier;

bool mca_pml_spec_cico_may(const mca_pml_spec_peer_t *peer, uint64_t length)
{
    return SPEC_BY_FRAGMENTS == peer->mover && length >= (uint64_t) mca_pml_spec.cico_min
           && peer->is_near && !peer->is_self && !MCA_PML_SPEC_GLANCE(peer->ringless)
           && !mca_pml_spec_outlives();
}

/* ---- copying ---- */

static uint32_t state_of(const job_t *job)
{
    return __atomic_load_n(&job->state, __ATOMIC_SEQ_CST);
}

static void enter(job_t *job, uint32_t state)
{
    __atomic_store_n(&job->state, state, __ATOMIC_SEQ_CST);
}

/* False: another thread was first. */
static bool leave_open(job_t *job, uint32_t state)
{
    uint32_t open = OPEN;
    return __atomic_compare_exchange_n(&job->state, &open, state, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
}

/* Returns units. */
static unsigned copy(job_t *job, unsigned most)
{
    unsigned n = 0;
    (void) __atomic_add_fetch(&job->users, 1, __ATOMIC_SEQ_CST);
    while (n < most && OPEN == state_of(job) && spec_cico_step(&job->end)) {
        ++n;
    }
    (void) __atomic_sub_fetch(&job->users, 1, __ATOMIC_SEQ_CST);
    return n;
}

/* It is not OPEN: until nobody is in copy(). */
static void await_users(const job_t *job)
{
    while (0 != __atomic_load_n(&job->users, __ATOMIC_SEQ_CST)) {
        (void) sched_yield();
    }
}

/* ---- the thread ---- */

static bool copy_all(void)
{
    unsigned n = 0;
    for (job_t *job = jobs; job < jobs + JOBS; ++job) {
        n += OPEN == state_of(job) ? copy(job, UINT32_MAX) : 0;
    }
    return n > 0;
}

static void *run(void *unused)
{
    uint64_t since = 0;
    (void) unused;
    spec_thread_name("spec-copier");
    for (bool attends = mca_pml_spec_rings_attend(); attends;) {
        const uint32_t calls = mca_pml_spec_rings_calls(); /* before what a call may be about */
        if (MCA_PML_SPEC_SEEN(copier.stops)) {
            break;
        }
        if (copy_all()) {
            since = spec_now();
        }
        if (spec_now() - since < LINGER) {
            (void) sched_yield();
            continue;
        }
        mca_pml_spec_rings_await(calls);
        (void) __atomic_add_fetch(&mca_pml_spec.counters.cico_calls, 1, __ATOMIC_RELAXED);
        since = spec_now();
    }
    __atomic_store_n(&copier.has_ended, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* The lock is held. */
static void begin_thread(void)
{
    if (!copier.begins) {
        copier.begins = true;
        copier.is_there = 0 == spec_thread_create(&copier.thread, run, NULL);
    }
}

/* ---- a message, from progress ---- */

/* The other process; NULL: it cannot be called, or has not come. */
static mca_pml_spec_rings_of_t *other_of(job_t *job)
{
    if (NULL == job->there && !job->has_asked) {
        const uint64_t other = __atomic_load_n(&job->end.ring->other, __ATOMIC_ACQUIRE);
        job->has_asked = 0 != other;
        job->there = 0 == other ? NULL : mca_pml_spec_rings_find(job->peer, other);
    }
    return NULL != job->there && mca_pml_spec_rings_answers(job->there) ? job->there : NULL;
}

/* The other end computes, as it seems: its thread may have this processor. */
static void be_stuck(job_t *job)
{
    mca_pml_spec_rings_of_t *other = other_of(job);
    if (NULL == other) {
        return;
    }
    const uint64_t now = spec_now();
    job->stuck = spec_cico_stuck(job->stuck, mca_pml_spec_rings_copies(other), now);
    if (spec_cico_calls(job->stuck, job->called, now)) {
        job->called = now;
        mca_pml_spec_rings_call(other);
    }
    if (job->called >= job->stuck) {
        mca_pml_spec_give_way(SPEC_GIVE_COPIER);
    }
}

/* What the request still waits for. Of a receive that is not matched yet that is nothing: it ends where it is posted. */
static uint64_t owed_by(const job_t *job)
{
    if (job->end.fills || !job->is_mine) {
        return job->want;
    }
    const mca_pml_spec_recv_request_t *recvreq = job->request;
    return MCA_PML_SPEC_SEEN(recvreq->stage) >= MCA_PML_SPEC_MATCHED
               ? (uint64_t) MCA_PML_SPEC_SEEN(recvreq->missing)
               : 0;
}

/* What this end has copied no packet of the peer's may account for as well: that of an end that has named a ring, which the other might
 * not have used. The other end waits for no packet. */
static bool take_owed(void *request, bool fills, uint64_t bytes)
{
    return mca_pml_spec_take_owed(fills ? &((mca_pml_spec_send_request_t *) request)->owed
                                        : &((mca_pml_spec_recv_request_t *) request)->owed,
                                  bytes);
}

/* Accounts for the message, and makes room for another. It is not OPEN. */
static void finish(job_t *job, int status)
{
    void *request = job->request;
    mca_pml_spec_comm_t *comm = job->peer->comm;
    const bool fills = job->end.fills, is_lost = status < 0, is_mine = job->is_mine;
    const uint64_t bytes = NULL == request ? 0 : is_lost ? owed_by(job) : job->want;
    await_users(job);
    if (NULL != request) {
        job_t **at = fills ? &((mca_pml_spec_send_request_t *) request)->cico
                           : &((mca_pml_spec_recv_request_t *) request)->cico;
        *at = NULL;
    }
    if (is_mine) {
        if (is_lost || NULL == request) {
            spec_cico_reset(job->end.ring);
        } else {
            spec_cico_used(&job->end);
        }
        mca_pml_spec_rings_give(job->end.ring);
    }
    enter(job, FREE);
    if (0 == bytes) {
        /* it has no part in it */
    } else if (!is_lost && is_mine && !take_owed(request, fills, bytes)) {
        mca_pml_spec_refuse("ring", "a packet has accounted for its message, too");
    } else if (fills) {
        mca_pml_spec_send_account(request, bytes, status);
    } else {
        mca_pml_spec_recv_account(request, bytes, status);
    }
    mca_pml_spec_comm_put(comm);
}

/* All is copied by this end; a sender waits for the receiver's, too. */
static bool is_over(job_t *job)
{
    if (!spec_cico_is_done(&job->end)) {
        return false;
    }
    if (!job->end.fills && job->is_mine) {
        job->want = spec_cico_message(&job->end) - 1;
    }
    return !job->end.fills || spec_cico_is_drained(&job->end);
}

/* The other end sees that this one is in MPI; the agent's copies do not show that. */
static unsigned copy_here(job_t *job)
{
    if (mca_pml_spec_agent_is_here()) {
        return copy(job, STEPS);
    }
    mca_pml_spec_rings_copying(true);
    const unsigned n = copy(job, STEPS);
    mca_pml_spec_rings_copying(false);
    return n;
}

/* true: it is over */
static bool turn(mca_pml_spec_pending_t *pending)
{
    job_t *job = SPEC_ENTRY(pending, job_t, pending);
    /* Where the thread has copied all, the other end need not be told that this one is here. */
    const unsigned n = is_over(job) ? 0 : copy_here(job);
    const uint32_t done = MCA_PML_SPEC_GLANCE(job->end.done);
    int status = OMPI_ERR_UNREACH;
    if (done != job->seen) {
        job->seen = done;
        job->stuck = 0;
    }
    if (is_over(job)) {
        status = leave_open(job, ENDED) ? OMPI_SUCCESS : OMPI_ERR_UNREACH;
    } else if (OPAL_UNLIKELY(mca_pml_spec_lost(job->peer))) {
        (void) leave_open(job, ENDED);
    }
    if (OPEN != state_of(job)) {
        finish(job, status);
        return true;
    }
    if (0 == n
        && !mca_pml_spec_agent_is_here()) { /* the program's own threads wait, with their processor */
        be_stuck(job);
    }
    return false;
}

/* ---- what requests ask ---- */

/* A message of a request; job.end but for the ring, and what else of a job the request decides. */
typedef struct asked {
    void *request;
    mca_pml_spec_peer_t *peer;
    char *data;
    uint64_t room, message, want;
    bool fills, blocks;
} asked_t;

/* By a ring of this process (there NULL) or of another. NULL: there are too many. It is OPEN, and the caller has it take turns. */
static job_t *open_job(const asked_t *asked, spec_cico_ring_t *ring, mca_pml_spec_rings_of_t *there)
{
    job_t *job = jobs;
    (void) pthread_mutex_lock(&lock);
    while (job < jobs + JOBS && FREE != state_of(job)) {
        ++job;
    }
    job = jobs + JOBS == job ? NULL : job;
    if (NULL != job) {
        spec_cico_begin(&job->end, ring, asked->data, asked->room, asked->fills, asked->message);
        job->pending.retry = turn;
        job->request = asked->request;
        job->peer = asked->peer;
        job->want = asked->want;
        job->there = there;
        job->is_mine = NULL == there;
        job->has_asked = false;
        job->seen = 0;
        job->stuck = job->called = 0;
        if (!asked->blocks) {
            begin_thread();
        }
        mca_pml_spec_comm_retain(asked->peer->comm); /* the request may be gone before its job */
        enter(job, OPEN);
    }
    (void) pthread_mutex_unlock(&lock);
    return job;
}

static job_t *offer(const asked_t *asked, uint64_t *name)
{
    spec_cico_ring_t *ring = mca_pml_spec_rings_take(name);
    job_t *job = NULL == ring ? NULL : open_job(asked, ring, NULL);
    if (NULL != ring && NULL == job) {
        mca_pml_spec_rings_give(ring);
    }
    *name = NULL == job ? 0 : *name;
    return job;
}

static job_t *join(const asked_t *asked, uint64_t name)
{
    mca_pml_spec_rings_of_t *there = mca_pml_spec_rings_find(asked->peer, name);
    if (NULL == there) {
        mca_pml_spec_cico_shun(asked->peer);
    }
    spec_cico_ring_t *ring = NULL == there ? NULL : mca_pml_spec_rings_join(there, name);
    job_t *job = NULL == ring ? NULL : open_job(asked, ring, there);
    if (NULL != job) {
        MCA_PML_SPEC_COUNT(cico);
    }
    return job;
}

static asked_t of_send(mca_pml_spec_send_request_t *sendreq)
{
    const uint64_t length = sendreq->req_send.req_bytes_packed;
    return (asked_t){.request = sendreq,
                     .peer = sendreq->peer,
                     .data = sendreq->flat,
                     .room = length,
                     .message = length + 1,
                     .want = length,
                     .fills = true,
                     .blocks = sendreq->blocks};
}

static asked_t of_recv(mca_pml_spec_recv_request_t *recvreq, uint64_t message, uint64_t want)
{
    return (asked_t){.request = recvreq,
                     .peer = recvreq->peer,
                     .data = recvreq->flat,
                     .room = recvreq->capacity,
                     .message = message,
                     .want = want,
                     .blocks = recvreq->blocks};
}

uint64_t mca_pml_spec_cico_offer_send(mca_pml_spec_send_request_t *sendreq)
{
    uint64_t name = 0;
    const asked_t asked = of_send(sendreq);
    job_t *job = sendreq->cico = offer(&asked, &name);
    if (NULL != job) {
        mca_pml_spec_pend(&job->pending, job);
    }
    return name;
}

void mca_pml_spec_cico_ahead(mca_pml_spec_send_request_t *sendreq)
{
    if (NULL != sendreq->cico) {
        (void) copy(sendreq->cico, SPEC_CICO_SLOTS);
    }
}

bool mca_pml_spec_cico_join_send(mca_pml_spec_send_request_t *sendreq, uint64_t name)
{
    const asked_t asked = of_send(sendreq);
    job_t *job = sendreq->cico = join(&asked, name);
    /* One that does not block may want to compute. */
    if (NULL != job && (!asked.blocks || !turn(&job->pending))) {
        mca_pml_spec_pend(&job->pending, job);
    }
    return NULL != job;
}

uint64_t mca_pml_spec_cico_offer_recv(mca_pml_spec_recv_request_t *recvreq)
{
    uint64_t name = 0;
    const asked_t asked = of_recv(recvreq, SPEC_CICO_UNKNOWN, 0);
    job_t *job = recvreq->cico = offer(&asked, &name);
    if (NULL != job) {
        mca_pml_spec_pend(&job->pending, job);
    }
    return name;
}

bool mca_pml_spec_cico_join_recv(mca_pml_spec_recv_request_t *recvreq, uint64_t name,
                                 uint64_t length, uint64_t want)
{
    const asked_t asked = of_recv(recvreq, length + 1, want);
    job_t *job = recvreq->cico = join(&asked, name);
    if (NULL != job) {
        mca_pml_spec_pend(&job->pending, job);
    }
    return NULL != job;
}

bool mca_pml_spec_cico_reaches(mca_pml_spec_peer_t *peer, uint64_t name)
{
    const bool reaches = NULL != mca_pml_spec_rings_find(peer, name);
    if (!reaches) {
        mca_pml_spec_cico_shun(peer);
    }
    return reaches;
}

bool mca_pml_spec_cico_has_room(const mca_pml_spec_recv_request_t *recvreq)
{
    const bool has_room = mca_pml_spec_rings_has_room();
    if (has_room && !recvreq->blocks) {
        (void) pthread_mutex_lock(&lock);
        begin_thread();
        (void) pthread_mutex_unlock(&lock);
    }
    return has_room;
}

void mca_pml_spec_cico_stop(job_t *job)
{
    (void) leave_open(job, STOPPED);
    await_users(job);
}

/* Its next turn frees it. */
void mca_pml_spec_cico_drop(job_t **at)
{
    job_t *job = __atomic_exchange_n(at, NULL, __ATOMIC_ACQ_REL);
    if (NULL != job) {
        job->request = NULL;
        mca_pml_spec_cico_stop(job);
    }
}

void mca_pml_spec_cico_fini(void)
{
    if (copier.is_there) {
        __atomic_store_n(&copier.stops, 1, __ATOMIC_RELEASE);
        while (!MCA_PML_SPEC_SEEN(copier.has_ended)) {
            mca_pml_spec_rings_rouse();
            (void) sched_yield();
        }
        (void) pthread_join(copier.thread, NULL);
    }
    memset(&copier, 0, sizeof(copier));
    memset(jobs, 0, sizeof(jobs));
    mca_pml_spec_rings_fini();
}
