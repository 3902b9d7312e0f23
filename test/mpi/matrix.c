/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* MPI_THREAD_MULTIPLE, every way to send beside every way to receive.
 *
 * Words: cell = one choice of threads, layout (who shares communicator and tag with whom), way to send, way to receive, and size;
 * lane = a thread that sends and the thread of the peer that is there for it; position = a cell's place in a fixed order which mixes
 * all choices, so that any stretch of it is a sample; label = lane and number of a message, in its first bytes.
 * Ranks work in pairs. In a cell each lane carries so many messages, all at once where the calls allow it, that every transport runs out of
 * room: some thousand small ones, some tens of large ones. Who sends (either rank, or half of the threads of each), and whether the
 * receivers come late, is drawn by position. Checked: all data, status, count, the order of each lane, and by a sum that each message
 * came once.
 * A cell that is not done in time (--limit) ends the program: it prints how far each thread is, the stacks and the counters.
 * Rank 0 prints 'cell POSITION SECONDS NAME' for each that is done; matrix.pl takes the times of ob1 from that.
 *
 * usage: matrix [--first POSITION] [--cells N] [--messages N] [--limit SECONDS] */
#include "testlib.h"

#include <pthread.h>

enum {
    MOST_THREADS = 4,
    TAG = 7,
    LANE_TAG = 10,
    REPLY_TAG = 50,
    AREA = 10 << 20, /* bytes for a thread's messages */
    BYTES = 5 << 19, /* of them, about, but for the largest, of which there are FEWEST */
    FEWEST = 32,     /* messages of a lane */
    MESSAGES = 1024, /* at most */
    MIXED_SIZES = 8,
    LATE_US = 3000,
    LABEL = 8,  /* bytes */
    HEADER = 16 /* of an eager packet */
};
enum { ONE_TAG, TAG_EACH, COMM_EACH, WILDCARD, LAYOUTS };
enum { SEND, ISEND, ISSEND, BSEND, PERSISTENT, SENDRECV, SENDS };
enum { RECV, IRECV, PROBE, IPROBE, MPROBE, IMPROBE, RECEIVES };
enum {
    EMPTY,
    BYTE,
    TINY,
    EAGER_BELOW,
    EAGER,
    EAGER_ABOVE,
    LIMIT,
    RENDEZVOUS,
    FRAGMENTS,
    MIXED,
    SIZES
};
enum { EVEN_SENDS, ODD_SENDS, BOTH_SEND, WAYS };
static const int thread_counts[] = {2, MOST_THREADS};
static const char *const layout_names[] = {"one tag", "a tag each", "a communicator each",
                                           "wildcards"};
static const char *const send_names[] = {"send",  "isend",      "issend",
                                         "bsend", "persistent", "sendrecv"};
static const char *const receive_names[] = {"recv",   "irecv",  "probe",
                                            "iprobe", "mprobe", "improbe"};
static const char *const way_names[] = {"even sends", "odd sends", "both send"};
/* A step through all positions that has no factor in common with their number, and leaves no choice as it was. */
enum { TOTAL = 2 * LAYOUTS * SENDS * RECEIVES * SIZES, STRIDE = 1777 };
_Static_assert(TOTAL == 2880, "matrix.pl knows how many cells there are");

typedef struct {
    int position, threads, layout, send, receive, size, way, lanes, messages;
    bool late;
    size_t sizes[MIXED_SIZES]; /* of messages, in turns */
    size_t stride;             /* of their buffers */
    uint64_t seed;
    char name[128];
} cell_t;

/* One thread of a cell. */
typedef struct {
    int thread, lane;
    bool sends;
    MPI_Comm comm;
    int tag;
    char *out, *in;
    MPI_Request *request;
    MPI_Status *status;
    int last[MOST_THREADS]; /* the number that came last, of each lane; -1: none */
    uint64_t sum;           /* of what was sent or received */
    int done;               /* messages; read by the watchdog */
} worker_t;

