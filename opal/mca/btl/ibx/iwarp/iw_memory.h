/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The memory table: which memory peers may reach, under which name.
 *
 * An STag is index << 12 | key. The key is random, and another one each time the index is used, so
 * that a stale or guessed STag finds nothing. Offsets (TO) count from the start of the region:
 * no address is on the wire. A region can be for everybody or for one peer only.
 *
 * Checks come in this order (RFC 5040, 8.1): STag, peer, rights, bounds.
 *
 * Threads: the engine's. Memory: grows with the number of regions, in chunks that do not move. */
#ifndef IW_MEMORY_H
#define IW_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum iw_rights {
    IW_REMOTE_READ = 1,
    IW_REMOTE_WRITE = 2,
    IW_READ_SINK = 4, /* target of one of our own RDMA Reads: only its responses may write */
};

/* The uses of memory that has a name, as the caller knows them; any thread changes them. */
typedef struct iw_uses {
    atomic_uint count; /* at the moment */
    atomic_uint ended; /* so far; it may wrap */
} iw_uses_t;

static inline void iw_uses_init(iw_uses_t *u, unsigned count)
{
    atomic_init(&u->count, count);
    atomic_init(&u->ended, 0);
}

static inline void iw_use_begins(iw_uses_t *u)
{
    (void) atomic_fetch_add(&u->count, 1);
}

/* In this order: where it was not the last, the other number tells of it. */
static inline void iw_use_ends(iw_uses_t *u)
{
    (void) atomic_fetch_add(&u->ended, 1);
    (void) atomic_fetch_sub(&u->count, 1);
}

typedef struct iw_region {
    uint8_t *base; /* NULL: not in use */
    uint64_t length;
    void *peer;            /* that may use it; NULL: all */
    void *owner;           /* of the caller that registered it */
    const iw_uses_t *uses; /* see iw_memory_add */
    uint32_t next_free;
    uint16_t key;
    uint8_t rights;
} iw_region_t;

#define IW_REGION_CHUNK 256u

typedef struct iw_memory {
    iw_region_t **chunk;
    uint32_t chunks;
    uint32_t free_head; /* index + 1, 0: none */
    uint32_t in_use;
    uint64_t random; /* state of the generator, seeded with what nobody else knows */
} iw_memory_t;

typedef enum iw_access {
    IW_ACCESS_OK,
    IW_ACCESS_STAG, /* no such region, or not this peer's */
    IW_ACCESS_RIGHTS,
    IW_ACCESS_BOUNDS,
} iw_access_t;

void iw_memory_init(iw_memory_t *m, uint64_t seed);
void iw_memory_fini(iw_memory_t *m);

/* Name length bytes at base (not NULL). Returns the STag, or 0 when there is no room. The memory
 * stays the caller's and must live until it is taken back.
 *
 * While there is no use nothing of a peer reaches the memory, as if it were taken back: for callers that keep a name for
 * the next time, and do not know what becomes of the memory until then. A use may be of a part only, of which they do not know
 * either when it has ended: what a peer has read before is not touched again unless the peer says that it lacks it (iw_memory_ended).
 * *uses is read with each datagram and lives as long as the name; NULL: it is always in use. When a use ends while another thread may be
 * at work for the engine, that thread is done with the memory when the engine's lock was had once. */
uint32_t iw_memory_add(iw_memory_t *m, void *base, uint64_t length, unsigned rights, void *peer,
                       void *owner, const iw_uses_t *uses);

/* Take it back: nothing of a peer reaches it from now on. False: there is no such STag. */
bool iw_memory_remove(iw_memory_t *m, uint32_t stag);

/* How many uses of the memory of this name have ended so far. */
uint32_t iw_memory_ended(const iw_memory_t *m, uint32_t stag);

/* May peer do this? On IW_ACCESS_OK *at is where, and *region, if asked for, the region. */
iw_access_t iw_memory_check(const iw_memory_t *m, uint32_t stag, const void *peer, unsigned rights,
                            uint64_t to, uint64_t length, uint8_t **at, const iw_region_t **region);

#endif
