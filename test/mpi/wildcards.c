/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* MPI_ANY_SOURCE and MPI_ANY_TAG.
 *
 * Between one sender and one receiver the result does not depend on timing: each message goes to the
 * first posted receive that accepts it and each receive takes the first message it accepts. So the
 * program computes who must get what and compares, whatever order things happen in. With several
 * senders the messages of each must arrive in order. Wildcards never see collective traffic. */
#include "testlib.h"

enum { MESSAGES = 48, TAGS = 3, ROOM = 400000 };
static const size_t sizes[] = {0, 12, 255, 3000, 4090, 5000, 66000, 150000, ROOM};

static size_t size_of(uint64_t seed, int i)
{
    return sizes[tl_mix(seed * 977 + (uint64_t) i) % TL_N(sizes)];
}

static int tag_of(uint64_t seed, int i)
{
    return (int) (tl_mix(seed * 1009 + (uint64_t) i + 17) % TAGS);
}

/* What receive i asks for; MPI_ANY_TAG in some. Bit 0 of *kind: any source. */
static int wanted_tag(uint64_t seed, int i, bool *any_source)
{
    uint64_t r = tl_mix(seed * 31 + (uint64_t) i + 7777);
    *any_source = r & 1;
    return (r >> 1) % 3 == 0 ? MPI_ANY_TAG : (int) ((r >> 8) % TAGS);
}

/* match[r] = the message that receive r gets, -1 for none. */
static void predict(uint64_t seed, int match[MESSAGES], int taker[MESSAGES])
{
    bool any_source;
    for (int r = 0; r < MESSAGES; ++r) {
        match[r] = -1;
    }
    for (int m = 0; m < MESSAGES; ++m) {
        taker[m] = -1;
        for (int r = 0; r < MESSAGES && taker[m] < 0; ++r) {
            int tag = wanted_tag(seed, r, &any_source);
            if (match[r] < 0 && (MPI_ANY_TAG == tag || tag_of(seed, m) == tag)) {
                match[r] = m;
                taker[m] = r;
            }
        }
    }
}

