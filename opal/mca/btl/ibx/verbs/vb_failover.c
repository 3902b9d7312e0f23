/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A connection that goes by another port, while the own network carries nothing to the peer: a connector (vb_connect.h) whose
 * requests, answers and work requests are parts (vb_wire.h), which the owner of the port carries. Order, counts and what is posted
 * again are those of any connection that is resumed (vb_sent.h), so it may take the place of one by the adapter, and be replaced by one. */
#include "vb_connect.h"
#include "vb_parts.h"

#include <stdlib.h>

/* Bytes of a connection's parts without an answer, if that is more than one part. They wait to be carried at this end, and what is
 * read at the other. */
#define WINDOW ((size_t) 256 << 10)
#define ROOM   ((size_t) 8 << 20) /* while the parcels of a port have more, each connection has one part without an answer */

struct vb_failover {
    uint64_t attempt; /* its number, of the side that asked */
    bool is_mine;
    vb_parts_t parts;
    uint32_t gathered; /* bytes of the message that is being put together */
    struct vb_arrival *arrival;
};

/* A message that came in parts. */
typedef struct vb_arrival {
    struct vb_arrival *next;
    vb_peer_t *peer;
    uint32_t length;
    _Alignas(8) uint8_t data[]; /* header first */
} vb_arrival_t;

/* ---- parcels ---- */

/* So much may wait for a peer: parts and answers of two connections. One that makes more wait does not keep to the rules. */
static size_t room_of(const vb_port_t *port)
{
    return 4 * (port->config.part_max > WINDOW ? port->config.part_max : WINDOW);
}

/* NULL: out of memory, or too much waits. Data of so many bytes is to be filled in behind the header. */
static uint8_t *parcel_new(vb_peer_t *peer, const vb_part_t *part, uint32_t bytes)
{
    vb_port_t *port = peer->port;
    const uint32_t length = (uint32_t) sizeof(vb_part_wire_t) + bytes;
    vb_parcel_t *parcel = peer->parcel_bytes > room_of(port) ? NULL : malloc(sizeof(*parcel) + length);
    if (NULL == parcel) {
        return NULL;
    }
    vb_part_wire_t wire;
    *parcel = (vb_parcel_t){.peer = peer, .length = length};
    vb_part_write(&wire, part);
    memcpy(parcel->data, &wire, sizeof(wire));
    *(NULL == port->parcels ? &port->parcels : &port->last_parcel->next) = parcel;
    port->last_parcel = parcel;
    port->parcel_bytes += length;
    peer->parcel_bytes += length;
    ++port->counters.parts;
    return parcel->data + sizeof(wire);
}

bool vb_port_has_parts(const vb_port_t *port)
{
    return NULL != port->parcels;
}

vb_parcel_t *vb_port_next_part(vb_port_t *port)
{
    vb_parcel_t *parcel = port->parcels;
    if (NULL != parcel) {
        port->parcels = parcel->next;
        port->parcel_bytes -= parcel->length;
        parcel->peer->parcel_bytes -= parcel->length;
    }
    return parcel;
}

static bool say(vb_peer_t *peer, vb_part_kind_t kind, uint64_t attempt, bool is_mine, const void *data, uint32_t size)
{
    const vb_part_t part = {.kind = kind, .is_mine = is_mine, .attempt = attempt, .length = size};
    uint8_t *to = parcel_new(peer, &part, size);
    if (NULL != to && size > 0) {
        memcpy(to, data, size);
    }
    return NULL != to || vb_peer_why(peer, "nothing more can be given to another port");
}

static bool say_hello(vb_link_t *link, vb_answer_t answer)
{
    vb_hello_wire_t hello;
    vb_hello_mine(link, answer, &hello);
    return say(link->peer, VB_PART_HELLO, link->failover->attempt, link->failover->is_mine, &hello, sizeof(hello));
}

/* ---- the connector ---- */

static const char *begin(vb_link_t *link, const vb_asked_t *asked)
{
    vb_failover_t *failover = link->failover = calloc(1, sizeof(*link->failover));
    if (NULL == failover) {
        return "out of memory";
    }
    failover->is_mine = NULL == asked;
    /* The clock: a number is never used twice, also not by the next that the peer meets under this name. */
    failover->attempt = NULL == asked ? spec_now() : asked->attempt;
    return NULL;
}

static bool ask(vb_link_t *link)
{
    return say_hello(link, VB_ASK);
}

static bool welcome(vb_link_t *link, const vb_asked_t *asked)
{
    (void) asked;
    return say_hello(link, VB_WELCOME);
}

