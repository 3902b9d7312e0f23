/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* For operations that iWARP has not, as atomics, which the layer above does by messages: the
 * checks of a remote access, made at the target. */
#ifndef IW_LOCATE_H
#define IW_LOCATE_H

#include "iw_engine.h"

/* May peer do this (rights as in iw_memory.h) with length bytes at offset `to` of a region? IW_OK and
 * *at is where; or IW_REMOTE_ACCESS. */
iw_status_t iw_locate(const iw_peer_t *peer, uint32_t stag, unsigned rights, uint64_t to,
                      uint64_t length, uint8_t **at);

#endif
