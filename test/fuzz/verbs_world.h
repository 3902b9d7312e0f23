/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Processes over adapters that are not there (fake_verbs.h), for fuzzing: what each has to send waits as in the BTL, in one
 * queue that goes on only when `ready` is called; what arrives is compared with what was sent. Time is virtual.
 *
 * What is promised while nothing breaks: messages arrive once, in order, with their bytes, behind the data of the writes
 * posted before them. When something may break, some are missing, and somebody is told. A side that a wicked peer talks to
 * is promised nothing of what it hears, but that memory is safe and that it goes on. */
#ifndef VERBS_WORLD_H
#define VERBS_WORLD_H

#include "fuzz_script.h"

#include "fake_objects.h"
#include "iw_internal.h"
#include "vb_internal.h"
#include "vb_hybrid.h"
#include "vb_rx.h"

#include <time.h>

/* The third is a stranger to what the two do: whether it can still talk to them shows that they are usable. */
enum { PROCESSES = 3 };
enum { SLOTS = 48, ROOM = 2304, WINDOW = 4096, SOURCE = 4096, WORD = 8, OPS = 128, HELD = 48 };

/* Messages of one script: as many as one can tell apart, and more tell no more. */
enum { MESSAGES = 2048 };

typedef enum kind { SEND, PUT, GET, ADD } kind_t;

/* Something to be posted, when its turn comes. */
typedef struct op {
    kind_t kind;
    unsigned flags; /* of posting; WANT_... */
    uint32_t size;
    uint32_t at; /* where over there */
} op_t;
enum { WANT_TWO_PIECES = 64, WANT_INLINE = 128 };

/* Memory that is posted. */
typedef struct slot {
    struct process *owner;
    bool is_posted, is_awaited; /* silent ones end with a later one */
    bool adds;                  /* not: swaps */
    kind_t kind;
    uint32_t serial;
    uint32_t length;
    uint32_t at;
} slot_t;

/* What was sent. */
typedef struct record {
    uint32_t length;
    uint32_t puts; /* posted before it, and where the last one went */
    uint32_t put_at, put_length;
    slot_t *get; /* that it was fenced behind, or NULL */
    uint32_t get_serial;
} record_t;

/* A message that is kept, and what it was. */
typedef struct held {
    vb_received_t received;
    uint64_t sum;
} held_t;

typedef struct process {
    struct world *world;
    unsigned index;
    vb_config_t config;
    vb_port_t *port;
    vb_peer_t *peer; /* the other one, NULL: not met */
    char *memory;    /* slots, window and source */
    struct ibv_mr *mr;
    uint32_t stag;
    iw_uses_t uses;
    slot_t slot[SLOTS];
    op_t op[OPS];
    unsigned first, ops;
    unsigned awaited; /* requests that `done` is owed for, though nothing more is posted */
    uint32_t serial;
    uint32_t sent, got, puts, adds, added;
    uint32_t put_at, put_length;
    slot_t *get; /* the last one, if that is still there */
    uint32_t get_serial;
    unsigned failed, lost;
    bool holds, has_stranger, is_closed;
    bool is_mute;   /* its adapter is gone, or it is */
    bool is_killed; /* promised nothing any more */
    bool is_draining;
    bool carries_none; /* of what goes by another port */
    bool has_heard_nonsense; /* what is no message, while the connection was there */
    held_t held[HELD];
    unsigned helds;
    record_t record[MESSAGES];
} process_t;

typedef struct world {
    process_t process[PROCESSES];
    bool may_lose;    /* something was broken on purpose, or a datagram lost */
    bool is_wicked;   /* somebody says what no process of ours says */
    bool is_parted;   /* somebody said goodbye: what waited then is lost, and nobody told */
    bool has_stalled; /* a first message stays unheard */
    unsigned third;   /* messages of the third process */
    unsigned happened;
} world_t;

static uint64_t fuzz_now;

/* The port's clock. Each reading takes a moment, so that what waits for a time does not wait for ever. */
int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    if (CLOCK_MONOTONIC != clock) {
        return __real_clock_gettime(clock, t);
    }
    fuzz_now += 20;
    *t = (struct timespec){.tv_sec = (time_t) (fuzz_now / 1000000000),
                           .tv_nsec = (long) (fuzz_now % 1000000000)};
    return 0;
}

