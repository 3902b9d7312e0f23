/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What the messages of test/bench/spectrum leave by. Each wire is a const descriptor; one is chosen at start. */
#ifndef SPECTRUM_WIRE_H
#define SPECTRUM_WIRE_H

#include "freq_gate.h"
#include "lazy_cache.h"

#include <string.h>

enum {
    SPECTRUM_HEADER = 64,  /* bytes in front of the data: of the BTL and of who is above it */
    SPECTRUM_MEMORY = 128, /* for a registration of the wire's, at lazy_entry_t.data */
};

typedef enum spectrum_op { SPECTRUM_SEND, SPECTRUM_PUT, SPECTRUM_GET } spectrum_op_t;

typedef struct spectrum_wire {
    const char *name;
    /* Called once. NULL: ready; else what is missing, for people. */
    const char *(*open)(spectrum_op_t op);
    /* Registers what the entry is of, in the entry's data. NULL: nothing to be done. */
    bool (*enter)(lazy_entry_t *e);
    void (*leave)(lazy_entry_t *e);
    /* Messages of so many bytes are copied into the work request in any case, and nothing is asked. */
    size_t (*inline_max)(void);
    /* By way of a fragment. gate: of the table, which counts the copy; NULL: there is none. */
    void (*copied)(char *buffer, size_t size, freq_gate_t *gate);
    /* From (into) where it is; spectrum_complete is called once the wire is done with it. */
    void (*in_place)(char *buffer, size_t size, lazy_entry_t *e);
    /* What others do in the meantime (the receiver, an adapter): no part of the time. At least once for each
     * SPECTRUM_BATCH messages. */
    void (*others)(void);
} spectrum_wire_t;

enum { SPECTRUM_BATCH = 32 };

/* A writing of a descriptor and a pause of so many nanoseconds; sends only. */
extern const spectrum_wire_t spectrum_memory;
extern long spectrum_memory_post_ns;
/* The verbs transport, over test/unit/fake_verbs.h. Built only where there is libibverbs. */
extern const spectrum_wire_t spectrum_verbs;

/* memcpy, as a transport does it that has a table, or none. */
static inline void spectrum_copy(void *to, const void *from, size_t size, freq_gate_t *gate)
{
    const uint64_t start = freq_gate_copy_starts(gate);
    memcpy(to, from, size);
    freq_gate_copy_ends(gate, start, size);
}

/* In spectrum.c. */
void spectrum_complete(lazy_entry_t *e);
void spectrum_spend(long ns);

#endif