static void one_sender(uint64_t seed, int order, int src, int dst)
{
    if (tl.rank != src && tl.rank != dst) {
        return;
    }
    tl_step("seed %llu, order %d, from %d to %d", (unsigned long long) seed, order, src, dst);
    int match[MESSAGES], taker[MESSAGES];
    char *buf[MESSAGES];
    MPI_Request request[MESSAGES];
    MPI_Status status;
    tl_rng_t rng = {.state = seed};
    predict(seed, match, taker);
    if (tl.rank == src) {
        if (0 == order) {
            tl_hear(dst);
        }
        for (int m = 0; m < MESSAGES; ++m) {
            size_t n = size_of(seed, m);
            buf[m] = tl_buf(n);
            tl_fill(buf[m], n, tl_key(seed, src, dst, tag_of(seed, m), m));
            MPI_Isend(buf[m], (int) n, MPI_BYTE, dst, tag_of(seed, m), MPI_COMM_WORLD, &request[m]);
            if (2 == order) {
                tl_dither(&rng);
            }
        }
        if (1 == order) {
            tl_tell(dst);
        }
        MPI_Waitall(MESSAGES, request, MPI_STATUSES_IGNORE);
        for (int m = 0; m < MESSAGES; ++m) {
            FREE(buf[m]);
        }
        tl_tell(dst); /* the receiver may cancel what is left: nothing more will come */
        tl_hear(dst); /* until it has done so */
        return;
    }
    if (1 == order) {
        tl_hear(src);
    }
    for (int r = 0; r < MESSAGES; ++r) {
        bool any_source;
        int tag = wanted_tag(seed, r, &any_source);
        buf[r] = tl_buf(ROOM);
        MPI_Irecv(buf[r], ROOM, MPI_BYTE, any_source ? MPI_ANY_SOURCE : src, tag, MPI_COMM_WORLD,
                  &request[r]);
        if (2 == order) {
            tl_dither(&rng);
        }
    }
    if (0 == order) {
        tl_tell(src);
    }
    for (int r = 0; r < MESSAGES; ++r) {
        int m = match[r];
        if (m >= 0) {
            MPI_Wait(&request[r], &status);
            CHECK_STATUS(status, src, tag_of(seed, m), size_of(seed, m));
            VERIFY(buf[r], size_of(seed, m), tl_key(seed, src, dst, tag_of(seed, m), m));
            UNTOUCHED(buf[r], size_of(seed, m), ROOM);
        }
    }
    /* Messages that no receive took, in the order of their tags. */
    char *late = tl_buf(ROOM);
    for (int m = 0; m < MESSAGES; ++m) {
        if (taker[m] < 0) {
            MPI_Recv(late, ROOM, MPI_BYTE, MPI_ANY_SOURCE, tag_of(seed, m), MPI_COMM_WORLD, &status);
            CHECK_STATUS(status, src, tag_of(seed, m), size_of(seed, m));
            VERIFY(late, size_of(seed, m), tl_key(seed, src, dst, tag_of(seed, m), m));
        }
    }
    tl_hear(src);
    for (int r = 0; r < MESSAGES; ++r) {
        if (match[r] < 0) {
            int flag;
            MPI_Test(&request[r], &flag, MPI_STATUS_IGNORE);
            CHECK(!flag, "receive %d got a message, but none was left for it", r);
            if (!flag) {
                MPI_Cancel(&request[r]);
                MPI_Wait(&request[r], &status);
                MPI_Test_cancelled(&status, &flag);
                CHECK(flag, "receive %d could not be cancelled", r);
            }
            UNTOUCHED(buf[r], 0, ROOM);
        }
        FREE(buf[r]);
    }
    FREE(late);
    tl_tell(src);
}

/* All others send to one rank, which receives with wildcards only or mixed with exact ones. Every
 * message carries its source, tag and number in front. */
