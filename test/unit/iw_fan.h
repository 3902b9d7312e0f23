/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Many send to one through a switch whose port is slow: the engines on the simulated network (iw_link.h), in virtual time, the same
 * on every machine. All begin a message at about the same time, when the messages before have arrived. A message is what a large
 * one of MPI is: a write into the receiver's memory, and a word behind it that tells of it; the receiver checks the memory
 * when it hears the word. It knows of a sender only when that says hello.
 *
 * For unit tests and benchmarks; without cmocka. One at a time: the engine that is made asks it for the configuration. */
#ifndef IW_FAN_H
#define IW_FAN_H

#define FAN_SENDERS  1024
#define LINK_ENGINES (1 + FAN_SENDERS)
#include "iw_link.h"

#include "iw_internal.h"

#define FAN_MS UINT64_C(1000000)
#define FAN_S  UINT64_C(1000000000)

typedef struct fan_plan {
    unsigned senders;
    unsigned silent;     /* more processes, which say nothing */
    uint32_t first;      /* bytes of a message that goes ahead, so that the paths are known as they are when nobody sends; 0: none does */
    unsigned warm;       /* bursts before those that count */
    unsigned bursts;     /* messages of each sender that do */
    uint32_t size;       /* bytes of one */
    unsigned mbit;       /* rate of every link, Mbit/s */
    uint64_t latency_ns; /* one way */
    uint64_t expect_ns;  /* the round trip that is assumed (iw_peer_expect); 0: none is */
    uint64_t queue_ns;   /* who would wait longer at the receiver's port is dropped */
    uint64_t mark_ns;    /* and so long, marked; 0: none is */
    uint64_t stagger_ns; /* a sender begins so much later, at most */
    uint32_t space;      /* bytes that the receiver's socket buffers */
    uint16_t datagram;   /* largest */
    uint64_t seed;
} fan_plan_t;

/* As eight hosts over Ethernet. */
static const fan_plan_t fan_plan = {
    .senders = 8, .bursts = 2, .size = 1500000, .mbit = 100, .latency_ns = FAN_MS / 20, .expect_ns = 10 * FAN_MS, .queue_ns = FAN_S,
    .space = 4 << 20, .datagram = 1472, .seed = 1};

/* What happened, since the warm bursts. */
typedef struct fan_events {
    uint64_t dropped;
    uint64_t segments, resent;
    uint64_t needless; /* segments that arrived and were there */
    uint64_t known;    /* of them, those that their senders heard of */
    uint64_t lost_by_number, lost_by_time, timeouts, marked;
} fan_events_t;

typedef struct fan_result {
    uint64_t ns, ideal_ns; /* virtual; what the payload takes at the link's rate */
    uint64_t trip_ns;      /* average of the senders' estimates at the end */
    fan_events_t events;
    uint64_t marked_in;     /* datagrams that came marked, since the beginning */
    uint64_t arrived;       /* messages, whole and in their order, warm ones too */
    uint64_t wrong;         /* messages that were not */
    uint64_t memory_before; /* bytes of the receiver's engine before anybody was heard, */
    uint64_t memory;        /* at the end, when it is largest: it gives nothing back; */
    uint64_t pools;         /* of them, those of what was under way at a time */
    uint64_t sender_memory; /* what the senders' engines grew by, together */
    uint64_t trace;         /* a hash of all datagrams and of when they left */
} fan_result_t;

typedef struct fan {
    link_t link;
    fan_plan_t plan;
    uint64_t random;
    iw_peer_t *peer[FAN_SENDERS];
    uint64_t message;             /* that all send */
    uint64_t heard[FAN_SENDERS];  /* messages of each that have come */
    uint64_t begins[FAN_SENDERS]; /* when; UINT64_MAX: it has begun */
    uint8_t *source;              /* of all senders; message i of sender s begins at fan_shift */
    uint8_t *memory;
    uint32_t stag;
    uint64_t words[FAN_SENDERS]; /* receive buffers */
    unsigned left;               /* words not heard, and requests not complete */
    fan_result_t result;
} fan_t;

/* Messages differ by where they begin in the source. */
static inline size_t fan_shift(unsigned sender, uint64_t message)
{
    return (sender * 31 + message * 7) % 4096;
}

static fan_t *fan_present;

static inline void fan_tune(iw_config_t *c)
{
    c->datagram_max = fan_present->plan.datagram;
    c->datagram_min = c->datagram_min < c->datagram_max ? c->datagram_min : c->datagram_max;
    c->receive_space = fan_present->plan.space;
    c->context = fan_present;
}

