/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The port and the agent (iw_port.h, iw_agent.h) when the system does not do what it is asked: sockets, memory and
 * threads that cannot be had, datagrams that the kernel does not take, for each reason there is. The data
 * arrives whole, what happened is counted, and no descriptor is left. */
#ifndef _GNU_SOURCE
#    define _GNU_SOURCE /* sendmmsg */
#endif
#include "spec_unit.h"

#include "descriptors.h"
#include "faulty.h"
#include "iw_agent.h"
#include "iw_clnh.h"
#include "iw_ends.h"
#include "iw_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- a kernel that refuses ---- */

FAULTY(void *, calloc, NULL, (size_t n, size_t size), (n, size))
FAULTY(void *, mmap, MAP_FAILED, (void *at, size_t n, int prot, int flags, int fd, off_t o),
       (at, n, prot, flags, fd, o))
FAULTY(int, socket, -1, (int domain, int type, int protocol), (domain, type, protocol))
FAULTY(int, eventfd, -1, (unsigned initial, int flags), (initial, flags))
FAULTY(int, getifaddrs, -1, (struct ifaddrs **all), (all))
FAULTY(ssize_t, recv, -1, (int s, void *data, size_t n, int flags), (s, data, n, flags))
FAULTY(int, recvmmsg, -1, (int s, struct mmsghdr *m, unsigned n, int flags, struct timespec *t),
       (s, m, n, flags, t))
FAULTY(int, ppoll, 0 == faulty_ppoll.error ? 0 : -1, /* 0: nothing is ready */
       (struct pollfd * fd, nfds_t n, const struct timespec *t, const sigset_t *set),
       (fd, n, t, set))
FAULTY(int, pthread_create, EAGAIN,
       (pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *x), (t, a, f, x))

static struct {
    size_t limit;     /* longest datagram of the interface; 0: any */
    int mtu;          /* that the interface is said to have; 0: as it is */
    bool is_silent;   /* about the limit */
    unsigned too_long; /* so many did not go for it */
    bool cutting;     /* IP has been told to cut longer ones */
    unsigned cuts;    /* so many went that way */
    uint32_t no_room; /* percent of the calls */
    bool is_ordinary; /* the user: no buffers beyond what all may have */
    bool no_discover; /* what IP may cut cannot be said */
    faulty_t train;   /* of messages that are trains */
    faulty_t any;     /* of all messages */
    faulty_t connected; /* of those by connected sockets */
    faulty_t many;      /* of sendmmsg, whatever the messages */
    rng_t rng;
} kernel;

/* Why the kernel does not take a message; 0: it does. */
static int refusal(size_t length, bool is_train, bool is_connected)
{
    if (is_connected && faulty_now(&kernel.connected)) {
        return kernel.connected.error;
    }
    if (kernel.no_room > 0 && rng_percent(&kernel.rng, kernel.no_room)) {
        return rng_below(&kernel.rng, 2) ? EAGAIN : ENOBUFS;
    }
    if (faulty_now(&kernel.any)) {
        return kernel.any.error;
    }
    if (is_train && faulty_now(&kernel.train)) {
        return kernel.train.error;
    }
    if (0 != kernel.limit && length > kernel.limit) {
        kernel.cuts += kernel.cutting;
        kernel.too_long += !kernel.cutting;
        return kernel.cutting ? 0 : is_train ? EINVAL : EMSGSIZE;
    }
    return 0;
}

static int refusal_of(const struct msghdr *m)
{
    size_t length = 0;
    uint16_t each;
    for (size_t i = 0; i < m->msg_iovlen; ++i) {
        length += m->msg_iov[i].iov_len;
    }
    if (0 == m->msg_controllen) {
        return refusal(length, false, NULL == m->msg_name);
    }
    memcpy(&each, CMSG_DATA(CMSG_FIRSTHDR(m)), sizeof(each));
    return refusal(each, true, NULL == m->msg_name);
}

ssize_t __real_sendto(int s, const void *data, size_t n, int flags, const struct sockaddr *to,
                      socklen_t length);
ssize_t __wrap_sendto(int s, const void *data, size_t n, int flags, const struct sockaddr *to,
                      socklen_t length);
ssize_t __wrap_sendto(int s, const void *data, size_t n, int flags, const struct sockaddr *to,
                      socklen_t length)
{
    const int error = refusal(n, false, NULL == to);
    if (0 != error) {
        errno = error;
        return -1;
    }
    return __real_sendto(s, data, n, flags, to, length);
}

