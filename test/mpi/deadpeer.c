/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A process dies while others wait for it: the job must end, not hang. The driver (deadpeer.pl)
 * expects mpirun to end with an error within bounded time. --how exit|kill|segv|stop (only the transport
 * can notice that, and the others send to it, too)|late (the same with MPI_THREAD_MULTIPLE, and the others wait when
 * their requests have failed already: MPI_Waitall of Open MPI 4.1 by itself would not return) */
#include "testlib.h"

int main(int argc, char **argv)
{
    const bool late = argc > 2 && 0 == strcmp(argv[2], "late");
    const bool stops = late || (argc > 2 && 0 == strcmp(argv[2], "stop"));
    tl_start_thread(&argc, &argv, "deadpeer", 30, late ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    char *buf = tl_buf(1 << 20);
    MPI_Request request[2];
    const int dies = tl.size - 1;
    MPI_Irecv(buf, 1 << 20, MPI_BYTE, dies, 1, MPI_COMM_WORLD, &request[0]);
    MPI_Barrier(MPI_COMM_WORLD);
    if (tl.rank == dies) {
        for (int i = 1; i + 1 < argc; ++i) {
            if (0 == strcmp(argv[i], "--how") && 0 == strcmp(argv[i + 1], "kill")) {
                raise(SIGKILL);
            } else if (0 == strcmp(argv[i], "--how") && 0 == strcmp(argv[i + 1], "segv")) {
                signal(SIGSEGV, SIG_DFL);
                raise(SIGSEGV);
            }
        }
        if (stops) {
            raise(SIGSTOP);
        }
        _exit(7);
    }
    if (stops) {
        MPI_Isend(buf + (1 << 19), 8, MPI_BYTE, dies, 1, MPI_COMM_WORLD, &request[1]);
    }
    for (int failed = 0; late && !failed;) {
        MPI_Request_get_status(request[0], &failed, MPI_STATUS_IGNORE);
    }
    if (late) {
        MPI_Status status[2]; /* without, Open MPI 6.0.0~rc2 returns no error */
        MPI_Waitall(2, request, status);
    } else {
        MPI_Wait(&request[0], MPI_STATUS_IGNORE);
    }
    printf("a message from a dead process was received\n");
    return 0;
}
