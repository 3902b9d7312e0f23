/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What the tag of a datagram costs beside other ways to authenticate it: the tag of btl/ibx (CLNH and SipHash), GMAC and
 * Poly1305, each with a nonce for each datagram, of libsodium and - if libcrypto.so.3 can be loaded - of OpenSSL; and SipHash
 * alone. One process, data in the processor's cache, as behind a receive.
 *
 *     tagcost [-r repeats] [-t microseconds]
 *
 * In a repeat each way has its turn for that long; medians of the repeats. A line for each size, nanoseconds for a datagram:
 *     tag size= clnh_ns= gmac_ns= gmac_openssl_ns= poly1305_ns= poly1305_openssl_ns= siphash_ns= ('absent': not here) */
#define _GNU_SOURCE
#include "iw_auth.h"

#include <dlfcn.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { REPEATS_MAX = 101, LARGEST = 65000 };

static unsigned char data[LARGEST], key[32] = {1, 2, 3};
static iw_auth_t tag_auth;
static uint64_t nonce;
static volatile uint64_t sink; /* so that nothing is left out */

static void keep(const unsigned char *tag)
{
    uint64_t word;
    memcpy(&word, tag, sizeof(word));
    sink += word;
}

static void by_clnh(size_t size)
{
    const struct iovec whole = {.iov_base = data, .iov_len = size};
    sink += iw_auth_tag(&tag_auth, ++nonce, &whole, 1);
}

static void by_siphash(size_t size)
{
    unsigned char tag[crypto_shorthash_BYTES];
    crypto_shorthash(tag, data, size, key);
    keep(tag);
}

/* The key of Poly1305 is used once: made of the nonce by ChaCha20, as in RFC 8439. */
static void one_time_key(unsigned char once[32])
{
    unsigned char n[crypto_stream_chacha20_NONCEBYTES] = {0};
    ++nonce;
    memcpy(n, &nonce, sizeof(nonce));
    crypto_stream_chacha20(once, 32, n, key);
}

static void by_poly1305(size_t size)
{
    unsigned char once[32], tag[16];
    one_time_key(once);
    crypto_onetimeauth_poly1305(tag, data, size, once);
    keep(tag);
}

static crypto_aead_aes256gcm_state *gcm;

static void by_gmac(size_t size)
{
    unsigned char n[12] = {0}, tag[16];
    ++nonce;
    memcpy(n, &nonce, sizeof(nonce));
    crypto_aead_aes256gcm_encrypt_detached_afternm(n, tag, NULL, NULL, 0, data, size, NULL, n, gcm);
    keep(tag);
}

/* ---- OpenSSL, if it is there: no build needs it ---- */

static void *(*cipher_new)(void), *(*aes_128_gcm)(void),
    *(*mac_fetch)(void *, const char *, const char *), *(*mac_new)(void *);
static int (*cipher_init)(void *, const void *, void *, const unsigned char *,
                          const unsigned char *);
static int (*cipher_update)(void *, unsigned char *, int *, const unsigned char *, int);
static int (*cipher_final)(void *, unsigned char *, int *),
    (*cipher_ctrl)(void *, int, int, void *);
static int (*mac_init)(void *, const unsigned char *, size_t, const void *);
static int (*mac_update)(void *, const unsigned char *, size_t),
    (*mac_final)(void *, unsigned char *, size_t *, size_t);
static void *cipher, *mac;

static void by_gmac_openssl(size_t size)
{
    enum { GET_TAG = 0x10 }; /* EVP_CTRL_AEAD_GET_TAG */
    unsigned char n[12] = {0}, tag[16];
    int length;
    ++nonce;
    memcpy(n, &nonce, sizeof(nonce));
    cipher_init(cipher, NULL, NULL, NULL, n);
    cipher_update(cipher, NULL, &length, data, (int) size);
    cipher_final(cipher, tag, &length);
    cipher_ctrl(cipher, GET_TAG, sizeof(tag), tag);
    keep(tag);
}

static void by_poly1305_openssl(size_t size)
{
    unsigned char once[32], tag[16];
    size_t length;
    one_time_key(once);
    mac_init(mac, once, sizeof(once), NULL);
    mac_update(mac, data, size);
    mac_final(mac, tag, &length, sizeof(tag));
    keep(tag);
}

static void *function(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (NULL == found) {
        fprintf(stderr, "tagcost: libcrypto has no %s\n", name);
        exit(1);
    }
    return found;
}

