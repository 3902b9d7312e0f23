/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Credit for messages whose first packet ends within an element. Only whole elements are packed, so it brings less than there
 * is room for, by up to 31 bytes here. If the sender spends more for it than the receiver counts, all credit is gone after
 * some ten thousands of messages, and the job stands still.
 *   --messages N   so many (default 100000: 1.7 MB of such differences, beside a window of 1 MiB)
 *   --size N       bytes of each: more than one packet holds (default 6000) */
#include <complex.h>

#include "testlib.h"

typedef long double _Complex element_t; /* 32 bytes */
enum { ELEMENT = sizeof(element_t) };

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "credit", 60);
    const int messages = (int) tl_option("--messages", 100000);
    const int n = (int) tl_option("--size", 6000) / ELEMENT;
    char *front = tl_buf(ELEMENT);
    element_t *back = tl_buf(sizeof(*back) * (size_t) n);
    memset(back, 0, sizeof(*back) * (size_t) n);

    /* Bytes, a gap, elements: where the first packet ends in the latter depends on the number of the bytes. */
    MPI_Datatype type[ELEMENT];
    MPI_Aint at[2];
    MPI_Get_address(front, &at[0]);
    MPI_Get_address(back, &at[1]);
    for (int i = 0; i < ELEMENT; ++i) {
        MPI_Datatype of[] = {MPI_CHAR, MPI_C_LONG_DOUBLE_COMPLEX};
        int length[] = {1 + i, n};
        MPI_Type_create_struct(2, length, at, of, &type[i]);
        MPI_Type_commit(&type[i]);
    }
    for (int i = 0; i < messages; ++i) {
        tl_step("message %d", i);
        char *last = (char *) &back[n - 1];
        if (0 == tl.rank) {
            front[0] = (char) i;
            *last = (char) (i + 1);
            MPI_Send(MPI_BOTTOM, 1, type[i % ELEMENT], 1, 7, MPI_COMM_WORLD);
        } else if (1 == tl.rank) {
            MPI_Recv(MPI_BOTTOM, 1, type[i % ELEMENT], 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK(front[0] == (char) i && *last == (char) (i + 1),
                  "message %d is not what was sent", i);
        }
    }
    for (int i = 0; i < ELEMENT; ++i) {
        MPI_Type_free(&type[i]);
    }
    FREE(front);
    FREE(back);
    return tl_finish();
}
