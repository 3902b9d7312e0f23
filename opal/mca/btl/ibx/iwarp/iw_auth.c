/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Makes the keyed tag of a datagram. */
#include "iw_auth.h"

#include "iw_clnh.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_HASH 16 /* bytes that a block is hashed to */
#define BLOCKS_MAX 44 /* of the longest datagram, and whole lanes of hashes */
#define KEY_LENGTH                                                                                 \
    (IW_AUTH_BLOCK + BLOCKS_MAX * BLOCK_HASH) /* for a block, and for the blocks' hashes */
_Static_assert(IW_AUTH_DIRECT + BLOCKS_MAX * IW_AUTH_BLOCK >= 65535, "the longest datagram");
_Static_assert(0 == IW_AUTH_BLOCK % IW_CLNH_LANE && 0 == BLOCKS_MAX * BLOCK_HASH % IW_CLNH_LANE,
               "the key has no bytes behind it for lanes that are not full");

void iw_key_make(iw_key_t *key)
{
    randombytes_buf(key, sizeof(*key));
}

/* Different keys for different uses from one (BLAKE2b, keyed). */
static void derive(void *out, size_t length, const iw_key_t *key, const char *use)
{
    crypto_generichash(out, length, (const uint8_t *) use, strlen(use), key->b, sizeof(key->b));
}

void iw_auth_init(iw_auth_t *auth, iw_auth_mode_t mode, const iw_key_t *key)
{
    *auth = (iw_auth_t){.mode = mode, .key = *key};
    derive(auth->sip, sizeof(auth->sip), key, "iw tag");
}

void iw_auth_fini(iw_auth_t *auth)
{
    free(auth->clnh);
    sodium_memzero(auth, sizeof(*auth));
}

bool iw_auth_prepare(iw_auth_t *auth)
{
    if (NULL != auth->clnh || IW_AUTH_TAG != auth->mode) {
        return true;
    }
    uint64_t *clnh = malloc(KEY_LENGTH);
    if (NULL == clnh) {
        return false;
    }
    uint8_t seed[randombytes_SEEDBYTES];
    derive(seed, sizeof(seed), &auth->key, "iw clnh");
    randombytes_buf_deterministic(clnh, KEY_LENGTH, seed);
    auth->clnh = clnh;
    return true;
}

size_t iw_auth_memory(const iw_auth_t *auth)
{
    return NULL == auth->clnh ? 0 : KEY_LENGTH;
}

/* Reads the pieces in a row. */
typedef struct cursor {
    const struct iovec *piece;
    size_t at; /* in *piece */
} cursor_t;

/* At least one byte of *piece is ahead; there is one in some piece. */
static void skip_empty(cursor_t *c)
{
    while (c->at == c->piece->iov_len) {
        ++c->piece;
        c->at = 0;
    }
}

static void take(cursor_t *c, uint8_t *to, size_t length)
{
    while (length > 0) {
        skip_empty(c);
        size_t part = c->piece->iov_len - c->at;
        part = part < length ? part : length;
        memcpy(to, (const uint8_t *) c->piece->iov_base + c->at, part);
        to += part;
        length -= part;
        c->at += part;
    }
}

/* The hash of the next block, of length bytes. Only a lane that reaches from one piece into the next is copied: the
 * payload behind a header is not. */
static void hash_block(const uint64_t *key, cursor_t *c, size_t length, uint64_t out[2])
{
    while (length > 0) {
        skip_empty(c);
        const size_t here = c->piece->iov_len - c->at;
        size_t part = here >= length ? length : here - here % IW_CLNH_LANE;
        if (part > 0) {
            iw_clnh(key, (const uint8_t *) c->piece->iov_base + c->at, part, out);
            c->at += part;
        } else {
            uint8_t lane[IW_CLNH_LANE];
            part = length < sizeof(lane) ? length : sizeof(lane);
            take(c, lane, part);
            iw_clnh(key, lane, part, out);
        }
        key += part / 8;
        length -= part;
    }
}

/* The hash of what is left of the pieces: of the only block, or of the blocks' hashes. */
static void hash_tail(const iw_auth_t *auth, cursor_t *c, size_t left, uint64_t out[2])
{
    out[0] = out[1] = 0;
    if (left <= IW_AUTH_BLOCK) {
        hash_block(auth->clnh, c, left, out);
        return;
    }
    uint64_t hash[BLOCKS_MAX][2];
    size_t n = 0;
    for (; left > 0; ++n) {
        const size_t part = left < IW_AUTH_BLOCK ? left : IW_AUTH_BLOCK;
        hash[n][0] = hash[n][1] = 0;
        hash_block(auth->clnh, c, part, hash[n]);
        left -= part;
    }
    iw_clnh(auth->clnh + IW_AUTH_BLOCK / 8, (const uint8_t *) hash, n * BLOCK_HASH, out);
}

/* The head, with `connection` in the field. */
static void take_head(cursor_t *c, uint8_t *head, uint64_t connection)
{
    if (IW_AUTH_DIRECT
        <= c->piece->iov_len) { /* nearly always, and a length that the compiler knows */
        memcpy(head, c->piece->iov_base, IW_AUTH_DIRECT);
        c->at = IW_AUTH_DIRECT;
    } else {
        take(c, head, IW_AUTH_DIRECT);
    }
    memcpy(head + IW_AUTH_FIELD, &connection, sizeof(connection));
}

static uint64_t keyed_tag(const iw_auth_t *auth, uint64_t connection, const struct iovec *piece,
                          unsigned count)
{
    size_t length = 0;
    struct {
        uint64_t length, tail[2];
        uint8_t direct[IW_AUTH_DIRECT];
    } input;
    cursor_t c = {piece, 0};
    uint64_t tag;
    for (unsigned i = 0; i < count; ++i) {
        length += piece[i].iov_len;
    }
    input.length = length;
    take_head(&c, input.direct, connection);
    if (length > IW_AUTH_DIRECT) {
        hash_tail(auth, &c, length - IW_AUTH_DIRECT, input.tail);
    } else {
        input.tail[0] = input.tail[1] = 0;
    }
    crypto_shorthash((uint8_t *) &tag, (const uint8_t *) &input, sizeof(input), auth->sip);
    return tag;
}

uint64_t iw_auth_tag(const iw_auth_t *auth, uint64_t connection, const struct iovec *piece,
                     unsigned count)
{
    return IW_AUTH_OFF == auth->mode ? connection : keyed_tag(auth, connection, piece, count);
}
