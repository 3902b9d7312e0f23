/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See iw_port.h. */
#define _GNU_SOURCE /* sendmmsg, ppoll */
#include "iw_port.h"

#include "iw_lend.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* In the kernel since 4.18 and 5.0; headers may be older than the kernel. */
#ifndef UDP_SEGMENT
#    define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#    define UDP_GRO 104
#endif

#define BATCH      64    /* datagrams sent with one call */
#define SLOTS      8     /* receive buffers that one call can fill */
#define SPARES     4     /* more of them, for those whose message has not been read yet */
#define SLOT       65536 /* a datagram, or a train that the kernel has put together */
#define SLOT_SKEW  20    /* the payload of a large segment, behind 44 bytes, begins a cache line */
#define SLOT_ROOM  (SLOT + 64)
#define IN_SIZE    ((SLOTS + SPARES) * SLOT_ROOM)
#define PAGE       4096 /* or a multiple: then less is given back */
#define TRAIN_MAX  64    /* UDP_MAX_SEGMENTS */
#define TRAIN_SIZE 65000 /* bytes: below the longest IP packet with its headers */
#define STREAM     3     /* receive calls in a row that found something make a stream */
#define DRAIN      8     /* receive calls in a row of who takes all there is */
#define IDLE       4096  /* receive calls in vain since the last train until trains are given up for cheaper calls */
#define LEAVE      64    /* and then until there cannot be one that was on its way */
#define QUIET      UINT64_C(100000000) /* ns without a datagram: what receiving touched is given back */
#define FLAT       8192  /* bytes up to which a datagram is copied together before it is sent */
#define LANES      16    /* connected sockets */
#define LANE_HOT   64    /* datagrams to one peer until it gets one */
#define UDP_IPV4   28    /* headers */
#define UDP_IPV6   48

/* A datagram held back on purpose. */
typedef struct held {
    struct held *next;
    uint64_t at;
    iw_address_t to;
    size_t length;
    bool in;
    uint8_t data[];
} held_t;

/* A connected socket, or a candidate for one. A peer has one place, by its address. */
typedef struct lane {
    iw_address_t to;
    int socket;    /* -1: none yet */
    uint32_t heat; /* datagrams to `to`, less those to others */
} lane_t;

typedef union control {
    struct cmsghdr align;
    char space[CMSG_SPACE(sizeof(int))];
} control_t;

struct iw_port {
    int socket;
    bool segment; /* trains can be sent */
    bool joins;   /* the kernel can make them of what comes */
    bool faulty;
    iw_address_t address;
    uint32_t space;
    uint16_t limit; /* longest datagram of the interface */
    uint64_t looked; /* when iw_port_progress was called last */
    unsigned vlen;  /* receive buffers offered to the kernel */
    /* Trains: none can be there; the kernel makes them; it makes none any more, some may be there. */
    enum { APART, JOINED, LEAVING } joining;
    unsigned streak; /* receive calls in a row that found something */
    unsigned idle;   /* and that found nothing since the last stream */
    iw_port_counters_t count;
    iw_fault_t fault_in, fault_out;
    held_t *held; /* sorted by time */
    lane_t lane[LANES];
    iw_lend_t lend;

    struct mmsghdr in[SLOTS];
    struct iovec in_piece[SLOTS];
    control_t in_control[SLOTS];
    uint8_t *in_buffer; /* mapped */
    uint8_t *spare[SPARES];
    unsigned spares; /* of them, not in use */
    bool stay;
    bool in_touched;    /* more than the first page of it */
    uint64_t in_at;     /* when a datagram came last */

    iw_packet_t packet[BATCH];
    struct mmsghdr out[BATCH];
    unsigned first[BATCH + 1]; /* first packet of each message */
    struct iovec out_piece[BATCH * (1 + IW_IOV_MAX)];
    control_t out_control[BATCH];
    uint8_t flat[FLAT];
};

uint64_t iw_port_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * UINT64_C(1000000000) + (uint64_t) t.tv_nsec;
}

uint64_t iw_port_looked(const iw_port_t *p)
{
    return p->looked;
}

void iw_port_config_default(iw_port_config_t *c)
{
    *c = (iw_port_config_t){.buffer = 4 << 20, .segment = true, .lend = true};
    c->address.v4.sin_family = AF_INET;
    c->address.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
}

