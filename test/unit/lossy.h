/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A network that loses, for tests: receive calls in the place of the system's, for one file of a program or of a library that
 * is loaded before one (test/mpi/lossy.c). What arrives at a UDP socket meets the fate that iw_fault.h draws for it, and is
 * handed out when its time has come; so is a train that the kernel has made (UDP_GRO): datagram by datagram, each with a fate
 * of its own. Only for calls with MSG_DONTWAIT. ppoll wakes for what is kept; who sleeps otherwise gets it late. */
#ifndef LOSSY_H
#define LOSSY_H

#ifndef _GNU_SOURCE
#    error "the first line of the file is to define _GNU_SOURCE: struct mmsghdr, RTLD_NEXT"
#endif

#include "iw_fault.h"

#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef UDP_GRO
#    define UDP_GRO 104
#endif

enum { LOSSY_SOCKETS = 4096, LOSSY_ROOM = 65536 };

/* A datagram on its way. */
typedef struct lossy_kept {
    struct lossy_kept *next;
    uint64_t at; /* ns: may be handed out from then on */
    struct sockaddr_storage from;
    socklen_t from_length;
    size_t length;
    uint8_t data[];
} lossy_kept_t;

typedef struct lossy_socket {
    pthread_mutex_t lock;
    uint8_t *room; /* for a datagram, or a train; NULL: the socket is not known yet */
    iw_fault_t fault;
    lossy_kept_t *kept; /* sorted by time */
} lossy_socket_t;

static struct {
    pthread_once_t once;
    ssize_t (*recv)(int, void *, size_t, int);
    ssize_t (*recvmsg)(int, struct msghdr *, int);
    int (*recvmmsg)(int, struct mmsghdr *, unsigned, int, struct timespec *);
    int (*ppoll)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
    int (*close)(int);
    iw_fault_rates_t rates;
    uint64_t seed; /* each socket has the next */
    _Atomic uint64_t sockets;
    void (*first)(void); /* called at the first socket; may be NULL */
    lossy_socket_t socket[LOSSY_SOCKETS];
} lossy = {.once = PTHREAD_ONCE_INIT,
           .socket = {[0 ... LOSSY_SOCKETS - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER}}};

static inline void lossy_find(void)
{
    lossy.recv = (ssize_t(*)(int, void *, size_t, int)) dlsym(RTLD_NEXT, "recv");
    lossy.recvmsg = (ssize_t(*)(int, struct msghdr *, int)) dlsym(RTLD_NEXT, "recvmsg");
    lossy.recvmmsg = (int (*)(int, struct mmsghdr *, unsigned, int, struct timespec *)) dlsym(
        RTLD_NEXT, "recvmmsg");
    lossy.ppoll = (int (*)(struct pollfd *, nfds_t, const struct timespec *,
                           const sigset_t *)) dlsym(RTLD_NEXT, "ppoll");
    lossy.close = (int (*)(int)) dlsym(RTLD_NEXT, "close");
}

/* Of the sockets that are met from now on; rates of 0: none. */
static inline void lossy_set(const iw_fault_rates_t *rates, uint64_t seed)
{
    lossy.rates = *rates;
    lossy.seed = seed;
    lossy.sockets = 0;
}

static inline uint64_t lossy_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * UINT64_C(1000000000) + (uint64_t) t.tv_nsec;
}

static inline bool lossy_is_udp(int s)
{
    int type = 0, domain = 0;
    socklen_t a = sizeof(type), b = sizeof(domain);
    return 0 == getsockopt(s, SOL_SOCKET, SO_TYPE, &type, &a)
           && 0 == getsockopt(s, SOL_SOCKET, SO_DOMAIN, &domain, &b) && SOCK_DGRAM == type
           && (AF_INET == domain || AF_INET6 == domain);
}

