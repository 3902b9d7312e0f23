/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The progress agent (pml_spec_progress on): messages, collective and one-sided operations arrive while no rank is in MPI; with
 * nothing outstanding the agent does not wake; it takes no signal of the program's, and a fork, MPI_Finalize and MPI_Abort
 * beside it are clean. How much is hidden is not shown here, only that it goes on: a rank waits outside MPI, and the
 * watchdog ends what does not arrive.
 *
 * For two ranks.
 *   --sided 1   also one-sided operations
 *   --off 1     there is to be none
 *   --begins 1  there is to be one; also for a single rank
 *   --abort 1   rank 0 aborts while the agents of all are at work */
#include "testlib.h"

#include <dirent.h>
#include <errno.h>

enum {
    TAG = 5,
    BLOCK = 4096,
    BLOCKS = 256,
    SIZE = BLOCK * BLOCKS,
    SMALL = 8,
    FORKS = 20,
    ROUNDS = 10,
    NAP_US = 200
};

/* Outside MPI until both ranks are here. */
static void meet_outside(void)
{
    if (0 == tl.rank) {
        tl_outside_tell();
        tl_outside_await();
    } else {
        tl_outside_await();
        tl_outside_tell();
    }
}

/* Outside MPI until this byte is there. */
static void await_byte(const volatile unsigned char *at, unsigned char byte)
{
    while (byte != *at) {
        usleep(NAP_US);
    }
}

/* A message each way, in which no rank calls MPI before its own is here. gaps: it is received into blocks with gaps. */
static void a_message(const char *what, int source, int tag, bool gaps)
{
    const size_t step = gaps ? 2 * BLOCK : BLOCK;
    const uint64_t key = tl_key(1, !tl.rank, tl.rank, TAG, SIZE);
    unsigned char *in = tl_buf(BLOCKS * step), *out = tl_buf(SIZE),
                  *last = in + (BLOCKS - 1) * step + BLOCK - 1;
    MPI_Datatype type;
    MPI_Request request[2];
    MPI_Status status;
    tl_step("%s", what);
    MPI_Type_vector(BLOCKS, BLOCK, (int) step, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    tl_fill(out, SIZE, tl_key(1, tl.rank, !tl.rank, TAG, SIZE));
    *in = (unsigned char) ~tl_byte(key, 0);
    *last = (unsigned char) ~tl_byte(key, SIZE - 1);
    MPI_Irecv(in, 1, type, source, tag, MPI_COMM_WORLD, &request[0]);
    MPI_Barrier(tl.ctl);
    MPI_Isend(out, SIZE, MPI_BYTE, !tl.rank, TAG, MPI_COMM_WORLD, &request[1]);
    await_byte(in, tl_byte(key, 0));
    await_byte(last, tl_byte(key, SIZE - 1));
    meet_outside();
    MPI_Wait(&request[0], &status);
    MPI_Wait(&request[1], MPI_STATUS_IGNORE);
    CHECK_STATUS(status, !tl.rank, TAG, SIZE);
    for (size_t i = 0; i < BLOCKS; ++i) {
        CHECK(BLOCK == tl_differs_from(in + i * step, BLOCK, key, i * BLOCK),
              "%s: block %zu is wrong", what, i);
    }
    MPI_Type_free(&type);
    FREE(in);
    FREE(out);
}

/* Bells are heard within a host. */
static bool one_host(void)
{
    int near;
    MPI_Comm host;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &near);
    MPI_Comm_free(&host);
    return near == tl.size;
}

/* Rank 0 waits in MPI for rank 1, which is outside: it calls rank 1's agent, by then in long pauses. */
static void it_is_called(void)
{
    const uint64_t key = tl_key(2, 0, 1, TAG, SIZE);
    unsigned char *buf = tl_buf(SIZE);
    const long long before = tl_pvar("pml_spec_agent_calls");
    tl_step("a call");
    for (int i = 0; i < ROUNDS; ++i) {
        MPI_Request request;
        if (0 == tl.rank) {
            tl_fill(buf, SIZE, key);
            MPI_Barrier(tl.ctl);
            usleep(100 * NAP_US);
            MPI_Send(buf, SIZE, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
            continue;
        }
        buf[SIZE - 1] = (unsigned char) ~tl_byte(key, SIZE - 1);
        MPI_Irecv(buf, SIZE, MPI_BYTE, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &request);
        MPI_Barrier(tl.ctl);
        await_byte(buf + SIZE - 1, tl_byte(key, SIZE - 1));
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        VERIFY(buf, SIZE, key);
    }
    const bool is_heard = tl_pvar("pml_spec_agent_calls") > before;
    CHECK(!one_host() || 0 == tl.rank || is_heard, "nobody called the agent");
    FREE(buf);
}

/* Several rounds: each begins when the last one has ended, which progress has to see. */
static void a_collective(void)
{
    volatile int sum[SMALL] = {0};
    int mine[SMALL];
    MPI_Request request;
    tl_step("a reduction");
    for (int i = 0; i < SMALL; ++i) {
        mine[i] = tl.rank + i;
    }
    MPI_Barrier(tl.ctl);
    MPI_Iallreduce(mine, (void *) (uintptr_t) sum, SMALL, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                   &request);
    while (0 == sum[SMALL - 1]) {
        usleep(NAP_US);
    }
    meet_outside();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < SMALL; ++i) {
        CHECK(sum[i] == tl.size * (tl.size - 1) / 2 + i * tl.size, "sum %d: %d", i, sum[i]);
    }
}