ssize_t __real_sendmsg(int s, const struct msghdr *m, int flags);
ssize_t __wrap_sendmsg(int s, const struct msghdr *m, int flags);
ssize_t __wrap_sendmsg(int s, const struct msghdr *m, int flags)
{
    const int error = refusal_of(m);
    if (0 != error) {
        errno = error;
        return -1;
    }
    return __real_sendmsg(s, m, flags);
}

/* As many as it takes. */
int __real_sendmmsg(int s, struct mmsghdr *m, unsigned n, int flags);
int __wrap_sendmmsg(int s, struct mmsghdr *m, unsigned n, int flags);
int __wrap_sendmmsg(int s, struct mmsghdr *m, unsigned n, int flags)
{
    unsigned good = 0;
    int error = 0;
    if (faulty_now(&kernel.many)) {
        return -1;
    }
    while (good < n && 0 == (error = refusal_of(&m[good].msg_hdr))) {
        ++good;
    }
    if (0 == good) {
        errno = error;
        return -1;
    }
    return __real_sendmmsg(s, m, good, flags);
}

int __real_setsockopt(int s, int level, int name, const void *value, socklen_t length);
int __wrap_setsockopt(int s, int level, int name, const void *value, socklen_t length);
int __wrap_setsockopt(int s, int level, int name, const void *value, socklen_t length)
{
    if (IPPROTO_IP == level && IP_MTU_DISCOVER == name) {
        kernel.cutting = IP_PMTUDISC_DONT == *(const int *) value;
    }
    if ((kernel.is_ordinary && SOL_SOCKET == level
         && (SO_SNDBUFFORCE == name || SO_RCVBUFFORCE == name))
        || (kernel.no_discover && IPPROTO_IP == level && IP_MTU_DISCOVER == name)) {
        errno = EPERM;
        return -1;
    }
    return __real_setsockopt(s, level, name, value, length);
}

int __real_getsockopt(int s, int level, int name, void *value, socklen_t *length);
int __wrap_getsockopt(int s, int level, int name, void *value, socklen_t *length);
int __wrap_getsockopt(int s, int level, int name, void *value, socklen_t *length)
{
    const int result = __real_getsockopt(s, level, name, value, length);
    if (0 == result && IPPROTO_IP == level && IP_MTU == name && 0 != kernel.limit
        && !kernel.is_silent) {
        *(int *) value = (int) kernel.limit + 28;
    }
    return result;
}

int __real_ioctl(int s, unsigned long request, ...);
int __wrap_ioctl(int s, unsigned long request, struct ifreq *r);
int __wrap_ioctl(int s, unsigned long request, struct ifreq *r)
{
    const int result = __real_ioctl(s, request, r);
    if (0 == result && SIOCGIFMTU == request && 0 != kernel.mtu) {
        r->ifr_mtu = kernel.mtu;
    }
    return result;
}

static int open_before;

static int setup(void **state)
{
    (void) state;
    memset(&kernel, 0, sizeof(kernel));
    faulty_recv = faulty_recvmmsg = faulty_ppoll = (faulty_t){0};
    end_tune = NULL;
    open_before = descriptors();
    return 0;
}

static int teardown(void **state)
{
    (void) state;
    assert_int_equal(descriptors(), open_before);
    return 0;
}

/* ---- opening ---- */

static void refused(const iw_port_config_t *c, int why)
{
    errno = 0;
    assert_null(iw_port_open(c));
    assert_int_equal(errno, why);
    assert_int_equal(descriptors(), open_before);
}

static void ports_that_cannot_be_had(void **state)
{
    (void) state;
    iw_port_config_t c;
    iw_port_config_default(&c);
    faulty_calloc = (faulty_t){.times = 1, .error = ENOMEM};
    refused(&c, ENOMEM);
    faulty_mmap = (faulty_t){.times = 1, .error = ENOMEM};
    refused(&c, ENOMEM);
    faulty_socket = (faulty_t){.times = 1, .error = EMFILE};
    refused(&c, EMFILE);
    c.address.v4.sin_addr.s_addr = htonl(0xc0000201); /* 192.0.2.1, which nobody has */
    refused(&c, EADDRNOTAVAIL);
    iw_port_config_default(&c);
    iw_port_t *one = iw_port_open(&c);
    assert_non_null(one);
    assert_true(iw_port_socket(one) >= 0);
    c.address = *iw_port_address(one);
    open_before = descriptors();
    refused(&c, EADDRINUSE);
    iw_port_close(one);
    open_before = descriptors();
}

