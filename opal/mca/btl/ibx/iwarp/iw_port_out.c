/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Sends datagrams through the socket: several by one call, peers that get many by a connected socket; and reads what the
 * network reports of peers that are silent. */
#define _GNU_SOURCE /* sendmmsg, ppoll */
#include "iw_port_internal.h"

#include <linux/errqueue.h>

#define TRAIN_MAX  64    /* UDP_MAX_SEGMENTS */
#define TRAIN_SIZE 65000 /* bytes: below the longest IP packet with its headers */
#define PEER_SOCKET_HOT   64    /* datagrams to one peer until it gets one */

/* ---- sending ---- */

static void add_pieces(struct msghdr *h, const iw_packet_t *k)
{
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

/* Packets from i on that can be one train: one peer, one size, the last may be shorter. */
static unsigned train_length(const iw_port_t *p, unsigned i, unsigned count)
{
    const iw_packet_t *first = &p->packet[i];
    size_t bytes = first->length;
    unsigned n = 1;
    if (!p->segment || first->probe || first->may_fragment || first->alternate || first->length > p->limit) {
        return 1;
    }
    while (i + n < count && n < TRAIN_MAX) {
        const iw_packet_t *k = &p->packet[i + n];
        if (k->peer != first->peer || NULL == k->peer || k->length > first->length || k->probe || k->alternate
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
            add_pieces(h, &p->packet[i + j]);
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

/* Larger than the path is known to carry, and sent again because it did once: IP may cut it, here or on the way. As
 * sendmsg. */
static int send_cut(iw_port_t *p, struct msghdr *h, const iw_address_t *to)
{
    const bool cuts = iw_port_set_cutting(p, p->socket, true);
    h->msg_name = (void *) (uintptr_t) to;
    h->msg_namelen = iw_address_length(to);
    const int sent = sendmsg(p->socket, h, MSG_DONTWAIT) < 0 ? -1 : 1, error = errno;
    if (cuts) {
        (void) iw_port_set_cutting(p, p->socket, false);
    }
    errno = error;
    return sent;
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

/* The longest datagram that goes to there in one piece, as the kernel sees it now: an interface can be set to another size
 * while the job runs. 0: it does not say. */
static uint16_t limit_to(const iw_port_t *p, const iw_address_t *to)
{
    const bool v6 = AF_INET6 == to->any.sa_family;
    const int headers = v6 ? UDP_IPV6 : UDP_IPV4, s = iw_port_socket_beside(p);
    int mtu = 0;
    socklen_t length = sizeof(mtu);
    if (s < 0 || 0 != connect(s, &to->any, iw_address_length(to))
        || 0 != getsockopt(s, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_MTU : IP_MTU, &mtu, &length)) {
        mtu = 0;
    }
    if (s >= 0) {
        close(s);
    }
    return (uint16_t) (mtu <= headers                    ? 0
                       : mtu - headers > IW_DATAGRAM_MAX ? IW_DATAGRAM_MAX
                                                         : mtu - headers);
}

/* A message, or the datagrams of a train, longer than the interface takes. Those behind them up to `end`, which are to the
 * same peer, would be too: the engine gets them back without asking the kernel about each. */
static void give_back_long(iw_port_t *p, iw_engine_t *e, unsigned message, unsigned end,
                           uint16_t limit)
{
    const unsigned first = p->first[message];
    ++p->count.too_big;
    iw_engine_unsent(e, &p->packet[first + 1], p->first[end] - first - 1);
    iw_engine_too_big(e, &p->packet[first], limit);
}

/* One message, of those up to `end` that are to one peer, that the kernel did not take. Returns with which to go on; that
 * message itself: the kernel has no room, stop. */
static unsigned send_failed(iw_port_t *p, iw_engine_t *e, unsigned message, unsigned end, int error)
{
    unsigned first = p->first[message], count = p->first[message + 1] - first;
    const iw_packet_t *k = &p->packet[first];
    if (is_of_room(error)) {
        ++p->count.busy;
        return message;
    }
    if (count > 1 && is_of_trains(error)) {
        /* Shorter ones than every path is said to carry there are none: IP cuts these, one by one. */
        const uint16_t limit = k->length > IW_DATAGRAM_MIN ? limit_to(p, &k->to) : 0;
        if (0 != limit && limit < k->length) {
            give_back_long(p, e, message, end, limit);
            return end;
        }
        /* Never again. */
        p->segment = false;
        iw_engine_unsent(e, k, count);
        return message + 1;
    }
    if (EMSGSIZE == error && k->length > IW_DATAGRAM_MIN && !k->may_fragment) {
        give_back_long(p, e, message, end, limit_to(p, &k->to));
        return end;
    }
    if (EMSGSIZE == error) {
        ++p->count.too_big;
        /* What every path carries, an interface with a smaller MTU carries in pieces. */
        (void) send_cut(p, &p->out[message].msg_hdr, &k->to);
        return message + 1;
    }
    /* As if the network had lost it: the engine sends it again, or gives the peer up in time. */
    ++p->count.errors;
    return message + 1;
}

/* ---- connected sockets ---- */

static void peer_socket_open(iw_port_t *p, peer_socket_t *l)
{
    const int s = iw_port_socket_beside(p);
    int got;
    if (s < 0 || 0 != connect(s, &l->to.any, iw_address_length(&l->to))) {
        l->heat = 0; /* it goes without */
        if (s >= 0) {
            close(s);
        }
        return;
    }
    iw_port_set_buffer(s, SO_SNDBUFFORCE, SO_SNDBUF, p->space, &got);
    iw_port_set_buffer(s, SO_RCVBUFFORCE, SO_RCVBUF, 1, &got); /* nobody answers to it */
    l->socket = s;
}

/* The socket connected to this address, or -1. */
static int peer_socket_of(iw_port_t *p, const iw_address_t *to)
{
    uint32_t hash = AF_INET6 == to->any.sa_family
                        ? (uint32_t) to->v6.sin6_addr.s6_addr[15] ^ to->v6.sin6_port
                        : to->v4.sin_addr.s_addr ^ to->v4.sin_port;
    hash *= UINT32_C(0x9e3779b1);
    peer_socket_t *l = &p->peer_socket[hash >> 28];
    if (iw_address_equal(to, &l->to)) {
        if (l->socket < 0 && ++l->heat >= PEER_SOCKET_HOT) {
            peer_socket_open(p, l);
        } else if (l->heat < 2 * PEER_SOCKET_HOT) {
            ++l->heat;
        }
        return l->socket;
    }
    if (l->heat > 0) {
        --l->heat;
        return -1;
    }
    if (l->socket >= 0) {
        if (atomic_load(&p->busy) == l->socket) {
            atomic_store(&p->busy, -1);
        }
        close(l->socket);
    }
    *l = (peer_socket_t){.to = *to, .socket = -1, .heat = 1};
    return -1;
}

_Static_assert(PEER_SOCKETS == 1 << (32 - 28), "hash and number of sockets");

/* As sendmmsg, which a sandbox may refuse. What refuses one of the messages does so too if it is sent alone. */
static int send_many(iw_port_t *p, int s, unsigned done, unsigned count)
{
    bool is_refused = false;
    if (p->send_refused < REFUSED) {
        const int sent = sendmmsg(s, p->out + done, count - done, MSG_DONTWAIT);
        is_refused = sent < 0 && iw_port_is_refused(errno);
        if (!is_refused) {
            p->send_refused = sent < 0 ? p->send_refused : 0;
            return sent;
        }
    }
    unsigned end = done;
    while (end < count && sendmsg(s, &p->out[end].msg_hdr, MSG_DONTWAIT) >= 0) {
        ++end;
    }
    p->send_refused += is_refused && end > done;
    return end > done ? (int) (end - done) : -1;
}

/* Messages done to count - 1, all to one peer, by this socket; as sendmmsg. */
static int send_some(iw_port_t *p, int s, unsigned done, unsigned count)
{
    struct msghdr *h = &p->out[done].msg_hdr;
    iw_packet_t *k = &p->packet[p->first[done]];
    ++p->count.send_calls;
    if (k->may_fragment) {
        return send_cut(p, h, &k->to);
    }
    unsigned end = done + 1;
    while (end < count && !p->packet[p->first[end]].may_fragment) {
        ++end;
    }
    count = end;
    if (count - done > 1) {
        return send_many(p, s, done, count);
    }
    /* The kernel is quicker with one piece than with a list of pieces. */
    if (0 == h->msg_controllen && 1 == h->msg_iovlen) {
        return sendto(s, h->msg_iov->iov_base, h->msg_iov->iov_len, MSG_DONTWAIT, h->msg_name,
                      h->msg_namelen)
                       < 0
                   ? -1
                   : 1;
    }
    return sendmsg(s, h, MSG_DONTWAIT) < 0 ? -1 : 1;
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

/* ---- asking the network ---- */

/* Not the socket that receives: what the network says would take its room, and whoever can lie in the network's name
 * could fill it. */
static bool asking_open(iw_port_t *p)
{
    const int s = iw_port_socket_beside(p);
    int got;
    if (s < 0 || !iw_port_set(p, s, IP_RECVERR, IPV6_RECVERR, 1)) {
        if (s >= 0) {
            close(s);
        }
        return false;
    }
    iw_port_set_buffer(s, SO_SNDBUFFORCE, SO_SNDBUF, p->space, &got);
    p->asking = s;
    return true;
}

/* Is it of the network, or of a host on the way, and about whether somebody is there? */
static bool is_absence(const struct sock_extended_err *e)
{
    return (SO_EE_ORIGIN_ICMP == e->ee_origin || SO_EE_ORIGIN_ICMP6 == e->ee_origin)
           && (ECONNREFUSED == (int) e->ee_errno || EHOSTUNREACH == (int) e->ee_errno
               || ENETUNREACH == (int) e->ee_errno || EHOSTDOWN == (int) e->ee_errno);
}

/* What the network has said since. */
static void hear(iw_port_t *p, iw_engine_t *e)
{
    union {
        struct cmsghdr align;
        char space[256];
    } control;
    for (unsigned n = 0; n < BATCH; ++n) {
        iw_address_t to;
        struct msghdr h = {.msg_name = &to,
                           .msg_namelen = sizeof(to),
                           .msg_control = control.space,
                           .msg_controllen = sizeof(control.space)};
        if (recvmsg(p->asking, &h, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) {
            return;
        }
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&h); NULL != c; c = CMSG_NXTHDR(&h, c)) {
            const bool is_error =
                (IPPROTO_IP == c->cmsg_level && IP_RECVERR == c->cmsg_type)
                || (IPPROTO_IPV6 == c->cmsg_level && IPV6_RECVERR == c->cmsg_type);
            struct sock_extended_err error;
            if (is_error) {
                memcpy(&error, CMSG_DATA(c), sizeof(error));
                if (is_absence(&error)) {
                    ++p->count.absences;
                    iw_engine_unreachable(e, &to);
                }
            }
        }
    }
}

/* One message to a peer that has been silent for long; as sendmsg. */
static int ask(iw_port_t *p, iw_engine_t *e, unsigned message)
{
    const struct msghdr *h = &p->out[message].msg_hdr;
    ++p->count.send_calls;
    if (p->asking < 0 && !asking_open(p)) {
        return sendmsg(p->socket, h, MSG_DONTWAIT) < 0 ? -1 : 1;
    }
    hear(p, e); /* else it is told of that instead of sending */
    const bool sent =
        sendmsg(p->asking, h, MSG_DONTWAIT) >= 0 || sendmsg(p->socket, h, MSG_DONTWAIT) >= 0;
    const int error = errno;
    hear(p, e);
    errno = error;
    return sent ? 1 : -1;
}

/* One message of the alternate path. What there is no room for is lost, and sent again. */
static void give_alternate(iw_port_t *p, unsigned message)
{
    const bool taken =
        NULL != p->alternate && p->alternate(p->alternate_context, &p->packet[p->first[message]]);
    ++*(taken ? &p->count.alternate_out : &p->count.alternate_full);
}

/* How many messages from done on go to the same peer, by the network. */
static unsigned run_of(const iw_port_t *p, unsigned done, unsigned count)
{
    const iw_packet_t *first = &p->packet[p->first[done]];
    unsigned end = done + 1;
    while (end < count && iw_address_equal(&p->packet[p->first[end]].to, &first->to)
           && !p->packet[p->first[end]].alternate) {
        ++end;
    }
    return end;
}

/* From this message on there is no room, in the buffer of the socket or below. What the buffer did not take has not left at all. */
static void give_back(iw_port_t *p, iw_engine_t *e, unsigned message, unsigned count, int s, bool is_buffer)
{
    const unsigned first = p->first[message];
    (is_buffer ? iw_engine_not_taken : iw_engine_unsent)(e, &p->packet[first], p->first[count] - first);
    atomic_store(&p->busy, is_buffer ? s : -1);
    atomic_store(&p->busy_until, iw_port_now() + BUSY_FOR);
}

static bool send_messages(iw_port_t *p, iw_engine_t *e, unsigned count)
{
    int s = p->socket;
    for (unsigned done = 0, end = 0; done < count;) {
        const bool asks = p->packet[p->first[done]].asks;
        if (p->packet[p->first[done]].alternate) {
            give_alternate(p, done++);
            end = done;
            continue;
        }
        if (done == end) {
            int own = asks ? -1 : peer_socket_of(p, p->out[done].msg_hdr.msg_name);
            end = run_of(p, done, count);
            s = own >= 0 ? own : p->socket;
            for (unsigned i = done; own >= 0 && i < end; ++i) {
                p->out[i].msg_hdr.msg_name = NULL;
                p->out[i].msg_hdr.msg_namelen = 0;
            }
        }
        int n = asks ? ask(p, e, done) : send_some(p, s, done, end);
        if (n < 0 && s != p->socket && !is_of_room(errno)) {
            n = send_unconnected(p, done);
        }
        if (n > 0) {
            done += (unsigned) n;
            continue;
        }
        const int error = errno;
        const unsigned next = send_failed(p, e, done, end, error);
        if (next == done) {
            give_back(p, e, done, count, s, !asks && (EAGAIN == error || EWOULDBLOCK == error));
            return false;
        }
        done = next;
    }
    return true;
}

/* One datagram by itself, as a short message is: without making a list of it. False: not one for this, or it did not
 * go; the long way finds out why. */
static bool send_alone(iw_port_t *p)
{
    const iw_packet_t *k = p->packet;
    if (k->count > 1 || k->asks || k->may_fragment || k->alternate) {
        return false;
    }
    const int own = peer_socket_of(p, &k->to);
    const bool connected = own >= 0;
    ++p->count.send_calls;
    if (sendto(connected ? own : p->socket, k->piece->iov_base, k->length, MSG_DONTWAIT,
               connected ? NULL : &k->to.any, connected ? 0 : iw_address_length(&k->to))
        >= 0) {
        return true;
    }
    p->count.reports += connected && !is_of_room(errno);
    return false;
}

/* There was none: is there now? A socket says so when half of its buffer is free. */
static bool has_room(iw_port_t *p, uint64_t now)
{
    struct pollfd fd = {.fd = atomic_load(&p->busy), .events = POLLOUT};
    if (now < atomic_load(&p->busy_until)) {
        return false;
    }
    const bool is_busy = fd.fd >= 0 && 0 == ppoll(&fd, 1, &(struct timespec){0}, NULL);
    atomic_store(&p->busy_until, is_busy ? now + BUSY_FOR : 0);
    return !is_busy;
}

void iw_port_transmit(iw_port_t *p, iw_engine_t *e, uint64_t now)
{
    if (0 != atomic_load_explicit(&p->busy_until, memory_order_relaxed) && !has_room(p, now)) {
        return;
    }
    /* A bound, so that receiving has its turn. */
    const unsigned rounds = p->is_brief ? 1 : 8, most = p->is_brief ? BRIEF : BATCH;
    for (unsigned round = 0; round < rounds && iw_engine_has_output(e)
                             && !(round > 0 && p->gives_way && iw_port_is_wanted(p));
         ++round) {
        unsigned count = iw_engine_output(e, now, p->packet, most);
        if (0 == count) {
            continue;
        }
        if (1 == count && send_alone(p)) {
            continue;
        } else if (!send_messages(p, e, arrange(p, count))) {
            return;
        }
    }
}

void iw_port_flush(iw_port_t *p, iw_engine_t *e)
{
    iw_poll_begin(&p->poll);
    if (iw_engine_has_output(e)) {
        iw_port_transmit(p, e, iw_port_now());
    }
}
