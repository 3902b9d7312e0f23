/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The UDP port: opening and closing it, the clock, waiting; what comes in is in iw_port_in.c, what goes out in iw_port_out.c. */
#define _GNU_SOURCE /* sendmmsg, ppoll */
#include "iw_port_internal.h"

#include "spec_now.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#define BUSY_WAIT UINT64_C(200000) /* ns, at most, until room there was not is asked for again */
#define PART UINT64_C(200000) /* ns: between two checks of a thread that cannot be woken */

uint64_t iw_port_now(void)
{
    return spec_now();
}

void iw_port_set_alternate(iw_port_t *p, iw_port_alternate_fn_t *take, void *context)
{
    p->alternate = take;
    p->alternate_context = context;
}

uint64_t iw_port_polled_at(const iw_port_t *p)
{
    return p->polled;
}

void iw_port_config_default(iw_port_config_t *c)
{
    *c = (iw_port_config_t){.buffer = 4 << 20, .segment = true, .direct = true};
    c->address.v4.sin_family = AF_INET;
    c->address.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
}

/* ---- opening ---- */

void iw_port_set_buffer(int s, int force, int option, uint32_t bytes, int *got)
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

bool iw_port_set(const iw_port_t *p, int s, int v4, int v6, int value)
{
    const bool is_v6 = AF_INET6 == p->address.any.sa_family;
    return 0 == setsockopt(s, is_v6 ? IPPROTO_IPV6 : IPPROTO_IP, is_v6 ? v6 : v4, &value, sizeof(value));
}

_Static_assert(IP_PMTUDISC_DONT == IPV6_PMTUDISC_DONT && IP_PMTUDISC_PROBE == IPV6_PMTUDISC_PROBE, "the same in both families");

bool iw_port_set_cutting(const iw_port_t *p, int s, bool may_cut)
{
    return iw_port_set(p, s, IP_MTU_DISCOVER, IPV6_MTU_DISCOVER, may_cut ? IP_PMTUDISC_DONT : IP_PMTUDISC_PROBE);
}

int iw_port_socket_beside(const iw_port_t *p)
{
    iw_address_t from = p->address;
    from.v4.sin_port = 0; /* at the same place in both families */
    const int s = socket(from.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s >= 0 && (0 != bind(s, &from.any, iw_address_length(&from)) || !iw_port_set_cutting(p, s, false))) {
        close(s);
        return -1;
    }
    (void) (0 != p->class && iw_port_set(p, s, IP_TOS, IPV6_TCLASS, p->class));
    return s;
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
    return (uint16_t) (limit > IW_DATAGRAM_MAX     ? IW_DATAGRAM_MAX
                       : limit < IW_DATAGRAM_LEAST ? IW_DATAGRAM_LEAST
                                                   : limit);
}

/* The calls without which there is no port, in a form that does nothing: refused now, they would be for ever, and each peer
 * seem dead. */
