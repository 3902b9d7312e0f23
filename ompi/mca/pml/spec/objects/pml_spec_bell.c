/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Bells are abstract sockets; the agent waits for its own and for an eventfd that its process writes. */
#include "pml_spec_compat.h" /* first: it asks for GNU's functions */

#include "pml_spec_bell.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Of two processes with the same index the later counts. */
enum { NOTES = 16 };

static struct {
    int bell;                                    /* -1: there is none now */
    int rings;                                   /* those of others */
    int own;                                     /* -1: not open */
    _Alignas(128) _Atomic uint64_t notes[NOTES]; /* names, and 1; 0: none */
} bell = {.bell = -1, .rings = -1, .own = -1};

/* Returns the length. */
static socklen_t address_of(uint64_t name, struct sockaddr_un *at)
{
    *at = (struct sockaddr_un){.sun_family = AF_UNIX};
    const int n = snprintf(at->sun_path + 1, sizeof(at->sun_path) - 1, "pml_spec_agent.%016llx",
                           (unsigned long long) name);
    return (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + (size_t) n);
}

static int new_socket(void)
{
    return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

bool mca_pml_spec_bell_open(void)
{
    bell.own = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    bell.rings = new_socket();
    return bell.own >= 0;
}

void mca_pml_spec_bell_hang(uint64_t mine)
{
    struct sockaddr_un at;
    const socklen_t length = address_of(mine, &at);
    bell.bell = new_socket();
    if (bell.bell >= 0) {
        (void) bind(bell.bell, (const struct sockaddr *) &at, length); /* else nobody finds it */
    }
}

static void end(int *fd)
{
    if (*fd >= 0) {
        (void) close(*fd);
    }
    *fd = -1;
}

void mca_pml_spec_bell_take_down(void)
{
    end(&bell.bell);
}

void mca_pml_spec_bell_close(void)
{
    end(&bell.bell);
    end(&bell.rings);
    end(&bell.own);
}

bool mca_pml_spec_bell_await(uint64_t ns)
{
    struct pollfd fds[] = {{.fd = bell.own, .events = POLLIN}, {.fd = bell.bell, .events = POLLIN}};
    const struct timespec time = {.tv_sec = (time_t) (ns / 1000000000),
                                  .tv_nsec = (long) (ns % 1000000000)};
    uint64_t n;
    char byte;
    if (0 >= ppoll(fds, 2, 0 == ns ? NULL : &time, NULL)) {
        return false;
    }
    (void) !read(bell.own, &n, sizeof(n));
    if (0 == (fds[1].revents & POLLIN)) {
        return false;
    }
    for (int i = 0; i < NOTES && 0 <= recv(bell.bell, &byte, sizeof(byte), 0); ++i) {}
    return true;
}

void mca_pml_spec_bell_rouse(void)
{
    const uint64_t one = 1;
    (void) !write(bell.own, &one, sizeof(one));
}

void mca_pml_spec_bell_note(uint64_t name)
{
    atomic_store_explicit(&bell.notes[name % NOTES], name + 1, memory_order_relaxed);
}

bool mca_pml_spec_bell_ring(void)
{
    struct sockaddr_un at;
    bool is_heard = false;
    for (size_t i = 0; i < NOTES && bell.rings >= 0; ++i) {
        const uint64_t name = atomic_load_explicit(&bell.notes[i], memory_order_relaxed);
        if (0 != name) {
            const socklen_t length = address_of(name - 1, &at);
            is_heard |= 0 <= sendto(bell.rings, "", 0, MSG_DONTWAIT | MSG_NOSIGNAL,
                                    (const struct sockaddr *) &at, length)
                        || EAGAIN == errno;
        }
    }
    return is_heard;
}

void mca_pml_spec_bell_forget(void)
{
    for (size_t i = 0; i < NOTES; ++i) {
        atomic_store_explicit(&bell.notes[i], 0, memory_order_relaxed);
    }
}
