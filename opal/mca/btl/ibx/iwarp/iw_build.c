/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Writes the blocks of a datagram: hello, acknowledgement, segment, Terminate, padding. */
#include "iw_build.h"

_Static_assert(IW_AUTH_DIRECT == sizeof(iw_head_t) && IW_AUTH_FIELD == offsetof(iw_head_t, tag),
               "where the tag goes");

/* ---- how much fits ---- */

uint32_t iw_build_datagram_room(const iw_peer_t *p)
{
    const uint32_t least = p->engine->config.datagram_min, half = p->tx.window / 2;
    const uint32_t room = half > least + IW_OVERHEAD ? half - IW_OVERHEAD : least;
    return room < p->path.mtu.size ? room : p->path.mtu.size;
}

static size_t header_size(const iw_request_t *r)
{
    switch (r->operation) {
    case IW_DO_WRITE:
    case IW_DO_RESPONSE:
        return sizeof(iw_tagged_t);
    case IW_DO_READ:
        return sizeof(iw_untagged_t) + sizeof(iw_read_request_t);
    case IW_DO_ATOMIC:
        return sizeof(iw_untagged_t) + sizeof(iw_atomic_request_t);
    default:
        return sizeof(iw_untagged_t);
    }
}

/* What an acknowledgement adds to a datagram with a body: IW_RANGES_PIGGYBACK ranges at most. */
static size_t ack_size(const iw_peer_t *p, unsigned ranges)
{
    return sizeof(iw_ack_t) + (p->rx.rnr ? sizeof(iw_rnr_t) : 0) + ranges * sizeof(iw_range_t);
}

/* And what the next one will be given; 0: none is due, or it goes by itself. */
static size_t ack_due_size(const iw_peer_t *p)
{
    iw_range_t range[IW_RANGES_PIGGYBACK + 1];
    uint64_t largest;
    if (0 == p->rx.unacked && !p->rx.ack_now) {
        return 0;
    }
    const unsigned n = iw_seen_ranges(&p->rx.seen, range, IW_RANGES_PIGGYBACK + 1, &largest);
    return 0 == n || n > IW_RANGES_PIGGYBACK ? 0 : ack_size(p, n);
}

/* Payload that fits into a datagram of that size, with an acknowledgement of that one. */
static uint32_t payload_room(const iw_peer_t *p, size_t size, size_t header, size_t ack)
{
    const size_t prefix = sizeof(iw_head_t) + (p->confirmed ? 0 : sizeof(iw_hello_t)) + ack
                          + sizeof(iw_seq_t) + header;
    const size_t room = size - prefix;
    return (uint32_t) (room < IW_PAYLOAD_MAX ? room : IW_PAYLOAD_MAX);
}

uint32_t iw_build_payload(const iw_peer_t *p, const iw_request_t *r, uint32_t left)
{
    const size_t size = iw_build_datagram_room(p), header = header_size(r);
    const uint32_t sure = payload_room(p, size, header, ack_size(p, IW_RANGES_PIGGYBACK));
    if (left <= sure) {
        return left;
    }
    const uint32_t room = payload_room(p, size, header, ack_due_size(p));
    return left < room ? left : room;
}

bool iw_build_ack_fits(const iw_peer_t *p, const iw_segment_t *s)
{
    return s->length <= payload_room(p, p->path.mtu.size, header_size(s->request), ack_due_size(p));
}

/* ---- blocks ---- */

void iw_build_begin(iw_peer_t *p, iw_packet_t *k, enum iw_type type)
{
    k->to = p->address;
    k->peer = p;
    k->segment = NULL;
    k->had_ack = k->may_fragment = k->probe = false;
    k->asks = IW_HEARD != p->alive.quiet;
    k->alternate = p->failover.is_alternate;
    p->alive.unreachable &= !k->asks; /* as the network says of this one */
    k->count = 1;
    k->piece[0] = (struct iovec){k->head, 0};
    iw_head_t *h = iw_build_put(k, sizeof(*h));
    uint64_t pn = p->tx.next_pn++, floor = pn;
    if (!spec_list_is_empty(&p->loss.in_flight)) {
        floor = SPEC_ENTRY(p->loss.in_flight.next, iw_segment_t, link)->pn;
    }
    *h = (iw_head_t){.version_type = (uint8_t) (IW_VERSION << 4 | type),
                     .floor = iw_be16((uint16_t) (pn - floor)),
                     .conn = iw_be32(p->remote_conn),
                     .pn = iw_be64(pn)};
    if (!p->confirmed) {
        iw_hello_t *hello = iw_build_put(k, sizeof(*hello));
        h->flags |= IW_F_HELLO;
        *hello = (iw_hello_t){.identity = iw_be64(p->engine->config.identity),
                              .generation = iw_be64(p->generation),
                              .answers = iw_be64(p->remote_generation),
                              .conn = iw_be32(p->conn),
                              .datagram = iw_be16(p->engine->config.datagram_max),
                              .version_max = IW_VERSION,
                              .reads = p->engine->config.reads};
    }
}