static bool may_talk(const iw_port_t *p)
{
    char byte = 0;
    const struct msghdr nowhere = {0};
    return (recv(p->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || !iw_port_is_refused(errno))
           && (sendto(p->socket, &byte, 0, MSG_DONTWAIT, NULL, 0) >= 0
               || !iw_port_is_refused(errno))
           && (sendmsg(p->socket, &nowhere, MSG_DONTWAIT) >= 0 || !iw_port_is_refused(errno));
}

/* To the first port that will do and is free. */
static bool bind_to_one(iw_port_t *p, const iw_port_config_t *c)
{
    const uint32_t first = ntohs(c->address.v4.sin_port); /* at the same place in both families */
    p->address = c->address;
    for (uint32_t i = 0; 0 != bind(p->socket, &p->address.any, iw_address_length(&p->address)); ++i) {
        if (EADDRINUSE != errno || i + 1 >= c->ports || first + i + 1 > UINT16_MAX) {
            return false;
        }
        p->address.v4.sin_port = htons((uint16_t) (first + i + 1));
    }
    return true;
}

static bool open_socket(iw_port_t *p, const iw_port_config_t *c)
{
    int off = 0, got;
    socklen_t length = iw_address_length(&c->address);
    p->socket = socket(c->address.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (p->socket < 0 || !bind_to_one(p, c)
        || 0 != getsockname(p->socket, &p->address.any, &length)
        || !iw_port_set_cutting(p, p->socket, false) || !may_talk(p)) {
        return false;
    }
    p->class = (uint8_t) (c->dscp << 2 | (c->ecn ? 2 : 0)); /* ECT(0), RFC 3168 */
    (void) (0 != p->class && iw_port_set(p, p->socket, IP_TOS, IPV6_TCLASS, p->class));
    p->hears_marks = c->ecn && iw_port_set(p, p->socket, IP_RECVTOS, IPV6_RECVTCLASS, 1);
    iw_port_set_buffer(p->socket, SO_SNDBUFFORCE, SO_SNDBUF, c->buffer, &got);
    iw_port_set_buffer(p->socket, SO_RCVBUFFORCE, SO_RCVBUF, c->buffer, &got);
    /* The kernel reports twice what it was asked for, and counts its own data with the datagrams'. */
    p->space = got / 2 > 1 << 16 ? (uint32_t) got / 2 : 1 << 16;
    p->limit = interface_limit(p);
    /* Does the kernel know it at all? */
    p->joins = c->segment && 0 == setsockopt(p->socket, IPPROTO_UDP, UDP_GRO, &off, sizeof(off));
    p->segment = p->joins;
    return true;
}

iw_port_t *iw_port_open(const iw_port_config_t *c)
{
    iw_port_t *p = calloc(1, sizeof(*p));
    if (NULL == p) {
        errno = ENOMEM;
        return NULL;
    }
    p->intake.slots = 1;
    p->is_direct = c->direct;
    p->asking = -1;
    atomic_init(&p->busy, -1);
    for (unsigned i = 0; i < PEER_SOCKETS; ++i) {
        p->peer_socket[i].socket = -1;
    }
    p->in_buffer = mmap(NULL, IN_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!open_socket(p, c) || MAP_FAILED == p->in_buffer) {
        int error = MAP_FAILED == p->in_buffer ? ENOMEM : errno;
        iw_port_close(p);
        errno = error;
        return NULL;
    }
    for (unsigned i = 0; i < SLOTS; ++i) {
        p->in_piece[i] = (struct iovec){iw_port_slot(p, i), SLOT};
        p->in[i].msg_hdr.msg_iov = &p->in_piece[i];
        p->in[i].msg_hdr.msg_iovlen = 1;
    }
    return p;
}

void iw_port_close(iw_port_t *p)
{
    if (p->socket >= 0) {
        close(p->socket);
    }
    if (p->asking >= 0) {
        close(p->asking);
    }
    for (unsigned i = 0; i < PEER_SOCKETS; ++i) {
        if (p->peer_socket[i].socket >= 0) {
            close(p->peer_socket[i].socket);
        }
    }
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

uint16_t iw_port_least(const iw_port_t *p)
{
    return p->limit < IW_DATAGRAM_MIN ? p->limit : IW_DATAGRAM_MIN;
}

const iw_port_counters_t *iw_port_counters(const iw_port_t *p)
{
    return &p->count;
}

/* ---- progress ---- */

/* After a poll that found n datagrams: when is the next one due? */
static void plan_poll(iw_port_t *p, const iw_engine_t *e, uint64_t now, unsigned n)
{
    if (n > 0) {
        iw_poll_begin(&p->poll);
        return;
    }
    const uint64_t gap = iw_poll_gap(&p->poll, now, iw_engine_is_connected(e));
    if (0 == gap) {
        iw_poll_at(&p->poll, 0);
        return;
    }
    const uint64_t deadline = iw_port_deadline(e);
    iw_poll_at(&p->poll, deadline < now + gap ? deadline : now + gap);
}

void iw_port_gather(iw_port_t *p)
{
    iw_poll_begin(&p->poll);
}

void iw_port_want(iw_port_t *p, bool begins)
{
    (void) (begins ? atomic_fetch_add(&p->wanted, 1u) : atomic_fetch_sub(&p->wanted, 1u));
}

void iw_port_give_way(iw_port_t *p, bool begins)
{
    p->gives_way = begins;
}

bool iw_port_be_brief(iw_port_t *p, bool begins)
{
    const bool was = p->is_brief;
    p->is_brief = begins;
    return was;
}

bool iw_port_is_wanted(const iw_port_t *p)
{
    return atomic_load_explicit(&p->wanted, memory_order_relaxed) > 0;
}

bool iw_port_is_due(const iw_port_t *p)
{
    return iw_poll_is_at_once(&p->poll) || iw_poll_is_due(&p->poll, iw_port_now());
}

static unsigned turn(iw_port_t *p, iw_engine_t *e, unsigned (*receive)(iw_port_t *p, iw_engine_t *e, uint64_t now))
{
    const uint64_t now = p->polled = iw_port_now();
    const unsigned n = receive(p, e, now);
    if (iw_engine_deadline(e) <= now) {
        iw_engine_timers(e, now);
    }
    if (iw_engine_has_output(e)) {
        iw_port_transmit(p, e, now);
    }
    plan_poll(p, e, now, n);
    return n;
}

unsigned iw_port_progress(iw_port_t *p, iw_engine_t *e)
{
    return turn(p, e, iw_port_receive);
}

unsigned iw_port_drain(iw_port_t *p, iw_engine_t *e)
{
    return turn(p, e, iw_port_receive_all);
}

uint64_t iw_port_deadline(const iw_engine_t *e)
{
    return iw_engine_has_output(e) ? 0 : iw_engine_deadline(e);
}

bool iw_port_sleep(struct pollfd *fd, unsigned count, uint64_t time_ns)
{
    const struct timespec t = {(time_t) (time_ns / UINT64_C(1000000000)),
                               (long) (time_ns % UINT64_C(1000000000))};
    const int ready = ppoll(fd, count, &t, NULL);
    if (ready < 0 && EINTR != errno) {
        const struct timespec part = {0, (long) (time_ns < PART ? time_ns : PART)};
        (void) nanosleep(&part, NULL);
    }
    return ready > 0;
}

bool iw_port_wait(iw_port_t *p, uint64_t deadline, int wake, uint64_t timeout_ns)
{
    const bool is_busy = 0 != atomic_load(&p->busy_until); /* then the deadline is now, as there is something to send */
    struct pollfd fd[3] = {{.fd = p->socket, .events = POLLIN},
                           {.fd = wake, .events = POLLIN},
                           {.fd = is_busy ? atomic_load(&p->busy) : -1, .events = POLLOUT}};
    const uint64_t now = iw_port_now(), time = deadline > now ? deadline - now : is_busy ? BUSY_WAIT : 0;
    return iw_port_sleep(fd, 3, time < timeout_ns ? time : timeout_ns) && 0 != fd[1].revents;
}
