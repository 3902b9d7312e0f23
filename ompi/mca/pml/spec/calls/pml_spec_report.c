/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Gathers the counters of all processes for the summary, and reads and writes the profile, at the end of a job. */
#include "pml_spec_report.h"

#include "../core/spec_profile.h"
#include "../objects/pml_spec_explain.h"
#include "../services/pml_spec_adapt.h"
#include "pml_spec_pvars.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what one process has to say ---- */

/* The counters, and what has no counter. */
typedef struct snapshot {
    mca_pml_spec_counters_t counters;
    uint64_t rtr_kept; /* RTRs that still wait for their message */
} snapshot_t;

#define NUMBERS (sizeof(snapshot_t) / sizeof(uint64_t))
_Static_assert(NUMBERS * sizeof(uint64_t) == sizeof(snapshot_t),
               "a snapshot is an array of numbers");

static void take_snapshot(snapshot_t *snapshot)
{
    snapshot->counters = mca_pml_spec_counters_now();
    snapshot->rtr_kept = 0;
    for (uint32_t cid = 0; cid <= UINT16_MAX; ++cid) {
        mca_pml_spec_comm_t *comm = mca_pml_spec_comm_get((uint16_t) cid);
        for (uint32_t i = 0; NULL != comm && i < comm->size; ++i) {
            mca_pml_spec_peer_t *peer = MCA_PML_SPEC_SEEN(comm->peers[i]);
            if (NULL != peer) {
                mca_pml_spec_lock(&peer->send_lock);
                snapshot->rtr_kept += spec_send_kept(&peer->send);
                mca_pml_spec_unlock(&peer->send_lock);
            }
        }
        if (NULL != comm) {
            mca_pml_spec_comm_put(comm);
        }
    }
}

/* ---- the summary ---- */

/* Sum (or most, for lengths), least and most of one number over the job. */
typedef struct row {
    uint64_t sum, min, max;
    int min_rank, max_rank;
} row_t;

static row_t row_of(const snapshot_t *all, int ranks, size_t offset)
{
    row_t row = {.min = UINT64_MAX};
    for (int i = 0; i < ranks; ++i) {
        const uint64_t v = *(const uint64_t *) ((const char *) &all[i] + offset);
        row.sum += v;
        if (v < row.min) {
            row.min = v;
            row.min_rank = i;
        }
        if (0 == i || v > row.max) {
            row.max = v;
            row.max_rank = i;
        }
    }
    return row;
}

static double percent(uint64_t part, uint64_t whole)
{
    return 0 == whole ? 0 : 100.0 * (double) part / (double) whole;
}

static uint64_t total(const snapshot_t *all, int ranks, size_t offset)
{
    return row_of(all, ranks, offset).sum;
}

/* Every RTR that was sent has one end. */
static void print_identity(FILE *out, const snapshot_t *all, int ranks)
{
#define TOTAL(name) total(all, ranks, offsetof(snapshot_t, counters.name))
    const uint64_t sent = TOTAL(rtr_sent), arrived = TOTAL(rtr_arrived), used = TOTAL(rtr_used),
                   crossed = TOTAL(rtr_crossed), mispredicted = TOTAL(rtr_mispredicted),
                   revoked = TOTAL(rtr_revoked),
                   dropped = TOTAL(rtr_too_short) + TOTAL(rtr_shared) + TOTAL(rtr_too_old)
                             + TOTAL(rtr_full) + TOTAL(rtr_stale),
                   unmatched =
                       TOTAL(rtr_abandoned) + total(all, ranks, offsetof(snapshot_t, rtr_kept));
    const uint64_t ended = used + crossed + mispredicted + dropped + revoked + unmatched;
    fprintf(
        out,
        "  RTRs: %llu sent = %llu used + %llu crossed + %llu mispredicted + %llu dropped + %llu "
        "revoked + %llu unmatched",
        (unsigned long long) sent, (unsigned long long) used, (unsigned long long) crossed,
        (unsigned long long) mispredicted, (unsigned long long) dropped,
        (unsigned long long) revoked, (unsigned long long) unmatched);
    if (sent > arrived) {
        fprintf(out, " + %llu still under way", (unsigned long long) (sent - arrived));
    }
    fprintf(out, "%s\n", arrived == ended && sent >= arrived ? "" : "  (DOES NOT ADD UP)");

    const uint64_t data =
        TOTAL(bytes_eager) + TOTAL(bytes_put) + TOTAL(bytes_get) + TOTAL(bytes_copied);
    fprintf(out, "  RTRs used: %.1f %%; control bytes: %.4f %% of data\n", percent(used, sent),
            percent(TOTAL(bytes_control), data));
#undef TOTAL
}