/* ---- opening ---- */

static void set_buffer(int s, int force, int option, uint32_t bytes, int *got)
{
    int value = (int) bytes;
    socklen_t length = sizeof(*got);
    /* With the right to do so beyond what ordinary users may have. */
    if (0 != setsockopt(s, SOL_SOCKET, force, &value, sizeof(value))) {
        (void) setsockopt(s, SOL_SOCKET, option, &value, sizeof(value));
    }
    *got = 0;
    (void) getsockopt(s, SOL_SOCKET, option, got, &length);
}

/* IP must not cut datagrams: their size is found by probing (RFC 8899). */
static bool set_cutting(const iw_port_t *p, int s, bool may_cut)
{
    bool v6 = AF_INET6 == p->address.any.sa_family;
    int value = v6 ? (may_cut ? IPV6_PMTUDISC_DONT : IPV6_PMTUDISC_PROBE)
                   : (may_cut ? IP_PMTUDISC_DONT : IP_PMTUDISC_PROBE);
    return 0
           == setsockopt(s, v6 ? IPPROTO_IPV6 : IPPROTO_IP,
                         v6 ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER, &value, sizeof(value));
}

static bool same_host(const struct sockaddr *a, const iw_address_t *b)
{
    if (NULL == a || a->sa_family != b->any.sa_family) {
        return false;
    }
    if (AF_INET6 == a->sa_family) {
        return 0
               == memcmp(&((const struct sockaddr_in6 *) a)->sin6_addr, &b->v6.sin6_addr,
                         sizeof(b->v6.sin6_addr));
    }
    return ((const struct sockaddr_in *) a)->sin_addr.s_addr == b->v4.sin_addr.s_addr;
}

/* The longest datagram that the interface of the address sends in one piece. Peers on this host are
 * reached through the loopback interface whatever their address, and take longer ones. */
static uint16_t interface_limit(const iw_port_t *p)
{
    struct ifaddrs *all, *a;
    unsigned headers = AF_INET6 == p->address.any.sa_family ? UDP_IPV6 : UDP_IPV4, mtu = 1500;
    if (0 == getifaddrs(&all)) {
        for (a = all; NULL != a; a = a->ifa_next) {
            struct ifreq r = {.ifr_mtu = 0};
            if (!same_host(a->ifa_addr, &p->address)) {
                continue;
            }
            strncpy(r.ifr_name, a->ifa_name, IFNAMSIZ - 1);
            if (0 == ioctl(p->socket, SIOCGIFMTU, &r) && r.ifr_mtu > 0) {
                mtu = (unsigned) r.ifr_mtu;
            }
            break;
        }
        freeifaddrs(all);
    }
    unsigned limit = mtu - headers;
    return (uint16_t) (limit > IW_DATAGRAM_MAX   ? IW_DATAGRAM_MAX
                       : limit < IW_DATAGRAM_MIN ? IW_DATAGRAM_MIN
                                                 : limit);
}

