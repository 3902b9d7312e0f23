/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Sending without a copy: the kernel gets the pages of the payload on loan (vmsplice(2) and splice(2))
 * instead of copying them. For large datagrams only: below IW_LEND_MIN copying is quicker,
 * above it is on some machines, too (iw_lend_price.h).
 *
 * The pages must not change until the peer has the datagram, or it refuses the tag, and a copy is sent
 * (iw_build_join). Whoever posted them promised that until the acknowledgement, but who serves reads
 * from a window may write it meanwhile; a copy of the datagram that comes later is refused, for its
 * number, its segment or its tag. The header is copied, so it can be used again at once.
 *
 * Threads: one caller at a time for each iw_lend_t. */
#ifndef IW_LEND_H
#define IW_LEND_H

#include <stdbool.h>
#include <sys/uio.h>

#define IW_LEND_MIN (32 * 1024)

typedef struct iw_lend {
    int pipe[2]; /* what goes through holds a datagram's pieces; empty between calls */
    bool works;
} iw_lend_t;

typedef enum iw_lend_result {
    IW_LENT,
    IW_LEND_NOT,    /* nothing was sent: send it in another way */
    IW_LEND_BUSY,   /* nothing was sent: the kernel has no room */
    IW_LEND_BROKEN, /* a part of it is in the socket: close that */
} iw_lend_result_t;

/* Cannot fail: what does not work here is not used. */
void iw_lend_open(iw_lend_t *lend);
void iw_lend_close(iw_lend_t *lend);

/* One datagram to what the socket is connected to. The first of count pieces is the header. */
iw_lend_result_t iw_lend_send(iw_lend_t *lend, int socket, const struct iovec *piece,
                              unsigned count);

#endif
