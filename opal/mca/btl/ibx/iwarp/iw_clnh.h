/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* CLNH: a universal hash by carry-less multiplication (Lemire and Kaser, "Faster 64-bit universal hashing
 * using carry-less multiplications", 2016, section 4).
 *
 * Words of 64 bits, two at a time: XOR of (word + key) * (next word + next key), where + and * are
 * those of polynomials over GF(2). For two different data of one length the hashes differ by any
 * given value with probability at most 2^-64, over the choice of the key. One multiplication of the
 * processor for 16 bytes: a quarter of what NH (RFC 4418, 5.2) needs for the same certainty.
 *
 * Words are read in the order of the machine: both ends are of one kind.
 *
 * Threads: pure functions. */
#ifndef IW_CLNH_H
#define IW_CLNH_H

#include <stddef.h>
#include <stdint.h>

#define IW_CLNH_LANE 64 /* bytes; data that is short of a multiple counts as filled up with zeros */

/* Exclusive or of the hash of length bytes into out. key has as many bytes as there are in the lanes
 * that the data needs. The first is what this processor does best, the second plain C, for other
 * processors and for tests. */
void iw_clnh(const uint64_t *key, const uint8_t *data, size_t length, uint64_t out[2]);
void iw_clnh_plain(const uint64_t *key, const uint8_t *data, size_t length, uint64_t out[2]);

#endif
