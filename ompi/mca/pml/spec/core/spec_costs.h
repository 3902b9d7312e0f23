/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Up to which size a message goes out with its data (eager): computed from measured times of copies on this machine.
 *
 * Two ways to move n bytes between two processors of a host:
 *
 *   by fragments    the sender copies into memory that both have, the receiver out of it. Each copy meets lines that the other
 *                   processor has: a first few that are waited for, then so many times what a copy in this processor's own
 *                   caches takes. One packet.
 *   a single copy   the receiver has the kernel copy from the sender's memory: a system call, and pages that it must find. Two
 *                   packets, RTS and FIN.
 *
 * A message takes both copies of the first way one after the other.
 *
 * A message with gaps can only go by fragments: without RTS it has one packet less.
 *
 * Pure. Sizes in bytes, of data. */
#ifndef SPEC_COSTS_H
#define SPEC_COSTS_H

#include <stdbool.h>
#include <stdint.h>

/* What this processor measured. */
typedef struct spec_costs {
    bool known;
    uint32_t call_ns;   /* a single copy of next to nothing */
    uint32_t single_ps; /* each byte more of it */
    uint32_t copy_ps;   /* each byte of a copy in its own caches */
} spec_costs_t;

/* Of what needs a second processor to be measured, the usual: how much longer a copy takes whose lines another processor has,
 * what the first of these lines cost, what a packet costs each of its ends. */
#define SPEC_COSTS_FAR       3u
#define SPEC_COSTS_FIRST_NS  200u
#define SPEC_COSTS_PACKET_NS 100u

/* Each part of a copy that is split takes at least so many times what the call takes; and where that is not known, so many bytes
 * are split. */
#define SPEC_COSTS_PARTS 4u
#define SPEC_COSTS_SPLIT (UINT64_C(256) << 10)

/* That either end may move a message takes a packet more than that the receiver does, and what both ends do for it: at most one in so
 * many of what the copy takes. */
#define SPEC_COSTS_ASK_NS 500u
#define SPEC_COSTS_ASK    16u

/* Longer messages do not go unasked, in parts: what comes before its receive is copied once more. */
#define SPEC_COSTS_IN_PARTS (UINT64_C(64) << 10)

/* How a transport moves large messages. */
typedef enum spec_mover {
    SPEC_BY_RDMA,      /* by itself, or nothing is known of it */
    SPEC_BY_FRAGMENTS, /* in no other way */
    SPEC_BY_SINGLE,    /* a processor copies from the other's memory */
} spec_mover_t;

typedef struct spec_ends {
    uint64_t alone; /* a message from one block; follows what copies take (spec_ends_follow) */
    uint64_t gaps;  /* one that is not one block */
    uint64_t parts; /* one block that is longer than a packet; 0: none is; follows, too */
    uint64_t hope;  /* where the two could end if copies were as quick as within a processor */
    uint64_t split; /* from here on a single copy is worth being made in two parts by both ends */
    uint64_t either; /* from here on it is worth a packet that either end may make it */
    uint64_t
        pipeline; /* up to here both ends move a message sooner by fragments than by single copies */
    uint64_t patience; /* ns: a single copy of the largest packet */
    bool follows;      /* the first two, while copies are made */
    bool in_parts;     /* this transport can */
} spec_ends_t;

/* What it takes to copy into or out of memory whose lines the other processor has is measured where fragments are sent and
 * received, for it depends on where the two processors are and changes with that (a virtual machine may move them). The two
 * differ: lines that are written are waited for, those that are read are fetched ahead. */
typedef struct spec_copies {
    uint32_t ps;   /* each byte; of the last few copies */
    uint32_t n;    /* copies, as far as they matter */
    uint32_t turn; /* of those of eager messages that could be measured */
} spec_copies_t;

/* Of one peer. Threads: any; an update that another undoes costs a copy's worth. */
typedef struct spec_far {
    spec_copies_t in;    /* what is sent to it, in packets */
    spec_copies_t slots; /* and in slots, which are written sooner (core/spec_slots.h) */
    spec_copies_t out; /* what comes from it; that its own take as long is assumed */
    uint32_t skipped, untried;
    uint32_t busy; /* messages for which it is taken for certain that others come the other way */
} spec_far_t;

/* So many copies are believed more than SPEC_COSTS_FAR. */
#define SPEC_FAR_SURE 8u
/* Of messages that go without fragments, because copies were too dear, one in so many goes with them, to measure. */
#define SPEC_FAR_TRY 64u
/* The same of eager messages: a try may take several times as long. */
#define SPEC_FAR_TRY_EAGER 256u
/* Reading the clock takes as long as copying a KiB: of eager messages one in so many is measured. */
#define SPEC_FAR_EVERY 8u

static inline bool spec_copies_known(const spec_copies_t *copies)
{
    return __atomic_load_n(&copies->n, __ATOMIC_RELAXED) >= SPEC_FAR_SURE;
}

