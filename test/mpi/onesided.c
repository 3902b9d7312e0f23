/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* One-sided communication (osc/rdma and osc/pt2pt sit on the BTLs and on the PML): put, get and
 * accumulate under fence, lock, and post-start-complete-wait. */
#include "testlib.h"

enum { WORDS = 40000 };

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "onesided", 120);
    int *memory, *local = tl_buf(WORDS * sizeof(int));
    MPI_Win window;
    const int next = (tl.rank + 1) % tl.size, prev = (tl.rank + tl.size - 1) % tl.size;

    tl_step("window");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (MPI_SUCCESS
        != MPI_Win_allocate(WORDS * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory,
                            &window)) {
        tl_skip("Open MPI has no one-sided component for these transports");
        FREE(local);
        return tl_finish();
    }
    tl_step("fence");
    static const int counts[] = {1, 100, 2000, WORDS};
    for (size_t i = 0; i < TL_N(counts); ++i) {
        const int n = counts[i];
        for (int j = 0; j < n; ++j) {
            local[j] = tl.rank * 100000 + j;
            memory[j] = -1;
        }
        MPI_Win_fence(0, window);
        MPI_Put(local, n, MPI_INT, next, 0, n, MPI_INT, window);
        MPI_Win_fence(0, window);
        for (int j = 0; j < n; ++j) {
            CHECK(memory[j] == prev * 100000 + j, "put of %d: %d at %d", n, memory[j], j);
        }
        MPI_Win_fence(0, window);
        MPI_Get(local, n, MPI_INT, next, 0, n, MPI_INT, window);
        MPI_Win_fence(0, window);
        for (int j = 0; j < n; ++j) {
            CHECK(local[j] == tl.rank * 100000 + j, "get of %d: %d at %d", n, local[j], j);
        }
        MPI_Win_fence(0, window);
        MPI_Accumulate(local, n, MPI_INT, next, 0, n, MPI_INT, MPI_SUM, window);
        MPI_Win_fence(0, window);
        CHECK(memory[n - 1] == 2 * (prev * 100000 + n - 1), "accumulate: %d", memory[n - 1]);
    }
    tl_step("lock");
    memory[0] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 50; ++i) {
        const int one = 1;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        MPI_Accumulate(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, window);
        MPI_Win_unlock(0, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    int total = -1;
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    MPI_Get(&total, 1, MPI_INT, 0, 0, 1, MPI_INT, window);
    MPI_Win_flush(0, window);
    CHECK(total == 50 * tl.size, "50 times 1 from %d processes: %d", tl.size, total);
    MPI_Win_unlock(0, window);

    tl_step("post, start, complete, wait");
    MPI_Group world, to, from;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &next, &to);
    MPI_Group_incl(world, 1, &prev, &from);
    MPI_Win_post(from, 0, window);
    MPI_Win_start(to, 0, window);
    local[5] = tl.rank;
    MPI_Put(local + 5, 1, MPI_INT, next, 7, 1, MPI_INT, window);
    MPI_Win_complete(window);
    MPI_Win_wait(window);
    CHECK(memory[7] == prev, "expected %d, got %d", prev, memory[7]);
    MPI_Group_free(&to);
    MPI_Group_free(&from);
    MPI_Group_free(&world);
    MPI_Win_free(&window);
    FREE(local);
    return tl_finish();
}
