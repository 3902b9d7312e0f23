/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* MPI-IO: collective writes and reads of interleaved blocks (two-phase I/O exchanges large messages
 * through the PML). */
#include "testlib.h"

int main(int argc, char **argv)
{
    enum { BLOCK = 3000, BLOCKS = 64 };
    tl_start(&argc, &argv, "mpiio", 60);
    char name[64] = "";
    MPI_File file;
    MPI_Datatype view;
    tl_step("file");
    if (0 == tl.rank) {
        snprintf(name, sizeof(name), "/tmp/spec-mpiio-%d", (int) getpid());
    }
    MPI_Bcast(name, sizeof(name), MPI_CHAR, 0, MPI_COMM_WORLD);
    char *out = tl_buf(BLOCK * BLOCKS), *in = tl_buf(BLOCK * BLOCKS);
    tl_fill(out, BLOCK * BLOCKS, tl_key(11, tl.rank, 0, 0, 0));
    MPI_Type_vector(BLOCKS, BLOCK, BLOCK * tl.size, MPI_BYTE, &view);
    MPI_Type_commit(&view);
    if (CHECK(MPI_SUCCESS
                  == MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR,
                                   MPI_INFO_NULL, &file),
              "cannot open %s", name)) {
        MPI_File_set_view(file, (MPI_Offset) tl.rank * BLOCK, MPI_BYTE, view, "native",
                          MPI_INFO_NULL);
        MPI_File_write_all(file, out, BLOCK * BLOCKS, MPI_BYTE, MPI_STATUS_IGNORE);
        MPI_File_sync(file);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_File_sync(file);
        const int other = (tl.rank + 1) % tl.size;
        MPI_File_set_view(file, (MPI_Offset) other * BLOCK, MPI_BYTE, view, "native",
                          MPI_INFO_NULL);
        MPI_File_read_all(file, in, BLOCK * BLOCKS, MPI_BYTE, MPI_STATUS_IGNORE);
        VERIFY(in, BLOCK * BLOCKS, tl_key(11, other, 0, 0, 0));
        MPI_File_close(&file);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (0 == tl.rank) {
        unlink(name);
    }
    MPI_Type_free(&view);
    FREE(out);
    FREE(in);
    return tl_finish();
}
