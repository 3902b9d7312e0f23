/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See iw_auth.h. */
#include "iw_auth.h"

#include "iw_crc.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#    include <immintrin.h>
#endif

#define BLOCK_HASH 16 /* bytes of NH output for a block */
#define LANES      64 /* NH works on this many bytes at a time: a shorter tail is filled with zeros */

/* Input of SipHash: length, first bytes, the hashes of all blocks of the longest datagram. */
#define BLOCKS_MAX (65536 / IW_AUTH_BLOCK + 1)

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
    free(auth->nh);
    sodium_memzero(auth, sizeof(*auth));
}

bool iw_auth_prepare(iw_auth_t *auth)
{
    if (NULL != auth->nh || IW_AUTH_TAG != auth->mode) {
        return true;
    }
    const size_t length = IW_AUTH_BLOCK + BLOCK_HASH;
    uint32_t *nh = malloc(length);
    if (NULL == nh) {
        return false;
    }
    uint8_t seed[randombytes_SEEDBYTES];
    derive(seed, sizeof(seed), &auth->key, "iw nh");
    randombytes_buf_deterministic(nh, length, seed);
    auth->nh = nh;
    return true;
}

/* Sum over pairs of words of (data + key) * (data + key), modulo 2^32 inside and 2^64 outside, as in
 * RFC 4418, 5.2.2, but with neighbours for a pair, which is how vector units multiply. The second sum
 * uses the key four words on (Toeplitz). Words are read in the order of the machine: both ends are of
 * one kind, and the tag only has to agree. */
void iw_nh_plain(const uint32_t *key, const uint8_t *data, size_t length, uint64_t out[2])
{
    uint64_t sum0 = 0, sum1 = 0;
    for (size_t at = 0; at < length; at += 8, key += 2) {
        uint32_t w[2];
        memcpy(w, data + at, sizeof(w));
        sum0 += (uint64_t) (uint32_t) (w[0] + key[0]) * (uint32_t) (w[1] + key[1]);
        sum1 += (uint64_t) (uint32_t) (w[0] + key[4]) * (uint32_t) (w[1] + key[5]);
    }
    out[0] = sum0;
    out[1] = sum1;
}

#if defined(__x86_64__)
#    define LOAD256(p) _mm256_loadu_si256((const __m256i *) (p))

/* Low times high half of each 64 bits. */
__attribute__((target("avx2"))) static inline __m256i product256(__m256i sums)
{
    return _mm256_mul_epu32(sums, _mm256_srli_epi64(sums, 32));
}

__attribute__((target("avx2"))) static void nh_avx2(const uint32_t *key, const uint8_t *data,
                                                    size_t length, uint64_t out[2])
{
    __m256i a0 = _mm256_setzero_si256(), a1 = a0, b0 = a0, b1 = a0;
    for (size_t at = 0; at < length; at += LANES, key += LANES / 4) {
        __m256i d0 = LOAD256(data + at), d1 = LOAD256(data + at + 32);
        a0 = _mm256_add_epi64(a0, product256(_mm256_add_epi32(d0, LOAD256(key))));
        b0 = _mm256_add_epi64(b0, product256(_mm256_add_epi32(d0, LOAD256(key + 4))));
        a1 = _mm256_add_epi64(a1, product256(_mm256_add_epi32(d1, LOAD256(key + 8))));
        b1 = _mm256_add_epi64(b1, product256(_mm256_add_epi32(d1, LOAD256(key + 12))));
    }
    uint64_t v[8];
    _mm256_storeu_si256((__m256i *) v, _mm256_add_epi64(a0, a1));
    _mm256_storeu_si256((__m256i *) (v + 4), _mm256_add_epi64(b0, b1));
    out[0] = v[0] + v[1] + v[2] + v[3];
    out[1] = v[4] + v[5] + v[6] + v[7];
}

__attribute__((target("avx512f"))) static inline __m512i product512(__m512i sums)
{
    return _mm512_mul_epu32(sums, _mm512_srli_epi64(sums, 32));
}