static void pass(uint64_t ns)
{
    fuzz_now += ns;
    fake.now = fuzz_now;
    fake_finish_writes();
    if (fake.is_timed) {
        fake_repeat();
    }
}

int __wrap_nanosleep(const struct timespec *t, struct timespec *left);
int __wrap_nanosleep(const struct timespec *t, struct timespec *left)
{
    (void) left;
    pass((uint64_t) t->tv_sec * 1000000000 + (uint64_t) t->tv_nsec);
    return 0;
}

static process_t *other(const process_t *p)
{
    return &p->world->process[p->index < 2 ? 1 - p->index : 0];
}

static char *memory_of(const slot_t *slot)
{
    return slot->owner->memory + (size_t) (slot - slot->owner->slot) * ROOM;
}
static char *window_of(const process_t *p)
{
    return p->memory + (size_t) SLOTS * ROOM;
}
/* Behind the window; each byte says where it is. */
static char *source_of(const process_t *p)
{
    return window_of(p) + WINDOW;
}
static char source_byte(uint32_t at)
{
    return (char) (at * 7 + (at >> 8));
}
/* Another word behind both is only added to. */
static uint64_t *sum_of(const process_t *p)
{
    return (uint64_t *) (void *) (source_of(p) + SOURCE);
}
static uint32_t offset_of(const process_t *p, const void *at)
{
    return (uint32_t) ((const char *) at - p->memory);
}
enum { MEMORY = SLOTS * ROOM + WINDOW + SOURCE + WORD };

static uint8_t message_byte(uint32_t number, uint32_t at)
{
    return (uint8_t) (at < 4 ? number >> 8 * at : (number * 31 + at * 5) ^ at >> 6);
}

/* ---- posting ---- */

static slot_t *take_slot(process_t *p, kind_t kind, uint32_t length)
{
    for (slot_t *slot = p->slot; slot < p->slot + SLOTS; ++slot) {
        if (!slot->is_posted) {
            *slot = (slot_t){.owner = p, .kind = kind, .serial = ++p->serial, .length = length};
            return slot;
        }
    }
    return NULL;
}

static vb_status_t posted(process_t *p, slot_t *slot, unsigned flags, vb_status_t status)
{
    if (VB_OK == status && NULL != slot) {
        slot->is_posted = true;
        slot->is_awaited = flags & VB_SIGNAL;
        p->awaited += slot->is_awaited;
    }
    return status;
}

static vb_status_t post_send(process_t *p, const op_t *op)
{
    const uint32_t head = sizeof(vb_hdr_t), most = p->config.buffer_size - head;
    const uint32_t length = op->size % (most + 1), size = head + length;
    const bool is_inline = op->flags & WANT_INLINE && size <= vb_inline_max(p->peer);
    if (p->sent == MESSAGES) {
        return VB_OK;
    }
    slot_t *slot = is_inline ? NULL : take_slot(p, SEND, length);
    if (!is_inline && NULL == slot) {
        return VB_OK;
    }
    /* What is copied is gone after the call. */
    char *at = is_inline ? malloc(size) : memory_of(slot);
    MUST(NULL != at);
    for (uint32_t i = 0; i < length; ++i) {
        at[head + i] = (char) message_byte(p->sent, i);
    }
    struct ibv_sge piece[2] = {{.addr = (uintptr_t) at, .length = size, .lkey = p->mr->lkey}};
    int pieces = 1;
    if (op->flags & WANT_TWO_PIECES && length > 0 && !is_inline) {
        piece[0].length = head + length / 3;
        piece[1] = (struct ibv_sge){.addr = (uintptr_t) at + piece[0].length,
                                    .length = size - piece[0].length,
                                    .lkey = p->mr->lkey};
        pieces = 2;
    }
    const unsigned flags =
        (op->flags & (VB_FENCE | VB_SIGNAL)) | (is_inline ? (unsigned) VB_INLINE : 0u);
    const bool fences = op->flags & VB_FENCE && vb_port_abilities(p->port)->fences && NULL != p->get
                        && p->get->serial == p->get_serial && p->get->is_posted;
    p->record[p->sent] = (record_t){.length = length,
                                    .puts = p->puts,
                                    .put_at = p->put_at,
                                    .put_length = p->put_length,
                                    .get = fences ? p->get : NULL,
                                    .get_serial = p->get_serial};
    const vb_status_t status =
        posted(p, slot, flags,
               vb_post_send(p->peer, (vb_hdr_t *) (void *) at, (uint8_t) (9 + p->sent % 5), piece,
                            pieces, flags, slot));
    p->sent += VB_OK == status;
    if (is_inline) {
        free(at);
    }
    return status;
}

