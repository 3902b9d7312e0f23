/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Somebody outside the job, for hostile.pl: records the datagrams of a job over btl/ibx, and sends what must be refused,
 * as fast as it can. No MPI. What is recorded are only datagrams of the loopback interface to the ports given.
 *
 * Words: tape = what was recorded; shot = a datagram (or a train of them) made ready before sending begins; verdict =
 * the counter btl_ibx_refused_<verdict> that must count it, found with the checks of the receiver itself (iw_frame.h).
 *
 *   hostile_sender record FILE COUNT SECONDS PORT...
 *   hostile_sender KIND RATE SECONDS [--tape FILE] [--earlier FILE] [--spoof] [--seed N] PORT...
 *
 * KIND: random   bytes, of lengths from nothing to the maximum
 *       forged   right headers of every type, with the connections of the tape if there is one, and a wrong tag
 *       joined   the same as trains, which the kernel may hand over in one piece (UDP_SEGMENT, UDP_GRO)
 *       hello    what begins a connection, of processes that exist (with a tape) and others, with a wrong tag
 *       replay   the tape, unchanged
 *       cut      the tape, each datagram shorter than it was
 *       flipped  the tape, with one bit changed
 *       earlier  the tape of another job (--earlier), every second one with a connection of this job's tape
 *       icmp     "port unreachable" of the network for what a process sends to another; nothing counts it
 * RATE: datagrams a second, 0: as many as go. --spoof: the source is the other process (a raw socket).
 * Ends after SECONDS, or by SIGTERM. For each port a line: sent PORT datagrams=N bytes=N VERDICT=N... */
#define _GNU_SOURCE /* sendmmsg */
#include "iw_frame.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#    define UDP_SEGMENT 103
#endif

enum { PORTS = 64, TAPE = 4096, SHOTS = 2048, BATCH = 64, TRAIN = 16, TRAIN_SIZE = 200 };
enum verdict { LENGTH, VERSION, CONNECTION, TAG, TWICE, NOTHING, VERDICTS };
static const char *const verdict_name[] = {"length", "version", "connection",
                                           "tag",    "twice",   "nothing"};

typedef struct taped {
    uint16_t from, to;
    uint32_t length;
    uint8_t *data;
} taped_t;

typedef struct tape {
    taped_t datagram[TAPE];
    unsigned count;
} tape_t;

typedef struct shot {
    uint8_t *data;
    size_t length;
    unsigned count; /* datagrams: TRAIN_SIZE each if more than one */
    unsigned target;
    enum verdict verdict;
    struct {
        struct iphdr ip;
        struct udphdr udp;
    } spoofed;
    struct sockaddr_in to;
} shot_t;

static uint16_t port[PORTS];
static unsigned ports;
static tape_t tape, earlier;
static shot_t shot[SHOTS];
static uint64_t sent[PORTS][VERDICTS], bytes[PORTS], state = 1;
static volatile sig_atomic_t stop;

static void on_signal(int number)
{
    (void) number;
    stop = 1;
}

static void die(const char *what)
{
    perror(what);
    exit(2);
}

