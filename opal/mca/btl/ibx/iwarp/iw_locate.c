/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Checks a remote access and finds its memory, for atomic operations that are done by messages. */
#include "iw_locate.h"

#include "iw_internal.h"

iw_status_t iw_locate(const iw_peer_t *peer, uint32_t stag, unsigned rights, uint64_t to,
                      uint64_t length, uint8_t **at)
{
    return NULL != peer
                   && IW_ACCESS_OK
                          == iw_memory_check(&peer->engine->memory, stag, peer, rights, to, length,
                                             at, NULL)
               ? IW_OK
               : IW_REMOTE_ACCESS;
}
