/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Up to 1,024 processes send to one through a switch, in virtual time: the datagram engine itself on a simulated network
 * (test/unit/iw_fan.h), so that the numbers are the same on every machine. Not MPI.
 *
 * usage: incast [--OPTION NUMBER]...; an option may have several numbers, with commas: all combinations are run
 *
 * A line for each:  incast senders= size= mbit= queue_us= mark_us= seed= ms= ideal_ms= goodput_mbit= segments= resent= needless=
 *                   known= by_number= by_time= timeouts= dropped= marked= trip_us= peer_bytes= pool_bytes= sender_bytes= errors=
 * ms = virtual time until all have arrived; ideal = what the payload takes at the link's rate; needless = of what was sent again,
 * what was there already; known = of that, what the senders heard of; peer_bytes = what the receiver's engine allocated for a sender
 * at most, beside pool_bytes in all for what was under way; sender_bytes = what a sender's allocated at most; errors = messages that
 * were damaged, doubled or missing. Exit code: 1 if there were any. */
#include "iw_counted.h"

#include <inttypes.h>

enum { VALUES = 16 };

typedef struct option {
    const char *name, *meaning;
    uint64_t least, most;
    uint64_t value[VALUES];
    unsigned count;
} option_t;

enum { SENDERS, SIZE, BURSTS, WARM, MBIT, LATENCY, QUEUE, MARK, STAGGER, SPACE, DATAGRAM, SEED, OPTIONS };

static option_t options[OPTIONS] = {
    [SENDERS] = {"senders", "processes that send to one", 1, FAN_SENDERS, {64}, 1},
    [SIZE] = {"size", "bytes that each sends at once", 1, 1 << 24, {65536}, 1},
    [BURSTS] = {"bursts", "one after the other, of which each waits for the one before", 1, 1000, {4}, 1},
    [WARM] = {"warm", "bursts before those", 0, 1000, {0}, 1},
    [MBIT] = {"mbit", "rate of each link, Mbit/s", 1, 1000000, {10000}, 1},
    [LATENCY] = {"latency-us", "one way", 0, 1000000, {2}, 1},
    [QUEUE] = {"queue-us", "who would wait longer at the receiver's port of the switch is dropped", 1, 10000000, {1000}, 1},
    [MARK] = {"mark-us", "and so long, marked (ECN); 0: none is", 0, 10000000, {0}, 1},
    [STAGGER] = {"stagger-us", "a sender begins so much later, at most", 0, 1000000, {100}, 1},
    [SPACE] = {"space", "bytes that the receiver's socket buffers", 65536, 1 << 30, {4 << 20}, 1},
    [DATAGRAM] = {"datagram", "bytes of the largest", 1200, 65507, {1472}, 1},
    [SEED] = {"seed", "of what is random", 0, UINT32_MAX, {1}, 1},
};

static int usage(FILE *to)
{
    fprintf(to, "usage: incast [--OPTION NUMBER[,NUMBER...]]...\n");
    for (unsigned i = 0; i < OPTIONS; ++i) {
        const option_t *o = &options[i];
        fprintf(to, "  --%-11s %s (%" PRIu64 ")\n", o->name, o->meaning, o->value[0]);
    }
    return stdout == to ? 0 : 2;
}

/* NULL, or what is wrong with the list. */
static const char *read_values(option_t *o, const char *text)
{
    o->count = 0;
    for (char *end; VALUES > o->count; text = end + 1) {
        const unsigned long long value = strtoull(text, &end, 10);
        if (end == text || '-' == *text || (0 != *end && ',' != *end)) {
            return "is no list of numbers";
        }
        if (value < o->least || value > o->most) {
            return "is not in its range";
        }
        o->value[o->count++] = value;
        if (0 == *end) {
            return NULL;
        }
    }
    return "has too many numbers";
}