/* By datagrams data is placed as it arrives (docs/design/wire.md, Order): of two writes to one place that are under way, either
 * may be the last. */
static bool may_put(const process_t *p, uint32_t at, uint32_t length)
{
    for (const slot_t *slot = p->slot; NULL != p->port->hybrid && slot < p->slot + SLOTS; ++slot) {
        if (slot->is_posted && PUT == slot->kind && at < slot->at + slot->length
            && slot->at < at + length) {
            return false;
        }
    }
    return true;
}

static vb_status_t post_put(process_t *p, const op_t *op)
{
    const uint32_t length = WORD + op->size % (ROOM - WORD) / WORD * WORD;
    const uint32_t at = op->at % (WINDOW - length) / WORD * WORD;
    const bool by_datagrams = vb_peer_is_by_datagrams(p->peer);
    slot_t *slot = may_put(p, at, length) ? take_slot(p, PUT, length) : NULL;
    if (NULL == slot) {
        return VB_OK;
    }
    for (uint32_t i = 0; i < length; i += WORD) {
        const uint64_t number = p->puts + 1;
        memcpy(memory_of(slot) + i, &number, sizeof(number));
    }
    slot->at = at;
    const process_t *q = other(p);
    struct ibv_sge piece = {
        .addr = (uintptr_t) memory_of(slot), .length = length, .lkey = p->mr->lkey};
    char *there = window_of(q) + at;
    const unsigned flags = (op->flags & (VB_FENCE | VB_SIGNAL))
                           | (length <= vb_inline_put_max(p->peer) ? (unsigned) VB_INLINE : 0u);
    const vb_status_t status =
        by_datagrams ? vb_post_datagram_rdma(p->peer, &piece, q->stag, offset_of(q, there),
                                              flags & ~(unsigned) VB_INLINE, slot)
                     : vb_post_rdma(p->peer, &piece, (uintptr_t) there, q->mr->rkey, flags, slot);
    if (VB_OK == status) {
        ++p->puts;
        p->put_at = at;
        p->put_length = length;
    }
    return posted(p, slot, op->flags, status);
}

static vb_status_t post_get(process_t *p, const op_t *op)
{
    const uint32_t length = 1 + op->size % ROOM % SOURCE;
    const uint32_t at = op->at % (SOURCE - length);
    slot_t *slot = take_slot(p, GET, length);
    if (NULL == slot) {
        return VB_OK;
    }
    memset(memory_of(slot), 0, length);
    slot->at = at;
    const process_t *q = other(p);
    struct ibv_sge piece = {
        .addr = (uintptr_t) memory_of(slot), .length = length, .lkey = p->mr->lkey};
    const unsigned flags = op->flags & (VB_FENCE | VB_SIGNAL);
    const char *there = source_of(q) + at;
    const vb_status_t status =
        vb_peer_is_by_datagrams(p->peer)
            ? vb_post_datagram_rdma(p->peer, &piece, q->stag, offset_of(q, there), flags | VB_READ, slot)
            : vb_post_rdma(p->peer, &piece, (uintptr_t) there, q->mr->rkey, flags | VB_READ, slot);
    if (VB_OK == status) {
        p->get = slot;
        p->get_serial = slot->serial;
    }
    return posted(p, slot, op->flags, status);
}