static inline iw_peer_t *fan_met(void *context, iw_engine_t *e, uint64_t identity)
{
    fan_t *f = context;
    iw_peer_t *p = e == f->link.engine[0] ? link_peer(&f->link, 0, (unsigned) (identity - 100), NULL) : NULL;
    if (NULL != p && 0 != f->plan.expect_ns) {
        iw_peer_expect(p, f->plan.expect_ns);
    }
    return p;
}

static inline void fan_tune_all(iw_config_t *c)
{
    fan_tune(c);
    c->unknown = fan_met;
}

static inline void fan_see(void *context, unsigned from, const uint8_t *data, size_t length)
{
    fan_t *f = context;
    uint64_t h = f->result.trace ^ f->link.now ^ (uint64_t) from << 48;
    for (size_t i = 0; i < length && i < 96; ++i) {
        h = (h ^ data[i]) * UINT64_C(0x100000001b3);
    }
    f->result.trace = h;
}

static inline void fan_must(bool is_right, const char *what)
{
    if (!is_right) {
        fprintf(stderr, "the simulation cannot go on: %s\n", what);
        abort();
    }
}

static inline void *fan_alloc(size_t bytes)
{
    void *p = calloc(1, bytes);
    fan_must(NULL != p, "out of memory");
    return p;
}

/* f is large: not on the stack of many. */
static inline void fan_init(fan_t *f, const fan_plan_t *plan)
{
    fan_must(plan->senders > 0 && plan->senders + plan->silent <= FAN_SENDERS, "too many senders");
    *f = (fan_t){.plan = *plan, .random = plan->seed};
    f->source = fan_alloc((size_t) plan->size + 4096);
    f->memory = fan_alloc((size_t) plan->size * plan->senders);
    for (size_t i = 0; i < (size_t) plan->size + 4096; ++i) {
        f->source[i] = (uint8_t) iw_random_next(&f->random);
    }
    fan_present = f;
    link_tune = fan_tune_all;
    link_init(&f->link, 1 + plan->senders + plan->silent, NULL, plan->seed);
    link_tune = NULL;
    link_acts = 0;
    f->link.tap = fan_see;
    f->link.tap_context = f;
    f->link.latency = plan->latency_ns;
    f->link.ns_for_kib = f->link.queue_ns_for_kib = UINT64_C(8192000) / plan->mbit;
    f->link.queue_ns = plan->queue_ns;
    f->link.mark_ns = plan->mark_ns;
    f->stag = iw_register(f->link.engine[0], f->memory, (uint64_t) plan->size * plan->senders, IW_REMOTE_WRITE, NULL);
    for (unsigned i = 0; i < plan->senders; ++i) {
        f->begins[i] = UINT64_MAX;
        fan_must(IW_OK == iw_post_receive(f->link.engine[0], &f->words[i], sizeof(f->words[i]), &f->words[i]), "no receive buffer");
    }
    f->result.memory_before = iw_engine_memory(f->link.engine[0]);
}

static inline void fan_post(fan_t *f, unsigned i, uint32_t size)
{
    link_acts = 1 + i;
    if (NULL == f->peer[i]) {
        f->result.sender_memory -= iw_engine_memory(f->link.engine[1 + i]);
        f->peer[i] = link_peer(&f->link, 1 + i, 0, NULL);
        fan_must(NULL != f->peer[i], "no peer");
        if (0 != f->plan.expect_ns) {
            iw_peer_expect(f->peer[i], f->plan.expect_ns);
        }
    }
    const struct iovec data = {f->source + fan_shift(i, f->message), size}, word = {&size, sizeof(size)};
    f->begins[i] = UINT64_MAX;
    fan_must(IW_OK == iw_post_write(f->peer[i], &data, 1, f->stag, (uint64_t) i * f->plan.size, IW_BULK, NULL), "no write");
    fan_must(IW_OK == iw_post_send(f->peer[i], &word, 1, IW_INLINE | IW_BEHIND | IW_PROMPT, NULL), "no send");
}

/* A message has been told: are its bytes there? */
static inline void fan_check(fan_t *f, const iw_completion_t *done)
{
    const unsigned i = (unsigned) (iw_peer_identity(done->peer) - 101);
    uint32_t size;
    memcpy(&size, done->context, sizeof(size));
    const bool is_right = IW_OK == done->status && sizeof(size) == done->length
                          && 0 == memcmp(f->memory + (size_t) i * f->plan.size, f->source + fan_shift(i, f->heard[i]), size);
    ++f->heard[i];
    f->result.arrived += is_right;
    f->result.wrong += !is_right;
    memset(f->memory + (size_t) i * f->plan.size, 0, size);
    fan_must(IW_OK == iw_post_receive(f->link.engine[0], done->context, sizeof(f->words[0]), done->context), "no receive buffer");
}

