/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What a job holds because its processes have talked: memory after an all-to-all, beyond what there was before the first
 * message (test/bench/README.md). All processes must be on one host, with nothing else talking there.
 *
 * A line:  memory ranks= size= rounds= pss_kib= anonymous_kib= socket_kib= slab_kib= sockets= first_us= again_us= errors=
 * pss, anonymous = growth of the processes' own pages, summed (smaps_rollup); socket = growth of what the kernel's sockets
 * hold in buffers (sockstat); slab = growth of its objects for sockets (slabinfo; 0 unless root); sockets = growth of
 * their number; first = time of the first all-to-all, in which all connections are made, at the process where it took longest;
 * again = of the shortest after it. */
#include "bench.h"

enum { PSS, ANONYMOUS, USER_VALUES };
enum { SOCKET = USER_VALUES, SLAB, SOCKETS, VALUES };

/* Sum of 'NAME: N kB' lines of this process. */
static void own_pages(double *value)
{
    char line[256];
    long kib;
    FILE *in = fopen("/proc/self/smaps_rollup", "r");
    value[PSS] = value[ANONYMOUS] = 0;
    while (NULL != in && NULL != fgets(line, sizeof(line), in)) {
        if (1 == sscanf(line, "Pss: %ld", &kib)) {
            value[PSS] = (double) kib;
        } else if (1 == sscanf(line, "Anonymous: %ld", &kib)) {
            value[ANONYMOUS] = (double) kib;
        }
    }
    if (NULL != in) {
        fclose(in);
    }
}

/* 'TCP: inuse 5 orphan 0 tw 0 alloc 7 mem 1', 'UDP: inuse 2 mem 0', 'TCP6: inuse 1'. */
static void sockets(const char *path, double *value)
{
    char line[256];
    FILE *in = fopen(path, "r");
    while (NULL != in && NULL != fgets(line, sizeof(line), in)) {
        if (0 == strncmp(line, "TCP", 3) || 0 == strncmp(line, "UDP", 3)) {
            const char *inuse = strstr(line, "inuse "), *mem = strstr(line, "mem ");
            value[SOCKETS] += NULL == inuse || 0 == strncmp(line, "UDPLITE", 7) ? 0 : atof(inuse + 6);
            value[SOCKET] += NULL == mem ? 0 : atof(mem + 4) * (double) sysconf(_SC_PAGESIZE) / 1024;
        }
    }
    if (NULL != in) {
        fclose(in);
    }
}

static void slabs(double *value)
{
    static const char *const names[] = {"TCP", "TCPv6", "UDP", "UDPv6", "sock_inode_cache", "tw_sock_TCP",
                                        "tcp_bind_bucket", "tcp_bind2_bucket", "request_sock_TCP", NULL};
    char line[512], name[64];
    unsigned long active, total, size;
    FILE *in = fopen("/proc/slabinfo", "r");
    while (NULL != in && NULL != fgets(line, sizeof(line), in)) {
        if (4 == sscanf(line, "%63s %lu %lu %lu", name, &active, &total, &size)) {
            for (int i = 0; NULL != names[i]; ++i) {
                value[SLAB] += 0 == strcmp(name, names[i]) ? (double) (active * size) / 1024 : 0;
            }
        }
    }
    if (NULL != in) {
        fclose(in);
    }
}

static void measure(double *value)
{
    own_pages(value);
    value[SOCKET] = value[SLAB] = value[SOCKETS] = 0;
    sockets("/proc/net/sockstat", value);
    sockets("/proc/net/sockstat6", value);
    slabs(value);
}

/* Not bench_init: that sends messages. */
int main(int argc, char **argv)
{
    double before[VALUES], after[VALUES], sum[VALUES];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &bench.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &bench.size);
    bench.argc = argc;
    bench.argv = argv;
    bench.used = calloc((size_t) argc, sizeof(bool));
    size_t sizes[BENCH_SIZES];
    bench_sizes("--size", "4K", sizes);
    const int rounds = (int) bench_number("--rounds", 4, 2);
    const long settle_ms = bench_number("--settle-ms", 2500, 0);
    bench_options_end();

    /* The user's buffers are not counted: they are touched before. */
    const size_t all = sizes[0] * (size_t) bench.size;
    char *out = malloc(all + 1), *in = malloc(all + 1);
    memset(out, bench.rank, all + 1);
    memset(in, 1, all + 1);
    for (int i = 0; i < bench.size; ++i) {
        memset(out + (size_t) i * sizes[0], bench.rank + i, sizes[0]);
    }
    usleep(200000);
    measure(before);
    usleep(300000); /* the others measure, too, before anybody talks */
    double us[2] = {0, 1e12}, slowest[2]; /* the first, and the shortest of the others */
    for (int i = 0; i < rounds; ++i) {
        const double start = bench_now();
        MPI_Alltoall(out, (int) sizes[0], MPI_BYTE, in, (int) sizes[0], MPI_BYTE, MPI_COMM_WORLD);
        const double took = bench_now() - start;
        us[i > 0] = 0 == i || took < us[1] ? took : us[1];
    }
    for (size_t i = 0; i < all; ++i) {
        bench.errors += in[i] != (char) ((int) (i / sizes[0]) + bench.rank);
    }
    /* What is held after the work, not during it: acknowledgements and delayed frees have their time. */
    for (long i = 0; i < settle_ms / 10; ++i) {
        int flag;
        MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        usleep(10000);
    }
    measure(after);
    for (int i = 0; i < VALUES; ++i) {
        after[i] -= before[i];
    }
    MPI_Reduce(after, sum, VALUES, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(us, slowest, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    long errors = 0;
    MPI_Reduce(&bench.errors, &errors, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (0 == bench.rank) {
        /* The kernel's numbers are the host's: one process's view of them. */
        printf("memory ranks=%d size=%zu rounds=%d pss_kib=%.0f anonymous_kib=%.0f socket_kib=%.0f slab_kib=%.0f "
               "sockets=%.0f first_us=%.0f again_us=%.0f errors=%ld\n",
               bench.size, sizes[0], rounds, sum[PSS], sum[ANONYMOUS], after[SOCKET], after[SLAB], after[SOCKETS], slowest[0], slowest[1],
               errors);
    }
    free(in);
    free(out);
    MPI_Finalize();
    return 0 != errors;
}