static cell_t cell;
static worker_t worker[MOST_THREADS];
static MPI_Comm shared, own[MOST_THREADS];
static size_t limits[4]; /* eager limits of the transports */
static int n_limits, peer;
static double deadline; /* of the cell, atomic; 0: none is under way */
static pthread_barrier_t gate;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

/* ---- what a cell is ---- */

/* The eager limits of the transports that the job was started with, by their parameters. */
static void find_limits(void)
{
    const char *words = getenv("OMPI_MCA_btl");
    char list[128], *left = NULL;
    snprintf(list, sizeof(list), "%s", NULL == words ? "" : words);
    for (char *name = strtok_r(list, ",", &left); NULL != name; name = strtok_r(NULL, ",", &left)) {
        char parameter[64];
        int index, count = 0;
        uint64_t value = 0;
        MPI_T_cvar_handle handle;
        snprintf(parameter, sizeof(parameter), "btl_%s_eager_limit", name);
        if (0 == strcmp(name, "self") || n_limits == TL_N(limits) || !tl_tools()
            || MPI_SUCCESS != MPI_T_cvar_get_index(parameter, &index)
            || MPI_SUCCESS != MPI_T_cvar_handle_alloc(index, NULL, &handle, &count)) {
            continue;
        }
        MPI_T_cvar_read(handle, &value);
        MPI_T_cvar_handle_free(&handle);
        if (value > HEADER && value < 140000) {
            limits[n_limits++] = value;
        }
    }
    if (0 == n_limits) {
        limits[n_limits++] = 4096;
    }
}

static size_t size_of_kind(int kind, tl_rng_t *rng)
{
    const size_t limit = limits[tl_below(rng, (uint64_t) n_limits)];
    switch (kind) {
    case EMPTY:
        return 0;
    case BYTE:
        return 1;
    case TINY:
        return 255 + tl_below(rng, 3);
    case EAGER_BELOW:
        return limit - HEADER - 1 - tl_below(rng, 4);
    case EAGER:
        return limit - HEADER;
    case EAGER_ABOVE:
        return limit - HEADER + 1;
    case LIMIT:
        return limit + tl_below(rng, 2);
    case RENDEZVOUS:
        return 2 * limit + 5;
    default:
        return 300001; /* several fragments everywhere */
    }
}

static size_t size_of(int number)
{
    return cell.sizes[number % MIXED_SIZES];
}

static void choose(int position, int most)
{
    unsigned index = (unsigned) ((uint64_t) position * STRIDE % TOTAL);
    tl_rng_t rng = {.state = (uint64_t) position};
    const unsigned size = index % SIZES;
    index /= SIZES;
    cell = (cell_t){.position = position, .size = (int) size, .seed = tl_random(&rng)};
    cell.receive = (int) (index % RECEIVES);
    index /= RECEIVES;
    cell.send = (int) (index % SENDS);
    index /= SENDS;
    cell.layout = (int) (index % LAYOUTS);
    cell.threads = thread_counts[index / LAYOUTS];
    cell.way = (int) tl_below(&rng, WAYS);
    /* Wildcards would take the replies. */
    if (BOTH_SEND == cell.way && SENDRECV == cell.send && WILDCARD == cell.layout) {
        cell.way = EVEN_SENDS;
    }
    cell.lanes = BOTH_SEND == cell.way ? cell.threads / 2 : cell.threads;
    cell.late = 0 == tl_below(&rng, 2);
    size_t largest = 0, first = size_of_kind(cell.size, &rng);
    for (int i = 0; i < MIXED_SIZES; ++i) {
        cell.sizes[i] =
            MIXED == cell.size ? size_of_kind((int) tl_below(&rng, MIXED), &rng) : first;
        largest = cell.sizes[i] > largest ? cell.sizes[i] : largest;
    }
    cell.stride = (largest + 64) & ~(size_t) 63;
    const size_t fit = BYTES / cell.stride;
    cell.messages = fit < FEWEST ? FEWEST : fit < MESSAGES ? (int) fit & ~1 : MESSAGES;
    cell.messages = cell.messages < most ? cell.messages : most;
    int n = snprintf(cell.name, sizeof(cell.name), "%d threads, %s, %s, %s, %s, %d of ",
                     cell.threads, layout_names[cell.layout], send_names[cell.send],
                     receive_names[cell.receive], way_names[cell.way], cell.messages);
    snprintf(cell.name + n, sizeof(cell.name) - (size_t) n,
             MIXED == cell.size ? "up to %zu%s" : "%zu%s", largest, cell.late ? ", late" : "");
}

