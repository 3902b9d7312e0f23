/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Memory of a device, over adapters that are not there (fake_verbs.h): put and get between memory that the processor may not touch,
 * by dma-bufs; and what is told where there are none. */
#define _GNU_SOURCE
#include "verbs_processes.h"

#include "vb_dmabuf.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, DEVICE_BYTES = 16 * PAGE, ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE };

/* The device: a file that is mapped where nobody may touch it, and for the test elsewhere. */
static struct {
    int file;
    char *memory, *seen;
    bool refuses;
    int last; /* the file that was given out last */
    unsigned given;
} device;

static int export(void *base, size_t size, uint64_t *offset)
{
    assert_true((char *) base >= device.memory && (char *) base + size <= device.memory + DEVICE_BYTES);
    if (device.refuses) {
        return -1;
    }
    *offset = (uint64_t) ((char *) base - device.memory);
    device.last = dup(device.file);
    ++device.given;
    return device.last;
}

static int setup_device(void **state)
{
    memset(&device, 0, sizeof(device));
    device.file = memfd_create("device", MFD_CLOEXEC);
    assert_true(device.file >= 0 && 0 == ftruncate(device.file, DEVICE_BYTES));
    device.memory = mmap(NULL, DEVICE_BYTES, PROT_NONE, MAP_SHARED, device.file, 0);
    device.seen = mmap(NULL, DEVICE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, device.file, 0);
    assert_true(MAP_FAILED != device.memory && MAP_FAILED != device.seen);
    return setup(state);
}

static int teardown_device(void **state)
{
    const int rc = teardown(state);
    (void) munmap(device.memory, DEVICE_BYTES);
    (void) munmap(device.seen, DEVICE_BYTES);
    (void) close(device.file);
    return rc;
}

static struct ibv_pd *pd_of(unsigned node)
{
    return vb_port_pd(process[node].port);
}

static void an_adapter_that_takes_them_is_told_from_others(void **state)
{
    int why = 0;
    (void) state;
    begin(1);
    assert_true(vb_takes_dmabufs(pd_of(1), &why));
    static const int never[] = {EOPNOTSUPP, EPROTONOSUPPORT, ENOSYS, EINVAL, ENOTTY};
    for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); ++i) {
        fake.no_dmabufs = never[i];
        assert_false(vb_takes_dmabufs(pd_of(1), &why));
        assert_int_equal(why, never[i]);
    }
}

/* A whole one, and a part that begins inside the file: a put from there to here, and a get back. */
static void put_and_get_between_devices(void **state)
{
    enum { FIRST = 2 * PAGE, SECOND = 8 * PAGE, N = 3 * PAGE };
    (void) state;
    begin(2);
    open_up(1, 2);
    struct ibv_mr *from = vb_register_device(pd_of(1), export, device.memory + FIRST, N, ALL);
    struct ibv_mr *to = vb_register_device(pd_of(2), export, device.memory + SECOND, N, ALL);
    assert_true(NULL != from && NULL != to && 2 == device.given);
    for (int get = 0; get < 2; ++get) {
        memset(device.seen, 0, DEVICE_BYTES);
        memset(device.seen + (get ? SECOND : FIRST) + 100, 'a' + get, 5000);
        struct ibv_sge piece = {.addr = (uintptr_t) device.memory + FIRST + 100, .length = 5000, .lkey = from->lkey};
        vb_port_lock(process[1].port);
        assert_int_equal(vb_post_rdma(process[1].peer[2], &piece, (uintptr_t) device.memory + SECOND + 100, to->rkey,
                                      VB_SIGNAL | (get ? VB_READ : 0), &process[1]),
                         VB_OK);
        vb_port_unlock(process[1].port);
        settle();
        assert_int_equal(process[1].failed, 0);
        for (int i = 0; i < DEVICE_BYTES; ++i) {
            const bool within = (i >= FIRST + 100 && i < FIRST + 5100) || (i >= SECOND + 100 && i < SECOND + 5100);
            assert_int_equal(device.seen[i], within ? 'a' + get : 0);
        }
    }
    assert_int_equal(ibv_dereg_mr(from), 0);
    assert_int_equal(ibv_dereg_mr(to), 0);
}

static void its_file_is_closed_in_any_case(void **state)
{
    (void) state;
    begin(1);
    struct ibv_mr *mr = vb_register_device(pd_of(1), export, device.memory, PAGE, ALL);
    assert_non_null(mr);
    assert_int_equal(close(device.last), -1);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    static const int refusals[] = {ENOMEM, EOPNOTSUPP, EINVAL};
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); ++i) {
        fake.no_dmabufs = refusals[i];
        assert_null(vb_register_device(pd_of(1), export, device.memory, PAGE, ALL));
        assert_int_equal(errno, refusals[i]);
        assert_int_equal(close(device.last), -1);
    }
}

static void a_device_that_gives_no_file(void **state)
{
    (void) state;
    begin(1);
    device.refuses = true;
    assert_null(vb_register_device(pd_of(1), export, device.memory, PAGE, ALL));
    assert_int_equal(errno, EFAULT);
    fake.registrations_left = 0;
    device.refuses = false;
    assert_null(vb_register_device(pd_of(1), export, device.memory, PAGE, ALL));
    assert_int_equal(errno, ENOMEM);
}

static void rights_are_those_that_were_asked_for(void **state)
{
    (void) state;
    begin(2);
    open_up(1, 2);
    struct ibv_mr *to = vb_register_device(pd_of(2), export, device.memory, PAGE, IBV_ACCESS_REMOTE_READ);
    assert_non_null(to);
    struct ibv_sge piece = {.addr = (uintptr_t) process[1].memory, .length = 100, .lkey = process[1].mr->lkey};
    vb_port_lock(process[1].port);
    assert_int_equal(vb_post_rdma(process[1].peer[2], &piece, (uintptr_t) device.memory, to->rkey, VB_SIGNAL, &process[1]), VB_OK);
    vb_port_unlock(process[1].port);
    settle();
    assert_int_equal(process[1].failed, 1);
    assert_int_equal(device.seen[0], 0);
    assert_int_equal(ibv_dereg_mr(to), 0);
}

int main(void)
{
#define OF(test) cmocka_unit_test_setup_teardown(test, setup_device, teardown_device)
    const struct CMUnitTest tests[] = {
        OF(an_adapter_that_takes_them_is_told_from_others),
        OF(put_and_get_between_devices),
        OF(its_file_is_closed_in_any_case),
        OF(a_device_that_gives_no_file),
        OF(rights_are_those_that_were_asked_for),
    };
    return cmocka_run_group_tests_name("verbs_dmabuf", tests, NULL, NULL);
}
