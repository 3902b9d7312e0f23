/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Dynamic processes: MPI_Comm_spawn of this program, messages of all protocols between parents and
 * children on the inter- and the merged communicator, disconnect; accept and connect between two
 * halves of MPI_COMM_WORLD over a port. Of processes that are disconnected nothing stays mapped. */
#include "testlib.h"

static const size_t sizes[] = {0, 1, 300, 5000, 70000, 1 << 20};

/* Both directions at once with the process of the same rank on the other side. */
static void with_other_side(MPI_Comm comm, int me, int other)
{
    for (size_t i = 0; i < TL_N(sizes); ++i) {
        const size_t n = sizes[i];
        char *out = tl_buf(n), *in = tl_buf(n);
        MPI_Request request[2];
        tl_fill(out, n, tl_key(6, me, 0, (int) i, 0));
        MPI_Irecv(in, (int) n, MPI_BYTE, other, (int) i, comm, &request[0]);
        MPI_Isend(out, (int) n, MPI_BYTE, other, (int) i, comm, &request[1]);
        MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
        VERIFY(in, n, tl_key(6, 1 - me, 0, (int) i, 0));
        FREE(out);
        FREE(in);
    }
}

static void merged(MPI_Comm between, int high)
{
    MPI_Comm all;
    int rank, size, sum;
    MPI_Intercomm_merge(between, high, &all);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, all);
    CHECK(sum == size * (size - 1) / 2, "ranks of %d processes: %d", size, sum);
    MPI_Comm_free(&all);
}

/* Memory of pml/spec that is mapped here: this process's own, and that of others. */
static int mapped(void)
{
    char line[512];
    int n = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (NULL != maps && NULL != fgets(line, sizeof(line), maps)) {
        n += NULL != strstr(line, "memfd:pml_spec_");
    }
    if (NULL != maps) {
        fclose(maps);
    }
    return n;
}

static void spawn(const char *self)
{
    int before = 0;
    for (int round = 0; round < 3; ++round) {
        MPI_Comm children;
        char *arguments[] = {"--child", NULL};
        tl_step("spawn, round %d", round);
        MPI_Comm_spawn((char *) (uintptr_t) self, arguments, tl.size, MPI_INFO_NULL, 0,
                       MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
        with_other_side(children, 0, tl.rank);
        merged(children, 0);
        MPI_Comm_disconnect(&children);
        /* The first round has brought what is this process's own. */
        CHECK(0 == round || mapped() <= before, "%d maps of pml/spec after round %d, %d before",
              mapped(), round, before);
        before = mapped();
    }
}

static void accept_connect(void)
{
    MPI_Comm half, between;
    char port[MPI_MAX_PORT_NAME] = "";
    const bool server = tl.rank < tl.size / 2;
    if (tl.size < 2 || 0 != tl.size % 2) {
        return;
    }
    tl_step("accept and connect");
    MPI_Comm_split(MPI_COMM_WORLD, server, tl.rank, &half);
    if (0 == tl.rank) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Send(port, sizeof(port), MPI_CHAR, tl.size / 2, 1, tl.ctl);
    } else if (tl.size / 2 == tl.rank) {
        MPI_Recv(port, sizeof(port), MPI_CHAR, 0, 1, tl.ctl, MPI_STATUS_IGNORE);
    }
    if (server) {
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &between);
    } else {
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &between);
    }
    with_other_side(between, server, tl.rank % (tl.size / 2));
    merged(between, server);
    MPI_Comm_disconnect(&between);
    if (0 == tl.rank) {
        MPI_Close_port(port);
    }
    MPI_Comm_free(&half);
}

static int child(void)
{
    MPI_Comm parent;
    tl_step("child");
    MPI_Comm_get_parent(&parent);
    with_other_side(parent, 1, tl.rank);
    merged(parent, 1);
    MPI_Comm_disconnect(&parent);
    MPI_Comm_free(&tl.ctl);
    MPI_Finalize();
    if (0 != tl.errors) {
        printf("%d errors in a child of dynamic\n", tl.errors);
    }
    return 0 != tl.errors;
}

int main(int argc, char **argv)
{
    const bool is_child = argc > 1 && 0 == strcmp(argv[1], "--child");
    if (is_child) { /* which hangs before its parents do, to be heard */
        (void) unsetenv("TEST_SECONDS");
    }
    tl_start(&argc, &argv, "dynamic", is_child ? 30 : 90);
    if (is_child) {
        return child();
    }
    spawn(argv[0]);
    accept_connect();
    return tl_finish();
}