/* Picoseconds for each byte: measured, or the usual. */
static inline uint64_t spec_copies_ps(const spec_copies_t *copies, const spec_costs_t *c)
{
    return spec_copies_known(copies) ? __atomic_load_n(&copies->ps, __ATOMIC_RELAXED)
                                     : (uint64_t) c->copy_ps * SPEC_COSTS_FAR;
}

/* A single copy of so many bytes, in caches of this processor, nanoseconds. */
static inline uint64_t spec_costs_single_ns(const spec_costs_t *c, uint64_t bytes)
{
    return c->call_ns + bytes * c->single_ps / 1000;
}

/* Where a packet that costs `more` and `ps` for each byte is no dearer than another way that costs `fixed` and `other_ps`: up to
 * this many bytes, of `most`. */
static inline uint64_t spec_costs_meet(uint64_t more, uint64_t ps, uint64_t fixed,
                                       uint64_t other_ps, uint64_t most)
{
    if (more > fixed) {
        return 0;
    }
    if (ps <= other_ps) {
        return most;
    }
    const uint64_t n = (fixed - more) * 1000 / (ps - other_ps);
    return n < most ? n : most;
}

/* Where a message from one block is no dearer by two copies, which take `both` ps for each byte and wait so long for their first
 * lines, than by a single copy. whole: a longer one goes as one piece, too, so that its copies do not overlap. */
static inline void spec_costs_meets(spec_ends_t *ends, const spec_costs_t *c, uint64_t first,
                                    uint64_t both, bool whole, uint64_t least, uint64_t most)
{
    const uint64_t call = (uint64_t) c->call_ns + 2 * SPEC_COSTS_PACKET_NS;
    const uint64_t alone = spec_costs_meet(first, both, call, c->single_ps, most);
    /* Of a message in parts the first is copied by one end, the last by the other, all others by both at the same time. */
    const uint64_t parts =
        whole ? spec_costs_meet(first, both, call, c->single_ps, SPEC_COSTS_IN_PARTS)
              : spec_costs_meet(first + SPEC_COSTS_PACKET_NS, both * 3 / 4, call, c->single_ps,
                                SPEC_COSTS_IN_PARTS);
    __atomic_store_n(&ends->alone, alone > least ? alone : least, __ATOMIC_RELAXED);
    __atomic_store_n(&ends->parts, ends->in_parts && parts > most ? parts : 0, __ATOMIC_RELAXED);
}

/* Up to which size, from one block. (Parts begin behind the largest packet, where `alone` ends if there are any.) */
static inline uint64_t spec_ends_last(const spec_ends_t *ends)
{
    const uint64_t alone = __atomic_load_n(&ends->alone, __ATOMIC_RELAXED);
    const uint64_t parts = __atomic_load_n(&ends->parts, __ATOMIC_RELAXED);
    return parts > alone ? parts : alone;
}

/* least: what the transport's own limit lets go eager; most: what fits its largest packet; in_parts: may longer ones go so? */
static inline spec_ends_t spec_costs_ends(const spec_costs_t *c, spec_mover_t mover, bool in_parts,
                                          uint64_t least, uint64_t most)
{
    spec_ends_t ends = {
        .alone = least, .gaps = least, .split = SPEC_COSTS_SPLIT, .in_parts = in_parts};
    if (SPEC_BY_RDMA == mover || most <= least) {
        return ends;
    }
    ends.gaps = most;
    if (SPEC_BY_FRAGMENTS == mover) {
        ends.alone = most;
        ends.parts = in_parts ? SPEC_COSTS_IN_PARTS : 0;
    } else if (c->known) {
        const uint64_t copy = (uint64_t) c->copy_ps * SPEC_COSTS_FAR;
        spec_costs_meets(&ends, c, 0, 2 * c->copy_ps, false, least, most);
        ends.hope = spec_ends_last(&ends);
        spec_costs_meets(&ends, c, 2 * SPEC_COSTS_FIRST_NS, 2 * copy, false, least, most);
        ends.follows = true;
        ends.either = spec_costs_meet(c->call_ns, c->single_ps, SPEC_COSTS_ASK * SPEC_COSTS_ASK_NS,
                                      0, UINT32_MAX);
        ends.split = UINT64_C(2000) * SPEC_COSTS_PARTS * c->call_ns / (c->single_ps | 1);
        /* By fragments a byte costs a copy at both ends at the same time, by single copies half of one at each. */
        ends.pipeline = spec_costs_meet(2 * SPEC_COSTS_FIRST_NS,
                                        copy + UINT64_C(2000) * SPEC_COSTS_PACKET_NS / most,
                                        c->call_ns, c->single_ps / 2, UINT64_MAX);
        ends.patience = spec_costs_single_ns(c, most);
    }
    return ends;
}

/* Does a message of so many bytes go out with its data, in one packet, which holds `most`, or in parts? */
static inline bool spec_ends_fit(const spec_ends_t *ends, uint64_t most, uint64_t length,
                                 bool is_flat)
{
    const uint64_t alone = __atomic_load_n(&ends->alone, __ATOMIC_RELAXED);
    const uint64_t parts = __atomic_load_n(&ends->parts, __ATOMIC_RELAXED);
    return length <= most ? length <= (is_flat ? alone : ends->gaps)
                          : is_flat && length <= SPEC_COSTS_IN_PARTS && length <= parts;
}

