/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Gathers the counters of all processes for the summary, and reads and writes the profile, at the end of a job. */
#include "pml_spec_report.h"

#include "../core/spec_conclude.h"
#include "../core/spec_profile.h"
#include "../objects/pml_spec_agent.h"
#include "../objects/pml_spec_device.h"
#include "../objects/pml_spec_explain.h"
#include "../services/pml_spec_adapt.h"
#include "pml_spec_pvars.h"

#include <errno.h>
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

/* ---- the summary ---- */

/* Least and most of one number over the job. */
typedef struct row {
    uint64_t min, max;
    int min_rank, max_rank;
} row_t;

static uint64_t number_at(const snapshot_t *snapshot, size_t offset)
{
    return *(const uint64_t *) ((const char *) &snapshot->counters + offset);
}

static row_t row_of(const snapshot_t *all, int ranks, size_t offset)
{
    row_t row = {.min = UINT64_MAX};
    for (int i = 0; i < ranks; ++i) {
        const uint64_t v = number_at(&all[i], offset);
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

enum { NAME = 22 }; /* columns of a counter's name */

static double percent(uint64_t part, uint64_t whole)
{
    return 0 == whole ? 0 : 100.0 * (double) part / (double) whole;
}

/* Every RTR that was sent has one end. */
static void print_identity(FILE *out, const snapshot_t *sum)
{
    const mca_pml_spec_counters_t *c = &sum->counters;
    const uint64_t dropped = c->rtr_too_short + c->rtr_too_old + c->rtr_full + c->rtr_stale,
                   unmatched = c->rtr_abandoned + sum->rtr_kept,
                   ended = c->rtr_used + c->rtr_crossed + c->rtr_mispredicted + dropped
                           + c->rtr_revoked + unmatched,
                   data = c->bytes_eager + c->bytes_put + c->bytes_get + c->bytes_copied;
    fprintf(out,
            "  RTRs: %llu sent = %llu used + %llu crossed + %llu mispredicted + %llu dropped\n"
            "    + %llu revoked + %llu unmatched",
            (unsigned long long) c->rtr_sent, (unsigned long long) c->rtr_used,
            (unsigned long long) c->rtr_crossed, (unsigned long long) c->rtr_mispredicted,
            (unsigned long long) dropped, (unsigned long long) c->rtr_revoked,
            (unsigned long long) unmatched);
    if (c->rtr_sent > c->rtr_arrived) {
        fprintf(out, " + %llu still under way",
                (unsigned long long) (c->rtr_sent - c->rtr_arrived));
    }
    fprintf(out, "%s\n",
            c->rtr_arrived == ended && c->rtr_sent >= c->rtr_arrived ? "" : "  (DOES NOT ADD UP)");
    fprintf(out, "  RTRs used: %.1f %%; control bytes: %.4f %% of data\n",
            percent(c->rtr_used, c->rtr_sent), percent(c->bytes_control, data));
}

static void print_conclusions(FILE *out, const mca_pml_spec_counters_t *c)
{
    char text[SPEC_CONCLUDE_TEXT];
    const spec_totals_t t = {
        .sent_eager = c->sent_eager,
        .sent_rts = c->sent_rts,
        .sent_rtr = c->sent_rtr,
        .late = c->rts_unexpected + c->rtr_crossed,
        .rtr_sent = c->rtr_sent,
        .rtr_in_vain = c->rtr_mispredicted + c->rtr_too_short + c->rtr_revoked,
        .bytes = c->bytes_eager + c->bytes_put + c->bytes_get + c->bytes_copied,
        .bytes_copied = c->bytes_copied,
        .queued = c->queued,
        .fallbacks = c->fallbacks,
        .refused = c->refused,
        .agent_wakes = c->agent_wakes,
        .agent_ended = c->agent_ended,
        .agent_ns = c->agent_ns,
        .agent_lived_ns = c->agent_lived_ns,
    };
    (void) spec_conclude(&t, text);
    fprintf(out, "What it means:\n%s", text);
}

static void print_summary(const snapshot_t *all, int ranks)
{
    char *text = NULL;
    size_t size = 0;
    bool told[MCA_PML_SPEC_COUNTERS_N] = {false};
    snapshot_t sum = {0};
    FILE *out = open_memstream(&text, &size);
    if (NULL == out) {
        return;
    }
    for (size_t i = 0; i < NUMBERS * (size_t) ranks; ++i) {
        ((uint64_t *) &sum)[i % NUMBERS] += ((const uint64_t *) all)[i];
    }
    fprintf(out, "pml/spec: summary of %d processes\n  %-*s %16s %16s %6s %16s %6s\n", ranks, NAME,
            "", "all", "least", "rank", "most", "rank");
    for (size_t i = 0; i < MCA_PML_SPEC_COUNTERS_N; ++i) {
        const mca_pml_spec_counter_t *counter = &mca_pml_spec_counter[i];
        const row_t row = row_of(all, ranks, counter->offset);
        if (row.max > 0) {
            told[i] = true;
            fprintf(out, "  %-*s %16llu %16llu %6d %16llu %6d\n", NAME, counter->name,
                    (unsigned long long) (mca_pml_spec_is_mark(counter)
                                              ? row.max
                                              : number_at(&sum, counter->offset)),
                    (unsigned long long) row.min, row.min_rank, (unsigned long long) row.max,
                    row.max_rank);
        }
    }
    fprintf(out, "The counters above, each of a process since MPI_Init:\n");
    for (size_t i = 0; i < MCA_PML_SPEC_COUNTERS_N; ++i) {
        if (told[i]) {
            fprintf(out, "  %-*s%s\n", NAME, mca_pml_spec_counter[i].name,
                    mca_pml_spec_counter[i].text);
        }
    }
    print_identity(out, &sum);
    print_conclusions(out, &sum.counters);
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
    mine.counters = mca_pml_spec_counters_now(&mine.rtr_kept);
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

static void refuse_profile(const char *why, unsigned line)
{
    mca_pml_spec.profile_refused = true;
    if (0 == mca_pml_spec_my_rank()) {
        mca_pml_spec_explain("profile refused", mca_pml_spec.profile, line, why);
    }
}

static void explain_unwritten(const char *why)
{
    mca_pml_spec_explain("profile not written", mca_pml_spec.profile, why);
}

static bool has_profile(void)
{
    return NULL != mca_pml_spec.profile && '\0' != *mca_pml_spec.profile && mca_pml_spec_adapts();
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
    if (!has_profile()) {
        return;
    }
    unsigned line = 0;
    errno = 0;
    char *text = read_file(mca_pml_spec.profile);
    if (NULL == text) {
        if (ENOENT != errno) {
            refuse_profile(strerror(errno), line);
        }
        return;
    }
    const uint32_t ranks = mca_pml_spec_job_size();
    const char *wrong = spec_profile_read(text, ranks, &line, NULL, NULL);
    if (NULL != wrong) {
        refuse_profile(wrong, line);
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

/* Sends that the program takes for complete, and that need this process until their receivers have them. */
static bool owes_data(void)
{
    return MCA_PML_SPEC_SEEN(mca_pml_spec.packed) > 0
           && 0 == MCA_PML_SPEC_SEEN(mca_pml_spec.lost_n);
}

static int report(MPI_Comm comm, int key, void *value, void *extra)
{
    (void) comm, (void) key, (void) value, (void) extra;
    int refused = mca_pml_spec.profile_refused;
    mca_pml_spec_agent_end(); /* before anything is taken down; its counts are told below */
    /* Copies are for requests that were freed. */
    while (mca_pml_spec_device_is_busy() || (owes_answers() && !mca_pml_spec_outlives())
           || owes_data()) {
        opal_progress();
    }
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
SPEC_DO_NOT_COPY(do_not_copy)

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
            mca_pml_spec_explain("no report");
        }
        return;
    }
    (void) ompi_attr_free_keyval(COMM_ATTR, &key, false); /* lives on with the attribute */
}