/* Locked, or NULL: such a call is none of ours. */
static inline lossy_socket_t *lossy_enter(int s, int flags)
{
    const iw_fault_t fault = {.rates = lossy.rates};
    pthread_once(&lossy.once, lossy_find);
    if (!(flags & MSG_DONTWAIT) || flags & (MSG_PEEK | MSG_ERRQUEUE) || s < 0
        || s >= LOSSY_SOCKETS) {
        return NULL;
    }
    lossy_socket_t *k = &lossy.socket[s];
    pthread_mutex_lock(&k->lock);
    if (NULL == k->room && iw_fault_active(&fault) && lossy_is_udp(s)) {
        const uint64_t number = lossy.sockets++;
        iw_fault_init(&k->fault, &lossy.rates, lossy.seed + number);
        k->room = malloc(LOSSY_ROOM);
        if (0 == number && NULL != lossy.first) {
            lossy.first();
        }
    }
    if (NULL == k->room) {
        pthread_mutex_unlock(&k->lock);
        return NULL;
    }
    return k;
}

static inline void lossy_keep(lossy_socket_t *k, uint64_t now, const iw_fate_t *fate,
                              const uint8_t *data, const struct msghdr *h)
{
    lossy_kept_t *d = malloc(sizeof(*d) + fate->length), **at = &k->kept;
    if (NULL == d) {
        return; /* one more that is lost */
    }
    *d = (lossy_kept_t){
        .at = now + fate->delay_ns, .from_length = h->msg_namelen, .length = fate->length};
    memcpy(&d->from, h->msg_name, h->msg_namelen);
    memcpy(d->data, data, fate->length);
    if (fate->corrupt) {
        d->data[fate->flip / 8] ^= (uint8_t) (1u << fate->flip % 8);
    }
    while (NULL != *at && (*at)->at <= d->at) {
        at = &(*at)->next;
    }
    d->next = *at;
    *at = d;
}

/* The size of the datagrams of which the kernel made one train, or that of the only one. */
static inline size_t lossy_part(struct msghdr *h, size_t all)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(h); NULL != c; c = CMSG_NXTHDR(h, c)) {
        int size = 0;
        if (IPPROTO_UDP == c->cmsg_level && UDP_GRO == c->cmsg_type) {
            memcpy(&size, CMSG_DATA(c), sizeof(size));
            return size > 0 ? (size_t) size : all;
        }
    }
    return all;
}

/* From the kernel. False: there is nothing, errno says why. */
static inline bool lossy_take_in(lossy_socket_t *k, int s, int flags)
{
    struct sockaddr_storage from;
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec piece = {k->room, LOSSY_ROOM};
    struct msghdr h = {.msg_name = &from,
                       .msg_namelen = sizeof(from),
                       .msg_iov = &piece,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof(control)};
    const ssize_t all = lossy.recvmsg(s, &h, flags);
    if (all < 0) {
        return false;
    }
    const uint64_t now = lossy_now();
    const size_t each = lossy_part(&h, (size_t) all);
    size_t done = 0;
    do {
        const size_t left = (size_t) all - done, part = left < each ? left : each;
        const iw_fate_t fate = iw_fault_decide(&k->fault, part);
        for (int i = 0; i < (fate.drop ? 0 : fate.twice ? 2 : 1); ++i) {
            lossy_keep(k, now, &fate, k->room + done, &h);
        }
        done += part;
    } while (done < (size_t) all);
    return true;
}

/* As the kernel does it. */
static inline void lossy_hand_out(lossy_socket_t *k, struct mmsghdr *m)
{
    struct msghdr *h = &m->msg_hdr;
    lossy_kept_t *d = k->kept;
    size_t done = 0;
    k->kept = d->next;
    for (size_t i = 0; i < h->msg_iovlen && done < d->length; ++i) {
        const size_t left = d->length - done,
                     n = left < h->msg_iov[i].iov_len ? left : h->msg_iov[i].iov_len;
        memcpy(h->msg_iov[i].iov_base, d->data + done, n);
        done += n;
    }
    if (NULL != h->msg_name) {
        memcpy(h->msg_name, &d->from,
               h->msg_namelen < d->from_length ? h->msg_namelen : d->from_length);
        h->msg_namelen = d->from_length;
    }
    h->msg_controllen = 0;
    h->msg_flags = done < d->length ? MSG_TRUNC : 0;
    m->msg_len = (unsigned) done;
    free(d);
}

