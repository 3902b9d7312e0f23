/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A peer that has the key and still sends what it likes: datagrams made by hand. Engine 0 is the victim, engine 1
 * only lends its name. */
#ifndef IW_WICKED_H
#define IW_WICKED_H

#include "spec_unit.h"

#include "iw_internal.h"
#include "iw_link.h"

#define MS UINT64_C(1000000)

enum { BUFFERS = 8, SIZE = 64, MEMORY = 128 };

typedef struct wicked {
    link_t link;
    iw_engine_t *victim;
    iw_peer_t *peer; /* the victim's */
    uint64_t pn;
    uint16_t lag;                      /* of the floor behind the number */
    uint8_t buffer[BUFFERS][2 * SIZE]; /* posted with SIZE: the rest must stay */
    _Alignas(8) uint8_t memory[MEMORY];
    uint32_t stag;
} wicked_t;

static inline void no_tags(iw_config_t *c)
{
    c->auth = IW_AUTH_OFF;
    c->reads = 2;
}

static inline void wicked_init(wicked_t *w)
{
    memset(w, 0, sizeof(*w));
    link_tune = no_tags;
    link_init(&w->link, 2, NULL, 1);
    w->victim = w->link.engine[0];
    w->peer = link_peer(&w->link, 0, 1, NULL);
    memset(w->buffer, 0x5a, sizeof(w->buffer));
    memset(w->memory, 0x5a, sizeof(w->memory));
    for (int i = 0; i < BUFFERS; ++i) {
        iw_post_receive(w->victim, w->buffer[i], SIZE, w->buffer[i]);
    }
    w->stag = iw_register(w->victim, w->memory, MEMORY, IW_REMOTE_READ | IW_REMOTE_WRITE, NULL);
}

static inline void wicked_fini(wicked_t *w)
{
    for (int i = 0; i < BUFFERS; ++i) {
        for (int k = SIZE; k < 2 * SIZE; ++k) {
            assert_int_equal(w->buffer[i][k], 0x5a);
        }
    }
    link_fini(&w->link);
    link_tune = NULL;
}

/* Head and, as long as the victim does not know us, hello. */
static inline size_t start(wicked_t *w, uint8_t *to, enum iw_type type, uint8_t flags)
{
    bool hello = 0 == w->peer->conn;
    size_t n = sizeof(iw_head_t);
    iw_head_t h = {.version_type = (uint8_t) (IW_VERSION << 4 | type),
                   .flags = (uint8_t) (flags | (hello ? IW_F_HELLO : 0)),
                   .floor = iw_be16(w->lag),
                   .conn = iw_be32(w->peer->conn),
                   .pn = iw_be64(++w->pn),
                   .tag = iw_be64(hello ? 0 : w->peer->generation)};
    memcpy(to, &h, sizeof(h));
    if (hello) {
        iw_hello_t s = {.identity = iw_be64(101),
                        .generation = iw_be64(2000),
                        .conn = iw_be32(1),
                        .datagram = iw_be16(9000),
                        .version_max = 1,
                        .reads = 16};
        memcpy(to + n, &s, sizeof(s));
        n += sizeof(s);
    }
    return n;
}

static inline void give(wicked_t *w, const uint8_t *data, size_t n)
{
    uint8_t *exact = must_alloc(n);
    memcpy(exact, data, n);
    iw_engine_input(w->victim, w->link.now, exact, n);
    free(exact);
}

static inline void segment(wicked_t *w, uint32_t ssn, const void *ddp, size_t ddp_length,
                           size_t payload)
{
    uint8_t data[1024];
    size_t n = start(w, data, IW_SEGMENT, 0);
    iw_seq_t q = {.ssn = iw_be32(ssn), .ulpdu.length = iw_be16((uint16_t) (ddp_length + payload))};
    memcpy(data + n, &q, sizeof(q));
    n += sizeof(q);
    memcpy(data + n, ddp, ddp_length);
    n += ddp_length;
    memset(data + n, 0x77, payload);
    give(w, data, n + payload);
}

static inline void send_part(wicked_t *w, uint32_t ssn, uint32_t msn, uint32_t mo, bool last,
                             size_t length)
{
    iw_untagged_t h = {.ddp = IW_DDP_VERSION | (last ? IW_DDP_LAST : 0),
                       .rdmap = IW_RDMAP_VERSION | IW_OP_SEND,
                       .qn = iw_be32(IW_QN_SEND),
                       .msn = iw_be32(msn),
                       .mo = iw_be32(mo)};
    segment(w, ssn, &h, sizeof(h), length);
}

static inline void tagged(wicked_t *w, uint32_t ssn, uint8_t opcode, uint32_t stag, uint64_t to,
                          size_t length)
{
    iw_tagged_t h = {.ddp = IW_DDP_TAGGED | IW_DDP_LAST | IW_DDP_VERSION,
                     .rdmap = IW_RDMAP_VERSION | opcode,
                     .stag = iw_be32(stag),
                     .to = iw_be64(to)};
    segment(w, ssn, &h, sizeof(h), length);
}

static inline void read_request(wicked_t *w, uint32_t ssn, uint32_t msn, uint32_t length)
{
    uint8_t both[sizeof(iw_untagged_t) + sizeof(iw_read_request_t)];
    iw_untagged_t h = {.ddp = IW_DDP_VERSION | IW_DDP_LAST,
                       .rdmap = IW_RDMAP_VERSION | IW_OP_READ_REQUEST,
                       .qn = iw_be32(IW_QN_READ),
                       .msn = iw_be32(msn)};
    iw_read_request_t r = {
        .sink_stag = iw_be32(5), .length = iw_be32(length), .source_stag = iw_be32(w->stag)};
    memcpy(both, &h, sizeof(h));
    memcpy(both + sizeof(h), &r, sizeof(r));
    segment(w, ssn, both, sizeof(both), 0);
}

/* The connection has ended with this Terminate, and every receive buffer is free again. */
static inline void expect_end(wicked_t *w, int term, unsigned taken)
{
    iw_completion_t c;
    bool down = false;
    while (1 == iw_engine_poll(w->victim, &c, 1)) {
        down |= IW_PEER_DOWN == c.what && IW_PROTOCOL == c.status;
    }
    assert_true(down);
    assert_int_equal(w->peer->state, IW_DOWN);
    assert_int_equal(w->peer->term.code, term);
    assert_true(w->peer->term.pending);
    assert_int_equal(iw_receives_free(w->victim), BUFFERS - taken);
    /* Whatever comes now changes nothing. */
    send_part(w, 0, 1, 0, true, 8);
    assert_int_equal(iw_engine_poll(w->victim, &c, 1), 0);
}

#endif
