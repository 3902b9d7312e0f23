/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The tag of a datagram: says that a member of the job made it and nobody changed it.
 *
 * Each process has a random 128-bit key that the job's start-up gives to its peers and to nobody
 * else. Every datagram carries a 64-bit tag made with the key of the process it goes to.
 *
 * docs/design/wire.md, Protection, says how it is made, and why so: as UMAC (RFC 4418), with CLNH (iw_clnh.h) of what is
 * behind the first IW_AUTH_DIRECT bytes, in blocks of IW_AUTH_BLOCK, and SipHash-2-4 (libsodium) over length, hash and
 * first bytes.
 *
 * The field of the head that the tag goes to counts as `connection`: the generation of the receiver's side (iw_wire.h),
 * which no two connections of a process have in common.
 *
 * Instead of the tag the field can have `connection` alone, which protects against what is left of earlier connections.
 *
 * Threads: contexts are read-only after iw_auth_init. */
#ifndef IW_AUTH_H
#define IW_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

typedef enum iw_auth_mode { IW_AUTH_TAG, IW_AUTH_OFF } iw_auth_mode_t;

#define IW_AUTH_DIRECT 24 /* bytes given to SipHash as they are: the head (iw_wire.h), */
#define IW_AUTH_FIELD  16 /* and where in it the field is */
#define IW_AUTH_BLOCK                                                                              \
    1536 /* bytes hashed to 16 at a time: a datagram of Ethernet's usual MTU is one block */

typedef struct iw_key {
    uint8_t b[16];
} iw_key_t;

/* What is made of one key once, for all datagrams. CLNH's part is 2.2 KB and is made for the first
 * datagram. */
typedef struct iw_auth {
    iw_auth_mode_t mode;
    uint8_t sip[16];
    uint64_t *clnh; /* or NULL */
    iw_key_t key;   /* clnh is derived from it */
} iw_auth_t;

/* A new random key. */
void iw_key_make(iw_key_t *key);

void iw_auth_init(iw_auth_t *auth, iw_auth_mode_t mode, const iw_key_t *key);
void iw_auth_fini(iw_auth_t *auth); /* and forgets the key */

/* Make ready for datagrams longer than IW_AUTH_DIRECT. False: out of memory. */
bool iw_auth_prepare(iw_auth_t *auth);

/* What goes into the field, for count pieces in a row: IW_AUTH_DIRECT bytes at least; iw_auth_prepare must have succeeded
 * if there are more. What is in the field does not matter. */
uint64_t iw_auth_tag(const iw_auth_t *auth, uint64_t connection, const struct iovec *piece,
                     unsigned count);

/* Bytes allocated beside *auth. */
size_t iw_auth_memory(const iw_auth_t *auth);

#endif