static void reject(vb_port_t *port, const vb_asked_t *asked, vb_answer_t answer)
{
    vb_peer_t *peer = vb_map_get(&port->by_name, asked->hello.name);
    vb_hello_wire_t wire;
    vb_hello_reject(port, &asked->hello, answer, &wire);
    if (NULL != peer) {
        (void) say(peer, VB_PART_HELLO, asked->attempt, false, &wire, sizeof(wire));
    }
}

static void disconnect(vb_link_t *link)
{
    (void) say(link->peer, VB_PART_GONE, link->failover->attempt, link->failover->is_mine, NULL, 0);
}

static void destroy(vb_link_t *link)
{
    free(link->failover->arrival);
    free(link->failover);
}

/* ---- work requests that go ---- */

static uint64_t bytes_of(const vb_request_t *request)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < request->pieces; ++i) {
        bytes += request->piece[i].length;
    }
    return bytes;
}

/* Of the pieces in a row, from offset on. */
static void gather(uint8_t *to, const vb_request_t *request, uint64_t offset, uint32_t length)
{
    for (unsigned i = 0; length > 0 && i < request->pieces; ++i) {
        const uint64_t has = request->piece[i].length;
        if (offset < has) {
            const uint32_t n = has - offset < length ? (uint32_t) (has - offset) : length;
            memcpy(to, (const uint8_t *) (uintptr_t) request->piece[i].addr + offset, n);
            to += n;
            length -= n;
            offset += n;
        }
        offset -= has;
    }
}

static vb_part_kind_t kind_of(const vb_request_t *request)
{
    return VB_SENT_WRITE == request->sent.kind  ? VB_PART_WRITE
           : VB_SENT_READ == request->sent.kind ? VB_PART_READ
                                                : VB_PART_MESSAGE;
}

/* Parts without an answer. */
static uint32_t parts_most(const vb_port_t *port)
{
    const size_t most = port->parcel_bytes > ROOM ? 0 : WINDOW / port->config.part_max;
    return 0 == most ? 1 : most < VB_PARTS_MOST ? (uint32_t) most : VB_PARTS_MOST;
}

/* Bytes of data in a part. */
static uint32_t data_max(const vb_port_t *port)
{
    return port->config.part_max - (uint32_t) sizeof(vb_part_wire_t);
}

/* Is a part of a read without an answer? (link->reads counts those behind the fence, too.) */
static bool reads_are_under_way(const vb_link_t *link)
{
    const vb_parts_t *parts = &link->failover->parts;
    bool some = false;
    for (uint32_t n = parts->answered; n != parts->sent; ++n) {
        const vb_piece_t *piece = &parts->under_way[n % VB_PARTS_MOST];
        some |= VB_SENT_READ == link->requests[piece->request % link->sendq.depth].sent.kind;
    }
    return some;
}

/* What is posted to the link goes on, as far as parts may be under way. */
static void pump(vb_link_t *link)
{
    vb_failover_t *f = link->failover;
    while (f->parts.request != link->sendq.nxt && vb_parts_have_room(&f->parts, parts_most(link->peer->port))) {
        const vb_request_t *request = &link->requests[f->parts.request % link->sendq.depth];
        if (request->flags & VB_FENCE && link->peer->port->able.fences && 0 == f->parts.offset && reads_are_under_way(link)) {
            return; /* the answer goes on with it */
        }
        const uint32_t number = f->parts.sent;
        const vb_piece_t *piece = vb_parts_cut(&f->parts, bytes_of(request), data_max(link->peer->port));
        const vb_part_t part = {.kind = kind_of(request),
                                .is_mine = f->is_mine,
                                .is_last = piece->is_last,
                                .number = number,
                                .length = piece->length,
                                .rkey = request->rkey,
                                .attempt = f->attempt,
                                .remote = request->remote + piece->offset};
        const uint32_t behind = VB_PART_READ == part.kind ? 0 : piece->length;
        uint8_t *to = parcel_new(link->peer, &part, behind);
        if (NULL == to) { /* it is as if it had been lost on its way */
            (void) vb_peer_why(link->peer, "nothing more can be given to another port");
            vb_peer_cut(link->peer);
            return;
        }
        gather(to, request, piece->offset, behind);
    }
}

const vb_connector_t vb_elsewhere = {
    .begin = begin,
    .ask = ask,
    .welcome = welcome,
    .reject = reject,
    .pump = pump,
    .disconnect = disconnect,
    .destroy = destroy,
};

/* ---- what comes ---- */

/* It says what cannot be. */
static void refuse(vb_link_t *link, const char *why, bool is_final)
{
    ++link->peer->port->counters.bad_parts;
    (void) vb_peer_why(link->peer, "%s", why);
    link->is_final |= is_final;
    vb_peer_cut(link->peer);
}

