/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Which of the offered buffers (RTR) belongs to which send: the ring of sent tags and the ledger of RTRs. */
#include "spec_send.h"

#include "spec_match.h" /* SPEC_ANY */

#include <stdlib.h>

/* Kept RTRs of one tag. It exists only while there are any, so `sent` counts from then. */
typedef struct tag_bin {
    struct tag_bin *chain;
    int32_t tag;
    uint32_t sent; /* sends with this tag since the bin exists */
    spec_node_t kept;
} tag_bin_t;

struct spec_ledger {
    spec_stream_t ctl;
    uint32_t base; /* first sequence number in the ring, as of the latest RTR */
    uint32_t kept;
    uint32_t kept_user,
        kept_any; /* of those, for tags >= 0; for any tag. Never both, if the receiver keeps to the rule */
    tag_bin_t *free_bins;
    tag_bin_t *bucket[SPEC_LEDGER_BUCKETS];
    int32_t ring[SPEC_RING];
};

_Static_assert(0 == (SPEC_RING & (SPEC_RING - 1)), "ring slots are found by masking");

static tag_bin_t **slot_of(spec_ledger_t *l, int32_t tag)
{
    uint32_t h = (uint32_t) tag * UINT32_C(0x9e3779b1);
    tag_bin_t **slot = &l->bucket[h >> 24];
    while (NULL != *slot && (*slot)->tag != tag) {
        slot = &(*slot)->chain;
    }
    return slot;
}
_Static_assert(SPEC_LEDGER_BUCKETS == 256, "slot_of takes the upper 8 bits of the hash");

/* Does the RTR with this tag name messages with that one? SPEC_ANY names none of the library's own. */
static bool names(int32_t wanted, int32_t tag)
{
    return wanted == tag || (SPEC_ANY == wanted && tag >= 0);
}

static void count_kept(spec_ledger_t *l, int32_t tag, int32_t n)
{
    l->kept += (uint32_t) n;
    if (SPEC_ANY == tag) {
        l->kept_any += (uint32_t) n;
    } else if (tag >= 0) {
        l->kept_user += (uint32_t) n;
    }
}

/* The slot of the bin whose RTRs name messages with this tag. */
static tag_bin_t **slot_for(spec_ledger_t *l, int32_t tag)
{
    return slot_of(l, tag >= 0 && l->kept_any > 0 ? SPEC_ANY : tag);
}

static tag_bin_t *bin_create(spec_ledger_t *l, tag_bin_t **slot, int32_t tag)
{
    tag_bin_t *bin = l->free_bins;
    if (NULL != bin) {
        l->free_bins = bin->chain;
    } else if (NULL == (bin = malloc(sizeof(*bin)))) {
        return NULL;
    }
    *bin = (tag_bin_t){.tag = tag};
    spec_list_init(&bin->kept);
    *slot = bin;
    return bin;
}

static void bin_retire(spec_ledger_t *l, tag_bin_t **slot)
{
    tag_bin_t *bin = *slot;
    *slot = bin->chain;
    bin->chain = l->free_bins;
    l->free_bins = bin;
}

int spec_send_open_ledger(spec_send_t *s)
{
    spec_ledger_t *l = calloc(1, sizeof(*l));
    if (NULL == l) {
        return -1;
    }
    spec_stream_init(&l->ctl);
    l->base = s->nxt;
    __atomic_store_n(
        &s->ledger, l,
        __ATOMIC_RELEASE); /* read without the lock, too */
    return 0;
}

void spec_send_close_ledger(spec_send_t *s, spec_node_t *left)
{
    spec_ledger_t *l = s->ledger;
    spec_node_t *n;
    if (NULL == l) {
        return;
    }
    for (unsigned i = 0; i < SPEC_LEDGER_BUCKETS; ++i) {
        while (NULL != l->bucket[i]) {
            while (NULL != (n = spec_list_pop(&l->bucket[i]->kept))) {
                spec_list_append(left, n);
            }
            bin_retire(l, &l->bucket[i]);
        }
    }
    spec_stream_drain(&l->ctl, left);
    while (NULL != l->free_bins) {
        tag_bin_t *bin = l->free_bins;
        l->free_bins = bin->chain;
        free(bin);
    }
    free(l);
    s->ledger = NULL;
}

spec_stream_t *spec_send_ctl(spec_send_t *s)
{
    return &s->ledger->ctl;
}

uint32_t spec_send_kept(const spec_send_t *s)
{
    return NULL == s->ledger ? 0 : s->ledger->kept;
}

