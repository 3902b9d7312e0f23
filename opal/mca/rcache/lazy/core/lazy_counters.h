/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What the registration cache counts: one list for the struct, the performance variables, the summary and the tests.
 *
 * COUNT(name, meaning): events since the beginning (evicted_bytes counts registrations: those that the limit of bytes has
 * ended). LEVEL: the state now, in the unit that its text names. MOST: the highest such level so far.
 *
 * These hold whenever no thread is inside the cache:
 *   misses          = registrations - privates + failures + exhausted
 *   registrations   = deregistrations + entries + quarantined + privates_now
 *   deregistrations = evicted_bytes + evicted_entries + evicted_resources + evicted_asked
 *                     + evicted_unused + replaced + invalidated + ended */
#ifndef LAZY_COUNTERS_H
#define LAZY_COUNTERS_H

#include <stdint.h>

#define LAZY_COUNTERS(COUNT, LEVEL, MOST)                                                          \
    COUNT(hits, "uses that found their memory registered")                                         \
    COUNT(misses, "uses that did not find their memory registered")                                \
    COUNT(registrations, "registrations made")                                                     \
    COUNT(deregistrations, "registrations ended")                                                  \
    COUNT(merges, "registrations made larger than asked for, to cover what overlaps")              \
    COUNT(merges_undone,                                                                           \
          "registrations made only as large as asked for, since a larger one could not be made")   \
    COUNT(privates,                                                                                \
          "registrations for one user, not shared (asked for so, or there are no hooks)")          \
    COUNT(failures, "registrations refused for a reason other than lack of resources")             \
    COUNT(exhausted, "registrations refused for lack of resources with nothing left to evict")     \
    COUNT(evicted_bytes,                                                                           \
          "registrations evicted because of rcache_lazy_max_bytes. Unit: registrations")           \
    COUNT(evicted_entries,                                                                         \
          "registrations evicted because of rcache_lazy_max_entries. Unit: registrations")         \
    COUNT(evicted_resources,                                                                       \
          "registrations evicted because the adapter refused another one. Unit: registrations")    \
    COUNT(evicted_asked, "registrations evicted because the owner of the cache asked")             \
    COUNT(evicted_unused, "registrations ended because the policy keeps nothing")                  \
    COUNT(replaced, "registrations ended because a larger one covers them")                        \
    COUNT(invalidated, "registrations ended because their memory was given back")                  \
    COUNT(ended, "registrations ended by their only user or with the cache")                       \
    COUNT(lost_in_use, "registrations whose memory was given back while it was in use")            \
    COUNT(inbox_overflows,                                                                         \
          "times that more memory was given back at once than can be noted: all ended")            \
    LEVEL(entries, "registrations kept. Unit: registrations")                                      \
    LEVEL(quarantined, "registrations that no search finds any more, until their last use ends. "  \
                       "Unit: registrations")                                                      \
    LEVEL(privates_now, "registrations of one user. Unit: registrations")                          \
    LEVEL(bytes, "memory registered. Unit: bytes")                                                 \
    MOST(entries_most, "most registrations kept at a time. Unit: registrations")                   \
    MOST(quarantined_most, "most registrations quarantined at a time. Unit: registrations")        \
    MOST(bytes_most, "most memory registered at a time. Unit: bytes")

typedef struct lazy_counters {
#define LAZY_FIELD(name, text) uint64_t name;
    LAZY_COUNTERS(LAZY_FIELD, LAZY_FIELD, LAZY_FIELD)
#undef LAZY_FIELD
} lazy_counters_t;

#endif