/* What a byte takes where both ends make single copies: more than half of one, since they hinder each other. */
#define SPEC_FAR_BOTH(ps) ((ps) *UINT64_C(9) / 16)

/* What disturbs a copy (a page touched first, an interrupt) makes it longer: what is more counts less than what is less, and for
 * no more than twice. */
static inline void spec_copies_saw(spec_copies_t *copies, const spec_costs_t *c, uint64_t bytes,
                                   uint64_t ns)
{
    const uint32_t n = __atomic_load_n(&copies->n, __ATOMIC_RELAXED);
    const uint64_t before = 0 == n ? (uint64_t) c->copy_ps * SPEC_COSTS_FAR
                                   : __atomic_load_n(&copies->ps, __ATOMIC_RELAXED);
    const uint64_t ps = ns * 1000 / bytes, most = 2 * before + 8;
    const uint64_t after =
        ps < before ? (3 * before + ps) / 4 : (7 * before + (ps < most ? ps : most)) / 8;
    __atomic_store_n(&copies->ps, (uint32_t) after, __ATOMIC_RELAXED);
    __atomic_store_n(&copies->n, n < SPEC_FAR_SURE ? n + 1 : n, __ATOMIC_RELAXED);
}

/* A copy was measured: where eager ends follows. (What was measured has waited for its first lines.) */
static inline void spec_ends_follow(spec_ends_t *ends, const spec_far_t *f, const spec_costs_t *c,
                                    uint64_t least, uint64_t most)
{
    const bool by_slot = spec_copies_known(&f->slots);
    const spec_copies_t *in = by_slot ? &f->slots : &f->in;
    if (ends->follows && spec_copies_known(in)) {
        spec_costs_meets(ends, c, spec_copies_known(&f->out) ? 0 : SPEC_COSTS_FIRST_NS,
                         spec_copies_ps(in, c) + spec_copies_ps(&f->out, c), by_slot, least, most);
    }
}

/* An eager message that is longer than `least` is about to be copied. Is that measured? */
static inline bool spec_ends_samples(const spec_ends_t *ends, spec_copies_t *copies, uint64_t most,
                                     uint64_t length)
{
    return ends->follows
           && (!spec_copies_known(copies) || !spec_ends_fit(ends, most, length, true) /* a try */
               || 0 == __atomic_add_fetch(&copies->turn, 1, __ATOMIC_RELAXED) % SPEC_FAR_EVERY);
}

/* A message that does not fit would be eager if copies were cheap. Does it go so, to find out? Asked once for each. */
static inline bool spec_ends_tries(const spec_ends_t *ends, spec_far_t *f, uint64_t length)
{
    return ends->follows && length <= ends->hope
           && 0 == __atomic_add_fetch(&f->untried, 1, __ATOMIC_RELAXED) % SPEC_FAR_TRY_EAGER;
}

/* A fragment was sent while this process was receiving large messages. */
static inline void spec_far_exchanges(spec_far_t *f)
{
    __atomic_store_n(&f->busy, SPEC_FAR_TRY, __ATOMIC_RELAXED);
}

/* A message may go in fragments of `most` bytes: does it? alone: its sender does nothing else meanwhile. If not, each end may have to
 * copy in and out, beside one single copy for each message of an exchange, or is slower to find out that both wait. */
static inline bool spec_far_pipelines(spec_far_t *f, const spec_costs_t *c, bool alone,
                                      uint64_t most)
{
    const uint32_t busy = __atomic_load_n(&f->busy, __ATOMIC_RELAXED);
    if (busy > 0) {
        __atomic_store_n(&f->busy, busy - 1, __ATOMIC_RELAXED);
        alone = false;
    }
    const uint64_t other = alone ? SPEC_FAR_BOTH(c->single_ps) : c->single_ps / 2;
    const uint64_t packet = UINT64_C(1000) * SPEC_COSTS_PACKET_NS / most; /* at the other end */
    if (!spec_copies_known(&f->in) || spec_copies_ps(&f->in, c) + packet < other) {
        __atomic_store_n(&f->skipped, 0, __ATOMIC_RELAXED);
        return true;
    }
    return 0 == __atomic_add_fetch(&f->skipped, 1, __ATOMIC_RELAXED) % SPEC_FAR_TRY;
}

/* May receiver first win? Not where processors copy and the receiver, which waits, has nothing better to do. */
static inline bool spec_costs_offers(spec_mover_t mover, bool waits)
{
    return SPEC_BY_RDMA == mover || !waits;
}

/* Two samples of each way (nanoseconds for little and for much, which is `bytes` more) into what a byte costs. */
static inline uint32_t spec_costs_ps(uint64_t little_ns, uint64_t much_ns, uint64_t bytes)
{
    return much_ns <= little_ns ? 0 : (uint32_t) ((much_ns - little_ns) * 1000 / bytes);
}

#endif