static vb_status_t post_add(process_t *p, const op_t *op)
{
    /* In the hybrid mode they are messages of the BTL. */
    if (!vb_port_abilities(p->port)->atomics || vb_port_abilities(p->port)->datagrams) {
        return VB_OK;
    }
    slot_t *slot = take_slot(p, ADD, WORD);
    if (NULL == slot) {
        return VB_OK;
    }
    const process_t *q = other(p);
    struct ibv_sge piece = {
        .addr = (uintptr_t) memory_of(slot), .length = WORD, .lkey = p->mr->lkey};
    const uint64_t never = UINT64_MAX;
    const bool swaps = 0 != op->size % 2;
    slot->adds = !swaps;
    const vb_status_t status =
        vb_post_atomic(p->peer, &piece, (uintptr_t) sum_of(q), q->mr->rkey, swaps ? never : 1,
                       swaps ? &never : NULL, op->flags & (VB_FENCE | VB_SIGNAL), slot);
    p->adds += VB_OK == status && !swaps;
    return posted(p, slot, op->flags, status);
}

static vb_status_t post_op(process_t *p, const op_t *op)
{
    switch (op->kind) {
    case SEND:
        return post_send(p, op);
    case PUT:
        return post_put(p, op);
    case GET:
        return post_get(p, op);
    default:
        return post_add(p, op);
    }
}

/* The engine knows of an end before the port has polled it. */
static bool may_fail(const process_t *p)
{
    return vb_peer_is_over(p->peer)
           || (NULL != p->peer->mate && IW_DOWN == p->peer->mate->peer->state);
}

/* As the BTL does: until there is no room again, from where `ready` is called. */
static void drain(process_t *p)
{
    while (p->ops > 0 && NULL != p->peer) {
        MUST(!p->is_draining); /* else the one at the front would be posted twice */
        p->is_draining = true;
        const vb_status_t status = post_op(p, &p->op[p->first]);
        p->is_draining = false;
        if (VB_AGAIN == status) {
            return;
        }
        p->first = (p->first + 1) % OPS;
        --p->ops;
        p->failed += VB_OK != status;
        ++p->world->happened;
        MUST(VB_OK == status || may_fail(p));
    }
}

static void want(process_t *p, const op_t *op)
{
    if (NULL == p->peer || OPS == p->ops) {
        return;
    }
    if (0 == p->ops) {
        const vb_status_t status = post_op(p, op);
        if (VB_AGAIN != status) {
            p->failed += VB_OK != status;
            MUST(VB_OK == status || may_fail(p));
            return;
        }
    }
    p->op[(p->first + p->ops++) % OPS] = *op;
}

/* ---- callbacks ---- */

static bool is_in_place(const slot_t *get)
{
    const char *at = memory_of(get);
    for (uint32_t i = 0; i < get->length; ++i) {
        if (at[i] != source_byte(get->at + i)) {
            return false;
        }
    }
    return true;
}

/* The window has what the put, or a later one, wrote. */
static bool is_written(const process_t *p, uint32_t at, uint32_t length, uint32_t number)
{
    for (uint32_t i = 0; i < length; i += WORD) {
        uint64_t there;
        memcpy(&there, window_of(p) + at + i, sizeof(there));
        if (there < number) {
            return false;
        }
    }
    return true;
}

static void on_done(void *context, vb_peer_t *peer, void *request, vb_status_t status)
{
    process_t *p = context;
    slot_t *slot = request;
    (void) peer;
    MUST(slot->owner == p && slot->is_posted);
    MUST(VB_AGAIN != status && p->awaited >= slot->is_awaited);
    slot->is_posted = false;
    ++p->world->happened;
    p->awaited -= slot->is_awaited;
    p->failed += VB_OK != status;
    p->added += VB_OK == status && ADD == slot->kind && slot->adds;
    if (VB_OK == status && !p->world->is_wicked) {
        MUST(GET != slot->kind || is_in_place(slot));
        uint64_t number;
        memcpy(&number, memory_of(slot), sizeof(number));
        MUST(PUT != slot->kind || is_written(other(p), slot->at, slot->length, (uint32_t) number));
    }
}

static void on_ready(void *context, vb_peer_t *peer)
{
    process_t *p = context;
    if (p == vb_peer_user(peer)) {
        drain(p);
    }
}