/* What there is no way without is said at once, and not when a peer seems dead for it. */
static void a_sandbox_without_datagrams(void **state)
{
    (void) state;
    static const int errors[] = {ENOSYS, EPERM, EACCES};
    iw_port_config_t c;
    iw_port_config_default(&c);
    for (unsigned i = 0; i < 3; ++i) {
        faulty_recv = (faulty_t){.times = 1, .error = errors[i]};
        refused(&c, errors[i]);
        for (unsigned skip = 0; skip < 2; ++skip) { /* sendto, sendmsg */
            kernel.any = (faulty_t){.skip = skip, .times = 1, .error = errors[i]};
            refused(&c, errors[i]);
            kernel.any.times = 0;
        }
    }
}

/* Calls for many datagrams at a time are done without. */
static void a_sandbox_without_batches(void **state)
{
    (void) state;
    static const int errors[] = {ENOSYS, EPERM, EACCES};
    for (unsigned i = 0; i < 3; ++i) {
        end_t *e = ends_open(0 == i % 2, 30 * S);
        faulty_recvmmsg = kernel.many = (faulty_t){.times = UINT32_MAX, .error = errors[i]};
        transfer(e, 1000000, 20);
        assert_in_range(faulty_recvmmsg.hits, 1, 2); /* each end asks once */
        assert_in_range(kernel.many.hits, 1, 2 * 8);
        for (int k = 0; k < 2; ++k) {
            assert_int_equal(iw_port_counters(e[k].port)->errors, 0);
            assert_int_equal(iw_port_counters(e[k].port)->receive_errors, 0);
            assert_int_equal(iw_engine_counters(e[k].engine)->peers_down, 0);
        }
        faulty_recvmmsg.times = kernel.many.times = 0;
        ends_close(e);
    }
}

/* A firewall's refusal is of the messages and not of the call. */
static void a_firewall_does_not_end_batches(void **state)
{
    (void) state;
    end_t *e = ends_open(false, 30 * S);
    for (unsigned i = 0; i < 50; ++i) {
        kernel.many = (faulty_t){.times = 1, .error = EPERM};
        kernel.any = (faulty_t){.times = 1, .error = EPERM};
        transfer(e, 100000, 1);
    }
    kernel.many =
        (faulty_t){.times = UINT32_MAX, .error = ENOSYS}; /* would be hit if it was asked */
    for (unsigned i = 0; i < 50 && 0 == kernel.many.hits; ++i) {
        transfer(e, 1000000, 1); /* on a busy machine all datagrams of one may leave singly */
    }
    assert_true(kernel.many.hits > 0);
    ends_close(e);
}

/* Receiving fails for another reason than that there is nothing: that is counted. */
static void receiving_that_fails(void **state)
{
    (void) state;
    end_t *e = ends_open(true, 30 * S);
    transfer(e, LENGTH, 1);
    static const int errors[] = {ENOBUFS, EFAULT};
    uint64_t all = 0;
    for (unsigned i = 0; i < 2; ++i) {
        faulty_recv = faulty_recvmmsg = (faulty_t){.times = 5, .error = errors[i]}; /* by which of them depends on what came */
        transfer(e, 100000, 10);
        const uint64_t hits = faulty_recv.hits + faulty_recvmmsg.hits;
        assert_in_range(hits, 5, 10);
        all += hits;
    }
    assert_int_equal(iw_port_counters(e[0].port)->receive_errors
                         + iw_port_counters(e[1].port)->receive_errors,
                     all);
    ends_close(e);
}

/* Nor may it wait for descriptors: then a part of the time passes, and it is no busy loop. */
static void a_sandbox_without_waiting(void **state)
{
    (void) state;
    end_t *e = ends_open(true, 30 * S);
    faulty_ppoll = (faulty_t){.times = UINT32_MAX, .error = ENOSYS};
    const uint64_t begin = iw_port_now();
    for (unsigned i = 0; i < 100; ++i) {
        assert_false(iw_port_wait(e[0].port, UINT64_MAX, -1, 100000));
    }
    assert_true(iw_port_now() - begin >= 100 * UINT64_C(100000));
    faulty_ppoll.times = 0;
    ends_close(e);
}