/* Does a receive get the messages of its own lane only? */
static bool is_dedicated(void)
{
    return TAG_EACH == cell.layout || COMM_EACH == cell.layout;
}

/* ---- messages ---- */

static uint64_t key_of(int sender, int lane, int number)
{
    return tl_key(cell.seed, sender, lane, 0, (uint64_t) number);
}

/* What a message adds to the sum. Without a label it is its content alone. */
static uint64_t worth(int sender, int lane, int number)
{
    const size_t n = size_of(number);
    const uint64_t key = key_of(sender, lane, number);
    return n >= LABEL ? tl_mix(key) : 1 == n ? 256u + tl_byte(key, 0) : 1u << 20;
}

static void write_message(char *buf, int lane, int number)
{
    const size_t n = size_of(number);
    tl_fill(buf, n, key_of(tl.rank, lane, number));
    if (n >= LABEL) {
        const uint32_t label[2] = {(uint32_t) lane, (uint32_t) number};
        memcpy(buf, label, LABEL);
    }
}

/* Is that message, with the label of it if it has one, what was sent? */
static void verify(const char *buf, int lane, int number)
{
    const size_t n = size_of(number), from = n >= LABEL ? LABEL : 0;
    const size_t at = tl_differs_from(buf + from, n - from, key_of(peer, lane, number), from);
    CHECK(at == n - from, "lane %d, message %d: wrong at byte %zu of %zu", lane, number, at + from,
          n);
}

/* Message number `i` of those that this thread received. */
static void check(worker_t *w, int i, char *buf, MPI_Status *status)
{
    MPI_Count bytes = -1;
    MPI_Get_elements_x(status, MPI_BYTE, &bytes);
    uint32_t label[2] = {(uint32_t) w->lane, (uint32_t) i};
    if (WILDCARD == cell.layout) {
        label[0] = (uint32_t) (status->MPI_TAG - LANE_TAG);
    }
    if (bytes >= LABEL) {
        memcpy(label, buf, LABEL);
    }
    const int lane = (int) label[0], number = (int) label[1];
    const int tag = ONE_TAG == cell.layout || COMM_EACH == cell.layout ? TAG : LANE_TAG + lane;
    if (!CHECK(lane >= 0 && lane < cell.lanes && number >= 0 && number < cell.messages,
               "lane %d, message %d of %lld bytes, where lane %d, message %d would fit", lane,
               number, (long long) bytes, w->lane, i)) {
        return;
    }
    if (bytes < LABEL && !is_dedicated()) { /* nobody knows which it is */
        CHECK(status->MPI_SOURCE == peer && status->MPI_TAG == tag,
              "source %d tag %d, expected %d %d", status->MPI_SOURCE, status->MPI_TAG, peer, tag);
        w->sum += 1 == bytes ? 256u + *(unsigned char *) buf : 1u << 20;
        return;
    }
    CHECK_STATUS(*status, peer, tag, size_of(number));
    CHECK(is_dedicated() ? number == i && lane == w->lane : number > w->last[lane],
          "lane %d, message %d came to lane %d as its %d, after %d", lane, number, w->lane, i,
          w->last[lane]);
    w->last[lane] = number;
    if (bytes == (MPI_Count) size_of(number)) {
        verify(buf, lane, number);
    }
    w->sum += worth(peer, lane, number);
}

static char *place(char *area, int number)
{
    return area + (size_t) number * cell.stride;
}

static void count(worker_t *w, int n)
{
    __atomic_store_n(&w->done, w->done + n, __ATOMIC_RELAXED);
}

/* ---- ways to send ---- */

