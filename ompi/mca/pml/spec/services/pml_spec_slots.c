/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Slots of this process and of others, and which of those reach this one's. */
#include "../objects/pml_spec_compat.h" /* first: it asks for GNU's functions */

#include "pml_spec_slots.h"

#include "../core/spec_slots.h"
#include "../objects/pml_spec_agent.h"
#include "../objects/pml_spec_processors.h"
#include "../objects/pml_spec_share.h"
#include "pml_spec_control.h"
#include "pml_spec_costs.h"

#include <stdlib.h>

#define MAGIC UINT64_C(0x706d6c2f736c6f74)

/* Shared. What a peer may have changed is never relied on: see core/spec_slots.h. */
typedef struct shared {
    mca_pml_spec_share_head_t head;
    spec_slots_word_t word[SPEC_SLOTS_UNITS];
    _Alignas(SPEC_SLOTS_UNIT) char data[SPEC_SLOTS_UNITS * SPEC_SLOTS_UNIT];
} shared_t;

static mca_pml_spec_share_t share =
    MCA_PML_SPEC_SHARE("pml_spec_slots", MAGIC, sizeof(shared_t), true);

/* Under the module's lock: */
static spec_slots_t mine;
/* The same, and read without: only added to. */
enum { BINS = 64 };
static mca_pml_spec_slots_of_t *others[BINS];

/* ---- other processes ---- */

static mca_pml_spec_slots_of_t *find(uint64_t name)
{
    mca_pml_spec_slots_of_t *of = MCA_PML_SPEC_SEEN(others[name % BINS]);
    while (NULL != of && of->name != name) {
        of = of->next;
    }
    return of;
}

/* NULL: memory is out. */
static mca_pml_spec_slots_of_t *find_or_add(uint64_t name)
{
    mca_pml_spec_slots_of_t *of = find(name);
    if (OPAL_LIKELY(NULL != of)) {
        return of;
    }
    mca_pml_spec_slots_of_t *fresh = calloc(1, sizeof(*fresh));
    mca_pml_spec_lock(&mca_pml_spec.lock);
    of = find(name);
    if (NULL == of && NULL != fresh) {
        fresh->name = name;
        fresh->next = others[name % BINS];
        __atomic_store_n(&others[name % BINS], fresh, __ATOMIC_RELEASE);
        of = fresh;
        fresh = NULL;
    }
    mca_pml_spec_unlock(&mca_pml_spec.lock);
    free(fresh);
    return of;
}

static shared_t *open_mine(void)
{
    shared_t *shared = mca_pml_spec_share_mine(&share);
    if (OPAL_UNLIKELY(NULL == shared)) {
        return NULL;
    }
    const uint64_t cache = mca_pml_spec_processors_cache();
    mca_pml_spec_lock(&mca_pml_spec.lock);
    if (0 == mine.units) {
        spec_slots_open(&mine, shared->word, cache);
    }
    mca_pml_spec_unlock(&mca_pml_spec.lock);
    return shared;
}

static void tell(mca_bml_base_endpoint_t *endpoint, uint8_t what, uint16_t fd, uint32_t pid)
{
    const mca_pml_spec_slot_hdr_t hdr = {.type = MCA_PML_SPEC_SLOT,
                                         .what = what,
                                         .fd = fd,
                                         .pid = pid,
                                         .name = mca_pml_spec.my_name};
    mca_pml_spec_control_send(endpoint, NULL, &hdr, sizeof(hdr));
}

/* For peers that are not asked. */
static mca_pml_spec_slots_of_t none;

const mca_pml_spec_slots_of_t *mca_pml_spec_slots_ask(mca_pml_spec_peer_t *peer)
{
    const uint64_t name = spec_name_of(&peer->proc->super);
    mca_pml_spec_slots_of_t *of =
        name >> 32 == mca_pml_spec_job_id() && NULL != open_mine() ? find_or_add(name) : NULL;
    of = NULL == of ? &none : of;
    __atomic_store_n(&peer->slots, of, __ATOMIC_RELEASE);
    if (&none != of && 0 == __atomic_exchange_n(&of->is_asked, 1, __ATOMIC_RELAXED)) {
        tell(peer->endpoint, MCA_PML_SPEC_SLOT_ASKS, (uint16_t) share.fd, share.pid);
    }
    return of;
}

/* The process asks whether this one reaches its slots. */
static void answer(const mca_pml_spec_slot_hdr_t *hdr)
{
    const opal_process_name_t name = {.jobid = (uint32_t) (hdr->name >> 32),
                                      .vpid = (uint32_t) hdr->name};
    const bool is_ours = name.jobid == mca_pml_spec_job_id() && name.vpid < mca_pml_spec_job_size();
    ompi_proc_t *proc = is_ours ? (ompi_proc_t *) ompi_proc_for_name(name) : NULL;
    mca_bml_base_endpoint_t *endpoint =
        NULL != proc && OPAL_PROC_ON_LOCAL_NODE(proc->super.proc_flags)
            ? mca_bml_base_get_endpoint(proc)
            : NULL;
    mca_pml_spec_slots_of_t *of = NULL == endpoint ? NULL : find_or_add(hdr->name);
    if (NULL == of) {
        mca_pml_spec_refuse("SLOT", "no process of this job and host asks");
        return;
    }
    const mca_pml_spec_share_of_t *there =
        mca_pml_spec_share_find(&share, &of->there, hdr->name, hdr->pid, hdr->fd);
    tell(endpoint,
         NULL != there && NULL != there->at ? MCA_PML_SPEC_SLOT_REACHED
                                            : MCA_PML_SPEC_SLOT_NOT_REACHED,
         0, 0);
}