static bool open_socket(iw_port_t *p, const iw_port_config_t *c)
{
    int off = 0, got;
    socklen_t length = iw_address_length(&c->address);
    p->address = c->address;
    p->socket = socket(c->address.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (p->socket < 0 || 0 != bind(p->socket, &c->address.any, length)
        || 0 != getsockname(p->socket, &p->address.any, &length)
        || !set_cutting(p, p->socket, false)) {
        return false;
    }
    set_buffer(p->socket, SO_SNDBUFFORCE, SO_SNDBUF, c->buffer, &got);
    set_buffer(p->socket, SO_RCVBUFFORCE, SO_RCVBUF, c->buffer, &got);
    /* The kernel reports twice what it was asked for, and counts its own data with the datagrams'. */
    p->space = got / 2 > 1 << 16 ? (uint32_t) got / 2 : 1 << 16;
    p->limit = interface_limit(p);
    /* Does the kernel know it at all? */
    p->joins = c->segment && 0 == setsockopt(p->socket, IPPROTO_UDP, UDP_GRO, &off, sizeof(off));
    p->segment = p->joins;
    return true;
}

static uint8_t *slot(const iw_port_t *p, size_t i)
{
    return p->in_buffer + i * SLOT_ROOM + SLOT_SKEW;
}

iw_port_t *iw_port_open(const iw_port_config_t *c)
{
    iw_port_t *p = calloc(1, sizeof(*p));
    if (NULL == p) {
        errno = ENOMEM;
        return NULL;
    }
    p->vlen = 1;
    p->lend.pipe[0] = -1;
    if (c->lend) {
        iw_lend_open(&p->lend);
    }
    for (unsigned i = 0; i < LANES; ++i) {
        p->lane[i].socket = -1;
    }
    p->in_buffer = mmap(NULL, IN_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!open_socket(p, c) || MAP_FAILED == p->in_buffer) {
        int error = MAP_FAILED == p->in_buffer ? ENOMEM : errno;
        iw_port_close(p);
        errno = error;
        return NULL;
    }
    for (unsigned i = 0; i < SLOTS; ++i) {
        p->in_piece[i] = (struct iovec){slot(p, i), SLOT};
        p->in[i].msg_hdr.msg_iov = &p->in_piece[i];
        p->in[i].msg_hdr.msg_iovlen = 1;
    }
    p->stay = c->stay;
    while (p->spares < SPARES) {
        p->spare[p->spares] = slot(p, SLOTS + p->spares);
        ++p->spares;
    }
    iw_fault_init(&p->fault_in, &c->faults_in, c->fault_seed);
    iw_fault_init(&p->fault_out, &c->faults_out, c->fault_seed ^ UINT64_C(0x5bd1e995));
    p->faulty = iw_fault_active(&p->fault_in) || iw_fault_active(&p->fault_out);
    return p;
}

void iw_port_close(iw_port_t *p)
{
    for (held_t *next, *h = p->held; NULL != h; h = next) {
        next = h->next;
        free(h);
    }
    if (p->socket >= 0) {
        close(p->socket);
    }
    for (unsigned i = 0; i < LANES; ++i) {
        if (p->lane[i].socket >= 0) {
            close(p->lane[i].socket);
        }
    }
    iw_lend_close(&p->lend);
    if (MAP_FAILED != p->in_buffer) {
        munmap(p->in_buffer, IN_SIZE);
    }
    free(p);
}

int iw_port_socket(const iw_port_t *p)
{
    return p->socket;
}

const iw_address_t *iw_port_address(const iw_port_t *p)
{
    return &p->address;
}

uint32_t iw_port_space(const iw_port_t *p)
{
    return p->space;
}

const iw_port_counters_t *iw_port_counters(const iw_port_t *p)
{
    return &p->count;
}

/* ---- faults ---- */

static void hold(iw_port_t *p, const iw_fate_t *fate, uint64_t now, const uint8_t *data,
                 const iw_address_t *to)
{
    held_t *h = malloc(sizeof(*h) + fate->length), **at = &p->held;
    if (NULL == h) {
        return; /* one more that is lost */
    }
    *h = (held_t){.at = now + fate->hold_ns, .length = fate->length, .in = NULL == to};
    if (NULL != to) {
        h->to = *to;
    }
    memcpy(h->data, data, fate->length);
    if (fate->corrupt) {
        h->data[fate->flip / 8] ^= (uint8_t) (1u << fate->flip % 8);
    }
    while (NULL != *at && (*at)->at <= h->at) {
        at = &(*at)->next;
    }
    h->next = *at;
    *at = h;
}

/* Everything that faults do goes through the list of those held back, if only for no time. */
static void meddle(iw_port_t *p, iw_fault_t *fault, uint64_t now, const uint8_t *data,
                   size_t length, const iw_address_t *to)
{
    iw_fate_t fate = iw_fault_decide(fault, length);
    if (fate.drop) {
        return;
    }
    hold(p, &fate, now, data, to);
    if (fate.twice) {
        hold(p, &fate, now, data, to);
    }
}

static void release_held(iw_port_t *p, iw_engine_t *e, uint64_t now)
{
    while (NULL != p->held && p->held->at <= now) {
        held_t *h = p->held;
        p->held = h->next;
        if (h->in) {
            iw_engine_input(e, now, h->data, h->length);
        } else {
            (void) !sendto(p->socket, h->data, h->length, MSG_DONTWAIT, &h->to.any,
                           iw_address_length(&h->to));
        }
        free(h);
    }
}

/* ---- receiving ---- */

/* The size of the datagrams of which the kernel made one train, or 0. */
static size_t train_size(struct msghdr *m)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); NULL != c; c = CMSG_NXTHDR(m, c)) {
        if (IPPROTO_UDP == c->cmsg_level && UDP_GRO == c->cmsg_type) {
            int size;
            memcpy(&size, CMSG_DATA(c), sizeof(size));
            return size > 0 ? (size_t) size : 0;
        }
    }
    return 0;
}

