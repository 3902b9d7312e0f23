/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* MPI-IO as IOR does it with one shared file: blocks of the processes take turns in it, all write theirs with one collective
 * call and read those of the next process back. What is exchanged before a write (two-phase I/O) goes through the PML; the file
 * is to be in memory, so that the network is what is measured.
 *
 * --sizes: bytes of a block   --blocks: of each process (64)   --file: name of the file, which all hosts see
 *
 * A line per size:  fileio np= size= blocks= write_s= read_s= s= repetitions= errors=
 * s = both; medians over the repetitions of the slowest process. */
#include "bench.h"

struct fileio {
    const char *name;
    size_t size;
    int blocks;
    char *out, *in;
    MPI_Datatype view;
};

static uint64_t key_of(int from, int round)
{
    return ((uint64_t) from << 32) + (uint64_t) round;
}

/* Seconds of the slowest since `start`. */
static double slowest(double start)
{
    double mine = (bench_now() - start) / 1e6, most;
    MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, bench.ctl);
    return most;
}

static void once(struct fileio *f, int round, double *write_s, double *read_s)
{
    const int bytes = (int) f->size * f->blocks, next = (bench.rank + 1) % bench.size;
    MPI_File file;
    bench_fill(f->out, (size_t) bytes, key_of(bench.rank, round));
    bench_clear(f->in, (size_t) bytes);
    if (MPI_SUCCESS != MPI_File_open(bench.comm, f->name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file)) {
        fprintf(stderr, "fileio: cannot open %s\n", f->name);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_File_set_view(file, (MPI_Offset) bench.rank * (MPI_Offset) f->size, MPI_BYTE, f->view, "native", MPI_INFO_NULL);
    MPI_Barrier(bench.comm);
    double start = bench_now();
    MPI_File_write_all(file, f->out, bytes, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_sync(file);
    *write_s = slowest(start);
    MPI_File_set_view(file, (MPI_Offset) next * (MPI_Offset) f->size, MPI_BYTE, f->view, "native", MPI_INFO_NULL);
    MPI_Barrier(bench.comm);
    start = bench_now();
    MPI_File_read_all(file, f->in, bytes, MPI_BYTE, MPI_STATUS_IGNORE);
    *read_s = slowest(start);
    MPI_File_close(&file);
    bench_verify(f->in, (size_t) bytes, key_of(next, round));
}

int main(int argc, char **argv)
{
    bench_init(&argc, &argv, 2, false);
    size_t sizes[BENCH_SIZES];
    struct fileio f = {.name = bench_option("--file", "/tmp/spec-fileio")};
    const int n = bench_sizes("--sizes", "64K", sizes);
    const int repetitions = (int) bench_number("--repetitions", 5, 1);
    f.blocks = (int) bench_number("--blocks", 64, 1);
    bench_options_end();
    double *write_s = calloc((size_t) repetitions, sizeof(double)), *read_s = calloc((size_t) repetitions, sizeof(double)),
           *both = calloc((size_t) repetitions, sizeof(double));
    for (int i = 0; i < n; ++i) {
        f.size = sizes[i];
        f.out = bench_buffer(f.size * (size_t) f.blocks);
        f.in = bench_buffer(f.size * (size_t) f.blocks);
        MPI_Type_vector(f.blocks, (int) f.size, (int) f.size * bench.size, MPI_BYTE, &f.view);
        MPI_Type_commit(&f.view);
        for (int r = -1; r < repetitions; ++r) {
            double w, d;
            once(&f, r + 1, &w, &d);
            if (r >= 0) {
                write_s[r] = w;
                read_s[r] = d;
                both[r] = w + d;
            }
        }
        const long errors = bench_errors();
        if (0 == bench.rank) {
            printf("fileio np=%d size=%zu blocks=%d write_s=%.4f read_s=%.4f s=%.4f repetitions=%d errors=%ld\n", bench.size, f.size,
                   f.blocks, stat_median(write_s, (size_t) repetitions), stat_median(read_s, (size_t) repetitions),
                   stat_median(both, (size_t) repetitions), repetitions, errors);
            fflush(stdout);
        }
        MPI_Type_free(&f.view);
        free(f.out);
        free(f.in);
    }
    if (0 == bench.rank) {
        (void) MPI_File_delete(f.name, MPI_INFO_NULL);
    }
    free(write_s);
    free(read_s);
    free(both);
    return bench_finish();
}