static inline spec_ctl_t *ctl_of(spec_node_t *n)
{
    return SPEC_ENTRY(n, spec_ctl_t, item.node);
}

/* Sort into the bin by due, nearly always at the end. False: there is one with this due. */
static bool keep(tag_bin_t *bin, spec_ctl_t *rtr)
{
    spec_node_t *at = bin->kept.prev;
    while (at != &bin->kept && !spec_seq_before(ctl_of(at)->due, rtr->due)) {
        if (ctl_of(at)->due == rtr->due) {
            return false;
        }
        at = at->prev;
    }
    spec_list_insert_after(at, &rtr->item.node);
    return true;
}

bool spec_send_has_rtr(const spec_send_t *s, int32_t tag)
{
    if (NULL == s->ledger || 0 == s->ledger->kept) {
        return false;
    }
    const tag_bin_t *bin = *slot_for(s->ledger, tag);
    if (NULL == bin || ctl_of(bin->kept.next)->due != bin->sent) {
        return false;
    }
    spec_claim_ahead(&ctl_of(bin->kept.next)->claim);
    return true;
}

spec_rtr_fate_t spec_send_admit(spec_send_t *s, spec_ctl_t *rtr)
{
    spec_ledger_t *l = s->ledger;
    if (spec_seq_before(s->nxt, rtr->e)) {
        return SPEC_RTR_REFUSED;
    }
    if (s->nxt - l->base > SPEC_RING) {
        l->base = s->nxt - SPEC_RING; /* a base left behind would be the later one after 2^31 */
    }
    if (spec_seq_before(rtr->e, l->base)) {
        return SPEC_RTR_TOO_OLD;
    }
    uint32_t n = 0;
    for (uint32_t seq = rtr->e; seq != s->nxt; ++seq) {
        n += names(rtr->tag, l->ring[seq & (SPEC_RING - 1)]);
    }
    if (n > rtr->k) {
        return SPEC_RTR_CROSSED;
    }
    if (rtr->k - n > INT32_MAX) {
        return SPEC_RTR_REFUSED; /* forged: its due would sort before all and block the bin */
    }
    if (l->kept >= SPEC_KEPT_MAX) {
        return SPEC_RTR_FULL;
    }
    if (SPEC_ANY == rtr->tag ? l->kept_user > 0 : rtr->tag >= 0 && l->kept_any > 0) {
        return SPEC_RTR_REFUSED; /* a receive for any tag offers only if it is the first, and none behind it does */
    }
    tag_bin_t **slot = slot_of(l, rtr->tag);
    bool fresh = NULL == *slot;
    if (fresh && NULL == bin_create(l, slot, rtr->tag)) {
        return SPEC_RTR_FULL;
    }
    rtr->due = (*slot)->sent + (rtr->k - n);
    if (!keep(*slot, rtr)) {
        return SPEC_RTR_REFUSED;
    }
    count_kept(l, rtr->tag, 1);
    return SPEC_RTR_KEPT;
}

uint32_t spec_send_revoke(spec_send_t *s, int32_t tag, spec_node_t *dropped)
{
    spec_ledger_t *l = s->ledger;
    tag_bin_t **slot = slot_of(l, tag);
    if (NULL != *slot) {
        spec_node_t *n;
        while (NULL != (n = spec_list_pop(&(*slot)->kept))) {
            spec_list_append(dropped, n);
            count_kept(l, tag, -1);
        }
        bin_retire(l, slot);
    }
    return s->nxt;
}

spec_ctl_t *spec_send_consult(spec_send_t *s, int32_t tag, uint64_t length, bool can_put,
                              spec_rtr_fate_t *fate)
{
    spec_ledger_t *l = s->ledger;
    l->ring[s->nxt & (SPEC_RING - 1)] = tag;
    if (0 == l->kept) {
        return NULL;
    }
    tag_bin_t **slot = slot_for(l, tag);
    if (NULL == *slot) {
        return NULL;
    }
    tag_bin_t *bin = *slot;
    spec_ctl_t *rtr = ctl_of(bin->kept.next);
    if (rtr->due != bin->sent++) {
        return NULL;
    }
    spec_list_remove(&rtr->item.node);
    count_kept(l, bin->tag, -1);
    if (spec_list_is_empty(&bin->kept)) {
        bin_retire(l, slot);
    }
    *fate = !can_put               ? SPEC_RTR_MISPREDICTED
            : length > rtr->length ? SPEC_RTR_TOO_SHORT
                                   : SPEC_RTR_USED;
    return rtr;
}