static void many_senders(int root, bool mixed)
{
    enum { EACH = 40 };
    typedef struct {
        int source, tag, number;
    } identity_t;
    tl_step("all to %d, %s", root, mixed ? "wildcards and exact receives" : "wildcards");
    if (tl.rank != root) {
        char *buf = tl_buf(ROOM);
        for (int i = 0; i < EACH; ++i) {
            int tag = tag_of(5, i);
            size_t n = sizeof(identity_t) + size_of((uint64_t) tl.rank, i) / 2;
            tl_fill(buf, n, tl_key(6, tl.rank, root, tag, i));
            memcpy(buf, &(identity_t){tl.rank, tag, i}, sizeof(identity_t));
            MPI_Send(buf, (int) n, MPI_BYTE, root, tag, MPI_COMM_WORLD);
        }
        FREE(buf);
        return;
    }
    int total = EACH * (tl.size - 1);
    int *last = calloc((size_t) tl.size * TAGS, sizeof(*last)), *seen = calloc((size_t) tl.size, sizeof(*seen));
    char *buf = tl_buf(ROOM);
    for (int i = 0; i < tl.size * TAGS; ++i) {
        last[i] = -1;
    }
    for (int k = 0; k < total; ++k) {
        MPI_Status status;
        identity_t id;
        int source = MPI_ANY_SOURCE, tag = MPI_ANY_TAG, count;
        if (mixed && k % 3 == 1) { /* exact source: somebody who has something left */
            source = root;
            for (int s = 0; s < tl.size; ++s) {
                int candidate = (s + k) % tl.size;
                if (candidate != root && seen[candidate] < EACH) {
                    source = candidate;
                }
            }
        }
        MPI_Recv(buf, ROOM, MPI_BYTE, source, tag, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        memcpy(&id, buf, sizeof(id));
        if (!CHECK(status.MPI_SOURCE == id.source && status.MPI_TAG == id.tag,
                   "status says source %d tag %d, the message source %d tag %d", status.MPI_SOURCE,
                   status.MPI_TAG, id.source, id.tag)) {
            continue;
        }
        CHECK(MPI_ANY_SOURCE == source || source == id.source, "asked for source %d, got %d", source,
              id.source);
        CHECK((size_t) count == sizeof(id) + size_of((uint64_t) id.source, id.number) / 2,
              "message %d of %d: wrong size %d", id.number, id.source, count);
        size_t at = tl_differs_from(buf + sizeof(id), (size_t) count - sizeof(id),
                                    tl_key(6, id.source, root, id.tag, (uint64_t) id.number),
                                    sizeof(id));
        CHECK(at == (size_t) count - sizeof(id), "message %d of %d differs at byte %zu", id.number,
              id.source, at + sizeof(id));
        int *before = &last[id.source * TAGS + id.tag];
        CHECK(id.number > *before, "message %d of source %d tag %d came after %d", id.number,
              id.source, id.tag, *before);
        /* All receives here take any tag, so the order is strict across tags as well. */
        CHECK(id.number == seen[id.source], "message %d of source %d came as number %d", id.number,
              id.source, seen[id.source]);
        *before = id.number;
        ++seen[id.source];
    }
    for (int s = 0; s < tl.size; ++s) {
        CHECK(s == root || EACH == seen[s], "%d messages of %d instead of %d", seen[s], s, EACH);
    }
    FREE(buf);
    free(last);
    free(seen);
}

/* Posted wildcards and probes while collectives run on the same communicator. */
static void not_collectives(void)
{
    enum { POSTED = 4, WORDS = 50000 };
    tl_step("wildcards among collectives");
    MPI_Request posted[POSTED], request;
    int *buf[POSTED], flag, next = (tl.rank + 1) % tl.size, prev = (tl.rank + tl.size - 1) % tl.size;
    int *a = tl_buf(WORDS * sizeof(int)), *b = tl_buf(WORDS * sizeof(int) * (size_t) tl.size);
    MPI_Status status;
    for (int i = 0; i < POSTED; ++i) {
        buf[i] = tl_buf(WORDS * sizeof(int));
        MPI_Irecv(buf[i], WORDS, MPI_INT, i & 1 ? prev : MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                  &posted[i]);
    }
    for (int round = 0; round < 6; ++round) {
        int n = round & 1 ? WORDS : 3;
        for (int i = 0; i < n; ++i) {
            a[i] = tl.rank + i;
        }
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Allreduce(a, b, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < n; ++i) {
            int sum = tl.size * i + tl.size * (tl.size - 1) / 2;
            if (!CHECK(sum == b[i], "allreduce: expected %d at %d, got %d", sum, i, b[i])) {
                break;
            }
        }
        MPI_Iallgather(a, n, MPI_INT, b, n, MPI_INT, MPI_COMM_WORLD, &request);
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
        CHECK(!flag, "a probe saw a collective's message, tag %d", status.MPI_TAG);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int i = 0; i < n * tl.size; ++i) {
            if (!CHECK(b[i] == i / n + i % n, "allgather: wrong at %d: %d", i, b[i])) {
                break;
            }
        }
        MPI_Bcast(a, n, MPI_INT, round % tl.size, MPI_COMM_WORLD);
        CHECK(a[n - 1] == round % tl.size + n - 1, "bcast: got %d", a[n - 1]);
        MPI_Testany(POSTED, posted, &(int){0}, &flag, MPI_STATUS_IGNORE);
        CHECK(!flag, "a receive with wildcards took a collective's message");
    }
    for (int i = 0; i < POSTED; ++i) {
        UNTOUCHED(buf[i], 0, WORDS * sizeof(int));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < POSTED; ++i) {
        tl_fill(a, WORDS * sizeof(int), tl_key(8, tl.rank, next, i, 0));
        MPI_Send(a, i & 1 ? WORDS : 5, MPI_INT, next, i, MPI_COMM_WORLD);
        MPI_Wait(&posted[i], &status);
        CHECK_STATUS(status, prev, i, (i & 1 ? WORDS : 5) * sizeof(int));
        VERIFY(buf[i], (i & 1 ? WORDS : 5) * sizeof(int), tl_key(8, prev, tl.rank, i, 0));
        FREE(buf[i]);
    }
    FREE(a);
    FREE(b);
}

