/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The ring: short messages of a peer that talks much are written with RDMA into slots of the
 * receiver's memory, where it sees them without the adapter's receive queue and completion queue
 * (thesis 002, section 3.4.2.4).
 *
 * Words
 *   ring    slots in the receiver's memory, registered for one peer to write into
 *   grant   what the receiver tells of it (vb_grant_t)
 *   number  of a message in the ring, from 1; number n lies in slot (n - 1) modulo the slots
 *   after   how many were sent the other way, through the receive queue, before this one; control
 *           messages count, since their headers, too, must be read in the order of their writing
 *   freed   slots whose messages are done with; every header going back says how many (modulo 2^8)
 *
 * A message lies at the end of its slot, so that its last bytes are always at the same address:
 *
 *     | unused | header, data | 0 to 7 bytes | tail |
 *
 * Arrival is seen by memory alone. No order in which an adapter writes the bytes is assumed: a message
 * is there when the tail has the number that is due *and* the sum over all of it is right. Numbers do
 * not come again, so nothing has to be cleared.
 *
 * Order of the two ways: a ring message is delivered when as many messages as its `after` have come
 * through the receive queue; one of the receive queue, when all ring messages that are there with an
 * `after` that is reached have been delivered. A write is placed before a send posted later on the same
 * queue pair completes, so those include all that were posted before it; the header says how many that
 * are, and a peer that contradicts itself is found out.
 *
 * Pure but for the memory of the ring itself. Threads: the port's lock. */
#ifndef VB_RING_H
#define VB_RING_H

#include "vb_wire.h"

#define VB_RING_SLOTS_MAX 64u /* one bit each; and counts of 8 bits stay unambiguous */
#define VB_RING_SLOT_MIN  64u
#define VB_RING_SLOT_MAX  4096u

/* Bytes that a message (header included) takes in its slot, tail included. */
static inline uint32_t vb_ring_space(uint32_t length)
{
    return ((length + 7) & ~7u) + (uint32_t) sizeof(vb_tail_t);
}

/* Of so many bytes, the last word filled up with zeros. Meant against bytes that are not there yet, not
 * against an adversary: a peer that may write into the ring may send anything. */
static inline uint64_t vb_ring_sum(const void *data, uint32_t bytes, uint64_t sum)
{
    for (uint32_t i = 0; i < bytes; i += 8) {
        uint64_t word = 0;
        memcpy(&word, (const char *) data + i, bytes - i < 8 ? bytes - i : 8);
        sum = (sum ^ le64toh(word)) * UINT64_C(0x9e3779b97f4a7c15);
        sum ^= sum >> 29;
    }
    return sum;
}

/* What a message's tail has to say; the tail's own sum is left out. */
static inline uint64_t vb_ring_sum_of(const vb_tail_t *tail, const void *message, uint32_t length)
{
    return vb_ring_sum(message, length, vb_ring_sum(tail, offsetof(vb_tail_t, sum), 0));
}

/* ---- the sender ---- */

typedef struct vb_ring_out {
    uint64_t address;
    uint32_t rkey;
    uint16_t slots; /* 0: nothing was granted */
    uint16_t slot;  /* bytes */
    uint32_t nxt;   /* number of the next message */
    uint32_t una;   /* oldest not known to be done with */
} vb_ring_out_t;

/* False: nobody grants such a ring, or there is one already. */
static inline bool vb_ring_granted(vb_ring_out_t *r, const vb_grant_t *grant)
{
    if (0 != r->slots || 0 == grant->slots || grant->slots > VB_RING_SLOTS_MAX
        || grant->slot < VB_RING_SLOT_MIN || grant->slot > VB_RING_SLOT_MAX || 0 != grant->slot % 64
        || 0 != grant->address % 64) {
        return false;
    }
    *r = (vb_ring_out_t){.address = grant->address,
                         .rkey = grant->rkey,
                         .slots = grant->slots,
                         .slot = grant->slot,
                         .nxt = 1,
                         .una = 1};
    return true;
}

/* May a message of so many bytes go through the ring? */
static inline bool vb_ring_has_room(const vb_ring_out_t *r, uint32_t length)
{
    return r->nxt - r->una < r->slots && vb_ring_space(length) <= r->slot;
}

