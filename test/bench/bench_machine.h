/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What the machine under two processes is like at this moment: how long a cache line takes from one to the other.
 *
 * Two virtual processors may be neighbours now and far apart a minute later; latencies then differ by a factor that
 * has nothing to do with MPI. The programs print this time at their start and end, the drivers compare only runs that
 * had the same. Uses no MPI call while it measures, thus says nothing about the PML.
 * Included by bench.h, which has the variables. */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

#include <fcntl.h>
#include <mpi.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { CORE_BATCHES = 20, CORE_TRIPS = 100, CORE_SPINS = 2000, CORE_STOP = INT32_MAX };
static const double core_patience_us = 20000.0;
static const double core_most_ns = 2000.0; /* longer: they share a processor */

struct core_line {
    _Alignas(128) _Atomic uint32_t ball;
    _Alignas(128) _Atomic uint64_t cookie;
};

static inline double core_clock_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec * 1e6 + (double) t.tv_nsec * 1e-3;
}

/* Microseconds of processor time that this machine wanted and its hypervisor gave to others, summed over the processors since
 * the start, in ticks of usually 10 ms; 0 where the kernel does not tell. What was measured meanwhile says little. */
static inline double bench_stolen_us(void)
{
    unsigned long long ticks = 0;
    FILE *stat = fopen("/proc/stat", "r");
    if (NULL != stat) {
        if (1 != fscanf(stat, "cpu %*u %*u %*u %*u %*u %*u %*u %llu", &ticks)) {
            ticks = 0;
        }
        fclose(stat);
    }
    return (double) ticks * 1e6 / (double) sysconf(_SC_CLK_TCK);
}

/* Waits until the ball is 'wanted'; false when the game is over or lasts too long (fewer processors than processes). */
static inline bool core_catch(struct core_line *line, uint32_t wanted, double end_us)
{
    for (unsigned spins = 1;; ++spins) {
        uint32_t ball = atomic_load_explicit(&line->ball, memory_order_acquire);
        if (ball == wanted) {
            return true;
        }
        if (CORE_STOP == ball) {
            return false;
        }
        if (0 == spins % CORE_SPINS) {
            sched_yield();
            if (core_clock_us() > end_us) {
                return false;
            }
        }
    }
}

/* The same shared page in ranks 0 and 1, or NULL on every rank if they are not on one host. Collective. */
static inline struct core_line *core_line_map(int rank, MPI_Comm comm)
{
    char name[64] = "";
    struct core_line *line = NULL;
    uint64_t cookie = (uint64_t) getpid() << 32 ^ (uint64_t) (core_clock_us() * 1e3);
    int file = -1, fine = 1;
    if (0 == rank) {
        snprintf(name, sizeof(name), "/bench-%ld-%llx", (long) getpid(),
                 (unsigned long long) cookie);
        file = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
        fine = file >= 0 && 0 == ftruncate(file, sizeof(*line));
    }
    MPI_Bcast(name, sizeof(name), MPI_CHAR, 0, comm);
    MPI_Bcast(&cookie, 1, MPI_UINT64_T, 0, comm);
    if (1 == rank) {
        file = shm_open(name, O_RDWR, 0600);
    }
    if (rank < 2 && file >= 0 && fine) {
        line = mmap(NULL, sizeof(*line), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        line = MAP_FAILED == line ? NULL : line;
    }
    if (0 == rank && NULL != line) {
        atomic_store(&line->cookie, cookie);
    }
    MPI_Barrier(comm);
    if (rank < 2) {
        fine = NULL != line && atomic_load(&line->cookie) == cookie;
    }
    if (file >= 0) {
        close(file);
    }
    MPI_Allreduce(MPI_IN_PLACE, &fine, 1, MPI_INT, MPI_MIN, comm);
    if (0 == rank) {
        shm_unlink(name);
    }
    if (!fine && NULL != line) {
        munmap(line, sizeof(*line));
        line = NULL;
    }
    return line;
}

/* One way between the processors of ranks 0 and 1 in ns, the best of several batches; 0: they share no memory, or have
 * no processor each. *same_host tells which. Collective; the result is at rank 0. */
static inline double bench_core_ns(int rank, MPI_Comm comm, bool *same_host)
{
    struct core_line *line = core_line_map(rank, comm);
    double best = 0, end_us = core_clock_us() + core_patience_us;
    int shared = NULL != line;
    MPI_Bcast(&shared, 1, MPI_INT, 0, comm);
    *same_host = shared;
    if (!shared || rank > 1) {
        MPI_Barrier(comm);
        return 0;
    }
    uint32_t turn = 0;
    bool playing = true;
    for (int b = 0; b < CORE_BATCHES && playing; ++b) {
        double start = core_clock_us();
        for (int i = 0; i < CORE_TRIPS && playing; ++i, turn += 2) {
            /* Rank 0 makes it odd, rank 1 even. */
            if (0 == rank) {
                atomic_store_explicit(&line->ball, turn + 1, memory_order_release);
                playing = core_catch(line, turn + 2, end_us);
            } else {
                playing = core_catch(line, turn + 1, end_us);
                if (playing) {
                    atomic_store_explicit(&line->ball, turn + 2, memory_order_release);
                }
            }
        }
        double ns = (core_clock_us() - start) * 1e3 / (2.0 * CORE_TRIPS);
        best = playing && (0 == best || ns < best) ? ns : best;
    }
    if (!playing) {
        atomic_store(&line->ball, CORE_STOP);
    }
    MPI_Barrier(comm);
    munmap(line, sizeof(*line));
    return best < core_most_ns ? best : 0;
}

#endif