void mca_pml_spec_slots_told(const mca_pml_spec_slot_hdr_t *hdr)
{
    if (MCA_PML_SPEC_SLOT_ASKS == hdr->what) {
        answer(hdr);
        return;
    }
    mca_pml_spec_slots_of_t *of = find(hdr->name);
    if (NULL == of || !MCA_PML_SPEC_SEEN(of->is_asked)
        || hdr->what > MCA_PML_SPEC_SLOT_NOT_REACHED) {
        mca_pml_spec_refuse("SLOT", "it answers nothing");
    } else if (MCA_PML_SPEC_SLOT_REACHED == hdr->what) {
        __atomic_store_n(&of->reaches, 1, __ATOMIC_RELEASE);
    }
}

/* ---- messages ---- */

bool mca_pml_spec_slots_send(mca_pml_spec_peer_t *peer, const void *data, size_t length,
                             int32_t tag, uint32_t seq)
{
    shared_t *shared = MCA_PML_SPEC_SEEN(share.mine);
    const uint32_t skip = spec_slots_skip(data);
    mca_pml_spec_lock(&mca_pml_spec.lock);
    const uint32_t unit = spec_slots_take(&mine, skip + length);
    mca_pml_spec_unlock(&mca_pml_spec.lock);
    if (OPAL_UNLIKELY(SPEC_SLOTS_UNITS == unit)) {
        return false;
    }
    mca_pml_spec_slot_hdr_t hdr = {.type = MCA_PML_SPEC_SLOT,
                                   .what = MCA_PML_SPEC_SLOT_MESSAGE,
                                   .name = mca_pml_spec.my_name,
                                   .at = unit * SPEC_SLOTS_UNIT + skip,
                                   .length = (uint32_t) length,
                                   .match =
                                       mca_pml_spec_match_hdr(MCA_PML_SPEC_EAGER, peer, tag, seq)};
    const uint64_t begin = mca_pml_spec_costs_begin(peer, &peer->far.slots, length);
    memcpy(shared->data + hdr.at, data, length);
    mca_pml_spec_costs_end(peer, &peer->far.slots, begin, length);
    spec_slots_filled(&shared->word[unit]);
    mca_bml_base_btl_t *bml_btl = mca_pml_spec_next_btl(&peer->endpoint->btl_eager);
    mca_pml_spec_agent_asks(peer->proc);
    if (OPAL_LIKELY(NULL != bml_btl->btl->btl_sendi)
        && OPAL_LIKELY(
            0 <= mca_bml_base_sendi(bml_btl, NULL, &hdr, sizeof(hdr), 0, MCA_BTL_NO_ORDER,
                                    MCA_BTL_DES_FLAGS_PRIORITY | MCA_BTL_DES_FLAGS_BTL_OWNERSHIP
                                        | MCA_BTL_DES_FLAGS_SIGNAL,
                                    MCA_PML_SPEC_SLOT, NULL))) {
        MCA_PML_SPEC_COUNT(slots);
        return true;
    }
    spec_slots_give(&shared->word[unit]);
    __atomic_store_n(&peer->slots_wait, MCA_PML_SPEC_SLOTS_WAIT, __ATOMIC_RELAXED);
    return false;
}

bool mca_pml_spec_slots_find(const mca_pml_spec_slot_hdr_t *hdr, mca_pml_spec_slot_t *slot)
{
    const mca_pml_spec_slots_of_t *of = find(hdr->name);
    const mca_pml_spec_share_of_t *there = NULL == of ? NULL : MCA_PML_SPEC_SEEN(of->there);
    shared_t *shared = NULL == there ? NULL : there->at;
    const char *wrong = NULL == shared ? "its sender has told of no slots"
                        : !spec_slots_contains(hdr->at, hdr->length) ? "it names no slot"
                        : hdr->length > SPEC_COSTS_IN_PARTS ? "so long a message needs an RTS"
                                                            : NULL;
    if (OPAL_UNLIKELY(NULL != wrong)) {
        mca_pml_spec_refuse("SLOT", wrong);
        return false;
    }
    *slot = (mca_pml_spec_slot_t){.data = shared->data + hdr->at,
                                  .word = &shared->word[hdr->at / SPEC_SLOTS_UNIT]};
    return true;
}

void mca_pml_spec_slots_fini(void)
{
    for (unsigned i = 0; i < BINS; ++i) {
        while (NULL != others[i]) {
            mca_pml_spec_slots_of_t *of = others[i];
            others[i] = of->next;
            free(of);
        }
    }
    mca_pml_spec_share_fini(&share);
    mine.units = 0;
}