static void send_at_once(worker_t *w)
{
    for (int i = 0; i < cell.messages; ++i) {
        (ISEND == cell.send ? MPI_Isend : MPI_Issend)(place(w->out, i), (int) size_of(i), MPI_BYTE,
                                                      peer, w->tag, w->comm, &w->request[i]);
    }
    MPI_Waitall(cell.messages, w->request, MPI_STATUSES_IGNORE);
    count(w, cell.messages);
}

/* Each request is started twice. */
static void send_again(worker_t *w)
{
    const int half = cell.messages / 2;
    for (int round = 0; round < 2; ++round) {
        for (int i = 0; i < half; ++i) {
            const int number = round * half + i;
            if (MPI_REQUEST_NULL != w->request[i] && size_of(number) != size_of(i)) {
                MPI_Request_free(&w->request[i]);
            }
            if (MPI_REQUEST_NULL == w->request[i]) {
                MPI_Send_init(place(w->out, i), (int) size_of(number), MPI_BYTE, peer, w->tag,
                              w->comm, &w->request[i]);
            }
            write_message(place(w->out, i), w->lane, number);
        }
        MPI_Startall(half, w->request);
        MPI_Waitall(half, w->request, MPI_STATUSES_IGNORE);
        count(w, half);
    }
    for (int i = 0; i < half; ++i) {
        MPI_Request_free(&w->request[i]);
    }
}

/* The replies are under way already, all of them. */
static void send_and_receive(worker_t *w)
{
    for (int i = 0; i < cell.messages; ++i) {
        MPI_Status status;
        MPI_Sendrecv(place(w->out, i), (int) size_of(i), MPI_BYTE, peer, w->tag, place(w->in, i),
                     (int) cell.stride, MPI_BYTE, peer, REPLY_TAG + w->lane, w->comm, &status);
        CHECK_STATUS(status, peer, REPLY_TAG + w->lane, size_of(i));
        verify(place(w->in, i), w->lane, i);
        count(w, 1);
    }
}

static void send_all(worker_t *w)
{
    switch (cell.send) {
    case ISEND:
    case ISSEND:
        send_at_once(w);
        return;
    case PERSISTENT:
        send_again(w);
        return;
    case SENDRECV:
        send_and_receive(w);
        return;
    default:
        for (int i = 0; i < cell.messages; ++i) {
            (BSEND == cell.send ? MPI_Bsend : MPI_Send)(place(w->out, i), (int) size_of(i),
                                                        MPI_BYTE, peer, w->tag, w->comm);
            count(w, 1);
        }
    }
}

/* ---- ways to receive ---- */

static void receive_at_once(worker_t *w, int source, int tag)
{
    for (int i = 0; i < cell.messages; ++i) {
        MPI_Irecv(place(w->in, i), (int) cell.stride, MPI_BYTE, source, tag, w->comm,
                  &w->request[i]);
    }
    MPI_Waitall(cell.messages, w->request, w->status);
    for (int i = 0; i < cell.messages; ++i) {
        check(w, i, place(w->in, i), &w->status[i]);
        count(w, 1);
    }
}

static void receive_probed(char *buf, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    MPI_Status probed;
    if (PROBE == cell.receive) {
        MPI_Probe(source, tag, comm, &probed);
    } else {
        for (int found = 0; !found;) {
            MPI_Iprobe(source, tag, comm, &found, &probed);
        }
    }
    MPI_Recv(buf, (int) cell.stride, MPI_BYTE, source, tag, comm, status);
    if (is_dedicated()) {
        MPI_Count told = -1, came = -2;
        MPI_Get_elements_x(&probed, MPI_BYTE, &told);
        MPI_Get_elements_x(status, MPI_BYTE, &came);
        CHECK(told == came && probed.MPI_TAG == status->MPI_TAG,
              "a message of %lld bytes was found and one of %lld received", (long long) told,
              (long long) came);
    }
}