static void open_openssl(void)
{
    void *library = dlopen("libcrypto.so.3", RTLD_NOW);
    if (NULL == library) {
        return;
    }
#define GET(pointer, name) (*(void **) &(pointer) = function(library, name))
    GET(cipher_new, "EVP_CIPHER_CTX_new"), GET(aes_128_gcm, "EVP_aes_128_gcm");
    GET(cipher_init, "EVP_EncryptInit_ex"), GET(cipher_update, "EVP_EncryptUpdate");
    GET(cipher_final, "EVP_EncryptFinal_ex"), GET(cipher_ctrl, "EVP_CIPHER_CTX_ctrl");
    GET(mac_fetch, "EVP_MAC_fetch"), GET(mac_new, "EVP_MAC_CTX_new"), GET(mac_init, "EVP_MAC_init");
    GET(mac_update, "EVP_MAC_update"), GET(mac_final, "EVP_MAC_final");
#undef GET
    cipher = cipher_new();
    cipher_init(cipher, aes_128_gcm(), NULL, key, NULL);
    void *poly1305 = mac_fetch(NULL, "POLY1305", NULL);
    mac = NULL == poly1305 ? NULL : mac_new(poly1305);
}

/* ---- what is measured ---- */

static struct way {
    const char *name;
    void (*tag)(size_t size);
    double ns[REPEATS_MAX];
} ways[] = {
    {.name = "clnh", .tag = by_clnh},
    {.name = "gmac", .tag = by_gmac},
    {.name = "gmac_openssl", .tag = by_gmac_openssl},
    {.name = "poly1305", .tag = by_poly1305},
    {.name = "poly1305_openssl", .tag = by_poly1305_openssl},
    {.name = "siphash", .tag = by_siphash},
};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

static bool is_here(const struct way *way)
{
    return by_gmac == way->tag               ? NULL != gcm
           : by_gmac_openssl == way->tag     ? NULL != cipher
           : by_poly1305_openssl == way->tag ? NULL != mac
                                             : true;
}

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec * 1e9 + (double) t.tv_nsec;
}

static double one(const struct way *way, size_t size, double duration)
{
    const double start = now_ns();
    double passed;
    unsigned n = 0;
    do {
        for (int i = 0; i < 16; ++i) {
            way->tag(size);
        }
        n += 16;
        passed = now_ns() - start;
    } while (passed < duration);
    return passed / n;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

static void row(size_t size, int repeats, double duration)
{
    for (int r = -1; r < repeats; ++r) { /* the first warms up */
        for (int w = 0; w < WAYS; ++w) {
            struct way *way = &ways[r % 2 ? w : WAYS - 1 - w];
            if (is_here(way)) {
                way->ns[r < 0 ? 0 : r] = one(way, size, duration);
            }
        }
    }
    printf("tag size=%zu", size);
    for (struct way *way = ways; way < ways + WAYS; ++way) {
        qsort(way->ns, (size_t) repeats, sizeof(double), by_value);
        if (is_here(way)) {
            printf(" %s_ns=%.1f", way->name, way->ns[repeats / 2]);
        } else {
            printf(" %s_ns=absent", way->name);
        }
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {64, 256, 1472, 8972, LARGEST};
    int repeats = 15, option;
    double microseconds = 2000;
    while (-1 != (option = getopt(argc, argv, "r:t:"))) {
        switch (option) {
        case 'r':
            repeats = atoi(optarg);
            break;
        case 't':
            microseconds = atof(optarg);
            break;
        default:
            return 2;
        }
    }
    if (repeats < 1 || repeats > REPEATS_MAX || sodium_init() < 0) {
        fprintf(stderr, "usage: tagcost [-r 1 to %d] [-t microseconds]\n", REPEATS_MAX);
        return 2;
    }
    iw_key_t iw;
    iw_key_make(&iw);
    iw_auth_init(&tag_auth, IW_AUTH_TAG, &iw);
    if (!iw_auth_prepare(&tag_auth)) {
        return 1;
    }
    static crypto_aead_aes256gcm_state state;
    if (crypto_aead_aes256gcm_is_available()) {
        crypto_aead_aes256gcm_beforenm(&state, key);
        gcm = &state;
    }
    open_openssl();
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
        row(sizes[i], repeats, microseconds * 1e3);
    }
    iw_auth_fini(&tag_auth);
    return 0;
}