/* As recvmmsg; leaves the socket. */
static inline int lossy_receive(lossy_socket_t *k, int s, struct mmsghdr *m, unsigned most,
                                int flags)
{
    unsigned got = 0;
    while (got < most) {
        if (NULL != k->kept && k->kept->at <= lossy_now()) {
            lossy_hand_out(k, &m[got++]);
        } else if (!lossy_take_in(k, s, flags)) {
            break;
        }
    }
    pthread_mutex_unlock(&k->lock);
    return 0 == got && most > 0 ? -1 : (int) got;
}

int recvmmsg(int s, struct mmsghdr *m, unsigned most, int flags, struct timespec *timeout)
{
    lossy_socket_t *k = lossy_enter(s, flags);
    return NULL == k ? lossy.recvmmsg(s, m, most, flags, timeout)
                     : lossy_receive(k, s, m, most, flags);
}

ssize_t recvmsg(int s, struct msghdr *h, int flags)
{
    lossy_socket_t *k = lossy_enter(s, flags);
    if (NULL == k) {
        return lossy.recvmsg(s, h, flags);
    }
    struct mmsghdr m = {.msg_hdr = *h};
    if (lossy_receive(k, s, &m, 1, flags) < 0) {
        return -1;
    }
    *h = m.msg_hdr;
    return (ssize_t) m.msg_len;
}

ssize_t recv(int s, void *data, size_t length, int flags)
{
    lossy_socket_t *k = lossy_enter(s, flags);
    struct iovec piece = {data, length};
    struct mmsghdr m = {.msg_hdr = {.msg_iov = &piece, .msg_iovlen = 1}};
    if (NULL == k) {
        return lossy.recv(s, data, length, flags);
    }
    return lossy_receive(k, s, &m, 1, flags) < 0 ? -1 : (ssize_t) m.msg_len;
}

/* ns until the first of what these sockets keep may be handed out. */
static inline uint64_t lossy_first_due(const struct pollfd *fd, nfds_t n)
{
    uint64_t first = UINT64_MAX;
    for (nfds_t i = 0; i < n; ++i) {
        lossy_socket_t *k =
            fd[i].fd >= 0 && fd[i].fd < LOSSY_SOCKETS ? &lossy.socket[fd[i].fd] : NULL;
        if (NULL != k && fd[i].events & POLLIN) {
            pthread_mutex_lock(&k->lock);
            first = NULL != k->kept && k->kept->at < first ? k->kept->at : first;
            pthread_mutex_unlock(&k->lock);
        }
    }
    const uint64_t now = lossy_now();
    return UINT64_MAX == first ? first : first > now ? first - now : 0;
}

int ppoll(struct pollfd *fd, nfds_t n, const struct timespec *timeout, const sigset_t *set)
{
    pthread_once(&lossy.once, lossy_find);
    const uint64_t due = lossy_first_due(fd, n);
    struct timespec until = {(time_t) (due / 1000000000), (long) (due % 1000000000)};
    const bool sooner =
        UINT64_MAX != due
        && (NULL == timeout || until.tv_sec < timeout->tv_sec
            || (until.tv_sec == timeout->tv_sec && until.tv_nsec < timeout->tv_nsec));
    int ready = lossy.ppoll(fd, n, sooner ? &until : timeout, set);
    if (0 == ready && sooner) {
        for (nfds_t i = 0; i < n; ++i) {
            if (0 == lossy_first_due(&fd[i], 1)) {
                fd[i].revents = POLLIN;
                ++ready;
            }
        }
    }
    return ready;
}

int close(int s)
{
    pthread_once(&lossy.once, lossy_find);
    if (s >= 0 && s < LOSSY_SOCKETS) {
        lossy_socket_t *k = &lossy.socket[s];
        pthread_mutex_lock(&k->lock);
        for (lossy_kept_t *next, *d = k->kept; NULL != d; d = next) {
            next = d->next;
            free(d);
        }
        free(k->room);
        k->kept = NULL;
        k->room = NULL;
        pthread_mutex_unlock(&k->lock);
    }
    return lossy.close(s);
}

#endif
