/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What two processes get from plain UDP sockets and no library at all: connected, polled, nothing sent again. The
 * measure for what a transport over UDP adds.
 *
 * Ranks 0 and 1 of bench.ctl; on one host over loopback, else over the first interface that has an address. */
#ifndef BARE_UDP_H
#define BARE_UDP_H

#include "bench.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define BARE_UDP_MAX     65000 /* bytes that surely fit into a datagram */
#define BARE_UDP_GIVE_UP 1e6   /* us without an answer: the datagram is lost */

/* An address of this host, port 0; false: it has none. */
static inline bool bare_udp_address(struct sockaddr_storage *a)
{
    struct ifaddrs *all, *at;
    memset(a, 0, sizeof(*a));
    if (bench.same_host) {
        struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        memcpy(a, &v4, sizeof(v4));
        return true;
    }
    if (0 != getifaddrs(&all)) {
        return false;
    }
    for (at = all; NULL != at; at = at->ifa_next) {
        if (NULL != at->ifa_addr && AF_INET == at->ifa_addr->sa_family && (at->ifa_flags & IFF_UP)
            && !(at->ifa_flags & IFF_LOOPBACK)) {
            memcpy(a, at->ifa_addr, sizeof(struct sockaddr_in));
            ((struct sockaddr_in *) a)->sin_port = 0;
            break;
        }
    }
    freeifaddrs(all);
    return NULL != at;
}

/* A socket to the other rank, or -1 on both ranks. Collective. */
static inline int bare_udp_open(void)
{
    struct sockaddr_storage mine, other;
    socklen_t length = sizeof(struct sockaddr_in);
    int s = -1, peer = 1 - bench.rank, ok, both;
    if (bare_udp_address(&mine)) {
        s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    }
    ok = s >= 0 && 0 == bind(s, (struct sockaddr *) &mine, length)
         && 0 == getsockname(s, (struct sockaddr *) &mine, &length);
    MPI_Sendrecv(&mine, sizeof(mine), MPI_BYTE, peer, BENCH_TOKEN, &other, sizeof(other), MPI_BYTE, peer,
                 BENCH_TOKEN, bench.ctl, MPI_STATUS_IGNORE);
    ok = ok && 0 == connect(s, (struct sockaddr *) &other, length);
    MPI_Allreduce(&ok, &both, 1, MPI_INT, MPI_MIN, bench.ctl);
    if (!both && s >= 0) {
        close(s);
    }
    return both ? s : -1;
}

/* Polls for a datagram. False: none came. */
static inline bool bare_udp_receive(int s, void *data, size_t size)
{
    double start = 0;
    for (long polls = 1;; ++polls) {
        if (recv(s, data, size, MSG_DONTWAIT) >= 0) {
            return true;
        }
        if (0 == polls % 1024) {
            const double now = bench_now();
            start = 0 == start ? now : start;
            if (now - start > BARE_UDP_GIVE_UP) {
                return false;
            }
        }
    }
}

/* Half of a round trip, us; 0: a datagram was lost, or could not be sent. */
static inline double bare_udp_ping_pong(int s, void *out, void *in, size_t size, int round_trips)
{
    bool ok = true;
    MPI_Barrier(bench.ctl);
    const double start = bench_now();
    for (int i = 0; ok && i < round_trips; ++i) {
        if (0 == bench.rank) {
            ok = send(s, out, size, 0) >= 0 && bare_udp_receive(s, in, size);
        } else {
            ok = bare_udp_receive(s, in, size) && send(s, out, size, 0) >= 0;
        }
    }
    return ok ? us_per_half_trip(bench_now() - start, round_trips) : 0;
}

#endif
