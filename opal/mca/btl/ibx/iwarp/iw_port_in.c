/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Datagrams that come in: as few calls of the kernel as the traffic allows. */
#define _GNU_SOURCE /* recvmmsg */
#include "iw_port_internal.h"

#include <sys/mman.h>

#define PAGE  4096                /* or a multiple: then less is given back */
#define DRAIN 8                   /* receive calls in a row that take all there is */
#define QUIET UINT64_C(100000000) /* ns without a datagram: what receiving touched is given back */

/* A number that the kernel gave with a message; 0: it did not. IPv4's class is a byte. */
static int number_of(struct msghdr *m, int level, int type)
{
    int value = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); NULL != c; c = CMSG_NXTHDR(m, c)) {
        if (level == c->cmsg_level && type == c->cmsg_type) {
            memcpy(&value, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0) < sizeof(value) ? 1 : sizeof(value));
        }
    }
    return value;
}

/* The size of the datagrams of which the kernel made one train, or 0. */
static size_t train_size(const iw_port_t *p, struct msghdr *m)
{
    const int size = IW_APART == p->intake.joining ? 0 : number_of(m, IPPROTO_UDP, UDP_GRO);
    return size > 0 ? (size_t) size : 0;
}

/* Did the network mark it? Those of a train were marked alike. */
static bool is_marked(struct msghdr *m)
{
    const int class = number_of(m, IPPROTO_IP, IP_TOS) | number_of(m, IPPROTO_IPV6, IPV6_TCLASS);
    return 3 == (class & 3);
}

/* What can be predicted after this one? Small ones may come between. */
static void learn(iw_port_t *p, const uint8_t *data, size_t length)
{
    if (length >= IW_DIRECT_LEAST && p->is_direct) {
        const size_t prefix = iw_direct_prefix(data, length);
        p->direct_prefix = NULL == iw_direct_response(data, prefix) ? 0 : prefix;
    }
}

static unsigned take_message(iw_port_t *p, iw_engine_t *e, uint64_t now, struct mmsghdr *m)
{
    const uint8_t *data = m->msg_hdr.msg_iov->iov_base;
    size_t left = m->msg_len, size = train_size(p, &m->msg_hdr);
    unsigned n = 0;
    learn(p, data, 0 == size || left < size ? left : size);
    do {
        size_t part = 0 == size || left < size ? left : size;
        iw_engine_input(e, now, data, part);
        data += part;
        left -= part;
        ++n;
    } while (left > 0);
    return n;
}

_Static_assert(IW_PREFIX_MAX + IW_DIRECT_MOST <= SLOT, "no room in a slot for what is not where it was predicted");

/* What came after the last large answer to a read belongs there, probably. */
static void prepare_direct(iw_port_t *p, const iw_engine_t *e)
{
    p->directs = 0 == p->direct_prefix ? 0 : iw_engine_direct(e, p->direct, p->intake.slots);
    if (p->directs > 0 && p->direct_prefix + p->direct[0].room < IW_DIRECT_LEAST) {
        p->directs = 0;
    }
    for (unsigned i = 0; i < p->intake.slots; ++i) {
        struct msghdr *h = &p->in[i].msg_hdr;
        uint8_t *slot = p->in_piece[i].iov_base;
        if (i >= p->directs) {
            h->msg_iov = &p->in_piece[i];
            h->msg_iovlen = 1;
            continue;
        }
        const size_t first = p->direct_prefix + p->direct[i].room;
        p->in_apart[i][0] = (struct iovec){slot, p->direct_prefix};
        p->in_apart[i][1] = (struct iovec){p->direct[i].at, p->direct[i].room};
        p->in_apart[i][2] = (struct iovec){slot + first, SLOT - first};
        h->msg_iov = p->in_apart[i];
        h->msg_iovlen = 3;
    }
}

/* Those from the i-th on are put together again in their slots, before any of them is handled: one may be where another
 * one belongs. */
static void put_together(iw_port_t *p, unsigned i, unsigned got)
{
    for (; i < got && i < p->directs; ++i) {
        const size_t length = p->in[i].msg_len, prefix = p->direct_prefix;
        if (length > prefix) {
            const size_t part = length - prefix < p->direct[i].room ? length - prefix : p->direct[i].room;
            memcpy((uint8_t *) p->in_piece[i].iov_base + prefix, p->direct[i].at, part);
        }
    }
    p->directs = 0;
}

/* The i-th datagram of a call: true if its payload was received where it belongs, and it is done. */
static bool take_placed(iw_port_t *p, iw_engine_t *e, uint64_t now, unsigned i, unsigned got)
{
    if (i >= p->directs) {
        return false;
    }
    uint8_t *slot = p->in_piece[i].iov_base;
    const size_t prefix = 0 == train_size(p, &p->in[i].msg_hdr) ? iw_direct_settle(&p->direct[i], slot, p->direct_prefix, p->in[i].msg_len) : 0;
    if (prefix > 0) {
        ++p->count.placed;
        iw_engine_input_placed(e, now, slot, prefix, p->in[i].msg_len, p->direct[i].at);
        return true;
    }
    ++p->count.misplaced;
    put_together(p, i, got);
    return false;
}

