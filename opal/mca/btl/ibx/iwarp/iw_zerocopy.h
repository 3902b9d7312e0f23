/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Zero copy sending: the kernel gets the pages of a payload by reference (vmsplice(2) and splice(2)) instead of copying them.
 *
 * For large datagrams only: below IW_ZEROCOPY_MIN copying is quicker, above it is on some machines, too (iw_zerocopy_cost.h).
 * Gain: test/bench/port-parts, part zerocopy; 64 messages in flight over loopback took 0.89 of the time at 512 KiB and 0.98 at
 * 4 MiB, the same at 64 KiB (5 pairs).
 *
 * The pages must not change until the peer has the datagram, or it refuses the tag, and a copy is sent
 * (iw_build_join). A program that posted them promised that until the acknowledgement, but one that serves reads
 * from a window may write it meanwhile; a copy of the datagram that comes later is refused, for its
 * number, its segment or its tag. The header is copied, so it can be used again at once.
 *
 * Threads: one caller at a time for each iw_zerocopy_t. */
#ifndef IW_ZEROCOPY_H
#define IW_ZEROCOPY_H

#include <stdbool.h>
#include <sys/uio.h>

#define IW_ZEROCOPY_MIN (32 * 1024)

typedef struct iw_zerocopy {
    int pipe[2]; /* what goes through holds a datagram's pieces; empty between calls */
    bool works;
} iw_zerocopy_t;

typedef enum iw_zerocopy_result {
    IW_ZEROCOPY_SENT,
    IW_ZEROCOPY_NOT,    /* nothing was sent: send it in another way */
    IW_ZEROCOPY_BUSY,   /* nothing was sent: the kernel has no room */
    IW_ZEROCOPY_BROKEN, /* a part of it is in the socket: close that */
} iw_zerocopy_result_t;

/* Cannot fail: what does not work here is not used. */
void iw_zerocopy_open(iw_zerocopy_t *zerocopy);
void iw_zerocopy_close(iw_zerocopy_t *zerocopy);

/* One datagram to what the socket is connected to. The first of count pieces is the header. */
iw_zerocopy_result_t iw_zerocopy_send(iw_zerocopy_t *zerocopy, int socket, const struct iovec *piece,
                              unsigned count);

#endif
