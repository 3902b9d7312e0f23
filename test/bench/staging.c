/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The bandwidth of messages between two accelerators beside what they are made of: copies of the device, and messages of host
 * memory. For the test accelerator (test/accel), Open MPI 5.0 and 6.0.
 *
 * In each repetition, in turns: rank 0 copies the bytes from the device (the other rank waits in a barrier without a copy of its
 * own); a ping-pong between host buffers; one between device buffers. A line per size:
 *     staging size= copy_mb_s= wire_mb_s= memcpy_mb_s= device_mb_s= ratio= q1= q3= one_processor= moves= repetitions= noisy= errors=
 * Medians over the repetitions; ratio = median of device / min(copy, wire) of the same repetition, q1 and q3 its quartiles.
 * one_processor = the ratio of a perfect pipeline in which each end's processor, which is busy all the time that the wire takes, moves
 * the bytes of the copies as well (the test accelerator has nobody else to do it), at the speed of memcpy, which is timed, too:
 * longer of copy and wire / longer of copy and the sum of memcpy and wire. Shorter copies than of the whole may be faster.
 * moves: 0 with accelerator_test_moves 0, where copies need no processor, as those of a device's engine, and device buffers are not
 * verified, since nothing is in them.
 * 1 MB = 10^6 bytes. */
#include "bench.h"

#include <dlfcn.h>

enum { TAG = 3, WARM = 3 };

static struct {
    void *(*take)(size_t);
    bool (*give)(void *);
    void *(*address)(const void *);
    bool (*begin)(void *, const void *, size_t);
    int (*query)(void);
} device;

static bool find_device(void)
{
    *(void **) &device.take = dlsym(NULL, "test_accelerator_take");
    *(void **) &device.give = dlsym(NULL, "test_accelerator_give");
    *(void **) &device.address = dlsym(NULL, "test_accelerator_address");
    *(void **) &device.begin = dlsym(NULL, "test_accelerator_begin");
    *(void **) &device.query = dlsym(NULL, "test_accelerator_query");
    return NULL != device.take && NULL != device.give && NULL != device.address && NULL != device.begin
           && NULL != device.query;
}

/* Where the program sees the bytes, and what MPI and the device get. */
typedef struct buffer {
    void *see, *use;
} buffer_t;

static buffer_t device_buffer(size_t n)
{
    buffer_t b = {.see = device.take(n + 8)};
    if (NULL == b.see) {
        bench_usage("no memory of the device for %zu bytes", n);
    }
    b.use = device.address(b.see);
    memset(b.see, 0x5a, n + 8);
    return b;
}

/* Microseconds of a copy, of rank 0. */
static double copy(void *host, const buffer_t *from, size_t size)
{
    MPI_Barrier(bench.ctl);
    const double start = bench_now();
    if (0 == bench.rank) {
        int state = device.begin(host, from->use, size) ? 1 : -1;
        while (1 == state) {
            state = device.query();
        }
        bench.errors += state < 0;
    }
    return bench_now() - start;
}

/* Microseconds of half a round trip. */
static double ping_pong(const buffer_t *out, const buffer_t *in, size_t size, int times,
                        uint64_t key, bool verify)
{
    const int peer = 1 - bench.rank;
    bench_fill(out->see, size, key + (uint64_t) bench.rank);
    bench_clear(in->see, size);
    MPI_Barrier(bench.ctl);
    const double start = bench_now();
    for (int i = 0; i < times; ++i) {
        if (0 == bench.rank) {
            MPI_Send(out->use, (int) size, MPI_BYTE, peer, TAG, bench.comm);
        }
        MPI_Recv(in->use, (int) size, MPI_BYTE, peer, TAG, bench.comm, MPI_STATUS_IGNORE);
        if (1 == bench.rank) {
            MPI_Send(out->use, (int) size, MPI_BYTE, peer, TAG, bench.comm);
        }
    }
    const double us = (bench_now() - start) / (2.0 * times);
    if (verify) {
        bench_verify(in->see, size, key + (uint64_t) peer);
    }
    return us;
}

