/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Messages of one envelope do not overtake each other, whatever protocols they take: eager ones
 * between rendezvous ones, receives that are posted long before, long after or among the sends, and
 * receives whose buffers are far larger than the messages (a speculating receiver predicts wrong). */
#include "testlib.h"

enum { TINY = 40, MIDDLE = 5000, LARGE = 300000, HUGE_ONE = 1 << 20, MESSAGES = 40 };
enum { RECEIVER_FIRST, SENDER_FIRST, TOGETHER, ORDERS };
enum { EXACT, SPACIOUS, FITS };
static const char *order_name[] = {"receiver first", "sender first", "together"};
static const char *fit_name[] = {"buffers of the message's size", "buffers of the largest size"};

/* The size of message i of a pattern: each makes other protocols neighbours. */
static size_t size_of(int pattern, int i)
{
    tl_rng_t rng = {.state = (uint64_t) pattern * 1000 + (uint64_t) i};
    static const size_t of[] = {0, 1, TINY, 256, 4000, MIDDLE, 70000, LARGE, HUGE_ONE};
    switch (pattern) {
    case 0:
        return i & 1 ? TINY : LARGE;
    case 1:
        return i & 1 ? LARGE : TINY;
    case 2:
        return 0 == i ? HUGE_ONE : TINY + (size_t) i; /* all the small ones chase the huge one */
    case 3:
        return MESSAGES - 1 == i ? HUGE_ONE : TINY + (size_t) i;
    case 4:
        return i % 3 == 0 ? LARGE : i % 3 == 1 ? MIDDLE : TINY;
    case 5:
        return LARGE + (size_t) (MESSAGES - i) * 1000; /* later ones are done sooner */
    case 6:
        return 0;
    default:
        return of[tl_below(&rng, TL_N(of))];
    }
}
enum { PATTERNS = 12 };

static int tag_of(int tags, int i)
{
    return (int) (tl_mix((uint64_t) i) % (uint64_t) tags);
}

static void sequence(int pattern, int order, int fit, int tags, int src, int dst)
{
    if (tl.rank != src && tl.rank != dst) {
        return;
    }
    tl_step("pattern %d, %s, %s, %d tags, from %d to %d", pattern, order_name[order], fit_name[fit],
            tags, src, dst);
    char *buf[MESSAGES];
    MPI_Request request[MESSAGES];
    MPI_Status status[MESSAGES];
    for (int i = 0; i < MESSAGES; ++i) {
        buf[i] = tl_buf(SPACIOUS == fit && tl.rank == dst ? HUGE_ONE : size_of(pattern, i));
    }
    if (tl.rank == src) {
        for (int i = 0; i < MESSAGES; ++i) {
            tl_fill(buf[i], size_of(pattern, i), tl_key(10, src, dst, tag_of(tags, i), i));
        }
        if (RECEIVER_FIRST == order) {
            tl_hear(dst);
        }
        for (int i = 0; i < MESSAGES; ++i) {
            int n = (int) size_of(pattern, i);
            if (i % 5 == 2) {
                MPI_Issend(buf[i], n, MPI_BYTE, dst, tag_of(tags, i), MPI_COMM_WORLD, &request[i]);
            } else {
                MPI_Isend(buf[i], n, MPI_BYTE, dst, tag_of(tags, i), MPI_COMM_WORLD, &request[i]);
            }
        }
        if (SENDER_FIRST == order) {
            tl_tell(dst);
        }
        MPI_Waitall(MESSAGES, request, MPI_STATUSES_IGNORE);
    } else {
        if (SENDER_FIRST == order) {
            tl_hear(src);
        }
        /* All receives of one tag, then those of the next: an order that the sender has not. */
        int posted[MESSAGES], n = 0;
        for (int t = tags - 1; t >= 0; --t) {
            for (int i = 0; i < MESSAGES; ++i) {
                if (tag_of(tags, i) == t) {
                    size_t room = SPACIOUS == fit ? HUGE_ONE : size_of(pattern, i);
                    MPI_Irecv(buf[i], (int) room, MPI_BYTE, src, t, MPI_COMM_WORLD, &request[n]);
                    posted[n++] = i;
                }
            }
        }
        if (RECEIVER_FIRST == order) {
            tl_tell(src);
        }
        MPI_Waitall(MESSAGES, request, status);
        for (int k = 0; k < MESSAGES; ++k) {
            int i = posted[k];
            size_t size = size_of(pattern, i);
            CHECK_STATUS(status[k], src, tag_of(tags, i), size);
            VERIFY(buf[i], size, tl_key(10, src, dst, tag_of(tags, i), i));
            if (SPACIOUS == fit) {
                UNTOUCHED(buf[i], size, HUGE_ONE);
            }
        }
    }
    for (int i = 0; i < MESSAGES; ++i) {
        FREE(buf[i]);
    }
}