static void take_in(iw_port_t *p, iw_engine_t *e, uint64_t now, const uint8_t *data, size_t length)
{
    if (p->faulty && iw_fault_active(&p->fault_in)) {
        meddle(p, &p->fault_in, now, data, length, NULL);
    } else {
        iw_engine_input(e, now, data, length);
    }
}

static unsigned take_message(iw_port_t *p, iw_engine_t *e, uint64_t now, struct mmsghdr *m)
{
    const uint8_t *data = m->msg_hdr.msg_iov->iov_base;
    size_t left = m->msg_len, size = APART == p->joining ? 0 : train_size(&m->msg_hdr);
    unsigned n = 0;
    do {
        size_t part = 0 == size || left < size ? left : size;
        take_in(p, e, now, data, part);
        data += part;
        left -= part;
        ++n;
    } while (left > 0);
    return n;
}

/* A datagram alone: its message may stay, and another buffer takes its buffer's place. */
static unsigned take_alone(iw_port_t *p, iw_engine_t *e, uint64_t now)
{
    uint8_t *data = p->in_piece[0].iov_base;
    if (!p->stay || 0 == p->spares || p->faulty || APART != p->joining) {
        return take_message(p, e, now, &p->in[0]);
    }
    if (iw_engine_input_stay(e, now, data, p->in[0].msg_len)) {
        p->in_piece[0].iov_base = p->spare[--p->spares];
    }
    return 1;
}

void iw_port_read(iw_port_t *p, const void *data)
{
    const size_t i = (size_t) ((const uint8_t *) data - p->in_buffer) / SLOT_ROOM;
    p->spare[p->spares++] = slot(p, i);
}

/* Shall the kernel join what comes? */
static void set_joining(iw_port_t *p, int on)
{
    if (0 == setsockopt(p->socket, IPPROTO_UDP, UDP_GRO, &on, sizeof(on))) {
        p->joining = on ? JOINED : LEAVING;
        p->idle = 0;
    }
}

/* As recvmmsg; most of the time nothing or one, for which there is a call that takes two thirds of the
 * time. It cannot tell a train, so none must come. */
static int take(iw_port_t *p)
{
    if (1 == p->vlen && APART == p->joining) {
        ssize_t length = recv(p->socket, p->in_piece[0].iov_base, SLOT, MSG_DONTWAIT);
        p->in[0].msg_hdr.msg_controllen = 0;
        p->in[0].msg_len = (unsigned) length;
        return length < 0 ? -1 : 1;
    }
    for (unsigned i = 0; i < p->vlen; ++i) {
        struct msghdr *h = &p->in[i].msg_hdr;
        const bool joined = APART != p->joining;
        h->msg_control = joined ? p->in_control[i].space : NULL;
        h->msg_controllen = joined ? sizeof(p->in_control[i].space) : 0;
    }
    return recvmmsg(p->socket, p->in, p->vlen, MSG_DONTWAIT, NULL);
}

/* Quiet for a while: no memory for what may never come again. */
static void give_back(iw_port_t *p)
{
    if (p->spares < SPARES) {
        return; /* somebody still reads */
    }
    p->in_touched = false;
    (void) madvise(p->in_buffer + PAGE, (IN_SIZE - PAGE) / PAGE * PAGE, MADV_DONTNEED);
}

/* Nothing was there. */
static void at_rest(iw_port_t *p)
{
    if (p->in_touched && p->looked - p->in_at > QUIET) {
        give_back(p);
    }
    ++p->count.receive_empty;
    p->vlen = 1;
    p->streak = 0;
    if (LEAVING == p->joining && ++p->idle >= LEAVE) {
        p->joining = APART; /* what had been joined has been taken, or was just being delivered and is there by now */
    } else if (JOINED == p->joining && ++p->idle >= IDLE) {
        set_joining(p, 0);
    }
}