static void receive_matched(int i, char *buf, int source, int tag, MPI_Comm comm,
                            MPI_Status *status)
{
    MPI_Message message;
    MPI_Request request;
    if (MPROBE == cell.receive) {
        MPI_Mprobe(source, tag, comm, &message, status);
    } else {
        for (int found = 0; !found;) {
            MPI_Improbe(source, tag, comm, &found, &message, status);
        }
    }
    if (0 == i % 2) {
        MPI_Mrecv(buf, (int) cell.stride, MPI_BYTE, &message, status);
    } else {
        MPI_Imrecv(buf, (int) cell.stride, MPI_BYTE, &message, &request);
        MPI_Wait(&request, status);
    }
}

static void receive_all(worker_t *w)
{
    const bool any = WILDCARD == cell.layout;
    const int source = any ? MPI_ANY_SOURCE : peer, tag = any ? MPI_ANY_TAG : w->tag;
    if (IRECV == cell.receive) {
        receive_at_once(w, source, tag);
        return;
    }
    for (int i = 0; i < cell.messages; ++i) {
        MPI_Status status;
        char *buf = place(w->in, i);
        switch (cell.receive) {
        case RECV:
            MPI_Recv(buf, (int) cell.stride, MPI_BYTE, source, tag, w->comm, &status);
            break;
        case PROBE:
        case IPROBE:
            receive_probed(buf, source, tag, w->comm, &status);
            break;
        default:
            receive_matched(i, buf, source, tag, w->comm, &status);
        }
        check(w, i, buf, &status);
        count(w, 1);
    }
}

/* ---- a cell ---- */

static void *run_worker(void *arg)
{
    worker_t *w = arg;
    const bool replies = SENDRECV == cell.send && !w->sends;
    MPI_Request *reply = w->request + cell.messages;
    for (int i = 0; (w->sends || replies) && i < cell.messages; ++i) {
        write_message(place(w->out, i), w->lane, i);
        w->sum += w->sends ? worth(tl.rank, w->lane, i) : 0;
    }
    pthread_barrier_wait(&gate);
    if (w->sends) {
        send_all(w);
        return NULL;
    }
    for (int i = 0; replies && i < cell.messages; ++i) {
        MPI_Isend(place(w->out, i), (int) size_of(i), MPI_BYTE, peer, REPLY_TAG + w->lane, w->comm,
                  &reply[i]);
    }
    if (cell.late) {
        usleep(LATE_US);
    }
    receive_all(w);
    if (replies) {
        MPI_Waitall(cell.messages, reply, MPI_STATUSES_IGNORE);
    }
    return NULL;
}

static void prepare(worker_t *w, int thread)
{
    const int half = cell.lanes;
    w->thread = thread;
    w->lane = thread % half;
    w->sends = BOTH_SEND == cell.way ? thread < half : (ODD_SENDS == cell.way) == tl.rank % 2;
    w->comm = COMM_EACH == cell.layout ? own[w->lane] : shared;
    w->tag = TAG_EACH == cell.layout || WILDCARD == cell.layout ? LANE_TAG + w->lane : TAG;
    w->sum = 0;
    w->done = 0;
    for (int i = 0; i < MOST_THREADS; ++i) {
        w->last[i] = -1;
    }
    for (int i = 0; i < 2 * MESSAGES; ++i) {
        w->request[i] = MPI_REQUEST_NULL;
    }
}