/* Blocking receives in another order of tags than the sends; the sender's requests pile up. */
static void reversed_tags(size_t n, int src, int dst)
{
    enum { TAGS = 40 };
    tl_step("%d tags in reverse, %zu bytes, from %d to %d", TAGS, n, src, dst);
    if (tl.rank == src) {
        char *buf[TAGS];
        MPI_Request request[TAGS];
        for (int t = 0; t < TAGS; ++t) {
            buf[t] = tl_buf(n);
            tl_fill(buf[t], n, tl_key(11, src, dst, t, n));
            MPI_Isend(buf[t], (int) n, MPI_BYTE, dst, t, MPI_COMM_WORLD, &request[t]);
        }
        MPI_Waitall(TAGS, request, MPI_STATUSES_IGNORE);
        for (int t = 0; t < TAGS; ++t) {
            FREE(buf[t]);
        }
    } else if (tl.rank == dst) {
        char *buf = tl_buf(n);
        for (int t = TAGS - 1; t >= 0; --t) {
            MPI_Status status;
            tl_poison(buf, n);
            MPI_Recv(buf, (int) n, MPI_BYTE, src, t, MPI_COMM_WORLD, &status);
            CHECK_STATUS(status, src, t, n);
            VERIFY(buf, n, tl_key(11, src, dst, t, n));
        }
        FREE(buf);
    }
}

/* A stream of blocking calls: thousands of small ones with a large one now and then. */
static void stream(int src, int dst)
{
    enum { LENGTH = 3000 };
    tl_step("a stream of blocking calls from %d to %d", src, dst);
    char *buf = tl_buf(LARGE);
    for (int i = 0; i < LENGTH; ++i) {
        size_t n = i % 100 == 99 ? LARGE : i % 10 == 9 ? MIDDLE : (size_t) i % 64;
        uint64_t key = tl_key(12, src, dst, 0, i);
        if (tl.rank == src) {
            tl_fill(buf, n, key);
            MPI_Send(buf, (int) n, MPI_BYTE, dst, 3, MPI_COMM_WORLD);
        } else if (tl.rank == dst) {
            MPI_Status status;
            MPI_Recv(buf, LARGE, MPI_BYTE, src, 3, MPI_COMM_WORLD, &status);
            CHECK_STATUS(status, src, 3, n);
            VERIFY(buf, n, key);
        }
    }
    FREE(buf);
}

/* Everybody with everybody at the same time, all sizes, one tag. */
static void all_pairs(void)
{
    enum { EACH = 16 };
    int total = tl.size * EACH;
    MPI_Request *request = calloc((size_t) total * 2, sizeof(*request));
    char **in = calloc((size_t) total, sizeof(*in)), **out = calloc((size_t) total, sizeof(*out));
    tl_step("all pairs at once");
    for (int k = 0; k < total; ++k) {
        int i = k / tl.size, peer = (tl.rank + k) % tl.size;
        size_t n = size_of(9, i);
        in[k] = tl_buf(n);
        out[k] = tl_buf(n);
        tl_fill(out[k], n, tl_key(13, tl.rank, peer, 0, i));
        MPI_Isend(out[k], (int) n, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &request[2 * k]);
        MPI_Irecv(in[k], (int) n, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &request[2 * k + 1]);
    }
    MPI_Waitall(2 * total, request, MPI_STATUSES_IGNORE);
    for (int k = 0; k < total; ++k) {
        int i = k / tl.size, peer = (tl.rank + k) % tl.size;
        VERIFY(in[k], size_of(9, i), tl_key(13, peer, tl.rank, 0, i));
        FREE(in[k]);
        FREE(out[k]);
    }
    free(request);
    free(in);
    free(out);
}

int main(int argc, char **argv)
{
    static const int tag_counts[] = {1, 4};
    tl_start(&argc, &argv, "ordering", 120);
    for (int src = 0; src < tl.size && tl.size > 1; ++src) {
        int dst = (src + 1) % tl.size;
        for (int pattern = 0; pattern < PATTERNS; ++pattern) {
            for (int order = 0; order < ORDERS; ++order) {
                for (int fit = 0; fit < FITS; ++fit) {
                    for (size_t t = 0; t < TL_N(tag_counts); ++t) {
                        sequence(pattern, order, fit, tag_counts[t], src, dst);
                    }
                }
            }
        }
        for (size_t i = 0; i < TL_N(tl_few) - 1; ++i) {
            reversed_tags(tl_few[i], src, dst);
        }
        stream(src, dst);
    }
    for (int i = 0; i < 5; ++i) {
        all_pairs();
    }
    return tl_finish();
}