static unsigned receive(iw_port_t *p, iw_engine_t *e, uint64_t now)
{
    unsigned n = 0;
    ++p->count.receive_calls;
    int got = take(p);
    if (got <= 0) {
        at_rest(p);
        return 0;
    }
    const bool joins = JOINED == p->joining;
    size_t bytes = 0;
    p->in_at = now;
    p->in_touched |= got > 1 || p->in[0].msg_len > PAGE - SLOT_SKEW || p->stay;
    for (int i = 0; i < got; ++i) {
        bytes += p->in[i].msg_len;
        n += 1 == got ? take_alone(p, e, now) : take_message(p, e, now, &p->in[i]);
    }
    if (joins && n > (unsigned) got) {
        p->idle = 0;
    }
    /* A message alone is taken with the cheapest call; of many large ones no more than stay in the
     * cache until they are looked at. */
    if (++p->streak < STREAM) {
        return n;
    }
    p->idle = 0;
    if ((unsigned) got == p->vlen) {
        unsigned most = bytes / (size_t) got > 16384 ? 2 : SLOTS;
        p->vlen = 2 * p->vlen < most ? 2 * p->vlen : most;
        if (p->joins && JOINED != p->joining) {
            set_joining(p, 1);
        }
    }
    return n;
}

/* Whatever is there, with as few calls as possible; a bound, so that sending has its turn. */
static unsigned receive_all(iw_port_t *p, iw_engine_t *e, uint64_t now)
{
    unsigned n = 0;
    if (p->joins && JOINED != p->joining) {
        set_joining(p, 1);
    }
    p->idle = 0;
    for (unsigned calls = 0; calls < DRAIN; ++calls) {
        p->vlen = SLOTS;
        ++p->count.receive_calls;
        const int got = take(p);
        if (got > 0) {
            p->in_at = now;
            p->in_touched = true;
        }
        for (int i = 0; i < got; ++i) {
            n += take_message(p, e, now, &p->in[i]);
        }
        if (got < SLOTS) {
            break;
        }
    }
    p->count.receive_empty += 0 == n;
    p->vlen = 1;
    return n;
}

/* ---- sending ---- */

static void add_pieces(iw_port_t *p, struct msghdr *h, const iw_packet_t *k)
{
    (void) p;
    memcpy(h->msg_iov + h->msg_iovlen, k->piece, k->count * sizeof(k->piece[0]));
    h->msg_iovlen += k->count;
}

static void set_train(struct msghdr *h, control_t *control, uint16_t size)
{
    h->msg_control = control->space;
    h->msg_controllen = CMSG_SPACE(sizeof(size));
    struct cmsghdr *c = CMSG_FIRSTHDR(h);
    c->cmsg_level = IPPROTO_UDP;
    c->cmsg_type = UDP_SEGMENT;
    c->cmsg_len = CMSG_LEN(sizeof(size));
    memcpy(CMSG_DATA(c), &size, sizeof(size));
}

static bool is_to_lend(const iw_port_t *p, const iw_packet_t *k)
{
    return p->lend.works && k->length >= IW_LEND_MIN && !k->probe && !k->may_fragment;
}

/* Packets from i on that can be one train: one peer, one size, the last may be shorter. What is lent goes alone: what
 * follows it would not be sent. */
static unsigned train_length(const iw_port_t *p, unsigned i, unsigned count)
{
    const iw_packet_t *first = &p->packet[i];
    size_t bytes = first->length;
    unsigned n = 1;
    if (!p->segment || first->probe || first->may_fragment || first->length > p->limit
        || is_to_lend(p, first)) {
        return 1;
    }
    while (i + n < count && n < TRAIN_MAX) {
        const iw_packet_t *k = &p->packet[i + n];
        if (k->peer != first->peer || NULL == k->peer || k->length > first->length || k->probe
            || bytes + k->length > TRAIN_SIZE) {
            break;
        }
        bytes += k->length;
        ++n;
        if (k->length < first->length) {
            break;
        }
    }
    return n;
}

