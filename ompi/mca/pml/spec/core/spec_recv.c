/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* When a receive may offer its buffer to the sender (RTR), and how the offer is taken back for a cancel. */
#include "spec_recv.h"

#include <string.h>

void spec_recv_init(spec_recv_t *r)
{
    memset(r, 0, sizeof(*r));
    spec_stream_init(&r->msgs);
    spec_list_init(&r->unsorted);
    spec_list_init(&r->revokes);
}

SPEC_HOT void spec_recv_learn_epoch(spec_recv_t *r, uint8_t epoch)
{
    if (!r->epoch_is_known && epoch != r->epoch) {
        r->ctl_no = 0;
    }
    r->epoch = epoch;
    r->epoch_is_known = true;
}

void spec_recv_drain(spec_recv_t *r, spec_node_t *left)
{
    spec_node_t *n;
    spec_stream_drain(&r->msgs, left);
    while (NULL != (n = spec_list_pop(&r->unsorted))) {
        spec_list_append(left, n);
    }
}

bool spec_recv_may_speculate(spec_match_t *m, const spec_posted_t *p)
{
    return 0 == p->bin->revoking
           && (SPEC_ANY == p->tag ? !spec_match_others_wait(m, p->bin)
                                  : !spec_match_wildcard_waits(m, p->src, p->tag));
}

bool spec_recv_speculate(spec_recv_t *r, spec_match_t *m, spec_posted_t *p, spec_offer_t *offer)
{
    spec_bin_t *bin = p->bin;
    if (!spec_recv_may_speculate(m, p)) {
        return false;
    }
    p->has_rtr = true;
    ++bin->rtr_n;
    *offer = (spec_offer_t){.no = r->ctl_no++, .e = r->msgs.nxt, .k = bin->posted_n - 1};
    return true;
}

/* Take back all offers of the bin that are not in use. */
static void withdraw(spec_bin_t *bin)
{
    SPEC_LIST_EACH (n, &bin->posted) {
        spec_posted_t *p = SPEC_ENTRY(n, spec_posted_t, node);
        if (p->has_rtr && spec_claim_withdraw(&p->claim)) {
            p->has_rtr = false;
            --bin->rtr_n;
        } else if (p->has_rtr) {
            bin->last_in_use = p->order;
        }
    }
}

/* An exchange of REVOKE and REVOKED begins. */
static void begin_revoke(spec_recv_t *r, spec_bin_t *bin, spec_revoke_t *fresh)
{
    withdraw(bin);
    ++bin->revoking;
    *fresh = (spec_revoke_t){.bin = bin, .no = r->ctl_no++};
    spec_list_append(&r->revokes, &fresh->node);
}

/* Is an RTR in use of p, or of a receive behind it? */
static bool is_counted_on(const spec_posted_t *p)
{
    return p->bin->rtr_n > 0 && p->order <= p->bin->last_in_use;
}

spec_cancel_t spec_recv_cancel(spec_recv_t *r, spec_match_t *m, spec_posted_t *p,
                               spec_revoke_t *fresh)
{
    spec_bin_t *bin = p->bin;
    if (NULL == bin) {
        return SPEC_CANCEL_TOO_LATE;
    }
    const bool asks = bin->rtr_n > 0 && 0 == bin->revoking;
    if (asks) {
        begin_revoke(r, bin, fresh);
    }
    if (is_counted_on(p)) {
        p->cancel_wanted = true;
        return asks ? SPEC_CANCEL_ASK : SPEC_CANCEL_WAIT;
    }
    spec_match_remove_posted(m, p);
    return asks ? SPEC_CANCEL_DONE_ASK : SPEC_CANCEL_DONE;
}

/* A narrowed receive of the bin that nobody counts on any more; NULL: there is none. */
static spec_posted_t *free_to_widen(const spec_bin_t *bin, bool *waits)
{
    SPEC_LIST_EACH (n, &bin->posted) {
        spec_posted_t *p = SPEC_ENTRY(n, spec_posted_t, node);
        if (p->narrowed && !is_counted_on(p)) {
            return p;
        }
        *waits |= p->narrowed;
    }
    return NULL;
}

static bool has_narrowed(const spec_bin_t *bin)
{
    SPEC_LIST_EACH (n, &bin->posted) {
        if (SPEC_ENTRY(n, spec_posted_t, node)->narrowed) {
            return true;
        }
    }
    return false;
}