uint32_t iw_build_least(const iw_engine_t *e)
{
    return 2u * (e->config.datagram_min + IW_OVERHEAD);
}

/* Bytes that a peer may have in flight (iw_share.h). */
static uint32_t window_for(iw_peer_t *p)
{
    iw_engine_t *e = p->engine;
    const uint32_t most = e->config.receive_space, space = iw_share_space(&e->share, !p->rx.is_near, most), least = iw_build_least(e);
    return IW_SHARE_NONE == p->rx.sender.state
               ? iw_share_of(space, iw_share_crowd(&e->share), least)
               : iw_share_window(&e->share, &p->rx.sender, space, iw_share_whole(&e->share, !p->rx.is_near, most), least);
}

void iw_build_ack(iw_peer_t *p, iw_packet_t *k, unsigned max, uint64_t now)
{
    iw_range_t range[IW_RANGES_MAX + 1];
    uint64_t largest = 0;
    /* One more than fits tells whether all was said. */
    unsigned n = iw_seen_ranges(&p->rx.seen, range, max < IW_RANGES_MAX ? max + 1 : max, &largest);
    if (0 == n) {
        p->rx.ack_now = false;
        p->rx.ack_at = 0;
        return;
    }
    if (n > max) {
        p->rx.ack_now = true; /* by itself */
        return;
    }
    uint64_t delay = (now - p->rx.largest_at) / IW_US;
    iw_ack_t *ack = iw_build_put(k, sizeof(*ack));
    *ack = (iw_ack_t){.largest = iw_be32((uint32_t) largest),
                      .next = iw_be32(p->rx.expected),
                      .window = iw_be32(window_for(p)),
                      .delay = iw_be16((uint16_t) (delay < UINT16_MAX ? delay : UINT16_MAX)),
                      .marks = p->rx.marks,
                      .ranges = (uint8_t) n};
    memcpy(iw_build_put(k, n * sizeof(iw_range_t)), range, n * sizeof(iw_range_t));
    k->head[offsetof(iw_head_t, flags)] |= IW_F_ACK;
    if (p->rx.rnr) {
        iw_rnr_t *rnr = iw_build_put(k, sizeof(*rnr));
        rnr->refused = iw_be32((uint32_t) p->rx.rnr_refused);
        k->head[offsetof(iw_head_t, flags)] |= IW_F_RNR;
    }
    k->had_ack = true;
    p->rx.marks_told = p->rx.marks;
    p->rx.ack_now = false;
    p->rx.ack_at = 0;
    p->rx.unacked = p->rx.unacked_bytes = 0;
    ++p->engine->count.acks_out;
}

/* False: there is no room before the data. */
static bool headers_before_data(iw_packet_t *k, const iw_request_t *r)
{
    const size_t length = k->piece[0].iov_len;
    if (2 != k->count || 0 == (r->flags & IW_HEADROOM)
        || k->piece[1].iov_base != r->piece[0].iov_base || length > IW_HEADROOM_SIZE
        || k->piece[1].iov_len > IW_JOIN_MAX) {
        return false;
    }
    k->piece[0].iov_base = memcpy((uint8_t *) k->piece[1].iov_base - length, k->head, length);
    k->piece[0].iov_len += k->piece[1].iov_len;
    k->count = 1;
    return true;
}

void iw_build_join(iw_engine_t *e, iw_packet_t *k, const iw_request_t *r, bool again)
{
    if (1 == k->count || headers_before_data(k, r) || (!again && r->length > IW_COPY_MAX)) {
        return;
    }
    uint8_t *const copy = e->copies + e->copied;
    size_t length = 0;
    for (unsigned i = 0; i < k->count; ++i) {
        memcpy(copy + length, k->piece[i].iov_base, k->piece[i].iov_len);
        length += k->piece[i].iov_len;
    }
    e->copied += length;
    k->piece[0] = (struct iovec){copy, length};
    k->count = 1;
}

void iw_build_finish(iw_peer_t *p, iw_packet_t *k)
{
    iw_head_t *h = k->piece[0].iov_base;
    k->length = iw_build_length(k);
    /* A hello says itself which connection it is for; without one the peer has confirmed ours, and we know its. */
    h->tag = iw_be64(iw_auth_tag(&p->auth, h->flags & IW_F_HELLO ? 0 : p->remote_generation,
                                 k->piece, k->count));
    ++p->engine->count.packets_out;
    p->engine->count.bytes_out += k->length;
}

static void put_untagged(iw_packet_t *k, uint8_t opcode, bool last, uint32_t qn, uint32_t msn,
                         uint32_t mo)
{
    iw_untagged_t *h = iw_build_put(k, sizeof(*h));
    *h = (iw_untagged_t){.ddp = IW_DDP_VERSION | (last ? IW_DDP_LAST : 0),
                         .rdmap = IW_RDMAP_VERSION | opcode,
                         .qn = iw_be32(qn),
                         .msn = iw_be32(msn),
                         .mo = iw_be32(mo)};
}