/* Packets to messages of the kernel. Returns how many messages. */
static unsigned arrange(iw_port_t *p, unsigned count)
{
    unsigned n = 0;
    struct iovec *piece = p->out_piece;
    for (unsigned i = 0; i < count; ++n) {
        unsigned train = train_length(p, i, count);
        struct msghdr *h = &p->out[n].msg_hdr;
        iw_packet_t *k = &p->packet[i];
        *h = (struct msghdr){
            .msg_name = &k->to, .msg_namelen = iw_address_length(&k->to), .msg_iov = piece};
        p->first[n] = i;
        for (unsigned j = 0; j < train; ++j) {
            add_pieces(p, h, &p->packet[i + j]);
        }
        if (train > 1) {
            set_train(h, &p->out_control[n], (uint16_t) k->length);
            ++p->count.trains;
        }
        piece += h->msg_iovlen;
        i += train;
    }
    p->first[n] = count;
    return n;
}

/* Larger than the path is known to carry, and sent again because it did once: let IP cut it. */
static void send_cut(iw_port_t *p, struct msghdr *h, const iw_address_t *to)
{
    if (set_cutting(p, p->socket, true)) {
        h->msg_name = (void *) (uintptr_t) to;
        h->msg_namelen = iw_address_length(to);
        (void) !sendmsg(p->socket, h, MSG_DONTWAIT);
        (void) set_cutting(p, p->socket, false);
    }
}

/* Are trains what the kernel, the adapter or its driver cannot do? Another error of a train is of its peer. */
static bool is_of_trains(int error)
{
    return EIO == error || EINVAL == error || EMSGSIZE == error || EOPNOTSUPP == error;
}

static bool is_of_room(int error)
{
    return EAGAIN == error || EWOULDBLOCK == error || ENOBUFS == error || ENOMEM == error;
}

/* One message that sendmmsg did not take. False: the kernel has no room, stop. */
static bool send_failed(iw_port_t *p, iw_engine_t *e, unsigned message, int error)
{
    unsigned first = p->first[message], count = p->first[message + 1] - first;
    const iw_packet_t *k = &p->packet[first];
    if (is_of_room(error)) {
        ++p->count.busy;
        return false;
    }
    if (count > 1 && is_of_trains(error)) {
        /* Never again. */
        p->segment = false;
        p->count.last_error = error;
        iw_engine_unsent(e, k, count);
        return true;
    }
    if (EMSGSIZE == error) {
        ++p->count.too_big;
        /* What every path carries, an interface with a smaller MTU carries in pieces. */
        if (k->may_fragment || k->length <= IW_DATAGRAM_MIN) {
            send_cut(p, &p->out[message].msg_hdr, &k->to);
        } else {
            iw_engine_too_big(e, k, p->limit);
        }
        return true;
    }
    /* As if the network had lost it: the engine sends it again, or gives the peer up in time. */
    ++p->count.errors;
    p->count.last_error = error;
    return true;
}

/* ---- lanes ---- */

static bool same_address(const iw_address_t *a, const iw_address_t *b)
{
    return 0 == memcmp(a, b, iw_address_length(a));
}

static void lane_open(iw_port_t *p, lane_t *l)
{
    iw_address_t from = p->address;
    int s = socket(from.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), got;
    from.v4.sin_port = 0; /* at the same place in both families */
    if (s < 0 || 0 != bind(s, &from.any, iw_address_length(&from))
        || 0 != connect(s, &l->to.any, iw_address_length(&l->to)) || !set_cutting(p, s, false)) {
        l->heat = 0; /* it goes without */
        if (s >= 0) {
            close(s);
        }
        return;
    }
    set_buffer(s, SO_SNDBUFFORCE, SO_SNDBUF, p->space, &got);
    set_buffer(s, SO_RCVBUFFORCE, SO_RCVBUF, 1, &got); /* nobody answers to it */
    l->socket = s;
}

/* The socket connected to this address, or -1. */
static int lane_of(iw_port_t *p, const iw_address_t *to)
{
    uint32_t hash = AF_INET6 == to->any.sa_family
                        ? (uint32_t) to->v6.sin6_addr.s6_addr[15] ^ to->v6.sin6_port
                        : to->v4.sin_addr.s_addr ^ to->v4.sin_port;
    hash *= UINT32_C(0x9e3779b1);
    lane_t *l = &p->lane[hash >> 28];
    if (same_address(to, &l->to)) {
        if (l->socket < 0 && ++l->heat >= LANE_HOT) {
            lane_open(p, l);
        } else if (l->heat < 2 * LANE_HOT) {
            ++l->heat;
        }
        return l->socket;
    }
    if (l->heat > 0) {
        --l->heat;
        return -1;
    }
    if (l->socket >= 0) {
        close(l->socket);
    }
    *l = (lane_t){.to = *to, .socket = -1, .heat = 1};
    return -1;
}

