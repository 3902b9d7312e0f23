/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* MPI_Alloc_mem with mpool/freq: hints and info keys, alignment, order of freeing, data through the
 * transports, windows, threads.
 *
 * --default 1    mpool_freq_default is set: requests without hints are served too
 * --wrapped 1    the component is loaded before the program: the info keys work by themselves
 * --limit 1      a transport registers nothing, or not always (the test's parameters see to that) */
#include "testlib.h"

#include <pthread.h>

static bool by_default, wrapped, limited;

static unsigned long long counter(const char *name)
{
    char full[64];
    snprintf(full, sizeof(full), "mpool_freq_%.48s", name);
    const long long value = tl_pvar(full);
    CHECK(value >= 0, "there is no performance variable %s", full);
    return (unsigned long long) value;
}

/* What a variable of class LEVEL says now. */
static unsigned long long level(const char *name)
{
    int index, count = 0;
    unsigned long long value = ~0ull;
    MPI_T_pvar_handle handle;
    char full[64];
    snprintf(full, sizeof(full), "mpool_freq_%.48s", name);
    if (CHECK(MPI_SUCCESS == MPI_T_pvar_get_index(full, MPI_T_PVAR_CLASS_LEVEL, &index),
              "there is no performance variable %s", full)) {
        MPI_T_pvar_handle_alloc(tl.session, index, NULL, &handle, &count);
        MPI_T_pvar_read(tl.session, handle, &value);
        MPI_T_pvar_handle_free(tl.session, &handle);
    }
    return value;
}

static MPI_Info info_of(const char *key, const char *value, const char *key2, const char *value2)
{
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, key, value);
    if (NULL != key2) {
        MPI_Info_set(info, key2, value2);
    }
    return info;
}

/* Memory is all there, and nobody else's. */
static void fill(void *memory, size_t size, uint64_t seed)
{
    tl_fill(memory, size, tl_key(seed, tl.rank, 0, 0, size));
}

static void check(const void *memory, size_t size, uint64_t seed)
{
    const size_t at = tl_differs(memory, size, tl_key(seed, tl.rank, 0, 0, size));
    CHECK(at >= size, "%zu bytes: byte %zu was changed", size, at);
}

/* Served by freq, or not. */
static void is_ours(unsigned long long before, bool expected)
{
    const unsigned long long now = counter("pool_allocations") + counter("own_allocations");
    CHECK((now > before) == expected, "allocations from the pool: %llu before, %llu now", before,
          now);
}

static unsigned long long served(void)
{
    return counter("pool_allocations") + counter("own_allocations");
}

/* ---- what is asked for ---- */

static void hints(void)
{
    static const struct {
        const char *hints;
        bool is_ours;
        size_t alignment;
    } cases[] = {
        {"mpool=freq", true, 256},
        {"mpool=freq,must_be_shared", true, 256},
        {"must_be_aligned=0", true, 4096},
        {"must_be_aligned=1", true, 256},
        {"must_be_aligned=512", true, 512},
        {"must_be_aligned=64K,mpool=freq", true, 65536},
        {"must_be_aligned=32M,must_be_shared", true, 32u << 20},
        {"mpool=none", false, 1},
        {"mpool=hugepage,must_be_shared", false, 1},
    };
    static const size_t sizes[] = {1, 100, 1024, 5000, 70000, 1 << 20, (3 << 20) + 5, 40 << 20};
    for (size_t i = 0; i < TL_N(cases); ++i) {
        MPI_Info info = info_of("mpool_hints", cases[i].hints, NULL, NULL);
        for (size_t s = 0; s < TL_N(sizes); ++s) {
            tl_step("%zu bytes with %s", sizes[s], cases[i].hints);
            const unsigned long long before = served();
            char *memory = NULL;
            CHECK_CLASS(MPI_Alloc_mem((MPI_Aint) sizes[s], info, &memory), MPI_SUCCESS);
            is_ours(before, cases[i].is_ours);
            CHECK(0 == (uintptr_t) memory % cases[i].alignment, "%p is not aligned",
                  (void *) memory);
            fill(memory, sizes[s], i);
            check(memory, sizes[s], i);
            MPI_Free_mem(memory);
        }
        MPI_Info_free(&info);
    }
    tl_step("hints that mean nothing to freq");
    MPI_Info info = info_of("mpool_hints", "page_size=2M", NULL, NULL);
    void *memory;
    unsigned long long before = served();
    MPI_Alloc_mem(100000, info, &memory);
    is_ours(before, false);
    MPI_Free_mem(memory);
    MPI_Info_free(&info);

    tl_step("no hints");
    before = served();
    MPI_Alloc_mem(100000, MPI_INFO_NULL, &memory);
    is_ours(before, by_default);
    MPI_Free_mem(memory);
    before = served();
    MPI_Alloc_mem(100, MPI_INFO_NULL, &memory); /* below MCA_MPOOL_FREQ_DEFAULT_MIN */
    is_ours(before, false);
    MPI_Free_mem(memory);
    MPI_Alloc_mem(0, MPI_INFO_NULL, &memory);
    CHECK(NULL == memory, "of 0 bytes: %p", memory);
}

