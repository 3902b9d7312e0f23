/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* CRC32C (Castagnoli), the checksum of iWARP (RFC 5044, 7.1.1 has it over MPA). By ISA-L. */
#ifndef IW_CRC_H
#define IW_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Continue crc over data; begin with 0. A crc made in parts is that of the whole. */
uint32_t iw_crc32c(uint32_t crc, const void *data, size_t length);

#endif