static void put_tagged(iw_packet_t *k, uint8_t opcode, bool last, uint32_t stag, uint64_t to)
{
    iw_tagged_t *h = iw_build_put(k, sizeof(*h));
    *h = (iw_tagged_t){.ddp = IW_DDP_TAGGED | IW_DDP_VERSION | (last ? IW_DDP_LAST : 0),
                       .rdmap = IW_RDMAP_VERSION | opcode,
                       .stag = iw_be32(stag),
                       .to = iw_be64(to)};
}

/* The part [offset, offset + length) of the user's pieces. */
static void put_payload(iw_packet_t *k, const iw_request_t *r, uint32_t offset, uint32_t length)
{
    if (0 == length) {
        return;
    }
    if (r->flags & IW_INLINE) {
        memcpy(iw_build_put(k, length), r->data + offset, length);
        return;
    }
    size_t skip = offset;
    for (unsigned i = 0; length > 0; ++i) {
        size_t part = r->piece[i].iov_len;
        if (skip >= part) {
            skip -= part;
            continue;
        }
        part -= skip;
        part = part < length ? part : length;
        k->piece[k->count++] = (struct iovec){(uint8_t *) r->piece[i].iov_base + skip, part};
        skip = 0;
        length -= (uint32_t) part;
    }
}

static void put_read_request(iw_packet_t *k, const iw_request_t *r)
{
    put_untagged(k, IW_OP_READ_REQUEST, true, IW_QN_READ, r->msn, 0);
    iw_read_request_t *q = iw_build_put(k, sizeof(*q));
    *q = (iw_read_request_t){.sink_stag = iw_be32(r->local_stag),
                             .sink_to = iw_be64(0),
                             .length = iw_be32(r->length),
                             .source_stag = iw_be32(r->stag),
                             .source_to = iw_be64(r->to)};
}

static void put_atomic_request(iw_packet_t *k, const iw_request_t *r)
{
    put_untagged(k, IW_OP_ATOMIC_REQUEST, true, IW_QN_READ, r->msn, 0);
    iw_atomic_request_t *q = iw_build_put(k, sizeof(*q));
    *q = (iw_atomic_request_t){.is_32 = sizeof(uint32_t) == r->length,
                               .op = r->atomic.op,
                               .number = iw_be32(r->msn),
                               .stag = iw_be32(r->stag),
                               .to = iw_be64(r->to),
                               .operand = iw_be64(r->atomic.operand),
                               .compare = iw_be64(r->atomic.compare)};
}

bool iw_build_segment(iw_packet_t *k, const iw_segment_t *s)
{
    const iw_request_t *r = s->request;
    uint8_t *at;
    switch (r->operation) {
    case IW_DO_SEND:
        put_untagged(k, IW_OP_SEND, s->last, IW_QN_SEND, r->msn, s->offset);
        put_payload(k, r, s->offset, s->length);
        return true;
    case IW_DO_WRITE:
        put_tagged(k, IW_OP_WRITE, s->last, r->stag, r->to + s->offset);
        put_payload(k, r, s->offset, s->length);
        return true;
    case IW_DO_READ:
        put_read_request(k, r);
        return true;
    case IW_DO_ATOMIC:
        put_atomic_request(k, r);
        return true;
    case IW_DO_ANSWER:
        put_untagged(k, IW_OP_ATOMIC_RESPONSE, true, IW_QN_ATOMIC, r->msn, 0);
        put_payload(k, r, 0, s->length);
        return true;
    default:
        /* Checked for each segment, each time it is sent: the owner may have taken the memory back. */
        if (IW_ACCESS_OK
            != iw_memory_check(&r->peer->engine->memory, r->local_stag, r->peer, IW_REMOTE_READ,
                               r->local_to + s->offset, s->length, &at, NULL)) {
            return false;
        }
        put_tagged(k, IW_OP_READ_RESPONSE, s->last, r->stag, r->to + s->offset);
        if (s->length > 0) {
            k->piece[k->count++] = (struct iovec){at, s->length};
        }
        return true;
    }
}

void iw_build_terminate(iw_peer_t *p, iw_packet_t *k)
{
    iw_build_begin(p, k, IW_TERMINATE);
    iw_ulpdu_t *ulpdu = iw_build_put(k, sizeof(*ulpdu));
    ulpdu->length = iw_be16(sizeof(iw_untagged_t) + sizeof(iw_terminate_t));
    put_untagged(k, IW_OP_TERMINATE, true, IW_QN_TERMINATE, 1, 0);
    iw_terminate_t *t = iw_build_put(k, sizeof(*t));
    *t = (iw_terminate_t){.layer_type = (uint8_t) (p->term.code >> 8),
                          .code = (uint8_t) p->term.code,
                          .ssn = iw_be32(p->term.ssn)};
    iw_build_finish(p, k);
}