/* Two processes that send to each other and to themselves, in a communicator of their own. Receives for any source are the
 * other's until this process sends to itself for the first time, which it does at some time; receives for itself stand between them.
 * Of one source no message goes by another that its receive could have had. */
enum { EACH = 12, RECEIVES = 24 };

typedef struct sent {
    int source, tag, number;
} sent_t;

static void send_some(MPI_Comm comm, int to, uint64_t seed, int from, int end, char *buf[EACH],
                      MPI_Request request[EACH])
{
    int me;
    MPI_Comm_rank(comm, &me);
    for (int i = from; i < end; ++i) {
        const int tag = tag_of(seed + (uint64_t) to, i);
        const size_t n = sizeof(sent_t) + size_of(seed + (uint64_t) to, i);
        buf[i] = tl_buf(n);
        tl_fill(buf[i], n, tl_key(seed, me, to, tag, i));
        memcpy(buf[i], &(sent_t){me, tag, i}, sizeof(sent_t));
        MPI_Isend(buf[i], (int) n, MPI_BYTE, to, tag, comm, &request[i]);
    }
}

/* What a receive got. */
static sent_t got(const char *buf, const MPI_Status *status, uint64_t seed, int me)
{
    sent_t id;
    int count;
    MPI_Get_count(status, MPI_BYTE, &count);
    memcpy(&id, buf, sizeof(id));
    CHECK(status->MPI_SOURCE == id.source && status->MPI_TAG == id.tag,
          "status says source %d tag %d, the message source %d tag %d", status->MPI_SOURCE,
          status->MPI_TAG, id.source, id.tag);
    CHECK((size_t) count == sizeof(id) + size_of(seed + (uint64_t) me, id.number),
          "message %d of %d: wrong size %d", id.number, id.source, count);
    const size_t at =
        tl_differs_from(buf + sizeof(id), (size_t) count - sizeof(id),
                        tl_key(seed, id.source, me, id.tag, (uint64_t) id.number), sizeof(id));
    CHECK(at == (size_t) count - sizeof(id), "message %d of %d differs at byte %zu", id.number,
          id.source, at + sizeof(id));
    return id;
}

