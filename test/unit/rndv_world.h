/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The world of test_rndv_random.c: senders, a receiver, channels between them, and what was met in all schedules. */
#ifndef RNDV_WORLD_H
#define RNDV_WORLD_H

#include "mpi_model.h"

#include "spec_handle.h"
#include "spec_recv.h"
#include "spec_send.h"

#define ANY         SPEC_ANY
#define SENDERS     2
#define EAGER_LIMIT 8u
/* Steps of a short and of a long schedule. */
#define SHORT_STEPS 400u
#define LONG_STEPS  6000u

static const int32_t tags[] = {5, 7, -17}; /* the last one is not for the tag wildcard */
#define TAGS (sizeof(tags) / sizeof(tags[0]))

typedef struct message message_t;

typedef enum { PENDING, MATCHED, COMPLETE, CANCELLED } recv_state_t;

typedef struct receive {
    spec_posted_t posted;
    recv_state_t state;
    int32_t src, tag;
    int32_t sender; /* under which it was queued, or ANY */
    uint64_t capacity;
    uint64_t handle; /* 0 when closed */
    bool cancel_asked;
    uint64_t word;            /* if its offer can be withdrawn */
    const message_t *writer;  /* whose data is in the buffer */
    const message_t *matched; /* what it got by MPI's rules */
    bool fin;
} receive_t;

struct message {
    spec_item_t item;
    spec_unexp_t unexp;
    int src;
    int32_t tag;
    uint64_t length;
    bool is_match;       /* a MATCH: its data goes by RDMA */
    uint64_t r;          /* of a MATCH: the receive it was written to */
    receive_t *receiver; /* who got it */
};

/* Keeping an RTR apart from what the core says about it. */
typedef struct rtr {
    spec_ctl_t ctl; /* also a REVOKE */
    uint64_t r;
    uint32_t first; /* index of message E in the log */
    bool is_kept;
} rtr_t;

typedef enum { TO_RECEIVER_MESSAGE, TO_RECEIVER_FIN, TO_RECEIVER_REVOKED, TO_SENDER } packet_kind_t;

typedef struct packet {
    packet_kind_t kind;
    union {
        message_t *message;
        uint64_t r; /* FIN */
        rtr_t *ctl; /* RTR, REVOKE */
        struct {
            uint32_t no, s;
            int32_t tag;
        } revoked;
    };
} packet_t;

typedef struct channel {
    packet_t *packet;
    size_t n, room;
} channel_t;

/* Pointers in an array. */
typedef struct array {
    void **item;
    size_t n, room;
} array_t;

typedef struct sender {
    spec_send_t send;
    uint32_t start;  /* first sequence number */
    size_t opened;   /* messages sent before the ledger was opened */
    array_t log;     /* all messages, in order */
    array_t ctl;     /* all RTRs and REVOKEs that the receiver made */
    array_t kept;    /* RTRs that were admitted and not settled */
    array_t writing; /* messages that use an RTR and have no FIN yet */
    channel_t down, up;
    spec_recv_t recv; /* at the receiver */
} sender_t;

typedef struct world {
    rng_t rng;
    unsigned senders;
    bool fifo, write_late;
    bool words, all_words; /* offers that can be withdrawn: any, all */
    enum {
        WIDE,
        NARROWS,
        WIDENS
    } narrows; /* receives for any source are for the first sender, until the second sends */
    sender_t sender[SENDERS];
    spec_match_t match;
    spec_handle_table_t handles;
    model_t model;
    array_t receives;
    uint32_t open_cancels;
    uint32_t weight_send, weight_post, weight_cancel, weight_down, weight_up, weight_write;
    uint32_t ahead, pending; /* how far sends and receives get ahead of each other, at most */
    uint32_t percent_speculate, percent_wildcard, percent_large;
    uint32_t wildcards; /* only for any source (1), any tag (2), both (3); 0: all kinds */
} world_t;

/* What happened, over all schedules: shows that the interesting cases were met. */
static uint64_t offered, fates[SPEC_RTR_FATES], cancels[SPEC_CANCEL_WAIT + 1], revoked_away,
    yielded, matched_meanwhile, past_ring, withdrawn, any_tag_used, any_source_used,
    widened_at_once, widened_later;
static uint64_t seed_now;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fail_msg("not so: %s; again with SPEC_SEED=%llu SPEC_ROUNDS=1", #condition,            \
                     (unsigned long long) seed_now);                                               \
        }                                                                                          \
    } while (0)

static void array_add(array_t *a, void *item)
{
    if (a->n == a->room) {
        void **more = must_alloc((a->room = 2 * a->room + 16) * sizeof(*more));
        if (a->n > 0) {
            memcpy(more, a->item, a->n * sizeof(*more));
        }
        free(a->item);
        a->item = more;
    }
    a->item[a->n++] = item;
}

static void array_drop(array_t *a, size_t i)
{
    a->item[i] = a->item[--a->n];
}

static void array_free(array_t *a, bool with_items)
{
    for (size_t i = 0; with_items && i < a->n; ++i) {
        free(a->item[i]);
    }
    free(a->item);
}

static void put_in(channel_t *c, packet_t packet)
{
    if (c->n == c->room) {
        packet_t *more = must_alloc((c->room = 2 * c->room + 16) * sizeof(*more));
        if (c->n > 0) {
            memcpy(more, c->packet, c->n * sizeof(*more));
        }
        free(c->packet);
        c->packet = more;
    }
    c->packet[c->n++] = packet;
}

static packet_t take_from(world_t *w, channel_t *c)
{
    size_t i = w->fifo ? 0 : rng_below(&w->rng, (uint32_t) c->n);
    packet_t packet = c->packet[i];
    if (w->fifo) {
        memmove(c->packet, c->packet + 1, (c->n - 1) * sizeof(*c->packet));
    } else {
        c->packet[i] = c->packet[c->n - 1];
    }
    --c->n;
    return packet;
}

#endif