static void print_summary(const snapshot_t *all, int ranks)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (NULL == out) {
        return;
    }
    fprintf(out, "pml/spec: summary of %d processes\n  %-22s %16s %16s %6s %16s %6s\n", ranks, "",
            "all", "least", "rank", "most", "rank");
    for (size_t i = 0; i < MCA_PML_SPEC_COUNTERS_N; ++i) {
        const mca_pml_spec_counter_t *counter = &mca_pml_spec_counter[i];
        const row_t row = row_of(all, ranks, offsetof(snapshot_t, counters) + counter->offset);
        if (row.max > 0) {
            fprintf(out, "  %-22s %16llu %16llu %6d %16llu %6d\n", counter->name,
                    (unsigned long long) (mca_pml_spec_is_mark(counter) ? row.max : row.sum),
                    (unsigned long long) row.min, row.min_rank, (unsigned long long) row.max,
                    row.max_rank);
        }
    }
    print_identity(out, all, ranks);
    fclose(out);
    fputs(text, stderr); /* in one piece: other processes write too */
    free(text);
}

/* ---- among all processes ---- */

/* Not MPI's functions: those of the program may come from a library whose handles have other values (libmpi_abi). */
static ompi_communicator_t *const world = &ompi_mpi_comm_world.comm;

static void of_rank_0(int *value)
{
    (void) world->c_coll->coll_bcast(value, 1, &ompi_mpi_int.dt, 0, world,
                                     world->c_coll->coll_bcast_module);
}

static void reduce(int *value, ompi_op_t *op)
{
    (void) world->c_coll->coll_allreduce(MPI_IN_PLACE, value, 1, &ompi_mpi_int.dt, op, world,
                                         world->c_coll->coll_allreduce_module);
}

static void gather(const void *mine, int n, ompi_datatype_t *type, void *all)
{
    (void) world->c_coll->coll_gather(mine, n, type, all, n, type, 0, world,
                                      world->c_coll->coll_gather_module);
}

static void summarise(int rank, int ranks)
{
    snapshot_t mine, *all = NULL;
    take_snapshot(&mine);
    if (0 == rank) {
        all = calloc((size_t) ranks, sizeof(*all));
    }
    /* Rank 0 takes part even without memory: nobody may wait for it in vain. */
    int have = 0 != rank || NULL != all;
    of_rank_0(&have);
    if (!have) {
        return;
    }
    gather(&mine, NUMBERS, &ompi_mpi_uint64_t.dt, all);
    if (0 == rank) {
        print_summary(all, ranks);
    }
    free(all);
}

/* ---- the profile ---- */

static void explain_profile(const char *why, unsigned line)
{
    if (0 == mca_pml_spec_my_rank()) {
        mca_pml_spec_explain_alone("profile refused", mca_pml_spec.profile, line, why);
    }
}

static void explain_unwritten(const char *why)
{
    mca_pml_spec_explain_alone("profile not written", mca_pml_spec.profile, why);
}

static void preset(void *context, const spec_profile_stop_t *s)
{
    (void) context;
    const uint32_t me = mca_pml_spec_my_rank();
    spec_envelope_t envelope = {.ctx = s->epoch << 16 | s->cid, .tag = s->tag};
    if (s->receiver == me) {
        envelope.peer = s->sender_rank;
        spec_adapt_entry_t *entry = spec_adapt_in_stop(&mca_pml_spec.adapt_in, envelope);
        if (NULL != entry) {
            entry->cookie = (uint64_t) s->sender << 32 | (uint32_t) s->receiver_rank;
        }
    }
    if (s->sender == me) {
        envelope.peer = s->receiver_rank;
        spec_adapt_out_preset(&mca_pml_spec.adapt_out, envelope);
    }
}

