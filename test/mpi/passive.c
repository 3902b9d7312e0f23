/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Passive target: locks, put, get, accumulate and their kin on a process that does not call MPI meanwhile; and operations of all
 * processes, its own too, on the same words, of which none may be lost.
 *
 *   --adapter 1  adapters do the atomic operations (but siw, which has none): also a process's own, and targets call no MPI
 *   --outside N  whether they call none; default as --adapter
 *   --mixed 1    odd ranks choose messages for their memory (btl_ibx_verbs_atomics_by), and others obey
 *   --create 1   the window is the program's memory, not Open MPI's */
#include "testlib.h"

enum { LONGS = 100, ROUNDS = 15, NAP_US = 200 };

/* What each rank shows: at byte 0 of its window, which counts bytes. The processor of the target reads `done` while others write it. */
typedef struct {
    volatile int64_t done;
    int64_t put, sum, swapped, most, bits, token, guarded;
    int64_t many[LONGS];
    int32_t odd[3]; /* the second does not begin a word of 64 bits */
    char fill[4];
    uint64_t most_unsigned;
    uint32_t least_unsigned;
    int32_t beside; /* the other half of that word */
    double real;
    char packed[16]; /* a number of 64 bits at byte 4 */
} area_t;

#define AT(field) ((MPI_Aint) offsetof(area_t, field))

static MPI_Win window;
static area_t *area;

/* ---- a target outside MPI ---- */

/* Each kind of operation once, by one process. Its last word, which the target waits for, is `number`. */
static void work_on(int target, int64_t number)
{
    int64_t one = 1, before = -1, many[LONGS], zero = 0;
    for (int i = 0; i < LONGS; ++i) {
        many[i] = i;
    }
    tl_step("put and get, target %d", target);
    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, window);
    MPI_Put(&number, 1, MPI_INT64_T, target, AT(put), 1, MPI_INT64_T, window);
    MPI_Win_flush(target, window);
    MPI_Get(&before, 1, MPI_INT64_T, target, AT(put), 1, MPI_INT64_T, window);
    MPI_Win_unlock(target, window);
    CHECK(number == before, "put %lld, got %lld", (long long) number, (long long) before);
    tl_step("sums, target %d", target);
    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, window);
    MPI_Fetch_and_op(&one, &before, MPI_INT64_T, target, AT(sum), MPI_SUM, window);
    MPI_Win_flush(target, window);
    CHECK(number - 1 == before, "%lld before the sum, expected %lld", (long long) before,
          (long long) number - 1);
    MPI_Accumulate(many, LONGS, MPI_INT64_T, target, AT(many), LONGS, MPI_INT64_T, MPI_SUM, window);
    MPI_Win_unlock(target, window);
    tl_step("compare and swap, target %d", target);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window);
    MPI_Compare_and_swap(&number, &zero, &before, MPI_INT64_T, target, AT(swapped), window);
    MPI_Win_flush(target, window);
    CHECK(0 == before, "%lld before the swap", (long long) before);
    MPI_Put(&zero, 1, MPI_INT64_T, target, AT(swapped), 1, MPI_INT64_T, window);
    MPI_Win_unlock(target, window);
    tl_step("the last word, target %d", target);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window);
    MPI_Put(&number, 1, MPI_INT64_T, target, AT(done), 1, MPI_INT64_T, window);
    MPI_Win_unlock(target, window);
}