/* ---- the info keys ---- */

static void keys(bool can_share)
{
    char *memory = NULL;
    tl_step("must_be_shared as an info key");
    MPI_Info info = info_of("must_be_shared", "", "must_be_aligned", "0");
    MPI_Info_set(info, "must_be_shared", "true");
    const int class = tl_class(MPI_Alloc_mem(9000, info, &memory));
    if (can_share) {
        CHECK(MPI_SUCCESS == class && 0 == (uintptr_t) memory % 4096, "class %d, %p", class,
              (void *) memory);
        fill(memory, 9000, 1);
        check(memory, 9000, 1);
        MPI_Free_mem(memory);
    } else {
        CHECK(MPI_ERR_NO_MEM == class && NULL == memory, "class %d, %p", class, (void *) memory);
    }
    tl_step("without must_be_shared");
    MPI_Info_set(info, "must_be_shared", "0");
    CHECK_CLASS(MPI_Alloc_mem(9000, info, &memory), MPI_SUCCESS);
    CHECK(0 == (uintptr_t) memory % 4096, "%p is not aligned", (void *) memory);
    MPI_Free_mem(memory);
    tl_step("another pool cannot promise it");
    MPI_Info_set(info, "must_be_shared", "1");
    MPI_Info_set(info, "mpool_hints", "mpool=none");
    CHECK_CLASS(MPI_Alloc_mem(9000, info, &memory), MPI_ERR_NO_MEM);
    MPI_Info_free(&info);

    tl_step("alignments");
    for (size_t alignment = 1; alignment <= (size_t) 64 << 20; alignment *= 2) {
        char text[32];
        snprintf(text, sizeof(text), "%zu", alignment);
        info = info_of("must_be_aligned", text, NULL, NULL);
        CHECK_CLASS(MPI_Alloc_mem(3000, info, &memory), MPI_SUCCESS);
        CHECK(0 == (uintptr_t) memory % alignment, "%p is not at a multiple of %zu",
              (void *) memory, alignment);
        fill(memory, 3000, alignment);
        check(memory, 3000, alignment);
        MPI_Free_mem(memory);
        MPI_Info_free(&info);
    }
    info = info_of("must_be_aligned", "48", NULL, NULL);
    CHECK_CLASS(MPI_Alloc_mem(3000, info, &memory), MPI_ERR_INFO_VALUE);
    MPI_Info_free(&info);
}

/* ---- many, in any order ---- */

enum { MANY = 300 };

typedef struct {
    char *memory;
    size_t size;
    uint64_t seed;
} block_t;

static void any_order(uint64_t seed, int rounds)
{
    MPI_Info info = info_of("mpool_hints", "mpool=freq", NULL, NULL);
    block_t block[MANY] = {{NULL, 0, 0}};
    tl_rng_t rng = {seed};
    for (int round = 0; round < rounds; ++round) {
        block_t *b = &block[tl_below(&rng, MANY)];
        if (NULL != b->memory) {
            check(b->memory, b->size, b->seed);
            MPI_Free_mem(b->memory);
            b->memory = NULL;
        } else {
            b->size = 1 + tl_below(&rng, tl_below(&rng, 10) > 0 ? 20000 : 2000000);
            b->seed = seed * 1000000 + (uint64_t) round;
            CHECK_CLASS(MPI_Alloc_mem((MPI_Aint) b->size, info, &b->memory), MPI_SUCCESS);
            fill(b->memory, b->size, b->seed);
        }
    }
    for (int i = 0; i < MANY; ++i) {
        if (NULL != block[i].memory) {
            check(block[i].memory, block[i].size, block[i].seed);
            MPI_Free_mem(block[i].memory);
        }
    }
    MPI_Info_free(&info);
}

static void *thread(void *number)
{
    any_order(100 + (uint64_t) (uintptr_t) number, 2000);
    return NULL;
}

static void in_threads(void)
{
    pthread_t id[4];
    tl_step("four threads");
    for (uintptr_t i = 0; i < TL_N(id); ++i) {
        CHECK(0 == pthread_create(&id[i], NULL, thread, (void *) i), "no thread");
    }
    for (size_t i = 0; i < TL_N(id); ++i) {
        pthread_join(id[i], NULL);
    }
}

/* ---- data ---- */