static inline void fan_poll(fan_t *f)
{
    iw_completion_t done;
    link_acts = 0;
    while (1 == iw_engine_poll(f->link.engine[0], &done, 1)) {
        if (IW_RECEIVED == done.what) {
            fan_check(f, &done);
            --f->left;
        } else {
            ++f->result.wrong;
        }
    }
    for (unsigned i = 0; i < f->plan.senders; ++i) {
        while (1 == iw_engine_poll(f->link.engine[1 + i], &done, 1)) {
            f->result.wrong += IW_OK != done.status;
            --f->left;
        }
    }
}

/* Each sends so many bytes, and all wait until they are there. False: that takes longer than an hour. */
static inline bool fan_burst(fan_t *f, uint32_t size)
{
    const uint64_t end = f->link.now + 3600 * FAN_S;
    unsigned to_begin = f->plan.senders;
    f->left = 3 * f->plan.senders; /* the word heard, the write and the word complete */
    for (unsigned i = 0; i < f->plan.senders; ++i) {
        f->begins[i] = f->link.now + (0 == f->plan.stagger_ns ? 0 : iw_random_next(&f->random) % f->plan.stagger_ns);
    }
    while (f->left > 0) {
        uint64_t next = end;
        for (unsigned i = 0; i < f->plan.senders && to_begin > 0; ++i) {
            if (f->begins[i] <= f->link.now) {
                fan_post(f, i, size);
                --to_begin;
            } else if (f->begins[i] < next) {
                next = f->begins[i];
            }
        }
        if (!link_step(&f->link, next)) {
            if (next == end) {
                return false;
            }
            f->link.now = next;
        }
        fan_poll(f);
    }
    ++f->message;
    return true;
}

static inline fan_events_t fan_events(const fan_t *f)
{
    const iw_counters_t *to = iw_engine_counters(f->link.engine[0]);
    fan_events_t e = {.needless = to->segments_twice, .dropped = f->link.dropped};
    for (unsigned i = 0; i < f->plan.senders; ++i) {
        const iw_counters_t *c = iw_engine_counters(f->link.engine[1 + i]);
        e.segments += c->segments_out;
        e.resent += c->segments_resent;
        e.known += c->lost_spurious;
        e.lost_by_number += c->lost_by_number;
        e.lost_by_time += c->lost_by_time;
        e.timeouts += c->probe_timeouts;
        e.marked += c->marked_out;
    }
    return e;
}

static inline fan_events_t fan_since(fan_events_t e, const fan_events_t *before)
{
    uint64_t *now = (uint64_t *) &e;
    for (size_t i = 0; i < sizeof(e) / sizeof(*now); ++i) {
        now[i] -= ((const uint64_t *) before)[i];
    }
    return e;
}

static inline void fan_measure(fan_t *f)
{
    fan_result_t *r = &f->result;
    const iw_engine_t *e = f->link.engine[0];
    r->marked_in = iw_engine_counters(e)->marked_in;
    r->memory = iw_engine_memory(e);
    r->pools = e->early.made * e->early.size + e->messages.made * e->messages.size + e->segments.made * e->segments.size;
    for (unsigned i = 0; i < f->plan.senders; ++i) {
        r->sender_memory += iw_engine_memory(f->link.engine[1 + i]);
        r->trip_ns += f->peer[i]->path.rtt.srtt / f->plan.senders;
    }
}

static inline void fan_fini(fan_t *f)
{
    link_fini(&f->link);
    free(f->memory);
    free(f->source);
}

/* All of the plan. False: it does not end. */
static inline bool fan_run(const fan_plan_t *plan, fan_result_t *result)
{
    fan_t *f = fan_alloc(sizeof(*f));
    fan_events_t before = {0};
    fan_init(f, plan);
    bool ends = 0 == plan->first || fan_burst(f, plan->first);
    uint64_t begin = f->link.now;
    for (unsigned i = 0; i < plan->warm + plan->bursts && ends; ++i) {
        if (plan->warm == i) {
            before = fan_events(f);
            begin = f->link.now;
        }
        ends = fan_burst(f, plan->size);
    }
    f->result.events = fan_since(fan_events(f), &before);
    f->result.ns = f->link.now - begin;
    f->result.ideal_ns = UINT64_C(8000) * plan->bursts * plan->senders * plan->size / plan->mbit;
    fan_measure(f);
    *result = f->result;
    fan_fini(f);
    free(f);
    return ends;
}

#endif