/* Returns the seconds it took. */
static double run_cell(double limit)
{
    pthread_t thread[MOST_THREADS];
    char *space = NULL;
    int detached;
    const size_t needed =
        (size_t) cell.lanes * (size_t) cell.messages * (cell.stride + MPI_BSEND_OVERHEAD);
    tl_step("cell %d: %s", cell.position, cell.name);
    if (BSEND == cell.send) {
        space = malloc(needed);
        MPI_Buffer_attach(space, (int) needed);
    }
    for (int i = 0; i < cell.threads; ++i) {
        prepare(&worker[i], i);
    }
    const double start = now();
    double until = start + limit;
    __atomic_store(&deadline, &until, __ATOMIC_RELEASE);
    MPI_Barrier(tl.ctl);
    pthread_barrier_init(&gate, NULL, (unsigned) cell.threads);
    for (int i = 0; i < cell.threads; ++i) {
        pthread_create(&thread[i], NULL, run_worker, &worker[i]);
    }
    for (int i = 0; i < cell.threads; ++i) {
        pthread_join(thread[i], NULL);
    }
    pthread_barrier_destroy(&gate);
    if (BSEND == cell.send) {
        MPI_Buffer_detach(&space, &detached);
        free(space);
    }
    uint64_t mine = 0, theirs = 0;
    for (int i = 0; i < cell.threads; ++i) {
        mine += worker[i].sends ? worker[i].sum : -worker[i].sum;
    }
    MPI_Sendrecv(&mine, 1, MPI_UINT64_T, peer, 2, &theirs, 1, MPI_UINT64_T, peer, 2, tl.ctl,
                 MPI_STATUS_IGNORE);
    CHECK(0 == mine + theirs, "the messages received are not those sent");
    const double took = now() - start;
    double none = 0;
    __atomic_store(&deadline, &none, __ATOMIC_RELEASE);
    return took;
}

/* ---- what stands still ---- */

static void tell(void)
{
    printf("rank %d: not done in time: %s\n", tl.rank, tl.step);
    for (int i = 0; i < cell.threads && i < MOST_THREADS; ++i) {
        printf("rank %d: thread %d, lane %d: %s %d of %d\n", tl.rank, i, worker[i].lane,
               worker[i].sends ? "sent" : "received",
               __atomic_load_n(&worker[i].done, __ATOMIC_RELAXED), cell.messages);
    }
    fflush(stdout);
    tl_print_stacks();
    alarm(6); /* reading the counters may hang as well */
    signal(SIGALRM, SIG_DFL);
    tl_print_counters("pml_spec_");
    tl_print_counters("btl_ibx_");
    sleep(4); /* the peer tells the same */
    _exit(3);
}

static void *watch(void *arg)
{
    (void) arg;
    for (;;) {
        double until;
        usleep(50000);
        __atomic_load(&deadline, &until, __ATOMIC_ACQUIRE);
        if (until > 0 && now() > until) {
            tell();
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (MPI_THREAD_MULTIPLE != tl_start_thread(&argc, &argv, "matrix", 3600, MPI_THREAD_MULTIPLE)) {
        tl_skip("this Open MPI does not provide MPI_THREAD_MULTIPLE");
        return tl_finish();
    }
    if (0 != tl.size % 2) {
        tl_skip("ranks work in pairs");
        return tl_finish();
    }
    const int first = (int) tl_option("--first", 0), cells = (int) tl_option("--cells", 20);
    int most = (int) tl_option("--messages", MESSAGES);
    most = most < 2 ? 2 : most & ~1;
    peer = tl.rank ^ 1;
    find_limits();
    MPI_Comm_dup(MPI_COMM_WORLD, &shared);
    for (int i = 0; i < MOST_THREADS; ++i) {
        MPI_Comm_dup(MPI_COMM_WORLD, &own[i]);
        worker[i].out = tl_buf(AREA);
        worker[i].in = tl_buf(AREA);
        worker[i].request = malloc(2 * MESSAGES * sizeof(*worker[i].request));
        worker[i].status = malloc(MESSAGES * sizeof(*worker[i].status));
    }
    pthread_t watchdog;
    pthread_create(&watchdog, NULL, watch, NULL);
    for (int position = first; position < first + cells; ++position) {
        choose(position, most);
        const double took = run_cell((double) tl_option("--limit", 40));
        if (0 == tl.rank) {
            printf("cell %d %.4f %s\n", position, took, cell.name);
            fflush(stdout);
        }
    }
    for (int i = 0; i < MOST_THREADS; ++i) {
        FREE(worker[i].out);
        FREE(worker[i].in);
        free(worker[i].request);
        free(worker[i].status);
        MPI_Comm_free(&own[i]);
    }
    MPI_Comm_free(&shared);
    return tl_finish();
}