/* What is only quicker is done without: the interface's size. */
static void what_is_not_there_is_not_used(void **state)
{
    (void) state;
    faulty_getifaddrs = (faulty_t){.times = 2, .error = ENOMEM};
    end_t *e = ends_open(true, 30 * S);
    transfer(e, 1000000, 10);
    assert_int_equal(faulty_getifaddrs.hits, 2);
    ends_close(e);
}

/* Without the right to larger buffers those are taken that all may have. */
static void an_ordinary_user(void **state)
{
    (void) state;
    kernel.is_ordinary = true;
    end_t *e = ends_open(true, 30 * S);
    transfer(e, 1000000, 3);
    ends_close(e);
}

static void loopback_6(iw_port_config_t *c)
{
    c->address = (iw_address_t){.v6 = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback}};
}

static void by_ipv6(void **state)
{
    (void) state;
    iw_port_config_t c;
    iw_port_config_default(&c);
    loopback_6(&c);
    iw_port_t *p = iw_port_open(&c);
    if (NULL == p) {
        print_message("SKIP: no IPv6 on the loopback interface here\n");
        return;
    }
    iw_port_close(p);
    end_tune = loopback_6;
    end_t *e = ends_open(true, 30 * S);
    transfer(e, 1000000, 10);
    assert_int_equal(iw_port_address(e[0].port)->any.sa_family, AF_INET6);
    assert_int_equal(iw_port_counters(e[0].port)->errors, 0);
    assert_true(iw_port_counters(e[0].port)->too_big
                <= 1); /* the header is longer than that of IPv4 */
    ends_close(e);
}

/* ---- sending ---- */

/* While the socket says that it has no room, no datagram is made for it. */
static void nothing_is_made_in_vain(void **state)
{
    (void) state;
    end_t *e = ends_open(true, 30 * S);
    transfer(e, 1000000, 1);
    const iw_port_counters_t *p = iw_port_counters(e[0].port);
    const iw_counters_t *c = iw_engine_counters(e[0].engine);
    const struct iovec piece = {e[0].buffer[0], LENGTH};
    iw_completion_t done;
    while (1 == iw_engine_poll(e[0].engine, &done, 1)) {}
    faulty_ppoll = (faulty_t){.times = UINT32_MAX};
    kernel.any = (faulty_t){.times = UINT32_MAX, .error = EAGAIN};
    assert_int_equal(iw_post_send(e[0].peer, &piece, 1, 0, NULL), IW_OK);
    iw_port_flush(e[0].port, e[0].engine);
    const uint64_t made = c->packets_out, busy = p->busy;
    assert_true(busy > 0);
    kernel.any.times = 0;
    for (unsigned i = 0; i < 1000; ++i) {
        iw_port_progress(e[0].port, e[0].engine);
    }
    for (const uint64_t until = iw_port_now() + 1000000; iw_port_now() < until;) {
        iw_port_flush(e[0].port, e[0].engine);
    }
    assert_int_equal(c->packets_out, made);
    assert_int_equal(p->busy, busy);
    assert_true(faulty_ppoll.hits > 0);
    assert_true(iw_engine_has_output(e[0].engine));
    faulty_ppoll.times = 0;
    expect(e, 1, IW_RECEIVED, &done);
    expect(e, 0, IW_SENT, &done);
    assert_int_equal(c->segments_resent, 0);
    ends_close(e);
}

static void no_room_for_a_while(void **state)
{
    (void) state;
    end_t *e = ends_open(true, 30 * S);
    kernel.no_room = 30;
    transfer(e, 1000000, 4);
    kernel.no_room = 0;
    for (int i = 0; i < 2; ++i) {
        assert_true(iw_port_counters(e[i].port)->busy > 0);
        assert_int_equal(iw_port_counters(e[i].port)->errors, 0);
        assert_true(iw_engine_counters(e[i].engine)->unsent > 0);
        assert_int_equal(iw_engine_counters(e[i].engine)->peers_down, 0);
    }
    ends_close(e);
}

/* The adapter cuts no trains: single datagrams from then on. */
static void trains_that_are_not_possible(void **state)
{
    (void) state;
    end_t *e = ends_open(true, 30 * S);
    kernel.train = (faulty_t){.times = UINT32_MAX, .error = EIO};
    transfer(e, 300000, 2);
    assert_true(kernel.train.hits > 0);
    const uint64_t before = iw_port_counters(e[0].port)->trains;
    transfer(e, 300000, 4);
    assert_int_equal(iw_port_counters(e[0].port)->trains, before);
    ends_close(e);
}

