/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A sender of test_rndv_random.c: the RTR that a message gets is compared with the rule, counted through the log of all
 * messages. */
#ifndef RNDV_SENDER_H
#define RNDV_SENDER_H

#include "rndv_receiver.h"

/* The RTR that names the message which is sent now, taken out of the list, or NULL. */
static rtr_t *named_by_the_rule(sender_t *s, int32_t tag)
{
    for (size_t i = 0; i < s->kept.n; ++i) {
        rtr_t *rtr = s->kept.item[i];
        if (is_for(rtr->ctl.tag, tag) && sent_since(s, rtr->first, rtr->ctl.tag) == rtr->ctl.k) {
            array_drop(&s->kept, i);
            return rtr;
        }
    }
    return NULL;
}

static void write_data(world_t *w, message_t *msg)
{
    receive_t *r = spec_handle_find(&w->handles, msg->r);
    CHECK(NULL != r); /* nobody gave the buffer back */
    CHECK(is_alive(r));
    CHECK(NULL == r->writer);
    CHECK(PENDING == r->state || r->matched == msg);
    CHECK(r->sender == msg->src && is_for(r->tag, msg->tag) && msg->length <= r->capacity);
    any_tag_used += ANY == r->tag;
    any_source_used += ANY == r->src;
    r->writer = msg;
}

static void send(world_t *w, unsigned src, int32_t tag, uint64_t length, bool is_flat)
{
    sender_t *s = &w->sender[src];
    const bool can_put = is_flat && length > EAGER_LIMIT;
    rtr_t *expected = named_by_the_rule(s, tag);
    message_t *msg = must_alloc(sizeof(*msg));
    spec_ctl_t *ctl = NULL;
    spec_rtr_fate_t fate = SPEC_RTR_FATES;
    msg->src = (int) src;
    msg->tag = tag;
    msg->length = length;
    msg->item.no = spec_send_issue(&s->send, tag, length, can_put, &ctl, &fate);
    CHECK(msg->item.no == s->start + (uint32_t) s->log.n);
    array_add(&s->log, msg);
    CHECK(ctl == (NULL == expected ? NULL : &expected->ctl));
    if (NULL != ctl) {
        CHECK(fate
              == (!can_put               ? SPEC_RTR_MISPREDICTED
                  : length > ctl->length ? SPEC_RTR_TOO_SHORT
                                         : SPEC_RTR_USED));
        fate = SPEC_RTR_USED == fate ? spec_send_take(ctl) : fate;
        ++fates[fate];
        if (SPEC_RTR_USED == fate) {
            msg->is_match = true;
            msg->r = expected->r;
            array_add(&s->writing, msg);
            if (!w->write_late) {
                write_data(w, msg);
            }
        }
    }
    put_in(&s->down, (packet_t){.kind = TO_RECEIVER_MESSAGE, .message = msg});
}

/* A transfer ends. */
static void write_ends(world_t *w, sender_t *s)
{
    size_t i = rng_below(&w->rng, (uint32_t) s->writing.n);
    message_t *msg = s->writing.item[i];
    array_drop(&s->writing, i);
    if (w->write_late) {
        write_data(w, msg);
    }
    put_in(&s->down, (packet_t){.kind = TO_RECEIVER_FIN, .r = msg->r});
}

/* An RTR or REVOKE whose turn it is. */
static void control_turn(sender_t *s, rtr_t *rtr)
{
    if (!rtr->ctl.is_revoke) {
        const uint32_t n = sent_since(s, rtr->first, rtr->ctl.tag);
        const bool is_past_ring = s->log.n - rtr->first > SPEC_RING;
        const bool is_forgotten = rtr->first < s->opened || is_past_ring;
        spec_rtr_fate_t fate = spec_send_admit(&s->send, &rtr->ctl);
        CHECK(is_forgotten == (SPEC_RTR_TOO_OLD == fate));
        past_ring += is_past_ring;
        switch (fate) {
        case SPEC_RTR_KEPT:
            CHECK(n <= rtr->ctl.k);
            rtr->is_kept = true;
            array_add(&s->kept, rtr);
            return;
        case SPEC_RTR_CROSSED:
            CHECK(n > rtr->ctl.k);
            break;
        case SPEC_RTR_TOO_OLD:
            break;
        case SPEC_RTR_FULL:
            CHECK(s->kept.n >= SPEC_KEPT_MAX);
            break;
        default:
            CHECK(!"an honest RTR was refused");
        }
        ++fates[fate];
        return;
    }
    spec_node_t dropped, *node;
    spec_list_init(&dropped);
    uint32_t answer = spec_send_revoke(&s->send, rtr->ctl.tag, &dropped);
    CHECK(answer == s->send.nxt);
    while (NULL != (node = spec_list_pop(&dropped))) {
        rtr_t *gone = SPEC_ENTRY(node, rtr_t, ctl.item.node);
        size_t i = 0;
        while (i < s->kept.n && s->kept.item[i] != gone) {
            ++i;
        }
        CHECK(i < s->kept.n && gone->ctl.tag == rtr->ctl.tag);
        array_drop(&s->kept, i);
        ++fates[SPEC_RTR_REVOKED];
    }
    for (size_t i = 0; i < s->kept.n; ++i) {
        CHECK(((rtr_t *) s->kept.item[i])->ctl.tag != rtr->ctl.tag);
    }
    put_in(&s->down,
           (packet_t){.kind = TO_RECEIVER_REVOKED,
                      .revoked = {.no = rtr->ctl.item.no, .s = answer, .tag = rtr->ctl.tag}});
}

#endif