/* The next part is done: a request with it, if it was the last. */
static void on_done(vb_link_t *link, const vb_part_t *part, const uint8_t *data)
{
    const vb_piece_t *piece = vb_parts_answered(&link->failover->parts, part->number);
    const vb_request_t *request = NULL == piece ? NULL : &link->requests[piece->request % link->sendq.depth];
    const bool reads = NULL != request && VB_SENT_READ == request->sent.kind;
    if (NULL == piece || part->length != (reads ? piece->length : 0)) {
        refuse(link, "it answers what was not asked, or answers are missing", NULL != piece);
        return;
    }
    if (reads) {
        memcpy((uint8_t *) (uintptr_t) request->piece[0].addr + piece->offset, data, part->length);
    }
    if (piece->is_last) {
        vb_link_retire(link, piece->request);
    }
    pump(link);
}

/* A message is complete. */
static void on_message(vb_link_t *link, vb_arrival_t *arrival)
{
    vb_peer_t *peer = link->peer;
    vb_port_t *port = peer->port;
    vb_hdr_t hdr;
    const vb_came_t came = vb_link_came(link, arrival->data, arrival->length, &hdr);
    if (VB_CAME_MESSAGE != came) {
        free(arrival);
        if (VB_CAME_BAD == came) {
            refuse(link, "it sent something that is no message of this version", true);
        }
        return;
    }
    ++port->counters.received;
    ++peer->messages_received;
    *(NULL == port->arrivals ? &port->arrivals : &port->last_arrival->next) = arrival;
    port->last_arrival = arrival;
}

/* False: it cannot be, or not now. */
static bool gather_message(vb_link_t *link, const vb_part_t *part, const uint8_t *data)
{
    vb_failover_t *f = link->failover;
    const uint32_t most = link->peer->port->config.buffer_size;
    if (NULL == f->arrival) {
        f->arrival = malloc(sizeof(*f->arrival) + most);
        f->gathered = 0;
    }
    if (NULL == f->arrival || part->length > most - f->gathered) {
        refuse(link, "it sent a message that is too long, or there is no memory for it", NULL != f->arrival);
        return false;
    }
    memcpy(f->arrival->data + f->gathered, data, part->length);
    f->gathered += part->length;
    if (part->is_last) {
        vb_arrival_t *arrival = f->arrival;
        f->arrival = NULL;
        arrival->next = NULL;
        arrival->peer = link->peer;
        arrival->length = f->gathered;
        on_message(link, arrival);
    }
    return true;
}

/* A message, write or read of the other end's. */
static void on_request(vb_link_t *link, const vb_part_t *part, const uint8_t *data)
{
    vb_port_t *port = link->peer->port;
    vb_failover_t *f = link->failover;
    const bool reads = VB_PART_READ == part->kind;
    if (!vb_parts_heard(&f->parts, part->number)) {
        refuse(link, "parts of the connection by another port are missing", false);
        return;
    }
    if (part->length > data_max(port)) {
        refuse(link, "it sent a part that is too long", true);
        return;
    }
    if (VB_PART_MESSAGE == part->kind && !gather_message(link, part, data)) {
        return;
    }
    if (VB_PART_WRITE == part->kind
        && !port->config.copy(port->config.context, part->rkey, part->remote, (void *) (uintptr_t) data, part->length, true)) {
        refuse(link, "it puts to memory that is not registered for that", true);
        return;
    }
    const uint32_t behind = reads ? part->length : 0;
    const vb_part_t answer = {
        .kind = VB_PART_DONE, .is_mine = f->is_mine, .number = part->number, .attempt = f->attempt, .length = behind};
    uint8_t *to = parcel_new(link->peer, &answer, behind);
    if (NULL == to) {
        refuse(link, "nothing more can be given to another port", false);
    } else if (reads && !port->config.copy(port->config.context, part->rkey, part->remote, to, behind, false)) {
        memset(to, 0, behind);
        refuse(link, "it gets from memory that is not registered for that", true);
    }
}

/* Is the request a late one? It may have waited in a port while a connection was made by another, and must not break that. */
static bool is_late(vb_peer_t *peer, const vb_asked_t *asked)
{
    const bool is_newest = asked->attempt > peer->elsewhere_asked;
    peer->elsewhere_asked = is_newest ? asked->attempt : peer->elsewhere_asked;
    return !is_newest || vb_peer_had_received(peer, asked->hello.received);
}