/* Does a copy bring the bytes? With accelerator_test_moves 0 it only takes its time. */
static bool moves(void)
{
    const buffer_t from = device_buffer(sizeof(uint64_t));
    uint64_t to = 0;
    bool ok = device.begin(&to, from.use, sizeof(to));
    int state = 1;
    while (ok && 1 == state) {
        state = device.query();
    }
    bench.errors += !ok || state < 0;
    ok = 0 == memcmp(&to, from.see, sizeof(to));
    (void) device.give(from.see);
    return ok;
}

static void run_size(size_t size, int repetitions, int times)
{
    enum { COPY, WIRE, MEMCPY, DEVICE, RATIO, ONE_PROCESSOR, KINDS };
    const size_t n = (size_t) repetitions;
    double *us[KINDS];
    int *disturbed = calloc(n, sizeof(disturbed[0])), *given = calloc(n, sizeof(given[0])), noisy = 0;
    for (int k = 0; k < KINDS; ++k) {
        us[k] = calloc(n, sizeof(us[k][0]));
    }
    const bool moved_all = moves();
    buffer_t host[2], dev[2];
    for (int i = 0; i < 2; ++i) {
        host[i].see = host[i].use = bench_buffer(size);
        dev[i] = device_buffer(size);
    }
    for (int r = -WARM; r < repetitions; ++r) {
        const uint64_t key = 4 * (uint64_t) (r + WARM);
        const long preemptions = bench_preemptions();
        const double copied = copy(host[0].see, &dev[0], size);
        const double began = bench_now();
        memcpy(host[0].see, dev[0].see, size);
        const double moved = bench_now() - began;
        const bool host_first = 0 == r % 2;
        double wire = host_first ? ping_pong(&host[0], &host[1], size, times, key, true) : 0;
        const double all = ping_pong(&dev[0], &dev[1], size, times, key + 2, moved_all);
        wire = host_first ? wire : ping_pong(&host[0], &host[1], size, times, key, true);
        if (r >= 0) {
            us[COPY][r] = copied;
            us[WIRE][r] = wire;
            us[MEMCPY][r] = moved;
            us[DEVICE][r] = all;
            const double slower = copied > wire ? copied : wire;
            us[RATIO][r] = slower / all;
            const double both = wire + (moved_all ? moved : 0);
            us[ONE_PROCESSOR][r] = slower / (copied > both ? copied : both);
            given[r] = bench_preemptions() != preemptions;
        }
    }
    size_t kept = 0;
    for (int k = 0; k < KINDS; ++k) {
        memcpy(disturbed, given, n * sizeof(given[0]));
        kept = bench_undisturbed(us[k], disturbed, n, &noisy);
    }
    const long errors = bench_errors();
    if (0 == bench.rank) {
        printf("staging size=%zu copy_mb_s=%.0f wire_mb_s=%.0f memcpy_mb_s=%.0f device_mb_s=%.0f "
               "ratio=%.3f q1=%.3f q3=%.3f "
               "one_processor=%.3f moves=%d repetitions=%zu noisy=%d errors=%ld\n",
               size, (double) size / stat_median(us[COPY], kept),
               (double) size / stat_median(us[WIRE], kept),
               (double) size / stat_median(us[MEMCPY], kept),
               (double) size / stat_median(us[DEVICE], kept), stat_median(us[RATIO], kept),
               stat_quantile(us[RATIO], kept, 0.25), stat_quantile(us[RATIO], kept, 0.75),
               stat_median(us[ONE_PROCESSOR], kept), moved_all, kept, noisy, errors);
        fflush(stdout);
    }
    for (int i = 0; i < 2; ++i) {
        free(host[i].see);
        (void) device.give(dev[i].see);
    }
    for (int k = 0; k < KINDS; ++k) {
        free(us[k]);
    }
    free(given);
    free(disturbed);
}

int main(int argc, char **argv)
{
    bench_init(&argc, &argv, 2, true);
    size_t sizes[BENCH_SIZES];
    const int n = bench_sizes("--sizes", "64K,1M,4M", sizes);
    const int repetitions = (int) bench_number("--repetitions", 40, 1);
    const int times = (int) bench_number("--inner", 5, 1); /* round trips of a repetition */
    bench_options_end();
    if (!find_device()) {
        bench_usage("there is no test accelerator (test/accel)");
    }
    for (int i = 0; i < n; ++i) {
        run_size(sizes[i], repetitions, times);
    }
    return bench_finish();
}