static bool read_options(int argc, char **argv)
{
    for (int i = 1; i < argc; i += 2) {
        unsigned k = 0;
        while (k < OPTIONS && (0 != strncmp(argv[i], "--", 2) || 0 != strcmp(argv[i] + 2, options[k].name))) {
            ++k;
        }
        const char *why = OPTIONS == k ? "is not known" : i + 1 == argc ? "needs a number" : read_values(&options[k], argv[i + 1]);
        if (NULL != why) {
            fprintf(stderr, "incast: %s%s%s %s\n", argv[i], i + 1 < argc ? " " : "", i + 1 < argc ? argv[i + 1] : "", why);
            return false;
        }
    }
    return true;
}

static fan_plan_t plan_of(const uint64_t *v)
{
    return (fan_plan_t){.senders = (unsigned) v[SENDERS], .size = (uint32_t) v[SIZE], .bursts = (unsigned) v[BURSTS],
                        .warm = (unsigned) v[WARM], .mbit = (unsigned) v[MBIT], .latency_ns = 1000 * v[LATENCY],
                        .expect_ns = fan_plan.expect_ns, .queue_ns = 1000 * v[QUEUE], .mark_ns = 1000 * v[MARK],
                        .stagger_ns = 1000 * v[STAGGER], .space = (uint32_t) v[SPACE], .datagram = (uint16_t) v[DATAGRAM],
                        .seed = v[SEED]};
}

/* Errors. */
static uint64_t run(const uint64_t *v)
{
    const fan_plan_t plan = plan_of(v);
    fan_result_t r;
    size_t sender = 0;
    counted_reset();
    const bool ends = fan_run(&plan, &r);
    const fan_events_t *e = &r.events;
    const uint64_t bytes = (uint64_t) plan.senders * plan.bursts * plan.size;
    const uint64_t errors = r.wrong + (uint64_t) plan.senders * (plan.warm + plan.bursts) - r.arrived + !ends;
    for (unsigned i = 1; i <= plan.senders; ++i) {
        sender = counted_most[i] > sender ? counted_most[i] : sender;
    }
    printf("incast senders=%u size=%u mbit=%u queue_us=%" PRIu64 " mark_us=%" PRIu64 " seed=%" PRIu64 " ms=%.3f ideal_ms=%.3f goodput_mbit=%.0f",
           plan.senders, plan.size, plan.mbit, v[QUEUE], v[MARK], plan.seed, (double) r.ns / 1e6, (double) r.ideal_ns / 1e6,
           8e3 * (double) bytes / (double) r.ns);
    printf(" segments=%" PRIu64 " resent=%" PRIu64 " needless=%" PRIu64 " known=%" PRIu64 " by_number=%" PRIu64 " by_time=%" PRIu64, e->segments,
           e->resent, e->needless, e->known, e->lost_by_number, e->lost_by_time);
    printf(" timeouts=%" PRIu64 " dropped=%" PRIu64 " marked=%" PRIu64 " trip_us=%.1f", e->timeouts, e->dropped, e->marked, (double) r.trip_ns / 1e3);
    printf(" peer_bytes=%zu pool_bytes=%" PRIu64 " sender_bytes=%zu errors=%" PRIu64 "\n",
           (size_t) (counted_most[0] - r.memory_before - r.pools) / plan.senders, r.pools, sender, errors);
    fflush(stdout);
    return errors;
}

/* All combinations of the options from k on. */
static uint64_t run_all(uint64_t *v, unsigned k)
{
    if (OPTIONS == k) {
        return run(v);
    }
    uint64_t errors = 0;
    for (unsigned i = 0; i < options[k].count; ++i) {
        v[k] = options[k].value[i];
        errors += run_all(v, k + 1);
    }
    return errors;
}

int main(int argc, char **argv)
{
    uint64_t v[OPTIONS];
    if (2 == argc && (0 == strcmp(argv[1], "--help") || 0 == strcmp(argv[1], "-h"))) {
        return usage(stdout);
    }
    if (!read_options(argc, argv)) {
        return usage(stderr);
    }
    return 0 != run_all(v, 0);
}