bool spec_recv_narrowed_waits(spec_match_t *m, int32_t src, int32_t tag)
{
    const spec_bin_t *exact = spec_match_bin(m, src, tag);
    const spec_bin_t *any = tag >= 0 ? spec_match_bin(m, src, SPEC_ANY) : NULL;
    return (NULL != exact && has_narrowed(exact)) || (NULL != any && has_narrowed(any));
}

/* The next receive to be widened. NULL: there is none, unless *asks, a bin whose RTRs are to be revoked first, or *waits. */
static spec_posted_t *next_to_widen(const spec_match_t *m, int32_t src, spec_bin_t **asks,
                                    bool *waits)
{
    spec_posted_t *p = NULL;
    for (uint32_t i = 0; i <= m->mask; ++i) {
        for (spec_bin_t *bin = m->bucket[i]; NULL != bin; bin = bin->chain) {
            if (bin->src != src || !has_narrowed(bin)) {
                continue;
            }
            if (bin->rtr_n > 0 && 0 == bin->revoking) {
                *asks = bin;
                return NULL;
            }
            if (NULL != (p = free_to_widen(bin, waits))) {
                return p;
            }
        }
    }
    return NULL;
}

spec_widen_t spec_recv_widen(spec_recv_t *r, spec_match_t *m, int32_t src, spec_revoke_t *fresh)
{
    spec_bin_t *asks = NULL;
    spec_posted_t *p;
    bool waits = false;
    while (NULL
           != (p = next_to_widen(m, src, &asks, &waits))) { /* the table may change with each */
        if (0 != spec_match_widen(m, p)) {
            return SPEC_WIDEN_NO_MEMORY;
        }
        waits = false;
    }
    if (NULL != asks) {
        begin_revoke(r, asks, fresh);
        return SPEC_WIDEN_ASK;
    }
    return waits ? SPEC_WIDEN_WAIT : SPEC_WIDEN_DONE;
}

bool spec_recv_revoked(spec_recv_t *r, uint32_t no, int32_t tag, uint32_t s)
{
    SPEC_LIST_EACH (n, &r->revokes) {
        spec_revoke_t *revoke = SPEC_ENTRY(n, spec_revoke_t, node);
        if (revoke->no == no && revoke->bin->tag == tag && !revoke->answered) {
            revoke->answered = true;
            revoke->s = s;
            return true;
        }
    }
    return false;
}

bool spec_recv_awaits_several(const spec_recv_t *r)
{
    uint32_t n = 0;
    SPEC_LIST_EACH (p, &r->revokes) {
        n += !SPEC_ENTRY(p, spec_revoke_t, node)->answered;
    }
    return n > 1;
}

uint32_t spec_recv_answer_all(spec_recv_t *r)
{
    uint32_t answered = 0;
    r->given_up = true;
    SPEC_LIST_EACH (n, &r->revokes) {
        spec_revoke_t *revoke = SPEC_ENTRY(n, spec_revoke_t, node);
        answered += !revoke->answered;
        revoke->answered = true;
        revoke->s = r->msgs.nxt;
    }
    return answered;
}

SPEC_HOT spec_revoke_t *spec_recv_revoke_done(spec_recv_t *r, spec_match_t *m,
                                              spec_node_t *cancelled)
{
    SPEC_LIST_EACH (n, &r->revokes) {
        spec_revoke_t *revoke = SPEC_ENTRY(n, spec_revoke_t, node);
        if (!revoke->answered || spec_seq_before(r->msgs.nxt, revoke->s)) {
            continue;
        }
        spec_bin_t *bin = revoke->bin;
        spec_list_remove(n);
        for (spec_node_t *q = spec_list_first(&bin->posted), *next; NULL != q; q = next) {
            spec_posted_t *p = SPEC_ENTRY(q, spec_posted_t, node);
            next = spec_list_next(&bin->posted, q);
            bin->rtr_n -= p->has_rtr;
            p->has_rtr = false;
            if (p->cancel_wanted) {
                spec_match_remove_posted(m, p);
                spec_list_append(cancelled, &p->node);
            }
        }
        --bin->revoking;
        return revoke;
    }
    return NULL;
}
