/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Ping-pong with fresh buffers, reused buffers and half of each (paper 000, fig. 3.12): --buffers buffers of each size;
 * with a reuse of 0 % every message has the next one, with 100 % all have the first, with 50 % every second one.
 *
 * A line per size:
 *     reuse size= us_0= us_50= us_100= ratio= registrations_0= registrations_100= errors=
 * us: median over the repetitions, half a round trip. ratio: no reuse to full reuse. registrations: of rcache/lazy on rank
 * 0 in all repetitions together ('absent' without it). */
#include "bench.h"

enum { TAG = 3, PATTERNS = 3 };

static long long registrations(void)
{
    static MPI_T_pvar_session session;
    static MPI_T_pvar_handle handle;
    static bool tried, present;
    unsigned long long value = 0;
    if (!tried) {
        int provided, index, count;
        tried = true;
        present = MPI_SUCCESS == MPI_T_init_thread(MPI_THREAD_SINGLE, &provided)
                  && MPI_SUCCESS == MPI_T_pvar_session_create(&session)
                  && MPI_SUCCESS
                         == MPI_T_pvar_get_index("rcache_lazy_registrations",
                                                 MPI_T_PVAR_CLASS_COUNTER, &index)
                  && MPI_SUCCESS == MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count);
        if (present) {
            MPI_T_pvar_start(session, handle);
        }
    }
    return present && MPI_SUCCESS == MPI_T_pvar_read(session, handle, &value) ? (long long) value : -1;
}

/* The buffer of message i when that share of them is reused. */
static char *buffer_of(char *all, size_t place, int buffers, int i, int reuse)
{
    const int at = 100 == reuse ? 0 : 50 == reuse ? (i & 1 ? 1 + i / 2 % (buffers - 1) : 0) : i % buffers;
    return all + (size_t) at * place;
}

static double ping_pong(char *all, size_t place, size_t size, int buffers, int times, int reuse,
                        uint64_t key)
{
    const int peer = 1 - bench.rank;
    char *last = buffer_of(all, place, buffers, times - 1, reuse);
    MPI_Barrier(bench.ctl);
    const double start = bench_now();
    for (int i = 0; i < times; ++i) {
        char *buf = buffer_of(all, place, buffers, i, reuse);
        if (0 == bench.rank) {
            if (buf == last) {
                bench_fill(buf, size, key);
            }
            MPI_Send(buf, (int) size, MPI_BYTE, peer, TAG, bench.comm);
            MPI_Recv(buf, (int) size, MPI_BYTE, peer, TAG, bench.comm, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(buf, (int) size, MPI_BYTE, peer, TAG, bench.comm, MPI_STATUS_IGNORE);
            MPI_Send(buf, (int) size, MPI_BYTE, peer, TAG, bench.comm);
        }
    }
    const double us = us_per_half_trip(bench_now() - start, times);
    bench_verify(last, size, key);
    return us;
}

int main(int argc, char **argv)
{
    static const int reuses[PATTERNS] = {0, 50, 100};
    bench_init(&argc, &argv, 2, true);
    size_t sizes[BENCH_SIZES], largest = 0;
    const int n = bench_sizes("--sizes", "4K,16K,64K,256K,1M", sizes);
    const int buffers = (int) bench_number("--buffers", 64, 2);
    const int repetitions = (int) bench_number("--repetitions", 11, 1);
    bench_options_end();
    for (int i = 0; i < n; ++i) {
        largest = sizes[i] > largest ? sizes[i] : largest;
    }
    const size_t place = largest + 4096; /* registrations do not touch */
    char *all = bench_buffer((size_t) buffers * place);
    memset(all, 1, (size_t) buffers * place);
    double *us[PATTERNS];
    for (int p = 0; p < PATTERNS; ++p) {
        us[p] = calloc((size_t) repetitions, sizeof(double));
    }
    for (int i = 0; i < n; ++i) {
        long long made[PATTERNS] = {0};
        for (int r = 0; r < repetitions; ++r) {
            for (int k = 0; k < PATTERNS; ++k) {
                const int p = (r + k) % PATTERNS;
                const long long before = registrations();
                us[p][r] = ping_pong(all, place, sizes[i], buffers, buffers, reuses[p],
                                     ((uint64_t) i << 32) + (uint64_t) (r * PATTERNS + p));
                made[p] = before < 0 ? -1 : made[p] + registrations() - before;
            }
        }
        const double none = stat_median(us[0], (size_t) repetitions),
                     half = stat_median(us[1], (size_t) repetitions),
                     full = stat_median(us[2], (size_t) repetitions);
        const long errors = bench_errors();
        if (0 == bench.rank) {
            char text[2][32];
            for (int k = 0; k < 2; ++k) {
                snprintf(text[k], sizeof(text[k]), made[2 * k] < 0 ? "absent" : "%lld", made[2 * k]);
            }
            printf("reuse size=%zu us_0=%.2f us_50=%.2f us_100=%.2f ratio=%.2f registrations_0=%s "
                   "registrations_100=%s errors=%ld\n",
                   sizes[i], none, half, full, none / full, text[0], text[1], errors);
            fflush(stdout);
        }
    }
    free(all);
    return bench_finish();
}