__attribute__((target("avx512f"))) static void nh_avx512(const uint32_t *key, const uint8_t *data,
                                                         size_t length, uint64_t out[2])
{
    __m512i a = _mm512_setzero_si512(), b = a;
    for (size_t at = 0; at < length; at += LANES, key += LANES / 4) {
        __m512i d = _mm512_loadu_si512(data + at);
        a = _mm512_add_epi64(a, product512(_mm512_add_epi32(d, _mm512_loadu_si512(key))));
        b = _mm512_add_epi64(b, product512(_mm512_add_epi32(d, _mm512_loadu_si512(key + 4))));
    }
    uint64_t v[16];
    _mm512_storeu_si512(v, a);
    _mm512_storeu_si512(v + 8, b);
    out[0] = out[1] = 0;
    for (int i = 0; i < 8; ++i) {
        out[0] += v[i];
        out[1] += v[i + 8];
    }
}
#endif

void iw_nh(const uint32_t *key, const uint8_t *data, size_t length, uint64_t out[2])
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        nh_avx512(key, data, length, out);
        return;
    }
    if (__builtin_cpu_supports("avx2")) {
        nh_avx2(key, data, length, out);
        return;
    }
#endif
    iw_nh_plain(key, data, length, out);
}

/* Reads the pieces in a row. */
typedef struct cursor {
    const struct iovec *piece;
    unsigned count;
    size_t at; /* in *piece */
} cursor_t;

static void take(cursor_t *c, uint8_t *to, size_t length)
{
    while (length > 0) {
        size_t part = c->piece->iov_len - c->at;
        if (part > length) {
            part = length;
        }
        memcpy(to, (const uint8_t *) c->piece->iov_base + c->at, part);
        to += part;
        length -= part;
        c->at += part;
        if (c->at == c->piece->iov_len && length > 0) {
            ++c->piece;
            c->at = 0;
        }
    }
}

static uint64_t keyed_tag(const iw_auth_t *auth, const struct iovec *piece, unsigned count,
                          size_t length)
{
    uint8_t input[8 + IW_AUTH_DIRECT + BLOCKS_MAX * BLOCK_HASH];
    cursor_t c = {piece, count, 0};
    uint64_t total = length, tag;
    size_t direct = length < IW_AUTH_DIRECT ? length : IW_AUTH_DIRECT, filled = 8;
    memcpy(input, &total, 8);
    take(&c, input + filled, direct);
    filled += direct;
    for (size_t left = length - direct; left > 0;) {
        uint8_t copy[IW_AUTH_BLOCK];
        const uint8_t *block = copy;
        size_t part = left < IW_AUTH_BLOCK ? left : IW_AUTH_BLOCK;
        size_t whole = (part + LANES - 1) / LANES * LANES;
        while (c.at == c.piece->iov_len) {
            ++c.piece;
            c.at = 0;
        }
        if (c.piece->iov_len - c.at >= whole && whole == part) {
            block = (const uint8_t *) c.piece->iov_base + c.at;
            c.at += part;
        } else {
            take(&c, copy, part);
            memset(copy + part, 0, whole - part);
        }
        uint64_t hash[2];
        iw_nh(auth->nh, block, whole, hash);
        memcpy(input + filled, hash, BLOCK_HASH);
        filled += BLOCK_HASH;
        left -= part;
    }
    crypto_shorthash((uint8_t *) &tag, input, filled, auth->sip);
    return tag;
}

uint64_t iw_auth_tag(const iw_auth_t *auth, const struct iovec *piece, unsigned count)
{
    size_t length = 0;
    uint32_t crc = 0;
    switch (auth->mode) {
    case IW_AUTH_TAG:
        for (unsigned i = 0; i < count; ++i) {
            length += piece[i].iov_len;
        }
        return keyed_tag(auth, piece, count, length);
    case IW_AUTH_CRC:
        for (unsigned i = 0; i < count; ++i) {
            crc = iw_crc32c(crc, piece[i].iov_base, piece[i].iov_len);
        }
        return crc;
    case IW_AUTH_OFF:
        break;
    }
    return 0;
}
