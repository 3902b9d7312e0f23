/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Two processes over the loopback interface: the datagram-iWARP stack beside bare UDP and TCP sockets.
 *
 *     iw_perf [-a tag|off] [-r repeats] [-t milliseconds] [-p] [latency] [bandwidth]
 *
 * latency: half round trip of a ping-pong, microseconds. bandwidth: GB/s one way with 64 messages in
 * flight, sends below 16 KiB and RDMA writes from there on; TCP: the same bytes through a stream, into
 * a buffer of the same size. Every figure is the median of the repeats, which take turns, so that a
 * disturbance hits all. -p pins the processes to two processors.
 *
 * Output: a table to read, and for each row a line 'iw_latency size= iwarp_us= udp_us= tcp_us=' or
 * 'iw_bandwidth size= iwarp_mb_s= tcp_mb_s='. */
#define _GNU_SOURCE
#include "iw_memory.h"
#include "iw_port.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { IN_FLIGHT = 64, RECEIVES = 256, EAGER = 16384, BUFFER = 64 << 20, REPEATS_MAX = 101 };

/* What both processes see. */
typedef struct shared {
    iw_address_t address[2];
    iw_key_t key[2];
    uint32_t stag[2];
    volatile int ready[2];
    volatile int stop;
    double result;
    uint64_t bytes;
} shared_t;

static shared_t *shared;
static iw_auth_mode_t auth = IW_AUTH_TAG;
static uint64_t duration = 200 * UINT64_C(1000000);
static bool pin, verbose;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void pin_to(int processor)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    if (pin) {
        (void) sched_setaffinity(0, sizeof(set), &set);
    }
}

static void meet(int me)
{
    shared->ready[me] = 1;
    while (!shared->ready[1 - me]) {}
}

/* Runs side 0 here and side 1 in a child; returns what side 0 says. */
static double pair(void (*side)(int me, size_t size), size_t size)
{
    memset(shared, 0, sizeof(*shared));
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) {
        die("fork");
    }
    if (0 == child) {
        pin_to(1);
        side(1, size);
        fflush(stdout);
        _exit(0);
    }
    pin_to(0);
    side(0, size);
    shared->stop = 1;
    waitpid(child, NULL, 0);
    return shared->result;
}

/* ---- the stack ---- */

typedef struct node {
    iw_port_t *port;
    iw_engine_t *engine;
    iw_peer_t *peer;
    uint8_t *memory;   /* BUFFER bytes, registered */
    uint8_t *receives; /* RECEIVES of EAGER bytes */
} node_t;

static node_t node_open(int me)
{
    node_t n;
    iw_port_config_t pc;
    iw_config_t c;
    iw_port_config_default(&pc);
    n.port = iw_port_open(&pc);
    if (NULL == n.port) {
        die("iw_port_open");
    }
    iw_config_default(&c);
    c.identity = 1 + (uint64_t) me;
    c.auth = auth;
    c.seed = iw_port_now() + (uint64_t) me;
    c.start = iw_port_now();
    c.datagram_max = IW_DATAGRAM_MAX;
    c.datagram_min = iw_port_least(n.port);
    c.receive_space = iw_port_space(n.port);
    iw_key_make(&c.key);
    n.engine = iw_engine_create(&c);
    n.memory = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    n.receives = malloc((size_t) RECEIVES * EAGER);
    memset(n.receives, 1, (size_t) RECEIVES * EAGER);
    for (int i = 0; i < RECEIVES; ++i) {
        uint8_t *b = n.receives + (size_t) i * EAGER;
        iw_post_receive(n.engine, b, EAGER, b);
    }
    shared->address[me] = *iw_port_address(n.port);
    shared->key[me] = c.key;
    shared->stag[me] = iw_register(n.engine, n.memory, BUFFER, IW_REMOTE_WRITE | IW_REMOTE_READ, NULL);
    meet(me);
    n.peer = iw_peer_add(n.engine, 2 - (uint64_t) me, &shared->address[1 - me],
                         &shared->key[1 - me], NULL);
    return n;
}

