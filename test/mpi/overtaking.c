/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Communicators that assert mpi_assert_allow_overtaking, mpi_assert_no_any_source and the other
 * hints: messages with different tags arrive all the same, each in its own receive; with equal tags
 * each of them exactly once, in whatever order. Collectives stay in order. */
#include "testlib.h"

enum { MESSAGES = 60 };
static const size_t sizes[] = {16, 300, 5000, 70000, 300000};

static MPI_Comm with_info(const char *const *keys)
{
    MPI_Comm comm;
    MPI_Info info;
    MPI_Info_create(&info);
    for (int i = 0; NULL != keys[i]; ++i) {
        MPI_Info_set(info, keys[i], "true");
    }
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
    MPI_Comm_set_info(comm, info);
    MPI_Info_free(&info);
    return comm;
}

static void exchange(MPI_Comm comm, bool same_tag, bool receiver_first, int src, int dst)
{
    tl_step("%s, %s first, from %d to %d", same_tag ? "one tag" : "a tag for each",
            receiver_first ? "receiver" : "sender", src, dst);
    if (tl.rank != src && tl.rank != dst) {
        return;
    }
    size_t largest = sizes[TL_N(sizes) - 1];
    char *buf[MESSAGES];
    bool seen[MESSAGES] = {false};
    MPI_Request request[MESSAGES];
    MPI_Status status[MESSAGES];
    for (int i = 0; i < MESSAGES; ++i) {
        buf[i] = tl_buf(largest);
    }
    if (tl.rank == src) {
        if (receiver_first) {
            tl_hear(dst);
        }
        for (int i = 0; i < MESSAGES; ++i) {
            size_t n = sizes[(size_t) i % TL_N(sizes)];
            tl_fill(buf[i], n, tl_key(120, src, dst, 0, (uint64_t) i));
            memcpy(buf[i], &i, sizeof(i));
            MPI_Isend(buf[i], (int) n, MPI_BYTE, dst, same_tag ? 0 : i, comm, &request[i]);
        }
        if (!receiver_first) {
            tl_tell(dst);
        }
        MPI_Waitall(MESSAGES, request, MPI_STATUSES_IGNORE);
    } else {
        if (!receiver_first) {
            tl_hear(src);
        }
        for (int i = MESSAGES - 1; i >= 0; --i) {
            MPI_Irecv(buf[i], (int) largest, MPI_BYTE, src, same_tag ? 0 : i, comm, &request[i]);
        }
        if (receiver_first) {
            tl_tell(src);
        }
        MPI_Waitall(MESSAGES, request, status);
        for (int i = 0; i < MESSAGES; ++i) {
            int number;
            memcpy(&number, buf[i], sizeof(number));
            if (!CHECK(number >= 0 && number < MESSAGES && !seen[number] && (same_tag || number == i),
                       "receive %d got message %d, %s", i, number,
                       number >= 0 && number < MESSAGES && seen[number] ? "again" : "of another tag")) {
                continue;
            }
            seen[number] = true;
            size_t n = sizes[(size_t) number % TL_N(sizes)];
            CHECK_STATUS(status[i], src, same_tag ? 0 : i, n);
            size_t at = tl_differs_from(buf[i] + sizeof(number), n - sizeof(number),
                                        tl_key(120, src, dst, 0, (uint64_t) number), sizeof(number));
            CHECK(at == n - sizeof(number), "message %d differs at byte %zu", number,
                  at + sizeof(number));
            UNTOUCHED(buf[i], n, largest);
        }
    }
    for (int i = 0; i < MESSAGES; ++i) {
        FREE(buf[i]);
    }
}

static void collectives(MPI_Comm comm)
{
    enum { WORDS = 30000 };
    int *a = tl_buf(WORDS * sizeof(int)), *b = tl_buf(WORDS * sizeof(int));
    tl_step("collectives");
    for (int round = 0; round < 30; ++round) {
        int n = round & 1 ? WORDS : 2;
        for (int i = 0; i < n; ++i) {
            a[i] = tl.rank + i * round;
        }
        MPI_Allreduce(a, b, n, MPI_INT, MPI_SUM, comm);
        for (int i = 0; i < n; ++i) {
            int sum = tl.size * i * round + tl.size * (tl.size - 1) / 2;
            if (!CHECK(sum == b[i], "round %d: expected %d at %d, got %d", round, sum, i, b[i])) {
                break;
            }
        }
        MPI_Bcast(a, n, MPI_INT, round % tl.size, comm);
        CHECK(a[n - 1] == round % tl.size + (n - 1) * round, "round %d: bcast gave %d", round, a[n - 1]);
    }
    FREE(a);
    FREE(b);
}

int main(int argc, char **argv)
{
    /* Not mpi_assert_exact_length: the receives here are larger. */
    static const char *const hints[][4] = {
        {NULL},
        {"mpi_assert_allow_overtaking", NULL},
        {"mpi_assert_no_any_source", NULL},
        {"mpi_assert_allow_overtaking", "mpi_assert_no_any_source", "mpi_assert_no_any_tag", NULL},
    };
    tl_start(&argc, &argv, "overtaking", 60);
    for (size_t h = 0; h < TL_N(hints); ++h) {
        MPI_Comm comm = with_info(hints[h]);
        for (int src = 0; src < tl.size && tl.size > 1; ++src) {
            for (int k = 0; k < 4; ++k) {
                exchange(comm, k & 1, k & 2, src, (src + 1) % tl.size);
            }
        }
        collectives(comm);
        MPI_Comm_free(&comm);
    }
    return tl_finish();
}
