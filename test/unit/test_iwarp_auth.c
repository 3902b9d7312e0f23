/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The tag of a datagram (iw_auth.h). */
#include "spec_unit.h"

#include "iw_auth.h"
#include "iw_clnh.h"

static void fill(uint8_t *data, size_t length, uint64_t seed)
{
    rng_t rng = {seed};
    for (size_t i = 0; i < length; ++i) {
        data[i] = (uint8_t) rng_next(&rng);
    }
}

/* (x + 1)^2 = x^2 + 1; x^63 * x^63 = x^126; and the sum of all pairs. */
static void clnh_by_hand(void **state)
{
    (void) state;
    uint64_t key[8] = {0}, data[8] = {0}, out[2] = {0, 0};
    data[0] = 1, data[1] = 2, key[0] = 2, key[1] = 1;
    iw_clnh_plain(key, (const uint8_t *) data, 64, out);
    assert_true(out[0] == 5 && out[1] == 0);
    data[2] = data[3] = UINT64_C(1) << 63;
    out[0] = out[1] = 0;
    iw_clnh_plain(key, (const uint8_t *) data, 64, out);
    assert_true(out[0] == 5 && out[1] == UINT64_C(1) << 62);
    /* (x^64 - 1) / (x - 1) squared has every even power: no carries between its places. */
    memset(data, 0, sizeof(data));
    memset(key, 0, sizeof(key));
    data[6] = data[7] = UINT64_MAX;
    out[0] = out[1] = 0;
    iw_clnh_plain(key, (const uint8_t *) data, 64, out);
    assert_true(out[0] == UINT64_C(0x5555555555555555) && out[1] == UINT64_C(0x5555555555555555));
}

static void clnh_is_the_same_on_every_processor(void **state)
{
    (void) state;
    uint64_t key[IW_AUTH_BLOCK / 8];
    uint8_t data[IW_AUTH_BLOCK + 7];
    for (uint64_t seed = 0; seed < 200; ++seed) {
        uint64_t a[2] = {seed, 1}, b[2] = {seed, 1};
        size_t length = 64 * (1 + seed % (IW_AUTH_BLOCK / 64));
        fill((uint8_t *) key, sizeof(key), seed);
        fill(data, sizeof(data), ~seed);
        if (seed % 3 == 0) {
            memset(data, 0xff, sizeof(data)); /* all places full */
            memset(key, 0, sizeof(key));
        }
        iw_clnh_plain(key, data + seed % 8, length, a);
        iw_clnh(key, data + seed % 8, length, b);
        assert_true(a[0] == b[0] && a[1] == b[1]);
    }
}

enum { CONNECTION = 77 };

static uint64_t tag_of(const iw_auth_t *a, const uint8_t *data, size_t length)
{
    struct iovec piece = {(void *) (uintptr_t) data, length};
    return iw_auth_tag(a, CONNECTION, &piece, 1);
}

/* However the datagram is cut into pieces. */
static void pieces_do_not_matter(void **state)
{
    (void) state;
    enum { MAX = 9000 };
    iw_key_t key = {{1, 2, 3}};
    uint8_t *data = must_alloc(MAX);
    rng_t rng = {42};
    fill(data, MAX, 7);
    for (int mode = IW_AUTH_TAG; mode <= IW_AUTH_OFF; ++mode) {
        iw_auth_t a;
        iw_auth_init(&a, (iw_auth_mode_t) mode, &key);
        assert_true(iw_auth_prepare(&a));
        for (int round = 0; round < 500; ++round) {
            uint32_t length =
                         IW_AUTH_DIRECT + rng_below(&rng, round % 2 ? MAX - IW_AUTH_DIRECT : 400),
                     left = length;
            struct iovec piece[5];
            unsigned n = 0;
            for (; n < 4; ++n) {
                uint32_t part = rng_below(&rng, left + 1);
                piece[n] = (struct iovec){data + (length - left), part};
                left -= part;
            }
            piece[n++] = (struct iovec){data + (length - left), left};
            assert_true(iw_auth_tag(&a, CONNECTION, piece, n) == tag_of(&a, data, length));
        }
        iw_auth_fini(&a);
    }
    free(data);
}