/* One peer's end, as the socket tells it, says nothing of trains: they go on to the others. */
static void a_refused_train_is_not_the_last(void **state)
{
    (void) state;
    static const int errors[] = {ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, EPERM};
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); ++i) {
        end_t *e = ends_open(true, 30 * S);
        kernel.train = (faulty_t){.times = 1, .error = errors[i]};
        while (0 == kernel.train.hits) {
            transfer(e, 300000, 1);
        }
        const uint64_t before =
            iw_port_counters(e[0].port)->trains + iw_port_counters(e[1].port)->trains;
        transfer(e, 300000, 10);
        assert_true(iw_port_counters(e[0].port)->trains + iw_port_counters(e[1].port)->trains
                    > before);
        uint64_t told = 0;
        for (int k = 0; k < 2; ++k) {
            told += iw_port_counters(e[k].port)->errors + iw_port_counters(e[k].port)->reports;
        }
        /* What is refused in a batch is tried alone, in case that batches are what is refused. */
        assert_in_range(told, EPERM == errors[i] ? 0 : 1, 1);
        ends_close(e);
    }
}

/* Whatever the network says, or somebody in its name, with every single datagram: all of them leave, no connection ends,
 * and nothing is given up for it. */
static void reports_of_the_network(void **state)
{
    (void) state;
    static const int errors[] = {ECONNREFUSED, EHOSTUNREACH, EMSGSIZE, ENOPROTOOPT, EOPNOTSUPP};
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); ++i) {
        end_t *e = ends_open(true, S / 2);
        transfer(e, 1000000, 10); /* so that there are connected sockets */
        const uint64_t trains = iw_port_counters(e[0].port)->trains;
        kernel.connected = (faulty_t){.times = UINT32_MAX, .error = errors[i]};
        for (uint64_t end = iw_port_now() + S; iw_port_now() < end;) {
            transfer(e, 100000, 1);
        }
        assert_true(kernel.connected.hits > 0);
        kernel.connected.times = 0;
        transfer(e, 300000, 10);
        for (int k = 0; k < 2; ++k) {
            const iw_port_counters_t *p = iw_port_counters(e[k].port);
            assert_true(p->reports > 0);
            assert_int_equal(p->errors + p->too_big, 0);
            assert_int_equal(iw_engine_counters(e[k].engine)->peers_down, 0);
        }
        assert_true(iw_port_counters(e[0].port)->trains > trains);
        ends_close(e);
    }
}

/* An interface that takes less than its name promises, and one that is changed while the job runs. */
static void an_interface_that_takes_less(void **state)
{
    (void) state;
    end_t *e = ends_open(true, 30 * S);
    kernel.limit = 1472;
    transfer(e, 300000, 2);
    assert_true(iw_port_counters(e[0].port)->too_big > 0);
    assert_int_equal(iw_port_counters(e[0].port)->errors, 0);
    ends_close(e);
    /* Less than every path is said to carry, and that after it was opened: IP cuts all that is longer. */
    e = ends_open(true, 30 * S);
    kernel.limit = 1000;
    kernel.cuts = 0;
    transfer(e, 100000, 2);
    assert_true(kernel.cuts > 0 && !kernel.cutting);
    assert_int_equal(iw_port_counters(e[0].port)->errors, 0);
    ends_close(e);
    kernel.limit = 0;
    e = ends_open(true, 30 * S);
    transfer(e, 1000000, 3);
    /* What is on its way already is larger than that; IP cuts it. */
    uint8_t *source = must_alloc(1000000), *target = must_alloc(1000000);
    const uint32_t stag = iw_register(e[1].engine, target, 1000000, IW_REMOTE_WRITE, NULL);
    struct iovec piece = {source, 1000000};
    iw_completion_t c;
    memset(source, 0x6b, 1000000);
    assert_int_equal(iw_post_write(e[0].peer, &piece, 1, stag, 0, 0, NULL), IW_OK);
    kernel.any = (faulty_t){.times = 8, .error = EPERM}; /* lost: to be sent again */
    iw_port_flush(e[0].port, e[0].engine);
    kernel.any.times = 0;
    kernel.limit = 1400;
    expect(e, 0, IW_WRITTEN, &c);
    assert_memory_equal(target, source, 1000000);
    assert_true(kernel.cuts > 0);
    assert_false(kernel.cutting); /* only those */
    transfer(e, 300000, 2);
    for (int i = 0; i < 2; ++i) {
        assert_int_equal(iw_engine_counters(e[i].engine)->peers_down, 0);
    }
    ends_close(e);
    free(source);
    free(target);
}