_Static_assert(LANES == 1 << (32 - 28), "hash and number of lanes");

static void lane_close(iw_port_t *p, int socket)
{
    for (unsigned i = 0; i < LANES; ++i) {
        if (p->lane[i].socket == socket) {
            close(socket);
            p->lane[i].socket = -1;
            p->lane[i].heat = 0;
        }
    }
}

static bool can_lend(const iw_port_t *p, unsigned message)
{
    return is_to_lend(p, &p->packet[p->first[message]]);
}

/* One message without copying. 1: sent, 0: it must be copied, -1: as sendmsg. */
static int send_lent(iw_port_t *p, int lane, const iw_packet_t *k)
{
    switch (iw_lend_send(&p->lend, lane, k->piece, k->count)) {
    case IW_LENT:
        ++p->count.lent;
        return 1;
    case IW_LEND_BROKEN:
        lane_close(p, lane);
        errno = EAGAIN; /* what is left for this lane goes another time */
        return -1;
    case IW_LEND_BUSY:
        errno = EAGAIN;
        return -1;
    default:
        return 0;
    }
}

/* Messages done to count - 1, all to one peer, by this socket; as sendmmsg. */
static int send_some(iw_port_t *p, int s, unsigned done, unsigned count)
{
    const struct msghdr *h = &p->out[done].msg_hdr;
    ++p->count.send_calls;
    if (s != p->socket && can_lend(p, done)) {
        const int lent = send_lent(p, s, &p->packet[p->first[done]]);
        if (0 != lent) {
            return lent;
        }
        return sendmsg(s, h, MSG_DONTWAIT) < 0 ? -1 : 1;
    }
    unsigned end = done + 1;
    while (end < count && (s == p->socket || !can_lend(p, end))) {
        ++end;
    }
    count = end;
    if (count - done > 1) {
        return sendmmsg(s, p->out + done, count - done, MSG_DONTWAIT);
    }
    size_t length = FLAT + 1;
    if (0 == h->msg_controllen) {
        length = p->packet[p->first[done]].length;
    }
    if (length > FLAT) {
        return sendmsg(s, h, MSG_DONTWAIT) < 0 ? -1 : 1;
    }
    /* The kernel is quicker with one piece than with a list of pieces, by more than copying costs. */
    const uint8_t *data = h->msg_iov->iov_base;
    if (h->msg_iovlen > 1) {
        data = p->flat;
        for (size_t i = 0, at = 0; i < h->msg_iovlen; ++i) {
            memcpy(p->flat + at, h->msg_iov[i].iov_base, h->msg_iov[i].iov_len);
            at += h->msg_iov[i].iov_len;
        }
    }
    return sendto(s, data, length, MSG_DONTWAIT, h->msg_name, h->msg_namelen) < 0 ? -1 : 1;
}

/* Instead of sending, a connected socket reports what the network said of an earlier datagram (ICMP), or what somebody
 * made it believe: such a report has no tag. The other socket hears none, so with that the message goes if it can. */
static int send_unconnected(iw_port_t *p, unsigned message)
{
    struct msghdr *h = &p->out[message].msg_hdr;
    iw_packet_t *k = &p->packet[p->first[message]];
    ++p->count.reports;
    ++p->count.send_calls;
    h->msg_name = &k->to;
    h->msg_namelen = iw_address_length(&k->to);
    return sendmsg(p->socket, h, MSG_DONTWAIT) < 0 ? -1 : 1;
}

/* How many messages from done on go to the same peer. */
static unsigned run_of(const iw_port_t *p, unsigned done, unsigned count)
{
    const iw_packet_t *first = &p->packet[p->first[done]];
    unsigned end = done + 1;
    while (end < count && same_address(&p->packet[p->first[end]].to, &first->to)) {
        ++end;
    }
    return end;
}