static void on_down(void *context, vb_peer_t *peer, const char *why)
{
    process_t *p = context;
    MUST(vb_peer_is_over(peer) && '\0' != *why);
    if (peer == p->peer) {
        ++p->lost;
        MUST(p->world->may_lose || p->world->is_wicked);
    }
}

/* For people, who search the cause of a finding: with FUZZ_TRACE in the environment. */
static void on_trace(void *context, const vb_peer_t *peer, vb_conn_state_t from,
                     vb_conn_event_t event, const char *why)
{
    fprintf(stderr, "%u to %llu: %s %s -> %s (%s)\n", ((process_t *) context)->index,
            (unsigned long long) vb_peer_name(peer), vb_conn_event_name(event),
            vb_conn_state_name(from), vb_conn_state_name(peer->conn.state), why);
}
static void on_way_trace(void *context, const vb_peer_t *peer, vb_switch_state_t from,
                         vb_switch_event_t event)
{
    fprintf(stderr, "%u: %s %s -> %s\n", ((process_t *) context)->index, vb_switch_event_name(event),
            vb_switch_state_name(from), vb_switch_state_name(peer->mate->sw.state));
}

static void on_stranger(void *context, uint64_t name, const uint8_t *data, size_t length)
{
    (void) name, (void) data, (void) length;
    ((process_t *) context)->has_stranger = true;
}

/* ---- receiving ---- */

static uint64_t sum_of_bytes(const vb_received_t *r)
{
    uint64_t sum = r->tag;
    for (uint32_t i = 0; i < r->length; ++i) {
        sum = (sum ^ ((const uint8_t *) r->data)[i]) * UINT64_C(0x100000001b3);
    }
    return sum;
}

static bool is_message(const process_t *from, uint32_t number, const vb_received_t *r)
{
    const uint8_t *data = r->data;
    if (r->length != from->record[number].length || r->tag != (uint8_t) (9 + number % 5)) {
        return false;
    }
    for (uint32_t i = 0; i < r->length; ++i) {
        if (data[i] != message_byte(number, i)) {
            return false;
        }
    }
    return true;
}

static void take_message(process_t *p, const vb_received_t *r)
{
    world_t *w = p->world;
    const process_t *from = other(p);
    ++w->happened;
    (void) sum_of_bytes(r); /* may be read */
    if (vb_peer_name(r->peer) == w->process[2].config.name) {
        ++w->third;
        return;
    }
    if (w->is_wicked) {
        return;
    }
    MUST(vb_peer_name(r->peer) == from->config.name);
    while (p->got < from->sent && !is_message(from, p->got, r)) {
        MUST(w->may_lose || w->is_parted);
        ++p->got;
    }
    MUST(p->got < from->sent);
    const record_t *record = &from->record[p->got++];
    if (!w->is_parted) {
        MUST(is_written(p, record->put_at, record->put_length, record->puts));
    }
    if (NULL != record->get && record->get->is_posted
        && record->get->serial == record->get_serial) {
        MUST(is_in_place(record->get));
    }
}

/* A message that is kept stays as it is. */
static void give_back(process_t *p, unsigned which)
{
    const held_t held = p->held[which];
    p->held[which] = p->held[--p->helds];
    MUST(p->world->is_wicked || held.sum == sum_of_bytes(&held.received));
    vb_port_return(p->port, &held.received, 1);
}

static void meet(process_t *p);

/* Returns how much happened. */
static int poll_once(process_t *p, int most)
{
    vb_received_t r[16];
    int events = 0;
    if (NULL == p->port) {
        return 0;
    }
    vb_port_lock(p->port);
    const int n = vb_port_poll(p->port, r, most, &events);
    MUST(n >= 0 && n <= most);
    for (int i = 0; i < n; ++i) {
        take_message(p, &r[i]);
        if (p->holds && p->helds < HELD) {
            p->held[p->helds++] = (held_t){.received = r[i], .sum = sum_of_bytes(&r[i])};
        } else {
            vb_port_return(p->port, &r[i], 1);
        }
    }
    vb_port_unlock(p->port);
    if (p->has_stranger) {
        p->has_stranger = false;
        meet(p);
    }
    return n + events;
}

