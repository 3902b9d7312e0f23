/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Latency, bandwidth and message rate between ranks 0 and 1, in runs short enough to alternate many of them.
 *
 * --mode lat   blocking ping-pong; us = half a round trip
 * --mode bw    windows of 64 nonblocking messages, each answered by an empty message; us = one message
 * --mode rate  the same with messages of 8 bytes and many windows per repetition
 * Every size is warmed up and then measured in repetitions. A line per size:
 *     lat  size= us= min_us= [udp_us= udp_ratio=] repetitions= noisy= errors=
 *     bw   size= us= min_us= mb_s= max_mb_s= repetitions= noisy= errors=
 *     rate size= us= min_us= msg_s= max_msg_s= repetitions= noisy= errors=
 * us, mb_s, msg_s = median over the repetitions; min_us, max_ = the best one. 1 MB = 10^6 bytes.
 * repetitions = how many the result comes from; those in which a process lost its processor to another are left out
 * (noisy=1: hardly any others, so all are in).
 * --bare 1, mode lat: every repetition is also run over plain UDP sockets (bare_udp.h), in turns with MPI, by the same processes.
 * udp_us = median of those; udp_ratio = median of MPI / UDP of one repetition.
 * --posted 1, modes bw and rate: the receives of a window are posted before the sender hears that the last one has arrived,
 * so the receiver is always first (without it both sides begin a window at the same time).
 * More than two processes (neighbours: ranks 0 and 1 on one host, the others elsewhere): all exchange messages first, so that
 * everybody is connected; then the others sleep, and poll from time to time. With --bare 1 not possible.
 * Data: in mode lat the last message of each repetition is checked, else the last window. */
#include "bare_udp.h"
#include "bench.h"

static const char *const modes[] = {"lat", "bw", "rate", NULL};
enum { LAT, BW, RATE };
enum { TAG = 3, TAG_DONE = 4, TAG_END = 5, WARM_SHARE = 5, ACQUAINT = 20, ASLEEP_US = 20000 };

static char *out, *in;
static MPI_Request *requests;
static int window;
static bool posted; /* receives come before the sender is told to go on */

