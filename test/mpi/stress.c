/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Everything at random, and every byte checked.
 *
 * All processes derive the same script from the seed: for each round and each ordered pair the list
 * of messages with communicator, tag, size, mode and type. Senders issue their lists in order, so
 * message number q of an envelope (communicator, source, destination, tag) is known to both sides.
 * Receivers first post exact receives for a random share of each envelope, now and then cancelling
 * and reposting one; then they take what is left with wildcards or matched probes. Exact receives
 * posted before wildcards get the first messages of their envelope, wildcards the later ones in
 * order: so each receive knows what it must get once its status tells source and tag.
 *
 * No deadlock: all sends are nonblocking, exact receives number at most the messages of their
 * envelope, wildcards exactly the rest. Rounds alternate between two sets of communicators, so that
 * two rounds overlap; a round starts when everybody is through with the one before the last.
 *
 * usage: stress [--seed N] [--seconds N] [--rounds N] [--threads N] [--max-size N]
 * It ends early when the file SPEC_TEST_END of the environment is there. */
#include <pthread.h>
#include <time.h>
#include "testlib.h"

enum { SETS = 2, COMMS = 3, TAGS = 4, MAX_MESSAGES = 7, NEVER = TAGS, TAG_SPAN = TAGS + 1 };
enum { NONE, SOURCE, TAG, BOTH, WILD }; /* what the wildcards of a round leave open */
enum { PLAIN, VECTOR };
static uint64_t seed;
static long long max_size = 2 << 20;
static int threads;

/* A communicator, and where the ranks of MPI_COMM_WORLD are in it. */
typedef struct {
    MPI_Comm comm;
    int *rank_of, *world_of;
} place_t;

/* What one thread works with. */
typedef struct {
    int number, tag_base;
    place_t place[SETS][COMMS];
    MPI_Comm ctl;
    MPI_Request barrier[SETS];
    tl_rng_t own; /* timing and tactics: different on every rank */
    long long messages;
} worker_t;

typedef struct {
    int comm, tag, mode, type, number;
    size_t n;
} message_t;

typedef struct {
    MPI_Request request;
    MPI_Status status;
    char *buf, *from; /* from: the buffer the request uses, buf what must be freed */
    size_t room;
    MPI_Datatype type;
    int src, comm, tag, number; /* world rank; -1 for what a wildcard leaves open; number of the exact */
    bool send, exact, probed, cancelled, persistent;
    int mtype;
} op_t;

/* ---- the script ---- */

static size_t random_size(tl_rng_t *rng)
{
    static const size_t edge[] = {0, 1, 256, 4096, 32768, 65536, 131072, 1 << 20};
    size_t n;
    switch (tl_below(rng, 20)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
    case 6:
    case 7:
    case 8:
        n = tl_below(rng, 300);
        break;
    case 9:
    case 10:
    case 11:
    case 12: {
        size_t e = edge[tl_below(rng, TL_N(edge))];
        n = e + tl_below(rng, 160);
        n = n > 128 ? n - 128 : n;
        break;
    }
    case 13:
    case 14:
        n = tl_below(rng, 8000);
        break;
    case 19:
        n = tl_below(rng, 2 << 20);
        break;
    default:
        n = tl_below(rng, 300000);
    }
    return n < (size_t) max_size ? n : n % (size_t) max_size;
}

/* The messages of a pair in one round; returns how many. */
static int script(int worker, uint64_t round, int src, int dst, message_t *list)
{
    tl_rng_t rng = {.state = tl_key(seed + (uint64_t) worker * 7919, src, dst, 0, round)};
    int seen[COMMS][TAGS] = {{0}};
    int count = (int) tl_below(&rng, MAX_MESSAGES + 1);
    for (int i = 0; i < count; ++i) {
        message_t *m = &list[i];
        m->comm = (int) tl_below(&rng, COMMS);
        m->tag = (int) tl_below(&rng, TAGS);
        m->n = random_size(&rng);
        m->mode = (int) tl_below(&rng, 6);
        m->type = 0 == tl_below(&rng, 5) ? VECTOR : PLAIN;
        if (VECTOR == m->type) {
            m->n = m->n / 56 * 56;
            m->type = 0 == m->n ? PLAIN : VECTOR;
        }
        m->number = seen[m->comm][m->tag]++;
    }
    return count;
}