/* A request to go on, or an answer to mine. */
static void on_hello(vb_port_t *port, uint64_t name, const vb_part_t *part, const uint8_t *data)
{
    vb_asked_t asked = {.by = &vb_elsewhere, .attempt = part->attempt};
    vb_peer_t *peer = vb_map_get(&port->by_name, name);
    if (!vb_hello_read(&asked.hello, data, part->length) || name != asked.hello.name) {
        ++port->counters.bad_parts;
        return;
    }
    if (VB_ASK == asked.hello.answer) {
        if (part->is_mine && asked.hello.is_again && (NULL == peer || !is_late(peer, &asked))) {
            vb_connect_asked(port, &asked);
        }
        return;
    }
    vb_link_t *link = NULL == peer ? NULL : peer->link;
    if (NULL == link || NULL == link->failover || part->attempt != link->failover->attempt || part->is_mine || !link->failover->is_mine
        || VB_CONNECTING != peer->conn.state) {
        return; /* of an attempt that was given up */
    }
    if (VB_WELCOME != asked.hello.answer) {
        vb_connect_rejected(peer, &asked.hello, 0);
    } else if (vb_connect_is_welcome(link, &asked.hello)) {
        vb_peer_step(peer, VB_ON_ESTABLISHED);
    }
}

void vb_port_take_part(vb_port_t *port, uint64_t name, const void *data, size_t length)
{
    vb_part_t part;
    const uint8_t *behind = (const uint8_t *) data + sizeof(vb_part_wire_t);
    if (!vb_part_read(&part, data, length) || 0 == port->config.part_max || !vb_port_resumes(port)) {
        ++port->counters.bad_parts;
        return;
    }
    if (VB_PART_HELLO == part.kind) {
        on_hello(port, name, &part, behind);
        return;
    }
    vb_peer_t *peer = vb_map_get(&port->by_name, name);
    vb_link_t *link = NULL == peer ? NULL : peer->link;
    if (NULL == link || NULL == link->failover || part.attempt != link->failover->attempt
        || part.is_mine == link->failover->is_mine || link->is_broken || peer->is_cut || NULL == link->requests) {
        return; /* of a connection that was given up */
    }
    if (VB_PART_GONE == part.kind) {
        vb_connect_ended(peer, "it ended the connection by another port");
    } else if (VB_PART_DONE == part.kind) {
        on_done(link, &part, behind);
    } else {
        on_request(link, &part, behind);
    }
}

/* ---- messages that came ---- */

int vb_failover_poll(vb_port_t *port, vb_received_t *received, int max)
{
    int n = 0;
    for (; n < max && NULL != port->arrivals; ++n) {
        vb_arrival_t *arrival = port->arrivals;
        port->arrivals = arrival->next;
        received[n] = (vb_received_t){.peer = arrival->peer,
                                      .data = arrival->data + sizeof(vb_hdr_t),
                                      .length = arrival->length - (uint32_t) sizeof(vb_hdr_t),
                                      .tag = ((const vb_hdr_t *) (const void *) arrival->data)->tag,
                                      .in_parts = true};
    }
    return n;
}

void vb_failover_return(const vb_received_t *received)
{
    free((uint8_t *) received->data - sizeof(vb_hdr_t) - offsetof(vb_arrival_t, data));
}

/* ---- the other ports ---- */

void vb_peer_offer_elsewhere(vb_peer_t *peer, bool is_there)
{
    const vb_port_t *port = peer->port;
    peer->conn.has_elsewhere = is_there && vb_port_resumes(port) && port->config.part_max > sizeof(vb_part_wire_t);
}

/* (A process that computes gives no answer.) */
void vb_peer_is_carried(vb_peer_t *peer)
{
    if (vb_conn_is_resuming(&peer->conn) && peer->conn.is_elsewhere) {
        vb_peer_step(peer, VB_ON_CARRIED);
    }
}

void vb_peer_is_not_carried(vb_peer_t *peer)
{
    if (NULL != peer->link && NULL != peer->link->failover && !peer->link->is_broken) {
        (void) vb_peer_why(peer, "no other port carries its connection");
        vb_peer_cut(peer);
    }
}

bool vb_peer_carries(vb_peer_t *peer)
{
    const bool is_new = !peer->conn.is_again && peer->conn.state < VB_OPEN;
    if (is_new && !vb_peer_is_by_datagrams(peer)) {
        vb_peer_wants(peer);
    }
    return vb_peer_is_by_datagrams(peer) || (VB_OPEN == peer->conn.state && !peer->conn.is_elsewhere && !peer->is_cut);
}

void vb_failover_close(vb_port_t *port)
{
    vb_received_t nobodys;
    vb_parcel_t *parcel;
    while (NULL != (parcel = vb_port_next_part(port))) {
        free(parcel);
    }
    while (vb_failover_poll(port, &nobodys, 1) > 0) {
        vb_failover_return(&nobodys);
    }
}
