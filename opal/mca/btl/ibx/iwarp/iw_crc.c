/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* CRC32C of a datagram, computed by ISA-L. */
#include "iw_crc.h"

#include <isa-l/crc.h>

uint32_t iw_crc32c(uint32_t crc, const void *data, size_t length)
{
    /* ISA-L leaves the inversion before and after to the caller, counts in int, and does not
     * promise not to write, though it does not. */
    const uint8_t *p = data;
    crc = ~crc;
    while (length > 0) {
        int part = length > 1 << 30 ? 1 << 30 : (int) length;
        crc = crc32_iscsi((unsigned char *) (uintptr_t) p, part, crc);
        p += part;
        length -= (size_t) part;
    }
    return ~crc;
}