/* Another bit, another length, another key: another tag. What was in the field before does not count. */
static void everything_counts(void **state)
{
    (void) state;
    const size_t lengths[] = {25,
                              70,
                              127,
                              128,
                              129,
                              191,
                              192,
                              193,
                              IW_AUTH_DIRECT + IW_AUTH_BLOCK - 1,
                              IW_AUTH_DIRECT + IW_AUTH_BLOCK,
                              IW_AUTH_DIRECT + IW_AUTH_BLOCK + 1,
                              IW_AUTH_DIRECT + 2 * IW_AUTH_BLOCK,
                              4000};
    iw_key_t key = {{9}};
    uint8_t data[4001];
    fill(data, sizeof(data), 3);
    iw_auth_t a;
    iw_auth_init(&a, IW_AUTH_TAG, &key);
    assert_true(iw_auth_prepare(&a));
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); ++i) {
        uint64_t tag = tag_of(&a, data, lengths[i]);
        for (size_t bit = 0; bit < 8 * lengths[i]; ++bit) {
            data[bit / 8] ^= (uint8_t) (1u << bit % 8);
            const bool in_field = bit / 8 >= IW_AUTH_FIELD && bit / 8 < IW_AUTH_FIELD + 8;
            assert_true(in_field == (tag == tag_of(&a, data, lengths[i])));
            data[bit / 8] ^= (uint8_t) (1u << bit % 8);
        }
        assert_true(tag != tag_of(&a, data, lengths[i] - 1));
        uint8_t next = data[lengths[i]];
        data[lengths[i]] = 0; /* one zero more, which padding would hide */
        assert_true(tag != tag_of(&a, data, lengths[i] + 1));
        data[lengths[i]] = next;
    }
    iw_auth_fini(&a);
}

/* What was made for one connection is wrong for all others: the generation grows by one with each, and by nanoseconds from
 * one life of a process to the next. */
static void connections_differ(void **state)
{
    (void) state;
    iw_key_t key = {{6}};
    uint8_t data[100];
    struct iovec piece = {data, sizeof(data)};
    fill(data, sizeof(data), 9);
    for (int mode = IW_AUTH_TAG; mode <= IW_AUTH_OFF; ++mode) {
        iw_auth_t a;
        iw_auth_init(&a, (iw_auth_mode_t) mode, &key);
        assert_true(iw_auth_prepare(&a));
        const uint64_t first = UINT64_C(0x17f0000000000000),
                       tag = iw_auth_tag(&a, first, &piece, 1);
        for (uint64_t k = 1; k <= 20000; ++k) {
            assert_true(tag != iw_auth_tag(&a, first + k, &piece, 1));
            assert_true(tag != iw_auth_tag(&a, first + (k << 32), &piece, 1));
        }
        for (int bit = 0; bit < 64; ++bit) {
            assert_true(tag != iw_auth_tag(&a, first ^ UINT64_C(1) << bit, &piece, 1));
        }
        iw_auth_fini(&a);
    }
}

/* Blocks that change places, and the longest datagram. */
static void places_count(void **state)
{
    (void) state;
    enum { MAX = 65507 };
    iw_key_t key = {{4}};
    iw_auth_t a;
    uint8_t *data = must_alloc(MAX), *other = must_alloc(MAX);
    fill(data, MAX, 11);
    iw_auth_init(&a, IW_AUTH_TAG, &key);
    assert_true(iw_auth_prepare(&a));
    uint64_t tag = tag_of(&a, data, MAX);
    for (size_t block = 0; (block + 2) * IW_AUTH_BLOCK + IW_AUTH_DIRECT <= MAX; ++block) {
        uint8_t *at = other + IW_AUTH_DIRECT + block * IW_AUTH_BLOCK;
        memcpy(other, data, MAX);
        memcpy(at, data + (at - other) + IW_AUTH_BLOCK, IW_AUTH_BLOCK);
        memcpy(at + IW_AUTH_BLOCK, data + (at - other), IW_AUTH_BLOCK);
        assert_true(tag != tag_of(&a, other, MAX));
    }
    memcpy(other, data, MAX);
    other[MAX - 1] ^= 1;
    assert_true(tag != tag_of(&a, other, MAX));
    iw_auth_fini(&a);
    free(data);
    free(other);
}

static void keys_differ(void **state)
{
    (void) state;
    iw_key_t key = {{0}}, made[2];
    uint8_t data[2000];
    uint64_t first = 0;
    fill(data, sizeof(data), 5);
    for (int bit = -1; bit < 128; ++bit) {
        iw_auth_t a;
        memset(&key, 0, sizeof(key));
        if (bit >= 0) {
            key.b[bit / 8] = (uint8_t) (1u << bit % 8);
        }
        iw_auth_init(&a, IW_AUTH_TAG, &key);
        assert_true(iw_auth_prepare(&a));
        uint64_t tag = tag_of(&a, data, sizeof(data));
        assert_true(bit < 0 || tag != first);
        first = bit < 0 ? tag : first;
        iw_auth_fini(&a);
    }
    iw_key_make(&made[0]);
    iw_key_make(&made[1]);
    assert_memory_not_equal(&made[0], &made[1], sizeof(made[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clnh_by_hand),
        cmocka_unit_test(clnh_is_the_same_on_every_processor),
        cmocka_unit_test(pieces_do_not_matter),
        cmocka_unit_test(everything_counts),
        cmocka_unit_test(connections_differ),
        cmocka_unit_test(places_count),
        cmocka_unit_test(keys_differ),
    };
    return cmocka_run_group_tests_name("iw_auth", tests, NULL, NULL);
}