static uint64_t content(int worker, uint64_t round, int src, int dst, const message_t *m)
{
    return tl_key(seed ^ (uint64_t) worker, src, dst, m->comm * 100 + m->tag,
                  round * 1000 + (uint64_t) m->number);
}

/* The message that is number q of its envelope. */
static const message_t *find(const message_t *list, int count, int comm, int tag, int number)
{
    for (int i = 0; i < count; ++i) {
        if (list[i].comm == comm && list[i].tag == tag && list[i].number == number) {
            return &list[i];
        }
    }
    return NULL;
}

/* ---- types: blocks of `block` bytes, each followed by a gap of 3 ---- */

static MPI_Datatype vector_of(size_t n, size_t block)
{
    MPI_Datatype type;
    MPI_Type_vector((int) (n / block), (int) block, (int) block + 3, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    return type;
}

static void spread(char *to, const char *from, size_t n, size_t block)
{
    for (size_t i = 0; i < n / block; ++i) {
        memcpy(to + i * (block + 3), from + i * block, block);
    }
}

static void gather(char *to, const char *from, size_t n, size_t block)
{
    for (size_t i = 0; i < n / block; ++i) {
        memcpy(to + i * block, from + i * (block + 3), block);
        UNTOUCHED(from + i * (block + 3), block, block + (i + 1 < n / block ? 3 : 0));
    }
}

/* ---- one round ---- */

typedef struct {
    worker_t *worker;
    uint64_t round;
    int set;
    op_t *op;
    int ops, room;
} round_t;

static op_t *new_op(round_t *r)
{
    if (r->ops == r->room) {
        r->room = r->room ? 2 * r->room : 256;
        r->op = realloc(r->op, (size_t) r->room * sizeof(*r->op));
    }
    op_t *op = &r->op[r->ops++];
    memset(op, 0, sizeof(*op));
    op->request = MPI_REQUEST_NULL;
    op->type = MPI_DATATYPE_NULL;
    return op;
}

static place_t *place_of(round_t *r, int comm)
{
    return &r->worker->place[r->set][comm];
}

static void start_send(round_t *r, int dst, const message_t *m)
{
    op_t *op = new_op(r);
    place_t *place = place_of(r, m->comm);
    int to = place->rank_of[dst], tag = r->worker->tag_base + m->tag, count = (int) m->n;
    MPI_Datatype type = MPI_BYTE;
    op->send = true;
    op->buf = tl_buf(m->n);
    tl_fill(op->buf, m->n, content(r->worker->number, r->round, tl.rank, dst, m));
    if (VECTOR == m->type) {
        char *wide = tl_buf(m->n / 7 * 10);
        spread(wide, op->buf, m->n, 7);
        FREE(op->buf);
        op->buf = wide;
        type = op->type = vector_of(m->n, 7);
        count = 1;
    }
    ++r->worker->messages;
    switch (m->mode) {
    case 0:
        MPI_Issend(op->buf, count, type, to, tag, place->comm, &op->request);
        break;
    case 1:
        MPI_Send_init(op->buf, count, type, to, tag, place->comm, &op->request);
        op->persistent = true;
        MPI_Start(&op->request);
        break;
    case 2:
        if (m->n < 10000 && threads <= 1) { /* the attached buffer has room for these */
            MPI_Bsend(op->buf, count, type, to, tag, place->comm);
            break;
        } /* fall through */
    default:
        MPI_Isend(op->buf, count, type, to, tag, place->comm, &op->request);
    }
}

/* Post an exact receive for message q of an envelope. */
static void post_exact(round_t *r, int src, const message_t *m, size_t largest)
{
    op_t *op = new_op(r);
    place_t *place = place_of(r, m->comm);
    tl_rng_t *own = &r->worker->own;
    int from = place->rank_of[src], tag = r->worker->tag_base + m->tag;
    op->exact = true;
    op->src = src;
    op->comm = m->comm;
    op->tag = m->tag;
    op->number = m->number;
    /* The size that is sent, or far more (the receiver will expect a large one). */
    op->room = 0 == tl_below(own, 3) ? largest : m->n;
    if (op->room == m->n && m->n > 0 && 0 == m->n % 56 && 0 == tl_below(own, 4)) {
        op->mtype = VECTOR;
        op->buf = tl_buf(m->n / 8 * 11);
        op->type = vector_of(m->n, 8);
        MPI_Irecv(op->buf, 1, op->type, from, tag, place->comm, &op->request);
        return;
    }
    op->buf = tl_buf(op->room);
    if (0 == tl_below(own, 6)) {
        MPI_Recv_init(op->buf, (int) op->room, MPI_BYTE, from, tag, place->comm, &op->request);
        op->persistent = true;
        MPI_Start(&op->request);
    } else {
        MPI_Irecv(op->buf, (int) op->room, MPI_BYTE, from, tag, place->comm, &op->request);
    }
    /* Cancel it again. If that worked, it has never been; if not, it has its message. */
    if (!op->persistent && 0 == tl_below(own, 8)) {
        int flag;
        tl_dither(own);
        MPI_Cancel(&op->request);
        MPI_Wait(&op->request, &op->status);
        MPI_Test_cancelled(&op->status, &flag);
        if (flag) {
            /* Ours again; it must keep what we put there until the end of the round. */
            op->cancelled = true;
            tl_fill(op->buf, op->room, (uintptr_t) op->buf);
            post_exact(r, src, m, largest);
        }
    }
}

/* A receive of a tag that nobody sends, large or small, cancelled at once or at the round's end. */
static void post_extra(round_t *r)
{
    op_t *op = new_op(r);
    tl_rng_t *own = &r->worker->own;
    place_t *place = place_of(r, op->comm = (int) tl_below(own, COMMS));
    op->room = random_size(own);
    op->buf = tl_buf(op->room);
    op->tag = NEVER;
    op->cancelled = true;
    MPI_Irecv(op->buf, (int) op->room, MPI_BYTE,
              0 == tl_below(own, 3) ? MPI_ANY_SOURCE : (int) tl_below(own, (uint64_t) tl.size),
              r->worker->tag_base + NEVER, place->comm, &op->request);
}

static void end_extra(round_t *r, op_t *op)
{
    int flag;
    (void) r;
    MPI_Cancel(&op->request);
    MPI_Wait(&op->request, &op->status);
    MPI_Test_cancelled(&op->status, &flag);
    CHECK(flag, "a receive of a tag that is never sent was not cancelled");
    UNTOUCHED(op->buf, 0, op->room);
    tl_fill(op->buf, op->room, (uintptr_t) op->buf);
}

/* A wildcard receive, or a matched probe and its receive, in one communicator. */
static void post_wild(round_t *r, int comm, int source, int tag, size_t largest, bool probe)
{
    op_t *op = new_op(r);
    place_t *place = place_of(r, comm);
    int from = source < 0 ? MPI_ANY_SOURCE : place->rank_of[source];
    int wanted = tag < 0 ? MPI_ANY_TAG : r->worker->tag_base + tag;
    op->comm = comm;
    op->src = source;
    op->tag = tag;
    if (probe) {
        MPI_Message message;
        MPI_Status status;
        MPI_Count n;
        int flag = 0;
        if (tl_below(&r->worker->own, 2)) {
            MPI_Mprobe(from, wanted, place->comm, &message, &status);
        } else {
            while (!flag) {
                MPI_Improbe(from, wanted, place->comm, &flag, &message, &status);
            }
        }
        MPI_Get_elements_x(&status, MPI_BYTE, &n);
        op->room = (size_t) n;
        op->buf = tl_buf(op->room);
        op->probed = true;
        MPI_Imrecv(op->buf, (int) n, MPI_BYTE, &message, &op->request);
    } else {
        op->room = largest;
        op->buf = tl_buf(op->room);
        MPI_Irecv(op->buf, (int) op->room, MPI_BYTE, from, wanted, place->comm, &op->request);
    }
}

/* Compare what an operation received with the script. */
static void check_received(round_t *r, op_t *op, message_t *const *lists, const int *counts,
                           int (*next)[COMMS][TAGS])
{
    place_t *place = place_of(r, op->comm);
    int index = op->status.MPI_SOURCE, tag = op->status.MPI_TAG - r->worker->tag_base;
    if (!CHECK(index >= 0 && index < tl.size && tag >= 0 && tag < TAGS,
               "round %llu: status with source %d tag %d", (unsigned long long) r->round, index,
               op->status.MPI_TAG)) {
        return;
    }
    int src = place->world_of[index];
    int number = next[src][op->comm][tag]++;
    const message_t *m = find(lists[src], counts[src], op->comm, tag, number);
    MPI_Count n;
    MPI_Get_elements_x(&op->status, MPI_BYTE, &n);
    if (!CHECK(NULL != m, "round %llu: a message more than sent from %d on communicator %d tag %d",
               (unsigned long long) r->round, src, op->comm, tag)) {
        return;
    }
    CHECK(n == (MPI_Count) m->n,
          "round %llu: from %d communicator %d tag %d number %d: %lld bytes, sent were %zu",
          (unsigned long long) r->round, src, op->comm, tag, number, (long long) n, m->n);
    if (op->exact) {
        CHECK(src == op->src && tag == op->tag && number == op->number,
              "round %llu: a receive of (%d, %d) number %d got (%d, %d) number %d",
              (unsigned long long) r->round, op->src, op->tag, op->number, src, tag, number);
    }
    if (VECTOR == op->mtype) {
        char *flat = tl_buf(m->n);
        gather(flat, op->buf, m->n, 8);
        VERIFY(flat, m->n, content(r->worker->number, r->round, src, tl.rank, m));
        FREE(flat);
    } else if ((size_t) n <= op->room) {
        VERIFY(op->buf, m->n, content(r->worker->number, r->round, src, tl.rank, m));
        UNTOUCHED(op->buf, m->n, op->room);
    }
}

/* Complete all requests in a random manner. */
static void complete(round_t *r)
{
    MPI_Request *request = malloc((size_t) (r->ops + 1) * sizeof(*request));
    MPI_Status *status = malloc((size_t) (r->ops + 1) * sizeof(*status));
    int *index = malloc((size_t) (r->ops + 1) * sizeof(int)), *where = malloc((size_t) (r->ops + 1) * sizeof(int));
    int n = 0;
    for (int i = 0; i < r->ops; ++i) {
        if (MPI_REQUEST_NULL != r->op[i].request) {
            where[n] = i;
            request[n++] = r->op[i].request;
        }
    }
    uint64_t how = tl_below(&r->worker->own, 4);
    if (0 == how) {
        MPI_Waitall(n, request, status);
        for (int k = 0; k < n; ++k) {
            r->op[where[k]].status = status[k];
        }
    } else {
        for (int left = n; left > 0;) {
            int done = 0;
            if (1 == how) {
                MPI_Waitany(n, request, index, status);
                done = 1;
            } else if (2 == how) {
                MPI_Waitsome(n, request, &done, index, status);
            } else {
                MPI_Testsome(n, request, &done, index, status);
            }
            for (int k = 0; k < done; ++k) {
                r->op[where[index[k]]].status = status[k];
            }
            left -= done;
        }
    }
    for (int k = 0; k < n; ++k) {
        op_t *op = &r->op[where[k]];
        op->request = request[k];
        if (op->persistent) {
            MPI_Request_free(&op->request);
        }
    }
    free(request);
    free(status);
    free(index);
    free(where);
}

static void send_all(round_t *r)
{
    tl_rng_t *own = &r->worker->own;
    message_t (*list)[MAX_MESSAGES] = malloc((size_t) tl.size * sizeof(*list));
    int *count = malloc((size_t) tl.size * sizeof(int)), *at = calloc((size_t) tl.size, sizeof(int));
    int left = 0;
    for (int dst = 0; dst < tl.size; ++dst) {
        left += count[dst] = script(r->worker->number, r->round, tl.rank, dst, list[dst]);
    }
    while (left > 0) {
        int dst = (int) tl_below(own, (uint64_t) tl.size);
        while (at[dst] == count[dst]) {
            dst = (dst + 1) % tl.size;
        }
        start_send(r, dst, &list[dst][at[dst]++]);
        --left;
        if (0 == tl_below(own, 6)) {
            tl_dither(own);
        }
    }
    free(list);
    free(count);
    free(at);
}

/* Probes block, so they are for those who have sent already. */
static void receive_all(round_t *r, message_t *const *lists, const int *counts, bool may_probe)
{
    tl_rng_t *own = &r->worker->own;
    int left[COMMS][TAGS] = {{0}};
    size_t largest[COMMS][TAGS] = {{0}}, largest_of_comm[COMMS] = {0};
    int *left_of = calloc((size_t) tl.size * COMMS * TAGS, sizeof(int));
    int wild[COMMS];
    for (int c = 0; c < COMMS; ++c) {
        /* Threads share the communicators, so nobody may leave the tag open. */
        wild[c] = (int) tl_below(own, threads > 1 ? TAG : WILD);
    }
    for (int src = 0; src < tl.size; ++src) {
        for (int i = 0; i < counts[src]; ++i) {
            const message_t *m = &lists[src][i];
            if (m->n > largest[m->comm][m->tag]) {
                largest[m->comm][m->tag] = m->n;
            }
            if (m->n > largest_of_comm[m->comm]) {
                largest_of_comm[m->comm] = m->n;
            }
        }
    }
    /* Exact ones: of each envelope the first so many, in order; the sources in turn or one by one. */
    for (int src = 0; src < tl.size; ++src) {
        int who = (src + tl.rank) % tl.size;
        bool closed[COMMS][TAGS] = {{false}};
        for (int i = 0; i < counts[who]; ++i) {
            const message_t *m = &lists[who][i];
            bool *end = &closed[m->comm][m->tag];
            *end = *end || (NONE != wild[m->comm] && 0 == tl_below(own, 3));
            if (!*end) {
                post_exact(r, who, m, largest[m->comm][m->tag]);
            } else {
                ++left[m->comm][m->tag];
                ++left_of[(who * COMMS + m->comm) * TAGS + m->tag];
            }
            if (0 == tl_below(own, 10)) {
                tl_dither(own);
            }
            if (0 == tl_below(own, 12)) {
                post_extra(r);
                if (tl_below(own, 2)) {
                    op_t *op = &r->op[r->ops - 1];
                    tl_dither(own);
                    end_extra(r, op);
                }
            }
        }
    }
    /* The rest. */
    for (int c = 0; c < COMMS; ++c) {
        bool probe = may_probe && 0 == tl_below(own, 2);
        int total = 0;
        for (int t = 0; t < TAGS; ++t) {
            total += left[c][t];
            for (int k = 0; k < left[c][t] && SOURCE == wild[c]; ++k) {
                post_wild(r, c, -1, t, largest[c][t], probe);
            }
        }
        for (int src = 0; src < tl.size && TAG == wild[c]; ++src) {
            for (int t = 0; t < TAGS; ++t) {
                for (int k = 0; k < left_of[(src * COMMS + c) * TAGS + t]; ++k) {
                    post_wild(r, c, src, -1, largest_of_comm[c], probe);
                }
            }
        }
        for (int k = 0; k < total && BOTH == wild[c]; ++k) {
            post_wild(r, c, -1, -1, largest_of_comm[c], probe);
        }
    }
    free(left_of);
}

static void one_round(worker_t *w, uint64_t number)
{
    round_t r = {.worker = w, .round = number, .set = (int) (number % SETS)};
    message_t **lists = malloc((size_t) tl.size * sizeof(*lists));
    int *counts = malloc((size_t) tl.size * sizeof(int));
    int (*next)[COMMS][TAGS] = calloc((size_t) tl.size, sizeof(*next));

    MPI_Wait(&w->barrier[r.set], MPI_STATUS_IGNORE); /* all are through with this set's last round */
    for (int src = 0; src < tl.size; ++src) {
        lists[src] = malloc(MAX_MESSAGES * sizeof(message_t));
        counts[src] = script(w->number, number, src, tl.rank, lists[src]);
    }
    if (tl_below(&w->own, 2)) {
        send_all(&r);
        tl_dither(&w->own);
        receive_all(&r, lists, counts, true);
    } else {
        receive_all(&r, lists, counts, false);
        tl_dither(&w->own);
        send_all(&r);
    }
    for (int i = 0; i < r.ops; ++i) {
        if (NEVER == r.op[i].tag && r.op[i].cancelled && MPI_REQUEST_NULL != r.op[i].request) {
            end_extra(&r, &r.op[i]);
        }
    }
    complete(&r);
    MPI_Ibarrier(w->ctl, &w->barrier[r.set]);

    for (int i = 0; i < r.ops; ++i) {
        op_t *op = &r.op[i];
        if (op->cancelled) {
            VERIFY(op->buf, op->room, (uintptr_t) op->buf);
        } else if (!op->send) {
            check_received(&r, op, lists, counts, next);
        }
        if (MPI_DATATYPE_NULL != op->type) {
            MPI_Type_free(&op->type);
        }
        FREE(op->buf);
    }
    for (int src = 0; src < tl.size; ++src) {
        for (int i = 0; i < counts[src]; ++i) {
            const message_t *m = &lists[src][i];
            CHECK(NULL == find(lists[src], counts[src], m->comm, m->tag, next[src][m->comm][m->tag]),
                  "round %llu: a message from %d was not received", (unsigned long long) number, src);
        }
        free(lists[src]);
    }
    free(lists);
    free(counts);
    free(next);
    free(r.op);
}

/* ---- the frame ---- */

static void make_place(place_t *place, int kind)
{
    MPI_Group world, group;
    if (0 == kind) {
        MPI_Comm_dup(MPI_COMM_WORLD, &place->comm);
    } else if (1 == kind) {
        MPI_Comm_split(MPI_COMM_WORLD, 0, -tl.rank, &place->comm); /* the other way round */
    } else {
        MPI_Comm_split(MPI_COMM_WORLD, 0, (tl.rank * 5 + 3) % tl.size, &place->comm);
    }
    place->rank_of = malloc((size_t) tl.size * sizeof(int));
    place->world_of = malloc((size_t) tl.size * sizeof(int));
    int *all = malloc((size_t) tl.size * sizeof(int));
    for (int i = 0; i < tl.size; ++i) {
        all[i] = i;
    }
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Comm_group(place->comm, &group);
    MPI_Group_translate_ranks(world, tl.size, all, group, place->rank_of);
    MPI_Group_translate_ranks(group, tl.size, all, world, place->world_of);
    MPI_Group_free(&world);
    MPI_Group_free(&group);
    free(all);
}

static void free_place(place_t *place)
{
    MPI_Comm_free(&place->comm);
    free(place->rank_of);
    free(place->world_of);
}

static double end_at;
static const char *end_file; /* it ends early when this is there */
static long long max_rounds;

static void *work(void *argument)
{
    worker_t *w = argument;
    enum { BETWEEN = 8, RENEW = 40 };
    int go_on = 1;
    for (uint64_t round = 0; go_on; ++round) {
        one_round(w, round);
        if (round % BETWEEN == BETWEEN - 1) {
            go_on = MPI_Wtime() < end_at && (long long) round + 1 < max_rounds
                    && (NULL == end_file || 0 != access(end_file, F_OK));
            MPI_Bcast(&go_on, 1, MPI_INT, 0, w->ctl);
        }
        /* New communicators, with ids used before. */
        if (threads <= 1 && round % RENEW == RENEW - 1) {
            int set = (int) (round / RENEW % SETS), c = (int) (round / RENEW / SETS % COMMS);
            MPI_Wait(&w->barrier[set], MPI_STATUS_IGNORE);
            free_place(&w->place[set][c]);
            make_place(&w->place[set][c], c);
        }
        tl_step("stress --seed %llu%s, round %llu", (unsigned long long) seed,
                threads > 1 ? " with threads" : "", (unsigned long long) round + 1);
    }
    MPI_Waitall(SETS, w->barrier, MPI_STATUSES_IGNORE);
    return NULL;
}

int main(int argc, char **argv)
{
    enum { MAX_THREADS = 16 };
    threads = 1;
    for (int i = 1; i + 1 < argc; ++i) {
        threads = 0 == strcmp(argv[i], "--threads") ? atoi(argv[i + 1]) : threads;
    }
    int wanted = threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
    if (tl_start_thread(&argc, &argv, "stress", 600, wanted) < wanted) {
        tl_skip("this MPI has no MPI_THREAD_MULTIPLE");
        return tl_finish();
    }
    threads = threads < 1 ? 1 : threads > MAX_THREADS ? MAX_THREADS : threads;
    seed = (uint64_t) tl_option("--seed", (long long) (time(NULL) ^ getpid()) % 1000000);
    MPI_Bcast(&seed, 1, MPI_UINT64_T, 0, tl.ctl);
    max_size = tl_option("--max-size", max_size);
    max_rounds = tl_option("--rounds", 1LL << 60);
    end_at = MPI_Wtime() + (double) tl_option("--seconds", 10);
    end_file = getenv("SPEC_TEST_END");
    if (0 == tl.rank) {
        printf("stress --seed %llu --threads %d, %d ranks\n", (unsigned long long) seed, threads,
               tl.size);
        fflush(stdout);
    }
    int room = 8 << 20, size;
    char *store = malloc((size_t) room);
    void *detached;
    MPI_Buffer_attach(store, room);

    static worker_t worker[MAX_THREADS];
    pthread_t id[MAX_THREADS];
    for (int s = 0; s < SETS; ++s) {
        for (int c = 0; c < COMMS; ++c) {
            make_place(&worker[0].place[s][c], c);
        }
    }
    for (int t = 0; t < threads; ++t) {
        worker[t].number = t;
        worker[t].tag_base = t * TAG_SPAN;
        worker[t].own.state = tl_key(seed, tl.rank, t, 1, 0);
        memcpy(worker[t].place, worker[0].place, sizeof(worker[t].place));
        worker[t].barrier[0] = worker[t].barrier[1] = MPI_REQUEST_NULL;
        MPI_Comm_dup(MPI_COMM_WORLD, &worker[t].ctl);
    }
    if (threads <= 1) {
        work(&worker[0]);
    } else {
        for (int t = 0; t < threads; ++t) {
            pthread_create(&id[t], NULL, work, &worker[t]);
        }
        for (int t = 0; t < threads; ++t) {
            pthread_join(id[t], NULL);
        }
    }
    long long messages = 0, all = 0;
    for (int t = 0; t < threads; ++t) {
        messages += worker[t].messages;
        MPI_Comm_free(&worker[t].ctl);
    }
    for (int s = 0; s < SETS; ++s) {
        for (int c = 0; c < COMMS; ++c) {
            free_place(&worker[0].place[s][c]);
        }
    }
    MPI_Buffer_detach(&detached, &size);
    free(store);
    MPI_Reduce(&messages, &all, 1, MPI_LONG_LONG, MPI_SUM, 0, tl.ctl);
    if (0 == tl.rank) {
        printf("%lld messages\n", all);
        if (0 == all) {
            printf("nothing was tested\n");
            ++tl.errors;
        }
    }
    return tl_finish();
}