/* Half a round trip. */
static double ping_pong(size_t size, int round_trips, uint64_t key)
{
    int count = (int) size, peer = 1 - bench.rank;
    bench_fill(out, size, key + (uint64_t) bench.rank);
    bench_clear(in, size);
    MPI_Barrier(bench.ctl);
    double start = bench_now();
    for (int i = 0; i < round_trips; ++i) {
        if (0 == bench.rank) {
            MPI_Send(out, count, MPI_BYTE, peer, TAG, bench.comm);
            MPI_Recv(in, count, MPI_BYTE, peer, TAG, bench.comm, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(in, count, MPI_BYTE, peer, TAG, bench.comm, MPI_STATUS_IGNORE);
            MPI_Send(out, count, MPI_BYTE, peer, TAG, bench.comm);
        }
    }
    double us = us_per_half_trip(bench_now() - start, round_trips);
    bench_verify(in, size, key + (uint64_t) peer);
    return us;
}

/* Of one window, on rank 1. */
static void post_receives(int count, size_t place)
{
    for (int i = 0; i < window; ++i) {
        MPI_Irecv(in + (size_t) i * place, count, MPI_BYTE, 0, TAG, bench.comm, &requests[i]);
    }
}

/* Time of one message among windows of them. The send buffer is one, every receive has its own place. */
static double stream(size_t size, size_t place, int windows, uint64_t key)
{
    int count = (int) size, peer = 1 - bench.rank;
    if (0 == bench.rank) {
        bench_fill(out, size, key);
    } else {
        bench_clear(in, place * (size_t) window);
    }
    if (posted && 1 == bench.rank) {
        post_receives(count, place);
    }
    MPI_Barrier(bench.ctl);
    double start = bench_now();
    for (int w = 0; w < windows; ++w) {
        if (0 == bench.rank) {
            for (int i = 0; i < window; ++i) {
                MPI_Isend(out, count, MPI_BYTE, peer, TAG, bench.comm, &requests[i]);
            }
            MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
            MPI_Recv(NULL, 0, MPI_BYTE, peer, TAG_DONE, bench.comm, MPI_STATUS_IGNORE);
        } else {
            if (!posted) {
                post_receives(count, place);
            }
            MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
            if (posted && w + 1 < windows) {
                post_receives(count, place);
            }
            MPI_Send(NULL, 0, MPI_BYTE, peer, TAG_DONE, bench.comm);
        }
    }
    double us = (bench_now() - start) / ((double) windows * window);
    if (1 == bench.rank) {
        for (int i = 0; i < window; ++i) {
            bench_verify(in + (size_t) i * place, size, key);
        }
    }
    return us;
}

/* Everybody has talked to everybody. */
static void get_acquainted(void)
{
    int *words = calloc(2 * (size_t) bench.size, sizeof(words[0]));
    for (int i = 0; i < ACQUAINT; ++i) {
        MPI_Alltoall(words, 1, MPI_INT, words + bench.size, 1, MPI_INT, bench.comm);
    }
    free(words);
}

/* Of those that are not measured: until rank 0 says that it is over. */
static void sleep_through(MPI_Comm all)
{
    int over = 0;
    while (!over) {
        usleep(ASLEEP_US);
        MPI_Iprobe(0, TAG_END, all, &over, MPI_STATUS_IGNORE);
    }
    MPI_Recv(NULL, 0, MPI_BYTE, 0, TAG_END, all, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    static const char *const default_sizes[] = {"0,1,8,64,256,1K,2K,4K", "64K,256K,1M,4M", "8"};
    bench_init(&argc, &argv, 2, false);
    size_t sizes[BENCH_SIZES], largest = 0;
    int mode = bench_choice("--mode", LAT, modes);
    int n = bench_sizes("--sizes", default_sizes[mode], sizes);
    int repetitions = (int) bench_number("--repetitions", BW == mode ? 9 : 60, 1);
    /* Round trips or windows of a repetition; 0: as many as fit the mode and size. */
    int inner = (int) bench_number("--inner", 0, 0);
    window = (int) bench_number("--window", 64, 1);
    posted = 0 != bench_number("--posted", 0, 0);
    const bool bare = LAT == mode && 0 != bench_number("--bare", 0, 0);
    if (bare && bench.size > 2) {
        bench_usage("--bare is for two processes");
    }
    bench_options_end();

    const MPI_Comm all = bench.ctl;
    if (bench.size > 2) {
        get_acquainted();
        MPI_Comm_split(all, bench.rank > 1, bench.rank, &bench.ctl);
        if (bench.rank > 1) {
            sleep_through(all);
            MPI_Comm_free(&bench.ctl);
            bench.ctl = all;
            return bench_finish();
        }
    }

    for (int i = 0; i < n; ++i) {
        largest = sizes[i] > largest ? sizes[i] : largest;
    }
    size_t places = LAT == mode ? 1 : (size_t) window;
    out = bench_buffer(largest);
    in = bench_buffer(places * (largest + 8));
    requests = calloc((size_t) window, sizeof(requests[0]));
    double *us = calloc((size_t) repetitions, sizeof(us[0]));
    int *disturbed = calloc((size_t) repetitions, sizeof(disturbed[0]));
    double *udp = calloc((size_t) repetitions, sizeof(udp[0])),
           *ratio = calloc((size_t) repetitions, sizeof(ratio[0]));
    int warm = repetitions / WARM_SHARE + 1;
    const int s = bare ? bare_udp_open() : -1;
    if (bare && s < 0) {
        bench_usage("--bare: no UDP socket between the ranks: %s", strerror(errno));
    }

    for (int i = 0; i < n; ++i) {
        size_t size = sizes[i], place = (size + 7) / 8 * 8;
        int times = inner;
        if (0 == times) {
            times = LAT == mode ? 200 : RATE == mode ? 20 : 1;
        }
        for (int r = -warm; r < repetitions; ++r) {
            uint64_t key = ((uint64_t) i << 32) + 2 * (uint64_t) (r + warm);
            long preemptions = bench_preemptions();
            const bool both = s >= 0 && size <= BARE_UDP_MAX;
            double u = both && 0 == r % 2 ? bare_udp_ping_pong(s, out, in, size, times) : 0;
            double t = LAT == mode ? ping_pong(size, times, key) : stream(size, place, times, key);
            u = both && 0 != r % 2 ? bare_udp_ping_pong(s, out, in, size, times) : u;
            if (r >= 0) {
                us[r] = t;
                udp[r] = u;
                ratio[r] = u > 0 ? t / u : 0;
                disturbed[r] = bench_preemptions() != preemptions;
            }
        }
        int noisy;
        size_t kept = bench_undisturbed(udp, disturbed, (size_t) repetitions, &noisy);
        (void) bench_undisturbed(ratio, disturbed, (size_t) repetitions, &noisy);
        (void) bench_undisturbed(us, disturbed, (size_t) repetitions, &noisy);
        double median = stat_median(us, kept), least = us[0];
        long errors = bench_errors();
        if (0 != bench.rank) {
            continue;
        }
        printf("%s size=%zu us=%.4f min_us=%.4f ", modes[mode], size, median, least);
        if (s >= 0) {
            printf("udp_us=%.4f udp_ratio=%.3f ", stat_median(udp, kept), stat_median(ratio, kept));
        }
        if (BW == mode) {
            printf("mb_s=%.1f max_mb_s=%.1f ", mb_per_s((double) size, median),
                   mb_per_s((double) size, least));
        } else if (RATE == mode) {
            printf("msg_s=%.0f max_msg_s=%.0f ", 1e6 / median, 1e6 / least);
        }
        printf("repetitions=%zu noisy=%d errors=%ld\n", kept, noisy, errors);
        fflush(stdout);
    }
    if (s >= 0) {
        close(s);
    }
    free(ratio);
    free(udp);
    free(disturbed);
    free(us);
    free(requests);
    free(in);
    free(out);
    if (bench.size > 2) {
        for (int i = 2; 0 == bench.rank && i < bench.size; ++i) {
            MPI_Send(NULL, 0, MPI_BYTE, i, TAG_END, all);
        }
        MPI_Comm_free(&bench.ctl);
        bench.ctl = all;
    }
    return bench_finish();
}
