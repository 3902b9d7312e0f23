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

/* Longer messages do not go unasked, in parts: what comes before its receive is copied once more. */
#define SPEC_COSTS_IN_PARTS (UINT64_C(64) << 10)

/* How a transport moves large messages. */
typedef enum spec_mover {
    SPEC_BY_RDMA,      /* by itself, or nothing is known of it */
    SPEC_BY_FRAGMENTS, /* in no other way */
    SPEC_BY_SINGLE,    /* a processor copies from the other's memory */
} spec_mover_t;

typedef struct spec_ends {
    uint64_t alone; /* a message from one block */
    uint64_t gaps;  /* one that is not one block */
    uint64_t parts; /* one by itself that is longer than a packet; 0: none is */
    uint64_t split; /* from here on a single copy is worth being made in two parts by both ends */
    uint64_t
        pipeline; /* up to here both ends move a message sooner by fragments than by single copies */
    uint64_t patience; /* ns: a single copy of the largest packet */
} spec_ends_t;

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

/* least: what the transport's own limit lets go eager; most: what fits its largest packet. */
static inline spec_ends_t spec_costs_ends(const spec_costs_t *c, spec_mover_t mover, uint64_t least,
                                          uint64_t most)
{
    spec_ends_t ends = {.alone = least, .gaps = least, .split = SPEC_COSTS_SPLIT};
    if (SPEC_BY_RDMA == mover || most <= least) {
        return ends;
    }
    ends.gaps = most;
    if (SPEC_BY_FRAGMENTS == mover) {
        ends.alone = most;
        ends.parts = SPEC_COSTS_IN_PARTS;
    } else if (c->known) {
        const uint64_t copy = (uint64_t) c->copy_ps * SPEC_COSTS_FAR;
        const uint64_t alone =
            spec_costs_meet(2 * SPEC_COSTS_FIRST_NS, 2 * copy, c->call_ns, c->single_ps, most);
        ends.split = UINT64_C(2000) * SPEC_COSTS_PARTS * c->call_ns / (c->single_ps | 1);
        ends.alone = alone > least ? alone : least;
        /* By fragments a byte costs a copy at both ends at the same time, by single copies half of one at each. */
        ends.pipeline = spec_costs_meet(2 * SPEC_COSTS_FIRST_NS,
                                        copy + UINT64_C(2000) * SPEC_COSTS_PACKET_NS / most,
                                        c->call_ns, c->single_ps / 2, UINT64_MAX);
        /* Of a message in parts the first is copied by one end, the last by the other, all others by both at the same time. */
        ends.parts = spec_costs_meet(
            2 * SPEC_COSTS_FIRST_NS + SPEC_COSTS_PACKET_NS, copy + copy / 2,
            (uint64_t) c->call_ns + 2 * SPEC_COSTS_PACKET_NS, c->single_ps, SPEC_COSTS_IN_PARTS);
        ends.parts = ends.parts > most ? ends.parts : 0;
        ends.patience = c->call_ns + c->single_ps * most / 1000;
    }
    return ends;
}

/* Does a message of so many bytes go out with its data, in one packet, which holds `most`, or in parts? */
static inline bool spec_ends_fit(const spec_ends_t *ends, uint64_t most, uint64_t length,
                                 bool is_flat)
{
    return length <= most ? length <= (is_flat ? ends->alone : ends->gaps)
                          : is_flat && length <= SPEC_COSTS_IN_PARTS && length <= ends->parts;
}

/* Up to which size, from one block. (Parts begin behind the largest packet, where `alone` ends if there are any.) */
static inline uint64_t spec_ends_last(const spec_ends_t *ends)
{
    return ends->parts > ends->alone ? ends->parts : ends->alone;
}

/* What it takes to send a fragment into memory whose lines the other processor has is measured where fragments are sent, for it depends on
 * where the two processors are and changes with that (a virtual machine may move them). Threads: any; an update that another
 * undoes costs a copy's worth. */
typedef struct spec_far {
    uint32_t ps; /* each byte; of the last few copies */
    uint32_t n;  /* copies, as far as they matter */
    uint32_t skipped;
    uint32_t busy; /* messages for which it is taken for certain that others come the other way */
} spec_far_t;

/* What a byte takes where both ends make single copies: more than half of one, since they hinder each other. */
#define SPEC_FAR_BOTH(ps) ((ps) *UINT64_C(9) / 16)

/* So many copies are believed more than SPEC_COSTS_FAR. */
#define SPEC_FAR_SURE 8u
/* Of messages that go without fragments, because copies were too dear, one in so many goes with them, to measure. */
#define SPEC_FAR_TRY 64u

static inline void spec_far_saw(spec_far_t *f, uint64_t bytes, uint64_t ns)
{
    const uint64_t ps = ns * 1000 / bytes;
    const uint32_t now = ps < UINT32_MAX / 4 ? (uint32_t) ps : UINT32_MAX / 4;
    const uint64_t before = __atomic_load_n(&f->ps, __ATOMIC_RELAXED);
    const uint32_t n = __atomic_load_n(&f->n, __ATOMIC_RELAXED);
    __atomic_store_n(&f->ps, 0 == n ? now : (uint32_t) ((3 * before + now) / 4), __ATOMIC_RELAXED);
    __atomic_store_n(&f->n, n < SPEC_FAR_SURE ? n + 1 : n, __ATOMIC_RELAXED);
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
    if (__atomic_load_n(&f->n, __ATOMIC_RELAXED) < SPEC_FAR_SURE
        || __atomic_load_n(&f->ps, __ATOMIC_RELAXED) + packet < other) {
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