/* The whole file with a 0 behind it; NULL and errno (ENOENT: there is none). */
static char *read_file(const char *name)
{
    char *text = NULL;
    size_t room = 0;
    FILE *in = fopen(name, "re");
    if (NULL == in) {
        return NULL;
    }
    const bool good = getdelim(&text, &room, '\0', in) >= 0;
    const int error = errno;
    if (!good && feof(in) && NULL != text) {
        *text = '\0'; /* it is empty */
    } else if (!good) {
        free(text);
        text = NULL;
    }
    fclose(in);
    errno = error;
    return text;
}

void mca_pml_spec_profile_load(void)
{
    mca_pml_spec.profile_refused = false;
    if (NULL == mca_pml_spec.profile || '\0' == *mca_pml_spec.profile || !mca_pml_spec_adapts()) {
        return;
    }
    unsigned line = 0;
    errno = 0;
    char *text = read_file(mca_pml_spec.profile);
    if (NULL == text) {
        if (ENOENT != errno) {
            mca_pml_spec.profile_refused = true;
            explain_profile(strerror(errno), line);
        }
        return;
    }
    const uint32_t ranks = mca_pml_spec_job_size();
    const char *wrong = spec_profile_read(text, ranks, &line, NULL, NULL);
    if (NULL != wrong) {
        mca_pml_spec.profile_refused = true;
        explain_profile(wrong, line);
    } else {
        (void) spec_profile_read(text, ranks, &line, preset, NULL);
        MCA_PML_SPEC_VERBOSE(10, "profile %s: %u envelopes do not speculate from the beginning",
                             mca_pml_spec.profile, mca_pml_spec.adapt_in.n);
    }
    free(text);
}

/* My envelopes that do not speculate; the caller frees. NULL when memory is out. */
static spec_profile_stop_t *my_stops(int *n)
{
    const spec_adapt_t *in = &mca_pml_spec.adapt_in;
    spec_profile_stop_t *stops = calloc((size_t) in->n + 1, sizeof(*stops));
    *n = 0;
    for (size_t i = 0; NULL != stops && NULL != in->entry && i < in->sets * SPEC_ADAPT_WAYS; ++i) {
        const spec_adapt_entry_t *entry = &in->entry[i];
        if (entry->in_use && SPEC_ADAPT_STOPPED == entry->state
            && MCA_PML_SPEC_NO_COOKIE != entry->cookie) {
            stops[(*n)++] = (spec_profile_stop_t){.receiver = mca_pml_spec_my_rank(),
                                                  .sender = (uint32_t) (entry->cookie >> 32),
                                                  .cid = entry->envelope.ctx & 0xffff,
                                                  .epoch = entry->envelope.ctx >> 16,
                                                  .receiver_rank = (int32_t) entry->cookie,
                                                  .sender_rank = entry->envelope.peer,
                                                  .tag = entry->envelope.tag};
        }
    }
    return stops;
}

/* Write beside the file and rename: a reader sees the old profile or the new one. */
static bool write_file(const spec_profile_stop_t *stops, size_t n, uint32_t ranks)
{
    char text[4 * SPEC_PROFILE_LINE], *name = NULL;
    if (asprintf(&name, "%s.new", mca_pml_spec.profile) < 0) {
        return false;
    }
    FILE *out = fopen(name, "we");
    bool good = NULL != out;
    if (good) {
        good = fwrite(text, spec_profile_begin(text, ranks), 1, out) == 1;
        for (size_t i = 0; good && i < n; ++i) {
            good = fwrite(text, spec_profile_stop(text, &stops[i]), 1, out) == 1;
        }
        good = good && fwrite(text, spec_profile_end(text, n), 1, out) == 1;
        good = 0 == fclose(out) && good;
        good = good && 0 == rename(name, mca_pml_spec.profile);
        if (!good) {
            const int error = errno;
            unlink(name);
            errno = error;
        }
    }
    free(name);
    return good;
}