static void exchange(void)
{
    static const size_t sizes[] = {1, 100, 1024, 4096, 8192, 100000, 1 << 20, (5 << 20) + 3};
    const int peer = tl.rank ^ 1;
    MPI_Info info = info_of("mpool_hints", "mpool=freq", NULL, NULL);
    if (peer >= tl.size) {
        MPI_Info_free(&info);
        return;
    }
    unsigned long long registrations = 0;
    for (size_t s = 0; s < TL_N(sizes); ++s) {
        const size_t n = sizes[s];
        char *out, *in;
        tl_step("exchange of %zu bytes", n);
        MPI_Alloc_mem((MPI_Aint) n, info, &out);
        MPI_Alloc_mem((MPI_Aint) n, info, &in);
        for (int round = 0; round < 20; ++round) {
            MPI_Request request[2];
            tl_fill(out, n, tl_key(5, tl.rank, peer, round, n));
            MPI_Irecv(in, (int) n, MPI_BYTE, peer, 7, MPI_COMM_WORLD, &request[0]);
            MPI_Isend(out, (int) n, MPI_BYTE, peer, 7, MPI_COMM_WORLD, &request[1]);
            MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
            const size_t at = tl_differs(in, n, tl_key(5, peer, tl.rank, round, n));
            CHECK(at >= n, "round %d: byte %zu is wrong", round, at);
            memset(out, 0xa5, n); /* complete: the buffer is ours again */
            if (0 == round) {
                registrations = counter("registrations");
            }
        }
        CHECK(counter("registrations") == registrations,
              "sends registered segments: %llu, then %llu", registrations,
              counter("registrations"));
        MPI_Free_mem(in);
        MPI_Free_mem(out);
    }
    MPI_Info_free(&info);
}

static void windows(void)
{
    tl_step("windows");
    MPI_Info info = info_of("mpool_hints", "mpool=freq", NULL, NULL);
    int *memory, *allocated;
    MPI_Win window, other;
    const int next = (tl.rank + 1) % tl.size, prev = (tl.rank + tl.size - 1) % tl.size;
    MPI_Alloc_mem(40000 * sizeof(int), info, &memory);
    memset(memory, 0xff, 40000 * sizeof(int));
    if (MPI_SUCCESS
        != MPI_Win_create(memory, 40000 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                          &window)) {
        MPI_Free_mem(memory); /* Open MPI has no one-sided component for these transports */
        MPI_Info_free(&info);
        return;
    }
    const int class = tl_class(MPI_Win_allocate(1000 * sizeof(int), sizeof(int), info,
                                                MPI_COMM_WORLD, &allocated, &other));
    if (MPI_SUCCESS != class) { /* osc/rdma needs a registration, and has nothing to fall back to */
        CHECK(limited, "MPI_Win_allocate: class %d", class);
        MPI_Win_free(&window);
        MPI_Free_mem(memory);
        MPI_Info_free(&info);
        return;
    }
    for (int i = 0; i < 1000; ++i) {
        allocated[i] = 1000 * tl.rank + i;
    }
    MPI_Win_fence(0, window);
    MPI_Put(allocated, 1000, MPI_INT, next, 17, 1000, MPI_INT, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < 1000; ++i) {
        CHECK(memory[17 + i] == 1000 * prev + i, "put: %d at %d", memory[17 + i], i);
    }
    MPI_Win_fence(0, other);
    MPI_Get(memory + 20000, 1000, MPI_INT, next, 0, 1000, MPI_INT, other);
    MPI_Win_fence(0, other);
    CHECK(memory[20999] == 1000 * next + 999, "get: %d", memory[20999]);
    MPI_Win_free(&other);
    MPI_Win_free(&window);
    MPI_Free_mem(memory);
    MPI_Info_free(&info);
}

int main(int argc, char **argv)
{
    const int threads = tl_start_thread(&argc, &argv, "allocmem", 120, MPI_THREAD_MULTIPLE);
    by_default = tl_option("--default", 0);
    wrapped = tl_option("--wrapped", 0);
    limited = tl_option("--limit", 0);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);

    if (tl_pvar("mpool_freq_segments") < 0) {
        tl_skip("mpool/freq is not there");
        return tl_finish();
    }
    if (!limited) {
        hints();
    }
    if (wrapped) {
        keys(!limited);
    }
    tl_step("many, in any order");
    any_order(1, 5000);
    const unsigned long long mapped = level("bytes_mapped");
    CHECK(0 == level("bytes_used"), "bytes still used: %llu", level("bytes_used"));
    for (int i = 0; i < 5; ++i) {
        any_order(2 + (uint64_t) i, 2000);
    }
    CHECK(level("bytes_mapped") <= mapped, "mapped: %llu, then %llu", mapped,
          level("bytes_mapped"));
    exchange();
    windows();
    if (MPI_THREAD_MULTIPLE == threads) {
        in_threads();
    }
    CHECK(0 == counter("frees_refused"), "refused frees: %llu", counter("frees_refused"));
    CHECK(0 == level("bytes_used"), "bytes used in the end: %llu", level("bytes_used"));
    /* Not freed before the end: MPI_Finalize must cope. */
    void *left;
    MPI_Info info = info_of("mpool_hints", "mpool=freq", NULL, NULL);
    MPI_Alloc_mem(100000, info, &left);
    MPI_Info_free(&info);
    return tl_finish();
}
