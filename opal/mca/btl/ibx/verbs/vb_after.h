/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* After how many messages a peer gets a connection (vb_config_t: datagram.after), as a parameter asks for it or as the size of the
 * job suggests.
 *
 * All processes of a job must come to the same, because memory that atomic operations reach is reached in one way by all. So
 * nothing that differs between hosts counts.
 *
 * Pure: no I/O. */
#ifndef VB_AFTER_H
#define VB_AFTER_H

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* An end of a connection, in pages of processes over rxe (docs/design/verbs.md, Memory): queue pair, queues, and its share
 * of receive buffers. */
#define VB_CONNECTION_BYTES (UINT64_C(256) << 10)
/* Connections of one process may take so much: 64 processes on a host of 256 GB have then 3 % of it. */
#define VB_CONNECTIONS_BYTES (UINT64_C(128) << 20)
/* Where they would take more: so many messages show which peers are talked to much. */
#define VB_AFTER_LARGE 64u

/* processes: of the job; 0: not known. Returns messages until a peer gets a connection; 0: connections from the first on. */
static inline uint32_t vb_after_of_job(uint32_t processes)
{
    return processes > 1 && (processes - UINT64_C(1)) * VB_CONNECTION_BYTES > VB_CONNECTIONS_BYTES ? VB_AFTER_LARGE : 0;
}

/* text: "auto", or a number in digits, into *after. False: it is neither. */
static inline bool vb_after_read(const char *text, uint32_t processes, uint32_t *after)
{
    char *end;
    if (0 == strcmp(text, "auto")) {
        *after = vb_after_of_job(processes);
        return true;
    }
    errno = 0;
    const unsigned long long number = strtoull(text, &end, 10);
    *after = (uint32_t) number;
    return isdigit((unsigned char) *text) && '\0' == *end && 0 == errno && number <= UINT32_MAX;
}

#endif