static void two_sources(MPI_Comm pair, uint64_t seed)
{
    enum { SPACE = ROOM + (int) sizeof(sent_t) };
    MPI_Comm comm;
    MPI_Request request[RECEIVES], out[2][EACH];
    MPI_Status status;
    char *buf[RECEIVES], *sent[2][EACH], *late = tl_buf(SPACE);
    int source[RECEIVES], tag[RECEIVES], taker[2][EACH], takers = RECEIVES, left = 2 * EACH, me,
                                                         flag;
    MPI_Comm_dup(pair, &comm);
    MPI_Comm_rank(comm, &me);
    tl_rng_t rng = {.state = seed * 2 + (uint64_t) me};
    tl_step("two sources, seed %llu", (unsigned long long) seed);
    memset(taker, -1, sizeof(taker));
    const int tags = (int) tl_below(&rng, 3), sources = (int) tl_below(&rng, 3);
    for (int r = 0; r < RECEIVES; ++r) {
        tag[r] = 0 == tags || (1 == tags && tl_below(&rng, 2) > 0) ? (int) tl_below(&rng, TAGS)
                                                                   : MPI_ANY_TAG;
        source[r] =
            0 == sources || tl_below(&rng, 3) > 0 ? MPI_ANY_SOURCE : (int) tl_below(&rng, 2);
        buf[r] = tl_buf(SPACE);
        MPI_Irecv(buf[r], SPACE, MPI_BYTE, source[r], tag[r], comm, &request[r]);
    }
    if (tl_mix(seed) & 1) {
        MPI_Barrier(pair); /* the offers are there */
    }
    const int first = (int) tl_below(&rng, EACH + 1);
    send_some(comm, 1 - me, seed, 0, first, sent[0], out[0]);
    if (tl_below(&rng, 2) > 0) {
        tl_dither(&rng);
    }
    send_some(comm, me, seed, 0, EACH, sent[1], out[1]);
    send_some(comm, 1 - me, seed, first, EACH, sent[0], out[0]);
    while (left > 0) {
        int r;
        MPI_Testany(RECEIVES, request, &r, &flag, &status);
        if (flag && MPI_UNDEFINED != r) {
            const sent_t id = got(buf[r], &status, seed, me);
            taker[id.source][id.number] = r;
            --left;
            continue;
        }
        MPI_Message message;
        MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &message, &status);
        if (flag) {
            MPI_Mrecv(late, SPACE, MPI_BYTE, &message, &status);
            const sent_t id = got(late, &status, seed, me);
            taker[id.source][id.number] = takers++;
            --left;
        }
    }
    for (int s = 0; s < 2; ++s) {
        for (int i = 0; i < EACH; ++i) {
            const int r = taker[s][i];
            const int wanted = r < RECEIVES ? tag[r] : MPI_ANY_TAG;
            CHECK(r >= 0, "message %d of %d did not come", i, s);
            CHECK(r >= RECEIVES || MPI_ANY_SOURCE == source[r] || s == source[r],
                  "receive %d for source %d got one of %d", r, source[r], s);
            for (int before = 0; before < i; ++before) {
                const int its_tag = tag_of(seed + (uint64_t) me, before);
                CHECK((MPI_ANY_TAG != wanted && its_tag != wanted) || taker[s][before] < r,
                      "message %d of %d went to receive %d, %d before it to %d", i, s, r, before,
                      taker[s][before]);
            }
        }
    }
    MPI_Waitall(EACH, out[0], MPI_STATUSES_IGNORE);
    MPI_Waitall(EACH, out[1], MPI_STATUSES_IGNORE);
    for (int i = 0; i < EACH; ++i) {
        FREE(sent[0][i]);
        FREE(sent[1][i]);
    }
    for (int r = 0; r < RECEIVES; ++r) {
        if (MPI_REQUEST_NULL != request[r]) {
            MPI_Cancel(&request[r]);
            MPI_Wait(&request[r], &status);
            MPI_Test_cancelled(&status, &flag);
            CHECK(flag, "receive %d could not be cancelled", r);
            UNTOUCHED(buf[r], 0, SPACE);
        }
        FREE(buf[r]);
    }
    FREE(late);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "wildcards", 120);
    MPI_Comm pair;
    MPI_Comm_split(MPI_COMM_WORLD, tl.rank / 2, tl.rank, &pair);
    const uint64_t pairs = (uint64_t) tl_option("--pairs", 30);
    for (uint64_t seed = 1; seed <= pairs && (tl.rank | 1) < tl.size; ++seed) {
        two_sources(pair, seed);
    }
    MPI_Comm_free(&pair);
    uint64_t rounds = (uint64_t) tl_option("--rounds", 40);
    for (uint64_t seed = 1; seed <= rounds; ++seed) {
        for (int order = 0; order < 3; ++order) {
            int src = (int) (seed % (uint64_t) tl.size);
            one_sender(seed, order, src, (src + 1) % tl.size);
        }
    }
    for (int i = 0; i < 10; ++i) {
        MPI_Barrier(MPI_COMM_WORLD);
        many_senders(i % tl.size, i & 1);
        MPI_Barrier(MPI_COMM_WORLD);
        not_collectives();
    }
    return tl_finish();
}
