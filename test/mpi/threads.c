/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* MPI_THREAD_MULTIPLE: threads of each process exchange messages at once, on one communicator with
 * a tag each, on one tag with any source (told apart by their content), with matched probes and
 * with receives that are cancelled. Options: --rounds N, --threads N. */
#include "testlib.h"

#include <pthread.h>

enum { MOST = 16, SHARED_TAG = 77, NEVER_SENT = 5000, BIG = 200001 };

static long long rounds, threads;
static const size_t sizes[] = {0, 8, 300, 4200, 20000, 70000, 200000};

typedef struct {
    uint32_t from, thread, number, size; /* stands at the beginning of a message of the shared tag */
} label_t;

/* Own tag: receives early or late, matched probes, cancelled receives among them. */
static void *own_tag(void *arg)
{
    const int me = (int) (intptr_t) arg;
    const int dst = (tl.rank + 1) % tl.size, src = (tl.rank + tl.size - 1) % tl.size;
    tl_rng_t rng = {.state = 1000u * (unsigned) me + 17};
    char *out = tl_buf(BIG), *in = tl_buf(BIG), *never = tl_buf(BIG);
    for (int i = 0; i < rounds; ++i) {
        const size_t n = sizes[tl_below(&rng, TL_N(sizes))];
        MPI_Request send, recv, extra;
        MPI_Status status;
        MPI_Message message;
        tl_fill(out, n, tl_key(1, tl.rank, dst, me, (uint64_t) i));
        switch (i % 3) {
        case 0:
            MPI_Irecv(in, BIG, MPI_BYTE, src, me, MPI_COMM_WORLD, &recv);
            MPI_Isend(out, (int) n, MPI_BYTE, dst, me, MPI_COMM_WORLD, &send);
            MPI_Wait(&recv, &status);
            break;
        case 1:
            MPI_Isend(out, (int) n, MPI_BYTE, dst, me, MPI_COMM_WORLD, &send);
            MPI_Mprobe(2 == tl.size ? MPI_ANY_SOURCE : src, me, MPI_COMM_WORLD, &message, &status);
            MPI_Mrecv(in, BIG, MPI_BYTE, &message, &status);
            break;
        default:
            MPI_Irecv(never, BIG, MPI_BYTE, src, NEVER_SENT + me, MPI_COMM_WORLD, &extra);
            MPI_Irecv(in, BIG, MPI_BYTE, src, me, MPI_COMM_WORLD, &recv);
            MPI_Issend(out, (int) n, MPI_BYTE, dst, me, MPI_COMM_WORLD, &send);
            MPI_Cancel(&extra);
            MPI_Wait(&recv, &status);
            MPI_Wait(&extra, MPI_STATUS_IGNORE);
            break;
        }
        MPI_Wait(&send, MPI_STATUS_IGNORE);
        CHECK_STATUS(status, src, me, n);
        VERIFY(in, n, tl_key(1, src, tl.rank, me, (uint64_t) i));
    }
    UNTOUCHED(never, 0, BIG);
    FREE(out);
    FREE(in);
    FREE(never);
    return NULL;
}

/* One tag for all threads, any source: whoever receives must get a whole message, and all messages
 * of all threads together each once (their labels are added up). */
static uint64_t received_sum, sent_sum;

static void *shared_tag(void *arg)
{
    const uint32_t me = (uint32_t) (intptr_t) arg;
    tl_rng_t rng = {.state = 999u * me + (unsigned) tl.rank};
    char *out = tl_buf(BIG), *in = tl_buf(BIG);
    for (uint32_t i = 0; i < rounds; ++i) {
        MPI_Request send, recv;
        MPI_Status status;
        int bytes;
        label_t label = {(uint32_t) tl.rank, me, i,
                         (uint32_t) (sizeof(label) + sizes[tl_below(&rng, TL_N(sizes) - 1)])};
        tl_fill(out, label.size, tl_key(2, tl.rank, (int) me, 0, i));
        memcpy(out, &label, sizeof(label));
        __atomic_add_fetch(&sent_sum, tl_mix(label.from * 1000003u + label.thread * 1009u + i),
                           __ATOMIC_RELAXED);
        MPI_Irecv(in, BIG, MPI_BYTE, MPI_ANY_SOURCE, SHARED_TAG, MPI_COMM_WORLD, &recv);
        MPI_Isend(out, (int) label.size, MPI_BYTE, (tl.rank + 1) % tl.size, SHARED_TAG,
                  MPI_COMM_WORLD, &send);
        MPI_Wait(&recv, &status);
        MPI_Wait(&send, MPI_STATUS_IGNORE);
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        memcpy(&label, in, sizeof(label));
        CHECK((uint32_t) bytes == label.size, "expected %u bytes, got %d", label.size, bytes);
        CHECK((int) label.from == status.MPI_SOURCE, "message of %u from %d", label.from,
              status.MPI_SOURCE);
        size_t at = tl_differs_from(in + sizeof(label), label.size - sizeof(label),
                                    tl_key(2, (int) label.from, (int) label.thread, 0, label.number),
                                    sizeof(label));
        CHECK(at == label.size - sizeof(label), "wrong data at %zu of %u", at, label.size);
        __atomic_add_fetch(&received_sum,
                           tl_mix(label.from * 1000003u + label.thread * 1009u + label.number),
                           __ATOMIC_RELAXED);
    }
    FREE(out);
    FREE(in);
    return NULL;
}

static void with_threads(const char *step, void *(*body)(void *) )
{
    pthread_t thread[MOST];
    tl_step("%s, %lld threads", step, threads);
    for (intptr_t i = 0; i < threads; ++i) {
        pthread_create(&thread[i], NULL, body, (void *) i);
    }
    for (int i = 0; i < threads; ++i) {
        pthread_join(thread[i], NULL);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    if (MPI_THREAD_MULTIPLE
        != tl_start_thread(&argc, &argv, "threads", 150, MPI_THREAD_MULTIPLE)) {
        tl_skip("this Open MPI does not provide MPI_THREAD_MULTIPLE");
        return tl_finish();
    }
    rounds = tl_option("--rounds", 200);
    threads = tl_option("--threads", 4);
    threads = threads > MOST ? MOST : threads;
    with_threads("a tag for each thread", own_tag);
    with_threads("one tag for all", shared_tag);
    uint64_t total[2], mine[2] = {sent_sum, received_sum};
    MPI_Allreduce(mine, total, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    CHECK(total[0] == total[1], "the messages received are not those sent");
    return tl_finish();
}