/* From the beginning less than every path is said to carry: nothing goes in pieces, and in trains. */
static void an_interface_of_a_small_mtu(void **state)
{
    (void) state;
    kernel.mtu = 600;
    kernel.limit = 600 - 28;
    end_t *e = ends_open(true, 30 * S);
    transfer(e, 1000000, 3);
    assert_int_equal(e[0].peer->path.mtu.size, kernel.limit);
    assert_int_equal(kernel.cuts, 0);
    assert_true(iw_port_counters(e[0].port)->trains > 0);
    assert_true(kernel.too_long > 0
                && kernel.too_long <= 2 * 2 * 3); /* the probes of larger sizes */
    ends_close(e);
}

/* It is set to less while the job runs: the kernel is asked how much, or, if it does not say, few datagrams find it out. Those
 * that were on their way go in pieces, and trains go on. */
static void an_interface_that_shrinks(void **state)
{
    (void) state;
    static const size_t limits[] = {16000, 4000, 1472};
    for (unsigned is_silent = 0; is_silent < 2; ++is_silent) {
        for (unsigned has_trains = 0; has_trains < 2; ++has_trains) {
            end_t *e = ends_open(has_trains, 30 * S);
            transfer(e, 1000000, 10); /* there are connected sockets */
            kernel.is_silent = is_silent;
            for (unsigned i = 0; i < 3; ++i) {
                kernel.limit = limits[i];
                const uint64_t trains =
                    iw_port_counters(e[0].port)->trains + iw_port_counters(e[1].port)->trains;
                kernel.too_long = 0;
                transfer(e, 1000000, 10);
                /* By each end, and by a socket of the peer's and the common one. */
                assert_in_range(kernel.too_long, 1, is_silent ? 2 * 2 * 12 : 2 * 2 * 3);
                const size_t size = e[0].peer->path.mtu.size;
                assert_true(size <= kernel.limit && kernel.limit < size + IW_PATH_CLOSE);
                assert_true(!has_trains || is_silent
                            || trains < iw_port_counters(e[0].port)->trains
                                            + iw_port_counters(e[1].port)->trains);
            }
            kernel.limit = 0;
            for (int i = 0; i < 2; ++i) {
                assert_int_equal(iw_port_counters(e[i].port)->errors, 0);
                assert_int_equal(iw_engine_counters(e[i].engine)->peers_down, 0);
            }
            ends_close(e);
        }
    }
}

/* Anything else is as a loss: counted, and survived. */
static void other_errors_are_losses(void **state)
{
    (void) state;
    end_t *e = ends_open(false, 30 * S);
    kernel.any = (faulty_t){.skip = 3, .times = 20, .error = EPERM}; /* a firewall, for a moment */
    transfer(e, 300000, 2);
    assert_int_equal(kernel.any.hits, 20);
    /* Of several messages in one call only the first one's error is told, and that one is tried again alone. */
    assert_in_range(iw_port_counters(e[0].port)->errors + iw_port_counters(e[1].port)->errors, 5,
                    20);
    assert_int_equal(iw_engine_counters(e[0].engine)->peers_down, 0);
    ends_close(e);
}

/* Descriptors are out: without sockets of their own peers are reached by the common one. */
static void no_socket_for_a_peer(void **state)
{
    (void) state;
    end_t *e = ends_open(true, 30 * S);
    faulty_socket = (faulty_t){.times = UINT32_MAX, .error = EMFILE};
    transfer(e, 1000000, 10);
    assert_true(faulty_socket.hits > 0);
    faulty_socket.times = 0;
    kernel.no_discover = true; /* opened, but not as it must be: closed again */
    const int before = descriptors();
    transfer(e, 1000000, 10);
    assert_int_equal(descriptors(), before);
    kernel.no_discover = false;
    transfer(e, 1000000, 10);
    ends_close(e);
}