/* Where the next message is to be written; fills in its tail. `message` begins with its header. */
static inline uint64_t vb_ring_put(const vb_ring_out_t *r, const void *message, uint32_t length,
                                   uint16_t after, vb_tail_t *tail)
{
    *tail = (vb_tail_t){
        .number = htole32(r->nxt), .length = htole16((uint16_t) length), .after = htole16(after)};
    tail->sum = htole64(vb_ring_sum_of(tail, message, length));
    return r->address + (uint64_t) ((r->nxt - 1) % r->slots + 1) * r->slot - vb_ring_space(length);
}

/* What headers say of messages in the ring so far. */
static inline uint8_t vb_ring_written(const vb_ring_out_t *r)
{
    return 0 == r->slots ? 0 : (uint8_t) (r->nxt - 1);
}

/* A header tells how many are done with. False: more than were written. */
static inline bool vb_ring_freed(vb_ring_out_t *r, uint8_t freed)
{
    if (0 == r->slots) {
        return 0 == freed;
    }
    const uint8_t more = (uint8_t) (freed - (uint8_t) (r->una - 1));
    if (more > r->nxt - r->una) {
        return false;
    }
    r->una += more;
    return true;
}

/* ---- the receiver ---- */

typedef struct vb_ring_in {
    char *memory;   /* NULL: no ring */
    uint32_t slots; /* a power of two is not needed */
    uint32_t slot;
    uint32_t due;  /* number of the next message */
    uint32_t done; /* so many are done with, all from the first on */
    uint32_t told; /* so many of them the peer was told of */
    uint64_t
        returned; /* of those behind `done`, bit 0 the first: messages may be given back in any order */
} vb_ring_in_t;

static inline void vb_ring_open(vb_ring_in_t *r, char *memory, uint32_t slots, uint32_t slot)
{
    *r = (vb_ring_in_t){.memory = memory, .slots = slots, .slot = slot, .due = 1};
}

/* The next message, if it is there whole and it is its turn after `arrived` messages of the receive
 * queue. Its length into *length, its number into *number; NULL: not now. *torn is counted up where
 * only a part of it was there. */
static inline vb_hdr_t *vb_ring_take(vb_ring_in_t *r, uint16_t arrived, uint32_t *length,
                                     uint32_t *number, uint64_t *torn)
{
    char *end = r->memory + (size_t) ((r->due - 1) % r->slots + 1) * r->slot;
    const vb_tail_t *at = (const vb_tail_t *) (void *) (end - sizeof(vb_tail_t));
    if (__atomic_load_n(&at->number, __ATOMIC_ACQUIRE) != htole32(r->due)) {
        return NULL;
    }
    vb_tail_t tail;
    memcpy(&tail, at, sizeof(tail));
    const uint32_t n = le16toh(tail.length);
    if (le16toh(tail.after) != arrived) {
        return NULL; /* or the tail is not complete yet */
    }
    if (n < sizeof(vb_hdr_t) || vb_ring_space(n) > r->slot
        || vb_ring_sum_of(&tail, end - vb_ring_space(n), n) != le64toh(tail.sum)) {
        ++*torn;
        return NULL;
    }
    *length = n;
    *number = r->due++;
    return (vb_hdr_t *) (void *) (end - vb_ring_space(n));
}

/* A message is done with. False: it is not one that was taken, or was given back before. */
static inline bool vb_ring_return(vb_ring_in_t *r, uint32_t number)
{
    const uint32_t bit = number - 1 - r->done;
    if (bit >= r->due - 1 - r->done || 0 != (r->returned >> bit & 1)) {
        return false;
    }
    r->returned |= UINT64_C(1) << bit;
    while (r->returned & 1) {
        r->returned >>= 1;
        ++r->done;
    }
    return true;
}

/* For each header that is sent: what it says. */
static inline uint8_t vb_ring_tell(vb_ring_in_t *r)
{
    r->told = r->done;
    return (uint8_t) r->done;
}

/* Is it time for a control message that says it? Half of the slots: CreditSyncLimit of 002. */
static inline bool vb_ring_is_due(const vb_ring_in_t *r)
{
    return NULL != r->memory && 2 * (r->done - r->told) >= r->slots;
}

#endif