static void save_profile(int rank, int ranks)
{
    int n = 0, *counts = NULL, *offsets = NULL, have = 1, all_n = 0;
    spec_profile_stop_t *mine = my_stops(&n), *all = NULL;
    int bytes = n * (int) sizeof(*mine);

    if (0 == rank) {
        counts = calloc((size_t) ranks, sizeof(*counts));
        offsets = calloc((size_t) ranks, sizeof(*offsets));
    }
    have = NULL != mine && (0 != rank || (NULL != counts && NULL != offsets));
    reduce(&have, &ompi_mpi_op_min.op);
    if (have) {
        gather(&bytes, 1, &ompi_mpi_int.dt, counts);
        for (int i = 0; 0 == rank && i < ranks; ++i) {
            offsets[i] = all_n;
            all_n += counts[i];
        }
        if (0 == rank && NULL == (all = malloc((size_t) all_n + 1))) {
            have = 0;
        }
        of_rank_0(&have);
    }
    if (have) {
        (void) mca_pml_spec_gather_bytes(world, mine, bytes, all, counts, offsets);
        if (0 == rank && !write_file(all, (size_t) all_n / sizeof(*all), (uint32_t) ranks)) {
            explain_unwritten(strerror(errno));
        }
    } else if (0 == rank) {
        explain_unwritten("out of memory");
    }
    free(mine);
    free(all);
    free(counts);
    free(offsets);
}

/* ---- when ---- */

static bool has_profile(void)
{
    return NULL != mca_pml_spec.profile && '\0' != *mca_pml_spec.profile && mca_pml_spec_adapts();
}

/* Is there anything to tell? */
static bool is_wanted(void)
{
    return mca_pml_spec.summary || has_profile();
}

/* Answers that came after the last process has left MPI would find nobody, and over some transports end the process that
 * sends them. The peers are in MPI_Finalize soon, and answer there; where a job outlives processes nobody knows, and nobody waits.
 * If a process was lost, what it owes in communicators that are freed is not known. */
static bool owes_answers(void)
{
    return MCA_PML_SPEC_SEEN(mca_pml_spec.revokes)
           > (MCA_PML_SPEC_SEEN(mca_pml_spec.lost_n) > 0
                  ? MCA_PML_SPEC_SEEN(mca_pml_spec.late_revokes)
                  : 0);
}

static void await_revoked(void)
{
    while (owes_answers() && !mca_pml_spec_outlives()) {
        opal_progress();
    }
}

static int report(MPI_Comm comm, int key, void *value, void *extra)
{
    (void) comm, (void) key, (void) value, (void) extra;
    int refused = mca_pml_spec.profile_refused;
    await_revoked();
    if (!is_wanted()) {
        return MPI_SUCCESS;
    }
    const int rank = ompi_comm_rank(world), ranks = ompi_comm_size(world);
    /* What was sent before it has arrived, mostly. */
    (void) world->c_coll->coll_barrier(world, world->c_coll->coll_barrier_module);
    if (mca_pml_spec.summary) {
        summarise(rank, ranks);
    }
    /* A file that was refused may be somebody's: it is left alone. */
    if (has_profile()) {
        reduce(&refused, &ompi_mpi_op_max.op);
        if (!refused) {
            save_profile(rank, ranks);
        }
    }
    return MPI_SUCCESS;
}

/* A duplicate of MPI_COMM_SELF reports nothing. */
MCA_PML_SPEC_COPY_ATTR(do_not_copy)
{
    (void) comm, (void) key, (void) extra, (void) value, (void) copy;
    *flag = 0;
    return MPI_SUCCESS;
}

void mca_pml_spec_report_arm(void)
{
    ompi_attribute_fn_ptr_union_t copy = {.attr_communicator_copy_fn = do_not_copy};
    ompi_attribute_fn_ptr_union_t delete = {.attr_communicator_delete_fn = report};
    int key = MPI_KEYVAL_INVALID;
    if (OMPI_SUCCESS != ompi_attr_create_keyval(COMM_ATTR, copy, delete, &key, NULL, 0, NULL)
        || OMPI_SUCCESS
               != ompi_attr_set_c(COMM_ATTR, MPI_COMM_SELF, &MPI_COMM_SELF->c_keyhash, key, NULL,
                                  false)) {
        if (is_wanted()) {
            mca_pml_spec_explain_alone("no report");
        }
        return;
    }
    (void) ompi_attr_free_keyval(COMM_ATTR, &key, false); /* lives on with the attribute */
}
