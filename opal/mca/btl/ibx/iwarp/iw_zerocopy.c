/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Sends payloads without copying them (iw_zerocopy.h), through a pipe: vmsplice(2) in, splice(2) to the socket. */
#define _GNU_SOURCE /* vmsplice, splice, pipe2 */
#include "iw_zerocopy.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#define PAGE 4096u
/* Beside the header's: the kernel takes 16 at a time, and of what it takes in two parts it makes a checksum. */
#define PAGES_MAX 15

void iw_zerocopy_open(iw_zerocopy_t *zerocopy)
{
    zerocopy->works = false;
    if (0 != pipe2(zerocopy->pipe, O_CLOEXEC | O_NONBLOCK)) {
        zerocopy->pipe[0] = zerocopy->pipe[1] = -1;
        return;
    }
    zerocopy->works = PAGE == (unsigned) sysconf(_SC_PAGESIZE)
                      && fcntl(zerocopy->pipe[1], F_SETPIPE_SZ, 2 * PAGES_MAX * PAGE) > 0;
}

void iw_zerocopy_close(iw_zerocopy_t *zerocopy)
{
    if (zerocopy->pipe[0] >= 0) {
        close(zerocopy->pipe[0]);
        close(zerocopy->pipe[1]);
        zerocopy->pipe[0] = zerocopy->pipe[1] = -1;
    }
    zerocopy->works = false;
}

/* Throw away what is left in the pipe. */
static void empty(iw_zerocopy_t *zerocopy)
{
    iw_zerocopy_close(zerocopy);
    iw_zerocopy_open(zerocopy);
}

static unsigned pages(const struct iovec *piece, unsigned count)
{
    unsigned n = 0;
    for (unsigned i = 0; i < count; ++i) {
        const uintptr_t at = (uintptr_t) piece[i].iov_base % PAGE;
        n += (unsigned) ((at + piece[i].iov_len + PAGE - 1) / PAGE);
    }
    return n;
}

/* Does the socket report what the network said of an earlier datagram (ICMP)? If not, the kernel cannot do it. */
static bool is_report(int error)
{
    return ECONNREFUSED == error || EHOSTUNREACH == error || ENETUNREACH == error
           || EHOSTDOWN == error || ENONET == error || ENOPROTOOPT == error || EPROTO == error
           || EMSGSIZE == error;
}

iw_zerocopy_result_t iw_zerocopy_send(iw_zerocopy_t *zerocopy, int socket,
                                      const struct iovec *piece, unsigned count)
{
    size_t length = piece[0].iov_len;
    for (unsigned i = 1; i < count; ++i) {
        length += piece[i].iov_len;
    }
    if (!zerocopy->works || pages(piece + 1, count - 1) > PAGES_MAX) {
        return IW_ZEROCOPY_NOT;
    }
    errno = 0; /* also when only a part fits */
    if ((ssize_t) piece[0].iov_len != write(zerocopy->pipe[1], piece[0].iov_base, piece[0].iov_len)
        || (ssize_t) (length - piece[0].iov_len)
               != vmsplice(zerocopy->pipe[1], piece + 1, count - 1, SPLICE_F_NONBLOCK)) {
        const bool is_refused = ENOSYS == errno || EPERM == errno || EACCES == errno;
        empty(zerocopy);
        zerocopy->works = zerocopy->works && !is_refused;
        return IW_ZEROCOPY_NOT;
    }
    const ssize_t sent = splice(zerocopy->pipe[0], NULL, socket, NULL, length, SPLICE_F_NONBLOCK);
    if (sent == (ssize_t) length) {
        return IW_ZEROCOPY_SENT;
    }
    const int error = errno;
    empty(zerocopy);
    if (sent > 0) {
        return IW_ZEROCOPY_BROKEN;
    }
    if (EAGAIN == error || ENOBUFS == error || ENOMEM == error) {
        return IW_ZEROCOPY_BUSY;
    }
    zerocopy->works = zerocopy->works && is_report(error);
    return IW_ZEROCOPY_NOT;
}
