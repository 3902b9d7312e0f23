/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The last rank is killed at one stage of a protocol, while the others are in the other half of it: the
 * job must end, not hang (faults.pl judges that). --stage
 *   connect   nothing was sent yet: rank 0 sends it the first message
 *   half      likewise, but that message asked for a connection before; with four processes, of which the first and the last
 *             have not talked, and btl_ibx_iwarp_async off, the question lies unread in the socket of who dies
 *   rtr       its receive is posted and its buffer offered; rank 0 sends afterwards
 *   put       rank 0 writes into its buffers, one large message after the other
 *   rts       its large message is announced; rank 0 receives afterwards
 *   get       rank 0 fetches from its buffers, one large message after the other
 *   frag      rank 0 sends it large messages that only fragments can carry
 *   cancel    rank 0 has offered it a buffer and takes that back
 *   eager     rank 0 floods it with small messages, which it does not receive */
#include "testlib.h"

#include <sys/time.h>
#include <time.h>

enum { LARGE = 8 << 20, AFTER_MS = 60 };

static void nap(long ms)
{
    const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static void killed(int signal_number)
{
    (void) signal_number;
    raise(SIGKILL);
}

/* Inside of whatever it will be doing then. */
static void die_soon(void)
{
    const struct itimerval in = {.it_value = {.tv_usec = AFTER_MS * 1000}};
    signal(SIGALRM, killed);
    setitimer(ITIMER_REAL, &in, NULL);
}

static bool is(const char *stage, const char *name)
{
    return 0 == strcmp(stage, name);
}

static void victim(const char *stage, char *buf, MPI_Datatype gaps)
{
    MPI_Request request;
    if (is(stage, "connect") || is(stage, "half") || is(stage, "cancel") || is(stage, "eager")) {
        die_soon();
        nap(10000);
    } else if (is(stage, "rtr") || is(stage, "rts")) {
        if (is(stage, "rtr")) {
            MPI_Irecv(buf, LARGE, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &request);
        } else {
            MPI_Isend(buf, LARGE, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &request);
        }
        for (int i = 0; i < 100; ++i) { /* so that it has left */
            int flag;
            MPI_Iprobe(MPI_ANY_SOURCE, 7, tl.ctl, &flag, MPI_STATUS_IGNORE);
        }
        die_soon();
        nap(10000);
    }
    die_soon();
    for (;;) {
        if (is(stage, "get")) {
            MPI_Send(buf, LARGE, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        } else if (is(stage, "frag")) {
            MPI_Recv(buf, 1, gaps, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(buf, LARGE, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
}

static void survivor(const char *stage, int dies, char *buf, MPI_Datatype gaps)
{
    MPI_Request request;
    if (is(stage, "connect") || is(stage, "rtr") || is(stage, "rts")) {
        nap(2 * AFTER_MS);
    }
    if (is(stage, "cancel")) {
        MPI_Irecv(buf, LARGE, MPI_BYTE, dies, 1, MPI_COMM_WORLD, &request);
        nap(2 * AFTER_MS);
        MPI_Cancel(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    for (;;) {
        if (is(stage, "rts") || is(stage, "get") || is(stage, "cancel")) {
            MPI_Recv(buf, LARGE, MPI_BYTE, dies, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (is(stage, "frag")) {
            MPI_Send(buf, 1, gaps, dies, 1, MPI_COMM_WORLD);
        } else {
            MPI_Send(buf,
                     is(stage, "connect") || is(stage, "half") || is(stage, "eager") ? 8 : LARGE,
                     MPI_BYTE, dies, 1, MPI_COMM_WORLD);
        }
    }
}

int main(int argc, char **argv)
{
    const char *stage = "connect";
    tl_start(&argc, &argv, "dying", 60);
    for (int i = 1; i + 1 < argc; ++i) {
        stage = is(argv[i], "--stage") ? argv[i + 1] : stage;
    }
    const int dies = tl.size - 1;
    char *buf = tl_buf(2 * LARGE);
    MPI_Datatype gaps;
    MPI_Type_vector(LARGE / 64, 32, 64, MPI_BYTE, &gaps);
    MPI_Type_commit(&gaps);
    MPI_Barrier(MPI_COMM_WORLD);
    if (tl.rank == dies) {
        victim(stage, buf, gaps);
    } else if (0 == tl.rank) {
        survivor(stage, dies, buf, gaps);
    }
    MPI_Barrier(MPI_COMM_WORLD); /* the others wait for somebody who will not come */
    printf("the job went on\n");
    return 0;
}