/* Rank 0 does not call MPI while the others add to its memory. */
static void one_sided(void)
{
    volatile int *memory;
    int one[BLOCK];
    MPI_Win window;
    tl_step("a window");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const int rc = MPI_Win_allocate(BLOCK * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                                    (void *) &memory, &window);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    if (MPI_SUCCESS != rc) {
        tl_skip("Open MPI has no one-sided component for these transports");
        return;
    }
    for (int i = 0; i < BLOCK; ++i) {
        memory[i] = 0;
        one[i] = 1;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 1; round <= ROUNDS; ++round) {
        tl_step("round %d of sums", round);
        if (0 != tl.rank) {
            MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
            MPI_Accumulate(one, BLOCK, MPI_INT, 0, 0, BLOCK, MPI_INT, MPI_SUM, window);
            MPI_Win_unlock(0, window);
        } else {
            while (memory[BLOCK - 1] < round * (tl.size - 1)) {
                usleep(NAP_US);
            }
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Win_free(&window);
}

/* With nothing outstanding it wakes no more, soon. */
static void it_sleeps(void)
{
    long long last = -1, now;
    tl_step("asleep");
    for (int calm = 0; calm < 3;) {
        now = tl_pvar("pml_spec_agent_wakes");
        calm = now == last ? calm + 1 : 0;
        last = now;
        usleep(100000);
    }
}

/* Is this the agent's thread? Then *blocked are the signals that it blocks, a bit for each. */
static bool is_agent(const char *task, unsigned long long *blocked)
{
    char path[300], line[128];
    bool is = false;
    snprintf(path, sizeof(path), "/proc/self/task/%s/status", task);
    FILE *in = fopen(path, "r");
    while (NULL != in && NULL != fgets(line, sizeof(line), in)) {
        is |= 0 == strcmp(line, "Name:\tspec-agent\n");
        (void) sscanf(line, "SigBlk: %llx", blocked);
    }
    if (NULL != in) {
        fclose(in);
    }
    return is;
}

/* How many there are; signals of the program are not theirs. (Open MPI's own threads take them.) */
static int agents(void)
{
    static const int numbers[] = {SIGINT, SIGUSR1, SIGALRM, SIGTERM, SIGCHLD, SIGPROF};
    int n = 0;
    tl_step("signals");
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *each; NULL != tasks && NULL != (each = readdir(tasks));) {
        unsigned long long blocked = 0;
        if (is_agent(each->d_name, &blocked)) {
            ++n;
            for (size_t i = 0; i < TL_N(numbers); ++i) {
                CHECK(blocked >> (numbers[i] - 1) & 1, "signal %d is not blocked", numbers[i]);
            }
        }
    }
    if (NULL != tasks) {
        closedir(tasks);
    }
    return n; /* threads of transports that it makes have its name */
}

/* Children of a process whose agent is at work, which use memory and end. */
static void forks(void)
{
    int in;
    MPI_Request request;
    tl_step("a fork");
    MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, TAG + 1, MPI_COMM_SELF, &request);
    for (int i = 0; i < FORKS; ++i) {
        int status = -1;
        const pid_t child = fork();
        if (0 == child) {
            char *p = malloc(SIZE);
            memset(p, i, SIZE);
            free(p);
            _exit(i);
        }
        while (waitpid(child, &status, 0) < 0 && EINTR == errno) {}
        CHECK(WIFEXITED(status) && i == WEXITSTATUS(status), "child %d: status %x", i, status);
    }
    MPI_Send(&(int){7}, 1, MPI_INT, 0, TAG + 1, MPI_COMM_SELF);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(7 == in, "received %d", in);
}

/* Requests that will never end keep the agents at work. */
static void abort_now(void)
{
    static char in[SIZE];
    MPI_Request request;
    MPI_Irecv(in, SIZE, MPI_BYTE, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &request);
    MPI_Barrier(tl.ctl);
    if (0 == tl.rank) {
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "agent", 60);
    if (tl_option("--abort", 0) > 0) {
        abort_now();
    }
    if (tl_option("--off", 0) > 0) {
        forks();
        CHECK(0 == agents(), "there is an agent");
        return tl_finish();
    }
    if (tl_option("--begins", 0) > 0) {
        forks();
        CHECK(agents() > 0, "there is no agent");
        return tl_finish();
    }
    tl_outside_start();
    for (int i = 0; i < ROUNDS; ++i) {
        a_message("an exact receive", !tl.rank, TAG, false);
        a_message("a receive from any source", MPI_ANY_SOURCE, TAG, false);
        a_message("a receive with any tag", !tl.rank, MPI_ANY_TAG, false);
        a_message("a receive with gaps", !tl.rank, TAG, true);
        a_collective();
    }
    it_is_called();
    CHECK(agents() > 0, "there is no agent");
    forks();
    it_sleeps();
    if (tl_option("--sided", 0) > 0) {
        one_sided();
        it_sleeps();
    }
    return tl_finish();
}