static bool send_messages(iw_port_t *p, iw_engine_t *e, unsigned count)
{
    int s = p->socket;
    for (unsigned done = 0, end = 0; done < count;) {
        if (done == end) {
            int lane = lane_of(p, p->out[done].msg_hdr.msg_name);
            end = run_of(p, done, count);
            s = lane >= 0 ? lane : p->socket;
            for (unsigned i = done; lane >= 0 && i < end; ++i) {
                p->out[i].msg_hdr.msg_name = NULL;
                p->out[i].msg_hdr.msg_namelen = 0;
            }
        }
        int n = send_some(p, s, done, end);
        if (n < 0 && s != p->socket && !is_of_room(errno)) {
            n = send_unconnected(p, done);
        }
        if (n > 0) {
            done += (unsigned) n;
            continue;
        }
        if (!send_failed(p, e, done, errno)) {
            iw_engine_unsent(e, &p->packet[p->first[done]], p->first[count] - p->first[done]);
            return false;
        }
        ++done;
    }
    return true;
}

/* With faults each datagram is put into one piece and may be held back. */
static void send_meddled(iw_port_t *p, uint64_t now, unsigned count)
{
    static _Thread_local uint8_t flat[IW_DATAGRAM_MAX];
    for (unsigned i = 0; i < count; ++i) {
        const iw_packet_t *k = &p->packet[i];
        size_t length = 0;
        for (unsigned j = 0; j < k->count; ++j) {
            memcpy(flat + length, k->piece[j].iov_base, k->piece[j].iov_len);
            length += k->piece[j].iov_len;
        }
        meddle(p, &p->fault_out, now, flat, length, &k->to);
    }
}

static void transmit(iw_port_t *p, iw_engine_t *e, uint64_t now)
{
    /* A bound, so that receiving has its turn. */
    for (unsigned round = 0; round < 8 && iw_engine_has_output(e); ++round) {
        unsigned count = iw_engine_output(e, now, p->packet, BATCH);
        if (0 == count) {
            continue;
        }
        if (p->faulty && iw_fault_active(&p->fault_out)) {
            send_meddled(p, now, count);
        } else if (!send_messages(p, e, arrange(p, count))) {
            return;
        }
    }
}

void iw_port_flush(iw_port_t *p, iw_engine_t *e)
{
    if (iw_engine_has_output(e)) {
        transmit(p, e, iw_port_now());
    }
}

/* What else is due once datagrams have been taken. */
static void go_on(iw_port_t *p, iw_engine_t *e, uint64_t now)
{
    if (NULL != p->held) {
        release_held(p, e, now);
    }
    if (iw_engine_deadline(e) <= now) {
        iw_engine_timers(e, now);
    }
    if (iw_engine_has_output(e)) {
        transmit(p, e, now);
    }
}

unsigned iw_port_progress(iw_port_t *p, iw_engine_t *e)
{
    uint64_t now = p->looked = iw_port_now();
    unsigned n = receive(p, e, now);
    go_on(p, e, now);
    return n;
}

unsigned iw_port_drain(iw_port_t *p, iw_engine_t *e)
{
    uint64_t now = p->looked = iw_port_now();
    unsigned n = receive_all(p, e, now);
    go_on(p, e, now);
    return n;
}

uint64_t iw_port_deadline(const iw_port_t *p, const iw_engine_t *e)
{
    if (iw_engine_has_output(e)) {
        return 0;
    }
    uint64_t at = iw_engine_deadline(e);
    return NULL != p->held && p->held->at < at ? p->held->at : at;
}

bool iw_port_wait(iw_port_t *p, uint64_t deadline, int wake, uint64_t timeout_ns)
{
    struct pollfd fd[2] = {{.fd = p->socket, .events = POLLIN}, {.fd = wake, .events = POLLIN}};
    uint64_t now = iw_port_now(), time = deadline > now ? deadline - now : 0;
    time = time < timeout_ns ? time : timeout_ns;
    struct timespec t = {(time_t) (time / UINT64_C(1000000000)),
                         (long) (time % UINT64_C(1000000000))};
    return ppoll(fd, wake >= 0 ? 2 : 1, &t, NULL) > 0 && 0 != fd[1].revents;
}