static uint64_t draw(void)
{
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

static void *get(size_t n)
{
    void *p = malloc(n + 1);
    if (NULL == p) {
        die("malloc");
    }
    return p;
}

static bool is_target(uint16_t p)
{
    for (unsigned i = 0; i < ports; ++i) {
        if (port[i] == p) {
            return true;
        }
    }
    return false;
}

/* ---- the tape ---- */

static void keep(FILE *out, const taped_t *t)
{
    if (1 != fwrite(t, offsetof(taped_t, data), 1, out)
        || t->length != fwrite(t->data, 1, t->length, out)) {
        die("write");
    }
}

/* How long is the datagram that begins here? On the loopback interface a train is one packet; all but a probe say
 * their length, and a probe is never in a train. */
static size_t first_of(const uint8_t *data, size_t length)
{
    iw_frame_t f;
    if (IW_FRAME_OK == iw_frame_check(data, length, &f)) {
        return length;
    }
    for (size_t n = sizeof(iw_head_t); n <= length; ++n) {
        if (IW_FRAME_OK == iw_frame_check(data, n, &f) && IW_PROBE != f.type) {
            return n;
        }
    }
    return length;
}

static unsigned keep_all(FILE *out, uint16_t from, uint16_t to, uint8_t *data, size_t length)
{
    unsigned n = 0;
    while (length > 0) {
        taped_t t = {from, to, (uint32_t) first_of(data, length), data};
        keep(out, &t);
        data += t.length;
        length -= t.length;
        ++n;
    }
    return n;
}

static int record(const char *path, unsigned count, double seconds)
{
    static uint8_t packet[1 << 17];
    FILE *out = fopen(path, "we");
    int s = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, htons(ETH_P_IP)), size = 64 << 20;
    struct sockaddr_ll lo = {.sll_family = AF_PACKET,
                             .sll_protocol = htons(ETH_P_IP),
                             .sll_ifindex = (int) if_nametoindex("lo")};
    if (NULL == out || s < 0 || 0 != bind(s, (struct sockaddr *) &lo, sizeof(lo))) {
        die("record");
    }
    (void) setsockopt(s, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
    unsigned n = 0;
    for (double end = now() + seconds; !stop && n < count && now() < end;) {
        struct pollfd fd = {.fd = s, .events = POLLIN};
        struct sockaddr_ll from;
        socklen_t length = sizeof(from);
        if (poll(&fd, 1, 100) <= 0) {
            continue;
        }
        ssize_t got = recvfrom(s, packet, sizeof(packet), 0, (struct sockaddr *) &from, &length);
        /* Each packet of the loopback interface is seen twice: when it leaves and when it comes. */
        if (got < 28 || PACKET_HOST != from.sll_pkttype) {
            continue;
        }
        const struct iphdr *ip = (const struct iphdr *) packet;
        const struct udphdr *udp = (const struct udphdr *) (packet + 4u * ip->ihl);
        uint8_t *data = packet + 4u * ip->ihl + sizeof(*udp);
        if (IPPROTO_UDP == ip->protocol && is_target(ntohs(udp->dest))) {
            n += keep_all(out, ntohs(udp->source), ntohs(udp->dest), data,
                          (size_t) (packet + got - data));
        }
    }
    fclose(out);
    printf("recorded %u\n", n);
    return 0;
}

static void play(tape_t *t, const char *path)
{
    FILE *in = fopen(path, "re");
    if (NULL == in) {
        die(path);
    }
    for (t->count = 0; t->count < TAPE; ++t->count) {
        taped_t *k = &t->datagram[t->count];
        if (1 != fread(k, offsetof(taped_t, data), 1, in)) {
            break;
        }
        k->data = get(k->length);
        if (k->length != fread(k->data, 1, k->length, in)) {
            break;
        }
    }
    fclose(in);
    if (0 == t->count) {
        fprintf(stderr, "%s is empty\n", path);
        exit(2);
    }
}

/* ---- what the receiver must think of it ---- */

static bool is_connection(uint16_t to, uint32_t conn)
{
    for (unsigned i = 0; i < tape.count; ++i) {
        const taped_t *t = &tape.datagram[i];
        if (t->to == to && iw_get32(((const iw_head_t *) t->data)->conn) == conn) {
            return true;
        }
    }
    return false;
}

/* Of a datagram whose tag is wrong. */
static enum verdict verdict_of(const uint8_t *data, size_t length, uint16_t to)
{
    iw_frame_t f;
    switch (iw_frame_check(data, length, &f)) {
    case IW_FRAME_LENGTH:
        return LENGTH;
    case IW_FRAME_VERSION:
        return VERSION;
    default:
        break;
    }
    uint32_t conn = iw_get32(f.head->conn);
    if (0 == conn) {
        return NULL == f.hello ? CONNECTION : TAG;
    }
    return is_connection(to, conn) ? TAG : CONNECTION;
}

/* ---- shots ---- */

static void fill(uint8_t *data, size_t n)
{
    for (size_t i = 0; i < n; ++i) {
        data[i] = (uint8_t) draw();
    }
}

static void make_random(shot_t *s)
{
    unsigned how = (unsigned) (draw() % 256);
    s->length = 0 == how ? IW_DATAGRAM_MAX : how < 16 ? 0 : how < 128 ? draw() % 64 : draw() % 1500;
    s->data = get(s->length);
    fill(s->data, s->length);
    if (0 == how % 4 && s->length > 1) { /* or nearly all would end at the version */
        s->data[0] = IW_VERSION << 4 | (uint8_t) (draw() % 8);
        s->data[1] &= IW_FLAGS;
    }
}

/* A datagram of the tape to this target, or any; NULL: there is no tape. */
static const taped_t *any_of(const tape_t *t, uint16_t to)
{
    for (unsigned tries = 0; tries < 10 * TAPE && t->count > 0; ++tries) {
        const taped_t *k = &t->datagram[draw() % t->count];
        if (0 == to || k->to == to) {
            return k;
        }
    }
    return NULL;
}

/* A connection of the target, and a packet number above those that it has seen. */
static uint32_t connection_of(uint16_t to, uint64_t *pn)
{
    uint32_t conn = 0;
    *pn = 1;
    for (unsigned i = 0; i < tape.count; ++i) {
        const iw_head_t *h = (const iw_head_t *) tape.datagram[i].data;
        if (tape.datagram[i].to == to && 0 != iw_get32(h->conn)) {
            conn = iw_get32(h->conn);
            *pn = iw_get64(h->pn) > *pn ? iw_get64(h->pn) : *pn;
        }
    }
    *pn += 1 + draw() % 1000;
    return 0 == conn ? (uint32_t) draw() | 1 : conn;
}

static size_t put(uint8_t *to, size_t at, const void *block, size_t length)
{
    memcpy(to + at, block, length);
    return at + length;
}

static size_t put_hello(uint8_t *data, size_t n, uint16_t to)
{
    iw_hello_t h = {.identity = iw_be64(draw()),
                    .generation = iw_be64(UINT64_MAX - draw() % 1000),
                    .conn = iw_be32((uint32_t) draw() | 1),
                    .datagram = iw_be16(IW_DATAGRAM_MAX),
                    .version_max = IW_VERSION,
                    .reads = 16};
    for (unsigned i = 0; i < tape.count && 0 != draw() % 4; ++i) {
        iw_frame_t f;
        const taped_t *t = &tape.datagram[i];
        if (t->to == to && IW_FRAME_OK == iw_frame_check(t->data, t->length, &f)
            && NULL != f.hello) {
            h.identity = f.hello->identity;
            break;
        }
    }
    return put(data, n, &h, sizeof(h));
}

static size_t put_ack(uint8_t *data, size_t n, uint64_t pn)
{
    iw_ack_t a = {.largest = iw_be32((uint32_t) pn + 1000),
                  .next = iw_be32((uint32_t) pn),
                  .window = iw_be32(0),
                  .delay = iw_be16(0),
                  .ranges = 1};
    iw_range_t r = {iw_be16(0), iw_be16(1)};
    n = put(data, n, &a, sizeof(a));
    return put(data, n, &r, sizeof(r));
}

/* Everything right but the tag. size: 0 for any. Returns the length. */
static size_t forge(uint8_t *data, uint16_t to, bool hello, size_t size)
{
    uint64_t pn;
    uint32_t conn = connection_of(to, &pn);
    uint8_t type = (uint8_t) (IW_SEGMENT + draw() % IW_CLOSE),
            flags = (uint8_t) (draw() & (IW_F_ACK | IW_F_NOW));
    if (size > 0) {
        type = IW_SEGMENT;
    }
    flags |= hello ? IW_F_HELLO : 0;
    iw_head_t h = {.version_type = (uint8_t) (IW_VERSION << 4 | type),
                   .flags = flags,
                   .floor = iw_be16((uint16_t) (draw() % 8)),
                   .conn = iw_be32(hello ? 0 : conn),
                   .pn = iw_be64(pn),
                   .tag = iw_be64(draw())};
    size_t n = put(data, 0, &h, sizeof(h));
    n = hello ? put_hello(data, n, to) : n;
    n = flags & IW_F_ACK ? put_ack(data, n, pn) : n;
    size_t rest = size > 0 ? size - n : 64 + draw() % 1400;
    if (IW_SEGMENT == type) {
        iw_seq_t q = {.ssn = iw_be32((uint32_t) pn),
                      .ulpdu.length = iw_be16((uint16_t) (rest - sizeof(q)))};
        iw_tagged_t d = {.ddp = IW_DDP_TAGGED | IW_DDP_LAST | IW_DDP_VERSION,
                         .rdmap = IW_RDMAP_VERSION | IW_OP_WRITE,
                         .stag = iw_be32((uint32_t) draw()),
                         .to = iw_be64(draw() % 4096)};
        n = put(data, n, &q, sizeof(q));
        n = put(data, n, &d, sizeof(d));
        memset(data + n, 0x77, rest - sizeof(q) - sizeof(d));
        n += rest - sizeof(q) - sizeof(d);
    } else if (IW_TERMINATE == type) {
        iw_untagged_t d = {.ddp = IW_DDP_LAST | IW_DDP_VERSION,
                           .rdmap = IW_RDMAP_VERSION | IW_OP_TERMINATE,
                           .qn = iw_be32(IW_QN_TERMINATE),
                           .msn = iw_be32(1)};
        iw_terminate_t t = {.layer_type = 1};
        iw_ulpdu_t u = {iw_be16(sizeof(d) + sizeof(t))};
        n = put(data, n, &u, sizeof(u));
        n = put(data, n, &d, sizeof(d));
        n = put(data, n, &t, sizeof(t));
    } else if (IW_PROBE == type) {
        memset(data + n, 0, rest);
        n += rest;
    }
    return n;
}

static void copy(shot_t *s, const taped_t *t)
{
    s->length = t->length;
    s->data = get(t->length);
    memcpy(s->data, t->data, t->length);
}

/* What "port unreachable" quotes: the packet that a process is said to have sent, from its connected socket. */
static void make_icmp(shot_t *s)
{
    const taped_t *t = any_of(&tape, port[s->target]);
    struct icmphdr icmp = {.type = ICMP_DEST_UNREACH, .code = ICMP_PORT_UNREACH};
    struct iphdr ip = {.version = 4,
                       .ihl = 5,
                       .ttl = 64,
                       .protocol = IPPROTO_UDP,
                       .tot_len = htons(28 + 100),
                       .saddr = htonl(INADDR_LOOPBACK),
                       .daddr = htonl(INADDR_LOOPBACK)};
    struct udphdr udp = {.source = htons(t->from), .dest = htons(t->to), .len = htons(108)};
    uint32_t sum = 0;
    s->data = get(64);
    s->length = put(s->data, 0, &icmp, sizeof(icmp));
    s->length = put(s->data, s->length, &ip, sizeof(ip));
    s->length = put(s->data, s->length, &udp, sizeof(udp));
    for (size_t i = 0; i < s->length; i += 2) {
        sum += (uint32_t) s->data[i] << 8 | s->data[i + 1];
    }
    sum = (sum >> 16) + (sum & 0xffff);
    sum += sum >> 16;
    s->data[2] = (uint8_t) (~sum >> 8);
    s->data[3] = (uint8_t) ~sum;
    s->verdict = NOTHING;
}

static void make(shot_t *s, const char *kind, unsigned number)
{
    uint16_t to = port[s->target];
    s->count = 1;
    if (0 == strcmp(kind, "random")) {
        make_random(s);
    } else if (0 == strcmp(kind, "forged") || 0 == strcmp(kind, "hello")) {
        s->data = get(4096);
        s->length = forge(s->data, to, 'h' == kind[0] || 0 == number % 8, 0);
    } else if (0 == strcmp(kind, "joined")) {
        s->count = TRAIN;
        s->length = TRAIN * TRAIN_SIZE;
        s->data = get(s->length);
        for (unsigned i = 0; i < TRAIN; ++i) {
            forge(s->data + (size_t) i * TRAIN_SIZE, to, false, TRAIN_SIZE);
        }
        s->verdict = verdict_of(s->data, TRAIN_SIZE, to);
        return;
    } else if (0 == strcmp(kind, "icmp")) {
        make_icmp(s);
        return;
    } else if (0 == strcmp(kind, "earlier")) {
        copy(s, any_of(&earlier, 0));
        if (0 == number % 2) {
            uint64_t pn;
            iw_be32_t conn = iw_be32(connection_of(to, &pn));
            memcpy(s->data + offsetof(iw_head_t, conn), &conn, sizeof(conn));
        }
    } else {
        const taped_t *t = any_of(&tape, to);
        if (NULL == t) {
            fprintf(stderr, "nothing on the tape for port %u\n", to);
            exit(2);
        }
        copy(s, t);
        if (0 == strcmp(kind, "replay")) {
            s->verdict = TWICE;
            return;
        } else if (0 == strcmp(kind, "cut")) {
            s->length = draw() % s->length;
        } else if (0 == strcmp(kind, "flipped")) {
            uint64_t bit = draw() % (number % 2 ? 8 * sizeof(iw_head_t) : 8 * s->length);
            s->data[bit / 8] ^= (uint8_t) (1u << bit % 8);
        } else {
            fprintf(stderr, "unknown kind '%s'\n", kind);
            exit(2);
        }
    }
    s->verdict = verdict_of(s->data, s->length, to);
}

/* From the other process, if there are two. */
static void address(shot_t *s, bool icmp)
{
    uint16_t from = port[(s->target + 1) % ports], to = port[s->target];
    size_t udp_length = sizeof(struct udphdr) + s->length;
    s->to = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(to), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    s->spoofed.ip = (struct iphdr){
        .version = 4,
        .ihl = 5,
        .ttl = 64,
        .protocol = icmp ? IPPROTO_ICMP : IPPROTO_UDP,
        .tot_len = htons((uint16_t) (sizeof(struct iphdr) + (icmp ? s->length : udp_length))),
        .saddr = htonl(INADDR_LOOPBACK),
        .daddr = htonl(INADDR_LOOPBACK)};
    s->spoofed.udp = (struct udphdr){
        .source = htons(from), .dest = htons(to), .len = htons((uint16_t) udp_length)};
}

/* ---- sending ---- */

typedef union train {
    struct cmsghdr align;
    char space[CMSG_SPACE(sizeof(uint16_t))];
} train_t;

static void load(struct mmsghdr *m, struct iovec *piece, train_t *train, shot_t *s, bool raw,
                 bool icmp)
{
    struct msghdr *h = &m->msg_hdr;
    *h = (struct msghdr){.msg_name = &s->to, .msg_namelen = sizeof(s->to), .msg_iov = piece};
    if (raw) {
        piece[h->msg_iovlen++] =
            (struct iovec){&s->spoofed, icmp ? sizeof(s->spoofed.ip) : sizeof(s->spoofed)};
    }
    if (s->length > 0) {
        piece[h->msg_iovlen++] = (struct iovec){s->data, s->length};
    }
    if (s->count > 1) {
        const uint16_t size = TRAIN_SIZE;
        h->msg_control = train->space;
        h->msg_controllen = sizeof(train->space);
        struct cmsghdr *c = CMSG_FIRSTHDR(h);
        c->cmsg_level = IPPROTO_UDP;
        c->cmsg_type = UDP_SEGMENT;
        c->cmsg_len = CMSG_LEN(sizeof(size));
        memcpy(CMSG_DATA(c), &size, sizeof(size));
    }
}

static void pace(double start, double rate, uint64_t done)
{
    double early = start + (double) done / rate - now();
    if (early > 0) {
        struct timespec t = {(time_t) early, (long) ((early - (double) (time_t) early) * 1e9)};
        nanosleep(&t, NULL);
    }
}

static void fire(double rate, double seconds, bool raw, bool icmp)
{
    static struct mmsghdr message[BATCH];
    static struct iovec piece[2 * BATCH];
    static train_t train[BATCH];
    /* A raw socket takes the address without a port. */
    int s = raw ? socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW)
                : socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (s < 0) {
        die("socket");
    }
    unsigned at = 0, batch = rate > 0 && rate < 100 * BATCH ? 1 + (unsigned) (rate / 200) : BATCH;
    uint64_t done = 0;
    double start = now();
    while (!stop && now() < start + seconds) {
        for (unsigned i = 0; i < batch; ++i) {
            load(&message[i], &piece[2 * i], &train[i], &shot[(at + i) % SHOTS], raw, icmp);
        }
        int n = sendmmsg(s, message, batch, 0);
        if (n < 0 && ENOBUFS != errno && EAGAIN != errno && EINTR != errno) {
            die("sendmmsg");
        }
        for (int i = 0; i < n; ++i) {
            const shot_t *k = &shot[(at + (unsigned) i) % SHOTS];
            sent[k->target][k->verdict] += k->count;
            bytes[k->target] += k->length;
            done += k->count;
        }
        at += n > 0 ? (unsigned) n : 0;
        if (rate > 0) {
            pace(start, rate, done);
        }
    }
    close(s);
}