static void node_close(node_t *n, int me)
{
    if (verbose) {
        printf("  [%d]", me);
        const iw_counters_t *counted = iw_engine_counters(n->engine);
#define PRINT(name, meaning)                                                                       \
    if (0 != counted->name) {                                                                      \
        printf(" %s %lu", #name, (unsigned long) counted->name);                                   \
    }
        IW_COUNTERS(PRINT)
#undef PRINT
        const iw_port_counters_t *c = iw_port_counters(n->port);
        printf(" | receive calls %lu empty %lu, send calls %lu trains %lu busy %lu errors %lu\n",
               (unsigned long) c->receive_calls, (unsigned long) c->receive_empty,
               (unsigned long) c->send_calls, (unsigned long) c->trains, (unsigned long) c->busy,
               (unsigned long) c->errors);
        fflush(stdout);
    }
    iw_engine_destroy(n->engine);
    iw_port_close(n->port);
    munmap(n->memory, BUFFER);
    free(n->receives);
}

/* One received message, its buffer posted again; false: the test is over. */
static bool node_receive(node_t *n)
{
    for (;;) {
        iw_completion_t c;
        while (1 == iw_engine_poll(n->engine, &c, 1)) {
            if (IW_RECEIVED == c.what) {
                iw_post_receive(n->engine, c.context, EAGER, c.context);
                return true;
            }
            if (IW_OK != c.status) {
                fprintf(stderr, "%s\n", iw_status_name((iw_status_t) c.status));
                exit(1);
            }
        }
        if (shared->stop) {
            return false;
        }
        iw_port_progress(n->port, n->engine);
    }
}

static void node_send(node_t *n, size_t size)
{
    struct iovec piece = {n->memory, size};
    unsigned flags = IW_QUIET | (size <= IW_INLINE_MAX ? IW_INLINE : 0);
    while (IW_OK != iw_post_send(n->peer, &piece, 1, flags, NULL)) {
        iw_port_progress(n->port, n->engine);
    }
    iw_port_flush(n->port, n->engine);
}

static void iw_latency(int me, size_t size)
{
    node_t n = node_open(me);
    if (0 == me) {
        for (int i = 0; i < 100; ++i) {
            node_send(&n, size);
            node_receive(&n);
        }
        uint64_t start = iw_port_now(), end, count = 0;
        do {
            for (int i = 0; i < 50; ++i, ++count) {
                node_send(&n, size);
                node_receive(&n);
            }
            end = iw_port_now();
        } while (end - start < duration);
        shared->result = (double) (end - start) / (double) count / 2000;
        shared->stop = 1;
    } else {
        while (node_receive(&n)) {
            node_send(&n, size);
        }
    }
    node_close(&n, me);
}

static void iw_bandwidth(int me, size_t size)
{
    node_t n = node_open(me);
    bool write = size >= EAGER;
    if (1 == me) {
        /* The last message says that all has arrived. */
        while (node_receive(&n)) {}
        node_close(&n, me);
        return;
    }
    uint64_t start = 0, now, bytes = 0, posted = 0, done = 0, slots = BUFFER / size;
    slots = slots > IN_FLIGHT ? IN_FLIGHT : slots;
    bool warm = false;
    for (;;) {
        while (posted - done < slots) {
            uint64_t at = posted % slots * size;
            struct iovec piece = {n.memory + at, size};
            iw_status_t status =
                write ? iw_post_write(n.peer, &piece, 1, shared->stag[1], at, 0, NULL)
                      : iw_post_send(n.peer, &piece, 1, 0, NULL);
            if (IW_OK != status) {
                break;
            }
            ++posted;
        }
        iw_port_progress(n.port, n.engine);
        iw_completion_t c[IN_FLIGHT];
        unsigned got = iw_engine_poll(n.engine, c, IN_FLIGHT);
        for (unsigned i = 0; i < got; ++i) {
            if (IW_OK != c[i].status) {
                fprintf(stderr, "%s\n", iw_status_name((iw_status_t) c[i].status));
                exit(1);
            }
        }
        done += got;
        bytes += got * size;
        now = iw_port_now();
        if (!warm && done >= 2 * slots) {
            warm = true;
            start = now;
            bytes = 0;
        }
        if (warm && now - start >= duration) {
            break;
        }
    }
    shared->result = (double) bytes / (double) (now - start);
    shared->stop = 1;
    node_close(&n, me);
}

/* ---- bare sockets ---- */

static int bare_socket(int me, int type)
{
    iw_address_t a = {.v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof(a.v4);
    int one = 1, s = socket(AF_INET, type, 0), bytes = 4 << 20;
    if (s < 0 || 0 != bind(s, &a.any, length)) {
        die("socket");
    }
    getsockname(s, &a.any, &length);
    if (SOCK_DGRAM == type) {
        setsockopt(s, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
    } else if (1 == me) {
        listen(s, 1);
    }
    shared->address[me] = a;
    meet(me);
    if (SOCK_DGRAM == type || 0 == me) {
        if (0 != connect(s, &shared->address[1 - me].any, length)) {
            die("connect");
        }
    } else {
        int listening = s;
        s = accept(listening, NULL, NULL);
        close(listening);
    }
    if (SOCK_STREAM == type) {
        setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    }
    return s;
}

/* All of it, polling; false: the test is over. */
static bool bare_receive(int s, uint8_t *buffer, size_t size)
{
    for (size_t got = 0; got < size || 0 == size;) {
        ssize_t n = recv(s, buffer + got, size - got, MSG_DONTWAIT);
        if (n > 0) {
            got += (size_t) n;
        } else if (shared->stop || 0 == n) {
            return false;
        }
    }
    return true;
}

static void bare_latency(int me, size_t size, int type)
{
    static uint8_t buffer[1 << 16];
    int s = bare_socket(me, type);
    if (0 == me) {
        uint64_t start = 0, end = 0, count = 0;
        for (int warm = 0; warm < 2; ++warm) {
            start = iw_port_now();
            count = 0;
            do {
                for (int i = 0; i < 50; ++i, ++count) {
                    (void) !send(s, buffer, size, 0);
                    bare_receive(s, buffer, size);
                }
                end = iw_port_now();
            } while (warm && end - start < duration);
        }
        shared->result = (double) (end - start) / (double) count / 2000;
        shared->stop = 1;
    } else {
        while (bare_receive(s, buffer, size)) {
            (void) !send(s, buffer, size, 0);
        }
    }
    close(s);
}

static void udp_latency(int me, size_t size)
{
    bare_latency(me, size, SOCK_DGRAM);
}

static void tcp_latency(int me, size_t size)
{
    bare_latency(me, size, SOCK_STREAM);
}

static void tcp_bandwidth(int me, size_t size)
{
    uint8_t *buffer = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    uint64_t slots = BUFFER / size, i = 0;
    slots = slots > IN_FLIGHT ? IN_FLIGHT : slots;
    int s = bare_socket(me, SOCK_STREAM);
    if (0 == me) {
        uint64_t start = iw_port_now(), now, bytes = 0;
        do {
            for (size_t sent = 0; sent < size;) {
                ssize_t n = send(s, buffer + i % slots * size + sent, size - sent, 0);
                if (n <= 0) {
                    die("send");
                }
                sent += (size_t) n;
            }
            ++i;
            bytes += size;
            now = iw_port_now();
        } while (now - start < duration);
        shared->result = (double) bytes / (double) (now - start);
        shared->stop = 1;
    } else {
        while (bare_receive(s, buffer + i++ % slots * size, size)) {}
    }
    close(s);
    munmap(buffer, BUFFER);
}

/* ---- tables ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

typedef void (*side_t)(int me, size_t size);

static void row(const side_t *sides, int count, size_t size, int repeats)
{
    double value[3][REPEATS_MAX];
    for (int r = 0; r < repeats; ++r) {
        for (int i = 0; i < count; ++i) {
            value[i][r] = pair(sides[i], size);
        }
    }
    printf("%9zu", size);
    for (int i = 0; i < count; ++i) {
        qsort(value[i], (size_t) repeats, sizeof(double), by_value);
        value[i][0] = value[i][repeats / 2];
        printf(" %10.2f", value[i][0]);
    }
    for (int i = 1; i < count; ++i) {
        printf(" %8.2f", value[0][0] / value[i][0]);
    }
    printf("\n");
    if (3 == count) {
        printf("iw_latency size=%zu iwarp_us=%.3f udp_us=%.3f tcp_us=%.3f\n", size, value[0][0],
               value[1][0], value[2][0]);
    } else {
        printf("iw_bandwidth size=%zu iwarp_mb_s=%.1f tcp_mb_s=%.1f\n", size, 1e3 * value[0][0],
               1e3 * value[1][0]);
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int repeats = 5, option;
    bool latency = false, bandwidth = false;
    size_t only = 0;
    while ((option = getopt(argc, argv, "a:r:t:s:pv")) != -1) {
        switch (option) {
        case 'a':
            auth = 't' == *optarg ? IW_AUTH_TAG : IW_AUTH_OFF;
            break;
        case 'r':
            repeats = atoi(optarg);
            break;
        case 't':
            duration = (uint64_t) atoi(optarg) * UINT64_C(1000000);
            break;
        case 's':
            only = strtoul(optarg, NULL, 0);
            break;
        case 'p':
            pin = true;
            break;
        case 'v':
            verbose = true;
            break;
        default:
            fprintf(stderr, "usage: iw_perf [-a tag|off] [-r repeats] [-t milliseconds] [-s "
                            "size] [-p] [-v] "
                            "[latency] [bandwidth]\n");
            return 2;
        }
    }
    for (; optind < argc; ++optind) {
        latency |= 'l' == *argv[optind];
        bandwidth |= 'b' == *argv[optind];
    }
    repeats = repeats < 1 ? 1 : repeats > REPEATS_MAX ? REPEATS_MAX : repeats;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (MAP_FAILED == shared) {
        die("mmap");
    }
    if (latency || !bandwidth) {
        static const size_t sizes[] = {1, 64, 1024, 4096};
        const side_t sides[] = {iw_latency, udp_latency, tcp_latency};
        printf("half round trip, us\n%9s %10s %10s %10s %8s %8s\n", "bytes", "iwarp", "udp", "tcp",
               "/udp", "/tcp");
        for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
            if (0 == only || only == sizes[i]) {
                row(sides, 3, sizes[i], repeats);
            }
        }
    }
    if (bandwidth || !latency) {
        static const size_t sizes[] = {2048, 8192, 65536, 262144, 1048576, 4194304};
        const side_t sides[] = {iw_bandwidth, tcp_bandwidth};
        printf("bandwidth, GB/s\n%9s %10s %10s %8s\n", "bytes", "iwarp", "tcp", "/tcp");
        for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
            if (0 == only || only == sizes[i]) {
                row(sides, 2, sizes[i], repeats);
            }
        }
    }
    return 0;
}
