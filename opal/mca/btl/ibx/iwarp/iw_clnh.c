/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The universal hash of a datagram's payload, with carry-less multiplication where the processor has it. */
#include "iw_clnh.h"

#include <string.h>
#if defined(__x86_64__)
#    include <immintrin.h>
#endif

/* Polynomial a times polynomial b of 32 bits. Every fourth bit by itself: no coefficient is above 8, so
 * the carries of the processor's multiplication stay within the three bits between. */
static unsigned __int128 times_half(uint64_t a, uint64_t b)
{
    static const uint64_t every_fourth = UINT64_C(0x1111111111111111);
    unsigned __int128 sum = 0, mask = (unsigned __int128) every_fourth << 64 | every_fourth;
    for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) {
            unsigned __int128 product =
                (unsigned __int128) (a & every_fourth << i) * (b & every_fourth << j);
            sum ^= product & mask << (i + j);
        }
    }
    return sum;
}

static void clnh_plain(const uint64_t *key, const uint8_t *data, size_t length, uint64_t out[2])
{
    unsigned __int128 sum = 0;
    for (size_t at = 0; at < length; at += 16, key += 2) {
        uint64_t w[2];
        memcpy(w, data + at, sizeof(w));
        w[0] ^= key[0];
        w[1] ^= key[1];
        sum ^= times_half(w[0], w[1] & UINT32_MAX) ^ times_half(w[0], w[1] >> 32) << 32;
    }
    out[0] ^= (uint64_t) sum;
    out[1] ^= (uint64_t) (sum >> 64);
}

typedef void clnh_t(const uint64_t *key, const uint8_t *data, size_t length, uint64_t out[2]);

/* Whole lanes where they are, the tail from a copy. */
static inline void by_lanes(clnh_t *clnh, const uint64_t *key, const uint8_t *data, size_t length,
                            uint64_t out[2])
{
    const size_t tail = length % IW_CLNH_LANE, whole = length - tail;
    clnh(key, data, whole, out);
    if (tail > 0) {
        uint8_t lane[IW_CLNH_LANE] = {0};
        memcpy(lane, data + whole, tail);
        clnh(key + whole / 8, lane, sizeof(lane), out);
    }
}

void iw_clnh_plain(const uint64_t *key, const uint8_t *data, size_t length, uint64_t out[2])
{
    by_lanes(clnh_plain, key, data, length, out);
}

#if defined(__x86_64__)
/* In registers: what is stored in one piece cannot be loaded in others at once. */
__attribute__((target("sse4.1"))) static inline void add_128(__m128i sum, uint64_t out[2])
{
    out[0] ^= (uint64_t) _mm_extract_epi64(sum, 0);
    out[1] ^= (uint64_t) _mm_extract_epi64(sum, 1);
}

__attribute__((target("avx2"))) static inline void add_256(__m256i sum, uint64_t out[2])
{
    add_128(_mm_xor_si128(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1)), out);
}

__attribute__((target("pclmul,sse4.1"))) static void
clnh_128(const uint64_t *key, const uint8_t *data, size_t length, uint64_t out[2])
{
    __m128i sum[4] = {_mm_setzero_si128(), _mm_setzero_si128(), _mm_setzero_si128(),
                      _mm_setzero_si128()};
    for (size_t at = 0; at < length; at += IW_CLNH_LANE, key += IW_CLNH_LANE / 8) {
        for (int i = 0; i < 4; ++i) {
            __m128i w = _mm_xor_si128(_mm_loadu_si128((const __m128i *) (data + at) + i),
                                      _mm_loadu_si128((const __m128i *) key + i));
            sum[i] = _mm_xor_si128(sum[i], _mm_clmulepi64_si128(w, w, 0x10));
        }
    }
    add_128(_mm_xor_si128(_mm_xor_si128(sum[0], sum[1]), _mm_xor_si128(sum[2], sum[3])), out);
}

#    define TARGET_256 __attribute__((target("avx2,vpclmulqdq")))

TARGET_256 static inline __m256i half_products(const uint64_t *key, const uint8_t *data)
{
    const __m256i w = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *) data),
                                       _mm256_loadu_si256((const __m256i *) key));
    return _mm256_clmulepi64_epi128(w, w, 0x10);
}

/* Processors with the wide multiplication but without AVX-512: 2.5 times as fast as by 128 bits. */
TARGET_256 static void clnh_256(const uint64_t *key, const uint8_t *data, size_t length,
                                uint64_t out[2])
{
    __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
    size_t at = 0;
    for (; at + 128 <= length; at += 128, key += 16) {
        a = _mm256_xor_si256(a, half_products(key, data + at));
        b = _mm256_xor_si256(b, half_products(key + 4, data + at + 32));
        c = _mm256_xor_si256(c, half_products(key + 8, data + at + 64));
        d = _mm256_xor_si256(d, half_products(key + 12, data + at + 96));
    }
    if (at < length) {
        a = _mm256_xor_si256(a, half_products(key, data + at));
        b = _mm256_xor_si256(b, half_products(key + 4, data + at + 32));
    }
    add_256(_mm256_xor_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d)), out);
}

#    define TARGET_512 __attribute__((target("avx512f,avx512bw,vpclmulqdq")))

TARGET_512 static inline __m512i products_of(const uint64_t *key, __m512i lane)
{
    const __m512i w = _mm512_xor_si512(lane, _mm512_loadu_si512(key));
    return _mm512_clmulepi64_epi128(w, w, 0x10);
}

TARGET_512 static inline __m512i products(const uint64_t *key, const uint8_t *data)
{
    return products_of(key, _mm512_loadu_si512(data));
}

TARGET_512 static void clnh_512(const uint64_t *key, const uint8_t *data, size_t length,
                                uint64_t out[2])
{
    /* Four sums, so that no multiplication waits for another. */
    __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
    size_t at = 0;
    for (; at + 256 <= length; at += 256, key += 32) {
        a = _mm512_xor_si512(a, products(key, data + at));
        b = _mm512_xor_si512(b, products(key + 8, data + at + 64));
        c = _mm512_xor_si512(c, products(key + 16, data + at + 128));
        d = _mm512_xor_si512(d, products(key + 24, data + at + 192));
    }
    for (; at + 64 <= length; at += 64, key += 8) {
        a = _mm512_xor_si512(a, products(key, data + at));
    }
    if (at < length) {
        const __mmask64 there = ~UINT64_C(0) >> (64 - (length - at));
        b = _mm512_xor_si512(b, products_of(key, _mm512_maskz_loadu_epi8(there, data + at)));
    }
    a = _mm512_xor_si512(_mm512_xor_si512(a, b), _mm512_xor_si512(c, d));
    add_256(_mm256_xor_si256(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1)), out);
}
#endif

void iw_clnh(const uint64_t *key, const uint8_t *data, size_t length, uint64_t out[2])
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("vpclmulqdq")) {
        clnh_512(key, data, length, out);
        return;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("vpclmulqdq")) {
        by_lanes(clnh_256, key, data, length, out);
        return;
    }
    if (__builtin_cpu_supports("pclmul")) {
        by_lanes(clnh_128, key, data, length, out);
        return;
    }
#endif
    iw_clnh_plain(key, data, length, out);
}