/* ---- beginning and end ---- */

static void meet_other(process_t *p, process_t *q)
{
    const struct sockaddr_in address = fake_address(q->index + 1, vb_port_number(q->port));
    vb_dgram_address_t there;
    uint8_t key[16];
    vb_port_lock(p->port);
    vb_peer_t *peer = vb_peer_add(p->port, q->config.name, &address, q->config.key, p);
    MUST(NULL != peer);
    if (vb_port_datagrams(q->port, &there, key)) {
        (void) vb_peer_add_datagrams(peer, &there, key);
    }
    if (q == other(p)) {
        p->peer = peer;
        vb_peer_offer_elsewhere(peer, true);
    }
    vb_port_unlock(p->port);
}

/* The port's `copy`. */
static bool copy_registered(void *context, uint32_t rkey, uint64_t remote, void *data, uint32_t size, bool is_write)
{
    const process_t *p = context;
    const uint64_t offset = remote - (uintptr_t) p->memory;
    if (p->mr->rkey != rkey || offset > MEMORY || size > MEMORY - offset) {
        return false;
    }
    memcpy(is_write ? p->memory + offset : data, is_write ? data : p->memory + offset, size);
    return true;
}

static vb_part_t last_part; /* that was carried */

/* What goes by another port, which is not there: now and then one goes nowhere. */
static void carry(process_t *p)
{
    vb_parcel_t *parcel;
    do {
        vb_port_lock(p->port);
        parcel = vb_port_next_part(p->port);
        const bool fails = NULL != parcel && (NULL == other(p)->port || parcel->peer != p->peer || p->carries_none);
        if (fails) {
            vb_peer_is_not_carried(parcel->peer);
        }
        vb_port_unlock(p->port);
        if (NULL != parcel && !fails) {
            (void) vb_part_read(&last_part, parcel->data, parcel->length);
            vb_port_lock(other(p)->port);
            vb_port_take_part(other(p)->port, p->config.name, parcel->data, parcel->length);
            vb_port_unlock(other(p)->port);
            ++p->world->happened;
        }
        free(parcel);
    } while (NULL != parcel);
}

static void meet(process_t *p)
{
    if (!p->is_closed && NULL != p->port && NULL != other(p)->port) {
        meet_other(p, other(p));
    }
}

static void part(process_t *p)
{
    if (NULL != p->peer) {
        vb_port_lock(p->port);
        vb_peer_close(p->peer);
        vb_port_unlock(p->port);
        p->failed += p->ops;
        p->ops = 0;
        p->peer = NULL;
        p->is_closed = true;
        p->world->is_parted = true;
    }
}

static void start(process_t *p)
{
    char why[256];
    p->port = vb_port_open(&p->config, why, sizeof(why));
    MUST(NULL != p->port);
    /* Apart from all else, so that what reaches beyond it is seen. */
    p->memory = aligned_alloc(64, (MEMORY + 63) / 64 * 64);
    MUST(NULL != p->memory);
    memset(p->memory, 0, MEMORY);
    static char source[SOURCE];
    for (uint32_t i = SOURCE; 0 == source[1] && i-- > 0;) {
        source[i] = source_byte(i);
    }
    memcpy(source_of(p), source, SOURCE);
    p->mr = ibv_reg_mr(vb_port_pd(p->port), p->memory, MEMORY,
                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE
                           | IBV_ACCESS_REMOTE_ATOMIC);
    MUST(NULL != p->mr);
    iw_uses_init(&p->uses, 1);
    vb_port_lock(p->port);
    p->stag = vb_port_expose(p->port, p->memory, MEMORY, true, true, &p->uses);
    vb_port_unlock(p->port);
}

static void stop(process_t *p)
{
    if (NULL == p->port) {
        return;
    }
    vb_port_lock(p->port);
    while (p->helds > 0) {
        give_back(p, 0);
    }
    vb_port_unlock(p->port);
    p->world->may_lose = true;
    part(p);
    vb_port_quiesce(p->port, 1000000);
    (void) ibv_dereg_mr(p->mr);
    vb_port_close(p->port);
    p->port = NULL;
}

#endif