static void the_clock_of_the_latest_poll(void **state)
{
    (void) state;
    end_t *e = ends_open(true, 30 * S);
    const uint64_t before = iw_port_now();
    iw_port_progress(e[0].port, e[0].engine);
    assert_true(iw_port_polled_at(e[0].port) >= before && iw_port_polled_at(e[0].port) <= iw_port_now());
    /* Its socket is what a caller can sleep on. */
    struct pollfd fd = {.fd = iw_port_socket(e[1].port), .events = POLLIN};
    struct iovec piece = {"x", 1};
    assert_int_equal(iw_post_send(e[0].peer, &piece, 1, IW_INLINE | IW_QUIET, NULL), IW_OK);
    iw_port_flush(e[0].port, e[0].engine);
    assert_int_equal(poll(&fd, 1, 60000), 1);
    ends_close(e);
}

/* ---- the agent ---- */

static void note_thread(void *context)
{
    *(pthread_t *) context = pthread_self();
}

static void agents_that_cannot_be_had(void **state)
{
    (void) state;
    end_t *e = ends_open(true, 30 * S);
    iw_agent_config_t c;
    iw_agent_config_default(&c);
    const int before = descriptors();
    struct {
        faulty_t *what;
        int why;
    } cases[] = {{&faulty_calloc, ENOMEM}, {&faulty_eventfd, EMFILE}};
    for (size_t i = 0; i < 2; ++i) {
        *cases[i].what = (faulty_t){.times = 1, .error = cases[i].why};
        errno = 0;
        assert_null(iw_agent_create(&c, e[0].port, e[0].engine));
        assert_int_equal(errno, cases[i].why);
        assert_int_equal(descriptors(), before);
    }
    iw_agent_t *a = iw_agent_create(&c, e[0].port, e[0].engine);
    assert_non_null(a);
    faulty_pthread_create = (faulty_t){.times = 1, .error = EAGAIN};
    assert_false(iw_agent_start(a));
    assert_int_equal(errno, EAGAIN);
    assert_true(iw_agent_start(a)); /* the next time */
    assert_true(iw_agent_start(a)); /* there is one */
    assert_int_equal(faulty_pthread_create.times, 0);
    iw_agent_stop(a);
    iw_agent_stop(a); /* it has ended */
    iw_agent_destroy(a);
    a = iw_agent_create(&c, e[0].port, e[0].engine);
    assert_non_null(a);
    iw_agent_stop(a);
    faulty_pthread_create = (faulty_t){.times = 1, .error = EAGAIN};
    assert_true(iw_agent_start(a)); /* none begins any more */
    assert_int_equal(faulty_pthread_create.times, 1);
    faulty_pthread_create.times = 0;
    iw_agent_destroy(a); /* it never began */
    assert_int_equal(descriptors(), before);
    transfer(e, 100000, 1); /* without one */
    ends_close(e);
}

static atomic_uint relieved; /* the thread gave the lock back */

static void note_relief(void *context)
{
    (void) context;
    atomic_fetch_add(&relieved, 1);
}

/* Silent, at work, silent again: the thread takes over each time, and leaves off in between. */
static void the_application_comes_back(void **state)
{
    (void) state;
    end_t *e = ends_open(true, 30 * S);
    iw_agent_config_t c;
    pthread_t thread = pthread_self();
    iw_agent_config_default(&c);
    c.patience_ns = 1000000;
    c.started = note_thread;
    c.relieved = note_relief;
    c.context = &thread;
    iw_agent_t *a = iw_agent_create(&c, e[0].port, e[0].engine);
    assert_true(NULL != a && iw_agent_start(a));
    const uint64_t until = iw_port_now() + 60 * S;
    for (uint64_t round = 1; round <= 3; ++round) {
        while (iw_agent_takeovers(a) < round) { /* we do not call */
            assert_true(iw_port_now() < until);
            usleep(200);
        }
        while (!iw_agent_enter(a)) { /* we are back: it is alive if it is free */
            assert_true(iw_port_now() < until);
        }
        iw_agent_flush(a);
        iw_agent_unlock(a);
    }
    /* While it is held, whoever else wants it goes on without. */
    iw_agent_lock(a);
    assert_int_equal(agent_progress(a, &e[0]), 0);
    assert_false(iw_agent_enter(a));
    iw_agent_unlock(a);
    iw_agent_destroy(a);
    assert_false(pthread_equal(thread, pthread_self()));
    assert_true(relieved > 0);
    ends_close(e);
}

/* ---- other processors ---- */

/* The hash as on a processor that lacks the widest instructions: compiled once more, with another answer to what
 * there is. */