static void outside(void)
{
    int64_t number[tl.size]; /* times that each was the target */
    memset(number, 0, sizeof(number));
    for (int origin = 0; origin < tl.size; ++origin) {
        for (int other = 0; other < tl.size; ++other) {
            if (origin == other) {
                continue;
            }
            ++number[other];
            tl_step("%d at work on %d", origin, other);
            MPI_Barrier(MPI_COMM_WORLD);
            if (tl.rank == origin) {
                work_on(other, number[other]);
            } else if (tl.rank == other) {
                while (area->done < number[other]) { /* or the watchdog ends it */
                    usleep(NAP_US);
                }
            }
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(tl.size - 1 == area->sum, "a sum of %lld", (long long) area->sum);
    for (int i = 0; i < LONGS; ++i) {
        CHECK((int64_t) i * (tl.size - 1) == area->many[i], "%lld at %d", (long long) area->many[i],
              i);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* ---- all at the same words ---- */

/* Unsigned numbers on both sides of where signed ones change their sign. */
enum { LEAST = 7, UNSIGNED = 5 /* rounds: each takes several answers of the network */ };
#define MIDDLE_64 (UINT64_C(1) << 63)
#define MIDDLE_32 UINT32_C(0x80000000)

/* From Open MPI 5.0 on the processor compares and swaps a process's own word under osc/rdma's lock, while others have the transport
 * do it without that lock (docs/known-issues.md). So there others alone do. */
static bool swaps(int target)
{
    return OMPI_MAJOR_VERSION < 5 || tl.rank != target;
}

static void add_and_compare(int target)
{
    int64_t one = 1, before, seen, next;
    int32_t small = 1, small_before;
    double half = 0.5;
    MPI_Fetch_and_op(&one, &before, MPI_INT64_T, target, AT(sum), MPI_SUM, window);
    MPI_Fetch_and_op(&small, &small_before, MPI_INT32_T, target, AT(odd) + 4, MPI_SUM, window);
    MPI_Accumulate(&half, 1, MPI_DOUBLE, target, AT(real), 1, MPI_DOUBLE, MPI_SUM, window);
    MPI_Accumulate(&one, 1, MPI_INT64_T, target, AT(packed) + 4, 1, MPI_INT64_T, MPI_SUM, window);
    MPI_Fetch_and_op(NULL, &seen, MPI_INT64_T, target, AT(swapped), MPI_NO_OP, window);
    MPI_Win_flush(target, window);
    for (before = seen + swaps(target); before != seen;) {
        next = seen + 1;
        MPI_Compare_and_swap(&next, &seen, &before, MPI_INT64_T, target, AT(swapped), window);
        MPI_Win_flush(target, window);
        if (before != seen) {
            seen = before;
            before = seen + 1;
        }
    }
}

/* Larger and smaller ones in turn, and a sum in the other half of a word. */
static void unsigned_ones(int target, int64_t most)
{
    const uint64_t large = MIDDLE_64 + (uint64_t) most, low = MIDDLE_64 - 1;
    const uint32_t small = LEAST + (uint32_t) most, high = MIDDLE_32 + 1;
    const int32_t one = 1;
    uint32_t before;
    int32_t beside;
    MPI_Accumulate(&large, 1, MPI_UINT64_T, target, AT(most_unsigned), 1, MPI_UINT64_T, MPI_MAX, window);
    MPI_Fetch_and_op(&small, &before, MPI_UINT32_T, target, AT(least_unsigned), MPI_MIN, window);
    /* Changes nothing, unless these are numbers with a sign. */
    MPI_Accumulate(&low, 1, MPI_UINT64_T, target, AT(most_unsigned), 1, MPI_UINT64_T, MPI_MAX, window);
    MPI_Fetch_and_op(&high, &before, MPI_UINT32_T, target, AT(least_unsigned), MPI_MIN, window);
    MPI_Fetch_and_op(&one, &beside, MPI_INT32_T, target, AT(beside), MPI_SUM, window);
}

/* Returns what it took out. */
static int64_t others(int target, int round)
{
    const int64_t most = (int64_t) round * tl.size + tl.rank, bit = INT64_C(1) << tl.rank,
                  token = most + 1;
    int64_t taken = 0, many[LONGS];
    for (int i = 0; i < LONGS; ++i) {
        many[i] = 1;
    }
    MPI_Accumulate(&most, 1, MPI_INT64_T, target, AT(most), 1, MPI_INT64_T, MPI_MAX, window);
    if (round < UNSIGNED) {
        unsigned_ones(target, most);
    }
    MPI_Accumulate(&bit, 1, MPI_INT64_T, target, AT(bits), 1, MPI_INT64_T, MPI_BXOR, window);
    MPI_Fetch_and_op(&token, &taken, MPI_INT64_T, target, AT(token), MPI_REPLACE, window);
    MPI_Accumulate(many, LONGS, MPI_INT64_T, target, AT(many), LONGS, MPI_INT64_T, MPI_SUM, window);
    MPI_Win_flush(target, window);
    return taken;
}

/* Nothing but the lock guards the word. */
static void guarded(int target)
{
    int64_t value = 0;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window);
    MPI_Get(&value, 1, MPI_INT64_T, target, AT(guarded), 1, MPI_INT64_T, window);
    MPI_Win_flush(target, window);
    ++value;
    MPI_Put(&value, 1, MPI_INT64_T, target, AT(guarded), 1, MPI_INT64_T, window);
    MPI_Win_unlock(target, window);
}

static void check_words(int64_t times, int64_t put_in, int64_t taken)
{
    int64_t packed;
    memcpy(&packed, area->packed + 4, sizeof(packed));
    CHECK(times == area->sum, "sum %lld of %lld", (long long) area->sum, (long long) times);
    const int64_t swapped = OMPI_MAJOR_VERSION < 5 ? times : times - ROUNDS;
    CHECK(swapped == area->swapped, "swapped %lld of %lld", (long long) area->swapped,
          (long long) swapped);
    CHECK(times == area->guarded, "guarded %lld of %lld", (long long) area->guarded,
          (long long) times);
    CHECK(times == area->odd[1] && 0 == area->odd[0] && 0 == area->odd[2],
          "small sums %d %d %d of %lld", (int) area->odd[0], (int) area->odd[1], (int) area->odd[2],
          (long long) times);
    CHECK(0.5 * (double) times == area->real, "real %f", area->real);
    CHECK(times == packed, "packed %lld of %lld", (long long) packed, (long long) times);
    CHECK(times - 1 == area->most, "most %lld of %lld", (long long) area->most,
          (long long) times - 1);
    const int64_t some = UNSIGNED * (times / ROUNDS);
    CHECK(MIDDLE_64 + (uint64_t) some - 1 == area->most_unsigned, "most, unsigned, %llx of %llx",
          (unsigned long long) area->most_unsigned, (unsigned long long) (MIDDLE_64 + (uint64_t) some - 1));
    CHECK(LEAST == area->least_unsigned, "least, unsigned, %x", (unsigned) area->least_unsigned);
    CHECK(some == area->beside, "sum beside it %d of %lld", (int) area->beside, (long long) some);
    CHECK((INT64_C(1) << tl.size) - 1 == area->bits, "bits %llx", (long long) area->bits);
    CHECK(put_in == taken + area->token, "tokens of %lld, %lld taken and %lld left",
          (long long) put_in, (long long) taken, (long long) area->token);
    for (int i = 0; i < LONGS; ++i) {
        CHECK(times == area->many[i], "%lld at %d", (long long) area->many[i], i);
    }
}

static void contended(int target)
{
    const int64_t times = (int64_t) ROUNDS * tl.size;
    int64_t taken = 0, all = 0;
    memset(area, 0, sizeof(*area));
    area->least_unsigned = MIDDLE_32;
    MPI_Barrier(MPI_COMM_WORLD);
    tl_step("all at the words of %d", target);
    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, window);
    for (int round = 0; round < ROUNDS; ++round) {
        add_and_compare(target);
        taken += others(target, round);
    }
    MPI_Win_unlock(target, window);
    tl_step("all in turn at a word of %d", target);
    for (int round = 0; round < ROUNDS; ++round) {
        guarded(target);
    }
    MPI_Allreduce(&taken, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (tl.rank == target) {
        check_words(times, times * (times + 1) / 2, all);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The words of a process alone, by itself. */
static void alone(bool by_adapter)
{
    const int64_t one = 1;
    int64_t before;
    tl_step("my own words");
    memset(area, 0, sizeof(*area));
    MPI_Barrier(MPI_COMM_WORLD);
    const long long first = tl_pvar("btl_ibx_verbs_atomics");
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, tl.rank, 0, window);
    MPI_Fetch_and_op(&one, &before, MPI_INT64_T, tl.rank, AT(sum), MPI_SUM, window);
    MPI_Win_unlock(tl.rank, window);
    const long long then = tl_pvar("btl_ibx_verbs_atomics");
    CHECK(0 == before && 1 == area->sum, "a sum of %lld", (long long) area->sum);
    CHECK(!by_adapter || then > first, "the adapter did nothing: %lld, %lld", first, then);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* True: --name 1 among the arguments, before MPI_Init. */
static bool is_asked(int argc, char **argv, const char *name)
{
    for (int i = 1; i + 1 < argc; ++i) {
        if (0 == strcmp(argv[i], name)) {
            return 0 != atoi(argv[i + 1]);
        }
    }
    return false;
}

/* As rank 0 knows the device: the laboratory's siw has none. */
static bool has_atomics(void)
{
    const char *device = getenv("LAB_KIND");
    int has = NULL == device || 0 != strcmp(device, "siw");
    MPI_Bcast(&has, 1, MPI_INT, 0, tl.ctl);
    return has;
}

/* There osc/rdma has the processor do what it does for itself. */
static bool is_one_host(void)
{
    MPI_Comm host;
    int size;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &size);
    MPI_Comm_free(&host);
    return size == tl.size;
}

int main(int argc, char **argv)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    const bool is_mixed = is_asked(argc, argv, "--mixed");
    if (is_mixed && NULL != rank && 1 == atoi(rank) % 2) {
        setenv("OMPI_MCA_btl_ibx_verbs_atomics_by", "messages", 1);
    }
    tl_start(&argc, &argv, "passive", 120);
    area_t *mine = tl_buf(sizeof(*mine));
    const bool by_adapter = tl_option("--adapter", 0) > 0 && has_atomics();
    const bool creates = tl_option("--create", 0) > 0;
    tl_step("window");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const int rc =
        creates ? MPI_Win_create(mine, sizeof(*mine), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window)
                : MPI_Win_allocate(sizeof(*area), 1, MPI_INFO_NULL, MPI_COMM_WORLD, (void *) &area,
                                   &window);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    if (MPI_SUCCESS != rc) {
        tl_skip("Open MPI has no one-sided component for these transports");
        FREE(mine);
        return tl_finish();
    }
    area = creates ? mine : area;
    memset(area, 0, sizeof(*area));
    MPI_Barrier(MPI_COMM_WORLD);
    if (tl_option("--outside", by_adapter) > 0) {
        outside();
    }
    alone(by_adapter && !is_one_host());
    for (int target = 0; target < tl.size; ++target) {
        contended(target);
    }
    MPI_Win_free(&window);
    FREE(mine);
    return tl_finish();
}
