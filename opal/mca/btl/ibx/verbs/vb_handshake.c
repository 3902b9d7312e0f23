/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What a datagram about a connection means, and when a request is said again. */
#include "vb_handshake.h"

/* The other side's thread answers in less, unless its processor is busy or the datagram is lost. ns */
#define FIRST_PAUSE UINT64_C(50000000)

static vb_verdict_t hear_request(vb_handshake_t *h, const vb_attempt_t *attempt, uint64_t number)
{
    if (number < h->theirs) {
        return VB_NOTHING;
    }
    if (number > h->theirs) {
        *h = (vb_handshake_t){.theirs = number, .answer = VB_BUSY};
        return VB_IS_ASKED;
    }
    const bool stands = number == attempt->number && !attempt->is_mine;
    if (VB_WELCOME == h->answer && !stands) {
        h->answer = VB_GONE; /* it was, and has ended */
    }
    return VB_IS_REPEATED;
}

static vb_verdict_t hear_answer(vb_attempt_t *attempt, const vb_cm_message_t *message)
{
    if (message->number != attempt->number || !attempt->is_mine) {
        return VB_WELCOME == message->hello.answer ? VB_IS_IN_VAIN : VB_NOTHING;
    }
    if (attempt->is_answered) {
        return VB_WELCOME == message->hello.answer ? VB_IS_UNHEARD : VB_NOTHING;
    }
    attempt->is_answered = true;
    return VB_IS_ANSWERED;
}

static vb_verdict_t hear_ready(vb_attempt_t *attempt, uint64_t number)
{
    if (number != attempt->number || attempt->is_mine) {
        return VB_IS_IN_VAIN;
    }
    const bool is_known = attempt->is_answered;
    attempt->is_answered = true;
    return is_known ? VB_NOTHING : VB_IS_READY;
}

/* message->is_mine is the speaker's view: what is its own is not mine. */
static vb_verdict_t hear_gone(vb_handshake_t *h, vb_attempt_t *attempt,
                              const vb_cm_message_t *message)
{
    if (message->is_mine && message->number >= h->theirs) {
        *h = (vb_handshake_t){.theirs = message->number, .answer = VB_GONE};
    }
    if (message->number != attempt->number || message->is_mine == attempt->is_mine) {
        return VB_NOTHING;
    }
    return attempt->is_mine && !attempt->is_answered ? hear_answer(attempt, message) : VB_IS_ENDED;
}

vb_verdict_t vb_handshake_hear(vb_handshake_t *handshake, vb_attempt_t *attempt,
                               const vb_cm_message_t *message)
{
    switch (message->hello.answer) {
    case VB_ASK:
        return hear_request(handshake, attempt, message->number);
    case VB_GONE:
        return hear_gone(handshake, attempt, message);
    case VB_READY:
        return hear_ready(attempt, message->number);
    default:
        return hear_answer(attempt, message);
    }
}

void vb_attempt_begin(vb_attempt_t *attempt, uint64_t number, bool is_mine, uint64_t now)
{
    *attempt = (vb_attempt_t){
        .number = number, .is_mine = is_mine, .again = now + FIRST_PAUSE, .pause = FIRST_PAUSE};
}

bool vb_attempt_is_due(vb_attempt_t *attempt, uint64_t now)
{
    if (attempt->is_answered || now < attempt->again) {
        return false;
    }
    attempt->pause *= 2;
    attempt->again = now + attempt->pause;
    return true;
}