static bool has_middle, has_narrow;
static bool cpu_has(const char *what)
{
    return 0 == strcmp(what, "pclmul") ? has_narrow : 0 != strcmp(what, "avx512bw") && has_middle;
}
#define __builtin_cpu_supports(what) cpu_has(what)
#define iw_clnh                      clnh_elsewhere
#define iw_clnh_plain                clnh_plain_elsewhere
void clnh_elsewhere(const uint64_t *key, const uint8_t *data, size_t length, uint64_t out[2]);
void clnh_plain_elsewhere(const uint64_t *key, const uint8_t *data, size_t length, uint64_t out[2]);
#include "iw_clnh.c"
#undef __builtin_cpu_supports
#undef iw_clnh
#undef iw_clnh_plain

/* Processes on different processors talk to each other: the same tag everywhere. */
static void the_hash_is_the_same_on_every_processor(void **state)
{
    (void) state;
    enum { MOST = 1024 };
    uint64_t key[MOST / 8 + 64];
    uint8_t data[MOST + 64];
    rng_t rng = {4};
    bool middle = false, narrow = false;
#if defined(__x86_64__)
    middle = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("vpclmulqdq");
    narrow = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
    if (!middle || !narrow) {
        print_message("SKIP: this processor has no %s\n", middle ? "pclmul" : "vpclmulqdq");
    }
#endif
    for (size_t i = 0; i < sizeof(key) / sizeof(key[0]); ++i) {
        key[i] = rng_next(&rng);
    }
    for (size_t i = 0; i < sizeof(data); ++i) {
        data[i] = (uint8_t) rng_next(&rng);
    }
    for (size_t length = 1; length <= MOST; ++length) {
        uint64_t here[2] = {1, 2};
        iw_clnh(key, data + length % 7, length, here);
        for (int way = 0; way < 3; ++way) {
            uint64_t there[2] = {1, 2};
            has_middle = 0 == way && middle;
            has_narrow = way < 2 && narrow;
            clnh_elsewhere(key, data + length % 7, length, there);
            assert_memory_equal(here, there, sizeof(here));
        }
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* Without a socket that hears the network, or with one that cannot be had, a process that has ended is only silent. */
static void the_network_cannot_be_asked(void **state)
{
    (void) state;
    end_t *e = ends_open(true, S / 5);
    struct iovec piece = {"x", 1};
    iw_completion_t c;
    transfer(e, 10000, 1);
    iw_port_close(e[1].port);
    faulty_socket = (faulty_t){.times = UINT_MAX, .error = EMFILE};
    assert_int_equal(iw_post_send(e[0].peer, &piece, 1, 0, e), IW_OK);
    alone(e, &c);
    assert_int_equal(c.what, IW_PEER_SILENT);
    assert_true(faulty_socket.hits > 0);
    assert_int_equal(iw_port_counters(e[0].port)->absences, 0);
    faulty_socket = (faulty_t){.times = 0};
    alone(e, &c);
    assert_int_equal(c.status, IW_DEAD);
    assert_true(iw_port_counters(e[0].port)->absences > 0);
    iw_engine_destroy(e[0].engine);
    iw_engine_destroy(e[1].engine);
    iw_port_close(e[0].port);
    free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ports_that_cannot_be_had),
        TEST(a_sandbox_without_datagrams),
        TEST(a_sandbox_without_batches),
        TEST(a_firewall_does_not_end_batches),
        TEST(receiving_that_fails),
        TEST(a_sandbox_without_waiting),
        TEST(what_is_not_there_is_not_used),
        TEST(an_ordinary_user),
        TEST(by_ipv6),
        TEST(nothing_is_made_in_vain),
        TEST(no_room_for_a_while),
        TEST(trains_that_are_not_possible),
        TEST(a_refused_train_is_not_the_last),
        TEST(reports_of_the_network),
        TEST(an_interface_that_takes_less),
        TEST(an_interface_of_a_small_mtu),
        TEST(an_interface_that_shrinks),
        TEST(other_errors_are_losses),
        TEST(no_socket_for_a_peer),
        TEST(the_clock_of_the_latest_poll),
        TEST(agents_that_cannot_be_had),
        TEST(the_application_comes_back),
        TEST(the_hash_is_the_same_on_every_processor),
        TEST(the_network_cannot_be_asked),
    };
    return cmocka_run_group_tests_name("iw_port_errors", tests, NULL, NULL);
}