/* Tells the kernel. */
static void set_joining(iw_port_t *p, iw_intake_do_t what)
{
    const int on = IW_INTAKE_JOIN == what;
    if (IW_INTAKE_NOTHING != what && p->joins
        && 0 == setsockopt(p->socket, IPPROTO_UDP, UDP_GRO, &on, sizeof(on))) {
        p->count.joins += on;
        iw_intake_told(&p->intake, on);
    }
}

/* As recvmmsg, which a sandbox may refuse. */
static int receive_many(iw_port_t *p, int most)
{
    if (!p->receives_singly) {
        const int got = recvmmsg(p->socket, p->in, (unsigned) most, MSG_DONTWAIT, NULL);
        if (got >= 0 || !iw_port_is_refused(errno)) {
            return got;
        }
        p->receives_singly = true;
    }
    int got = 0;
    for (ssize_t length; got < most; p->in[got++].msg_len = (unsigned) length) {
        length = recvmsg(p->socket, &p->in[got].msg_hdr, MSG_DONTWAIT);
        if (length < 0) {
            return got > 0 ? got : -1;
        }
    }
    return got;
}

/* As recvmmsg; most of the time nothing or one, for which there is a call that takes two thirds of the
 * time. It cannot tell a train, so none must come; nor a mark, so those of messages of one datagram are not heard. */
static int take_some(iw_port_t *p, const iw_engine_t *e)
{
    prepare_direct(p, e);
    const bool joined = IW_APART != p->intake.joining;
    if (0 == p->directs && 1 == p->intake.slots && !joined && !(p->hears_marks && iw_engine_goes_on(e))) {
        ssize_t length = recv(p->socket, p->in_piece[0].iov_base, SLOT, MSG_DONTWAIT);
        p->in[0].msg_hdr.msg_controllen = 0;
        p->in[0].msg_len = (unsigned) length;
        return length < 0 ? -1 : 1;
    }
    const size_t control = joined || p->hears_marks ? sizeof(p->in_control[0].space) : 0;
    for (unsigned i = 0; i < p->intake.slots; ++i) {
        struct msghdr *h = &p->in[i].msg_hdr;
        h->msg_control = control > 0 ? p->in_control[i].space : NULL;
        h->msg_controllen = control;
    }
    const int got = receive_many(p, (int) p->intake.slots);
    if (got < 0 && EFAULT == errno) {
        p->direct_prefix = 0; /* a read's memory is gone, against the rules: what that means, a copy to it shows */
    }
    return got;
}

static int take(iw_port_t *p, const iw_engine_t *e)
{
    const int got = take_some(p, e);
    if (got < 0 && EAGAIN != errno && EWOULDBLOCK != errno && EINTR != errno) {
        ++p->count.receive_errors;
    }
    return got;
}

/* Quiet for a while: no memory for what may never come again. */
static void give_back(iw_port_t *p)
{
    p->in_touched = false;
    (void) madvise(p->in_buffer + PAGE, (IN_SIZE - PAGE) / PAGE * PAGE, MADV_DONTNEED);
}

/* Nothing was there. */
static void found_nothing(iw_port_t *p)
{
    if (p->in_touched && p->polled - p->in_at > QUIET) {
        give_back(p);
    }
    ++p->count.receive_empty;
    set_joining(p, iw_intake_empty(&p->intake));
}

/* The i-th message of a call that got so many. Returns how many datagrams it is; *placed: one more is where it belongs. */
static unsigned take_slot(iw_port_t *p, iw_engine_t *e, uint64_t now, unsigned i, unsigned got, unsigned *placed)
{
    iw_engine_marked(e, p->hears_marks && is_marked(&p->in[i].msg_hdr));
    if (take_placed(p, e, now, i, got)) {
        ++*placed;
        return 1;
    }
    return take_message(p, e, now, &p->in[i]);
}

unsigned iw_port_receive(iw_port_t *p, iw_engine_t *e, uint64_t now)
{
    unsigned n = 0, placed = 0;
    ++p->count.receive_calls;
    int got = take(p, e);
    if (got <= 0) {
        found_nothing(p);
        return 0;
    }
    size_t bytes = 0;
    p->in_at = now;
    p->in_touched |= got > 1 || p->in[0].msg_len > PAGE - SLOT_SKEW;
    for (int i = 0; i < got; ++i) {
        bytes += p->in[i].msg_len;
        n += take_slot(p, e, now, (unsigned) i, (unsigned) got, &placed);
    }
    set_joining(p, iw_intake_found(&p->intake, (unsigned) got, n, bytes, iw_engine_goes_on(e), placed == (unsigned) got));
    return n;
}

unsigned iw_port_receive_all(iw_port_t *p, iw_engine_t *e, uint64_t now)
{
    unsigned n = 0, placed = 0;
    for (unsigned calls = 0; calls < DRAIN; ++calls) {
        p->intake.slots = SLOTS;
        ++p->count.receive_calls;
        const int got = take(p, e);
        if (got > 0) {
            p->in_at = now;
            p->in_touched = true;
        }
        for (int i = 0; i < got; ++i) {
            n += take_slot(p, e, now, (unsigned) i, (unsigned) got, &placed);
        }
        if (got > 0) {
            set_joining(p, iw_intake_all(&p->intake, (unsigned) got));
        }
        if (got < SLOTS) {
            break;
        }
    }
    p->count.receive_empty += 0 == n;
    p->intake.slots = 1;
    return n;
}
