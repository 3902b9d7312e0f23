/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Copies from and to the memory of another process (iw_cma.h): of the one that is meant, and no other. */
#define _GNU_SOURCE /* process_vm_readv */
#include "spec_unit.h"

#include "iw_cma.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 3 << 20 };

static uint8_t key[IW_CMA_KEY] = "a secret of one";
static uint8_t *memory; /* the child's after the fork; the pages are its own when it has written them */

/* A process that has the key and memory full of 1, and waits. */
static pid_t another(void)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (0 == child) {
        memset(memory, 1, SIZE);
        if (1 != write(ready[1], "", 1)) {
            _exit(1);
        }
        for (;;) {
            pause();
        }
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return child;
}

static void end(pid_t child)
{
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static iw_cma_t peer_of(pid_t child)
{
    iw_cma_t peer = {.pid = child, .key_at = (uint64_t) (uintptr_t) key};
    memcpy(peer.key, key, sizeof(key));
    return peer;
}

static uint64_t there(size_t offset)
{
    return (uint64_t) (uintptr_t) memory + offset;
}

static bool all(const uint8_t *bytes, uint8_t value, size_t length)
{
    for (size_t i = 0; i < length; ++i) {
        if (bytes[i] != value) {
            return false;
        }
    }
    return true;
}

/* Is it allowed here at all? A container may forbid it; then nothing can be tried. */
static bool may_reach(void)
{
    const pid_t child = another();
    iw_cma_t peer = peer_of(child);
    iw_cma_meet(&peer);
    end(child);
    if (0 == peer.pid) {
        print_message("SKIP: this system does not let a process reach the memory of its child\n");
    }
    return 0 != peer.pid;
}

static void bytes_arrive(void **state)
{
    (void) state;
    if (!may_reach()) {
        skip();
    }
    static uint8_t buffer[SIZE];
    const pid_t child = another();
    iw_cma_t peer = peer_of(child);
    iw_cma_meet(&peer);
    assert_int_equal(peer.pid, child);
    assert_true(iw_cma_get(&peer, buffer, there(0), SIZE));
    assert_true(all(buffer, 1, SIZE));
    memset(buffer, 2, SIZE);
    assert_true(iw_cma_put(&peer, buffer, there(5), SIZE - 10));
    assert_true(all(memory, 0, SIZE)); /* not here */
    memset(buffer, 3, SIZE);
    assert_true(iw_cma_get(&peer, buffer, there(0), SIZE));
    assert_true(all(buffer, 1, 5) && all(buffer + 5, 2, SIZE - 10) && all(buffer + SIZE - 5, 1, 5));
    assert_true(iw_cma_get(&peer, buffer, there(0), 0));
    assert_true(iw_cma_put(&peer, buffer, there(0), 0));
    end(child);
}

/* The number is another process's now, or was never the one meant: nothing is written. */
static void another_process_is_left_alone(void **state)
{
    (void) state;
    if (!may_reach()) {
        skip();
    }
    uint8_t byte = 9;
    const pid_t child = another();
    const iw_cma_t right = peer_of(child);
    iw_cma_t wrong = right;
    wrong.key[IW_CMA_KEY - 1] ^= 1;
    assert_false(iw_cma_put(&wrong, &byte, there(0), 1));
    assert_true(iw_cma_get(&right, &byte, there(0), 1));
    assert_int_equal(byte, 1);
    assert_false(iw_cma_get(&wrong, &byte, there(0), 1));
    iw_cma_meet(&wrong);
    assert_int_equal(wrong.pid, 0);
    wrong = right;
    wrong.key_at = 0;
    iw_cma_meet(&wrong);
    assert_int_equal(wrong.pid, 0);
    end(child);
    assert_false(iw_cma_put(&right, &byte, there(0), 1));
    assert_false(iw_cma_get(&right, &byte, there(0), 1));
    iw_cma_t none = {.pid = 0};
    iw_cma_meet(&none);
    assert_int_equal(none.pid, 0);
}

/* Memory that is not there any more is an error and no signal. */
static void memory_may_be_gone(void **state)
{
    (void) state;
    if (!may_reach()) {
        skip();
    }
    static uint8_t buffer[SIZE];
    const pid_t child = another();
    const iw_cma_t peer = peer_of(child);
    assert_false(iw_cma_get(&peer, buffer, there(SIZE), SIZE));
    assert_false(iw_cma_put(&peer, buffer, there(SIZE), SIZE));
    assert_false(iw_cma_get(&peer, buffer, there(SIZE - 10), SIZE));
    assert_false(iw_cma_put(&peer, buffer, there(SIZE - 4096), SIZE)); /* a part of it can be copied */
    end(child);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_arrive),
        cmocka_unit_test(another_process_is_left_alone),
        cmocka_unit_test(memory_may_be_gone),
    };
    /* Nothing behind it can be reached. */
    memory = mmap(NULL, 2 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (MAP_FAILED == memory || 0 != mprotect(memory + SIZE, SIZE, PROT_NONE)) {
        return 1;
    }
    return cmocka_run_group_tests_name("iwarp_cma", tests, NULL, NULL);
}