static int attack(const char *kind, double rate, double seconds, bool spoof)
{
    const bool icmp = 0 == strcmp(kind, "icmp");
    for (unsigned i = 0; i < SHOTS; ++i) {
        shot[i].target = i % ports;
        make(&shot[i], kind, i / ports);
        address(&shot[i], icmp);
    }
    fire(rate, seconds, spoof || icmp, icmp);
    for (unsigned i = 0; i < ports; ++i) {
        uint64_t all = 0;
        for (unsigned v = 0; v < VERDICTS; ++v) {
            all += sent[i][v];
        }
        printf("sent %u datagrams=%llu bytes=%llu", port[i], (unsigned long long) all,
               (unsigned long long) bytes[i]);
        for (unsigned v = 0; v < VERDICTS; ++v) {
            printf(" %s=%llu", verdict_name[v], (unsigned long long) sent[i][v]);
        }
        putchar('\n');
    }
    return 0;
}

int main(int argc, char **argv)
{
    bool spoof = false;
    if (argc < 5) {
        fprintf(stderr, "usage: see the beginning of hostile_sender.c\n");
        return 2;
    }
    signal(SIGTERM, on_signal);
    const bool recording = 0 == strcmp(argv[1], "record");
    for (int i = recording ? 5 : 4; i < argc; ++i) {
        if (0 == strcmp(argv[i], "--tape") && i + 1 < argc) {
            play(&tape, argv[++i]);
        } else if (0 == strcmp(argv[i], "--earlier") && i + 1 < argc) {
            play(&earlier, argv[++i]);
        } else if (0 == strcmp(argv[i], "--seed") && i + 1 < argc) {
            state = strtoull(argv[++i], NULL, 0);
        } else if (0 == strcmp(argv[i], "--spoof")) {
            spoof = true;
        } else if (ports < PORTS) {
            port[ports++] = (uint16_t) atoi(argv[i]);
        }
    }
    if (0 == ports) {
        fprintf(stderr, "no port\n");
        return 2;
    }
    return recording ? record(argv[2], (unsigned) atoi(argv[3]), atof(argv[4]))
                     : attack(argv[1], atof(argv[2]), atof(argv[3]), spoof);
}
