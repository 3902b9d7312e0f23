/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Opening a port of the verbs transport when libibverbs, librdmacm or the system do not do what they are asked: each
 * call that can fail does, and the words name it; and what a port and its device tell. */
#include "verbs_faults.h"
#include "vb_internal.h"
#include "vb_rx.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>

#undef ibv_query_port

/* ---- what fails ---- */

FAULTY(int, eventfd, -1, (unsigned initial, int flags), (initial, flags))
FAULTY(int, pthread_create, EAGAIN,
       (pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *x), (t, a, f, x))
FAULTY(struct rdma_event_channel *, rdma_create_event_channel, NULL, (void), ())
FAULTY(int, rdma_create_id, -1,
       (struct rdma_event_channel *c, struct rdma_cm_id **id, void *x, enum rdma_port_space s),
       (c, id, x, s))
FAULTY(int, ibv_query_device, EIO, (struct ibv_context *c, struct ibv_device_attr *attr),
       (c, attr))
FAULTY(struct ibv_pd *, ibv_alloc_pd, NULL, (struct ibv_context *c), (c))
FAULTY(struct ibv_srq *, ibv_create_srq, NULL, (struct ibv_pd *pd, struct ibv_srq_init_attr *attr),
       (pd, attr))
FAULTY(struct ibv_device **, ibv_get_device_list, NULL, (int *n), (n))

static struct {
    faulty_t fcntl;
    bool no_device;      /* an address is bound, and no device has it */
    const char *counter; /* what a file of the driver says; NULL: there is none */
    bool is_odd_port;    /* says how long a message may be: */
    uint32_t message_max;
} kernel;

int __real_fcntl(int fd, int command, long argument);
int __wrap_fcntl(int fd, int command, long argument);
int __wrap_fcntl(int fd, int command, long argument)
{
    return faulty_now(&kernel.fcntl) ? -1 : __real_fcntl(fd, command, argument);
}

int __real_rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *a);
int __wrap_rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *a);
int __wrap_rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *a)
{
    const int rc = __real_rdma_bind_addr(id, a);
    if (kernel.no_device) {
        id->verbs = NULL;
    }
    return rc;
}

int __real_ibv_query_port(struct ibv_context *c, uint8_t n, struct _compat_ibv_port_attr *attr);
int __wrap_ibv_query_port(struct ibv_context *c, uint8_t n, struct _compat_ibv_port_attr *attr);
int __wrap_ibv_query_port(struct ibv_context *c, uint8_t n, struct _compat_ibv_port_attr *attr)
{
    const int rc = __real_ibv_query_port(c, n, attr);
    if (kernel.is_odd_port) {
        ((struct ibv_port_attr *) attr)->max_msg_sz = kernel.message_max;
    }
    return rc;
}

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode)
{
    if (NULL != kernel.counter && NULL != strstr(path, "/fake1/ports/1/hw_counters/")) {
        return fmemopen((void *) (uintptr_t) kernel.counter, strlen(kernel.counter), "r");
    }
    return __real_fopen(path, mode);
}

static int setup_errors(void **state)
{
    memset(&kernel, 0, sizeof(kernel));
    return setup_faults(state);
}

/* ---- opening ---- */

static void refused(const vb_config_t *c, const char *words)
{
    char why[256] = "";
    assert_false(start(1, c, why));
    if (NULL == strstr(why, words)) {
        fail_msg("'%s' is not in '%s'", words, why);
    }
    assert_int_equal(fake.ids + fake.memory_regions + fake.queue_pairs, 0);
    assert_int_equal(descriptors(), open_before);
}

static void ports_that_cannot_be_had(void **state)
{
    (void) state;
    const vb_config_t c = config_of(&process[1]);
    vb_config_t with_thread = c;
    with_thread.thread = true;
    out = (faulty_t){.times = 1, .error = ENOMEM, .size = sizeof(struct vb_port)};
    refused(&c, "out of memory");
    faulty_eventfd = (faulty_t){.times = 1, .error = EMFILE};
    refused(&with_thread, strerror(EMFILE));
    faulty_rdma_create_event_channel = (faulty_t){.times = 1, .error = ENOENT};
    refused(&c, "rdma_ucm");
    kernel.fcntl = (faulty_t){.times = 1, .error = EBADF};
    refused(&c, "rdma_ucm");
    faulty_rdma_create_id = (faulty_t){.times = 1, .error = ENODEV};
    refused(&c, "cannot be bound");
    kernel.no_device = true;
    refused(&c, "no RDMA device");
    kernel.no_device = false;
    faulty_ibv_query_device = (faulty_t){.times = 1, .error = EIO};
    refused(&c, strerror(EIO));
    kernel.fcntl = (faulty_t){.skip = 2, .times = 1, .error = EBADF};
    refused(&c, "events of the device");
    faulty_ibv_alloc_pd = (faulty_t){.times = 1, .error = ENOMEM};
    refused(&c, "protection domain");
    vb_config_t with_notices = c;
    with_notices.notices = VB_ON;
    fake.no_channel = true;
    refused(&with_notices, "notices of completions");
    fake.no_channel = false;
    kernel.fcntl = (faulty_t){.skip = 4, .times = 1, .error = EBADF};
    refused(&with_notices, "notices of completions");
    fake.no_cq = true;
    refused(&with_notices, "completion queue");
    fake.no_cq = false;
    faulty_ibv_create_srq = (faulty_t){.times = 1, .error = ENOMEM};
    refused(&c, "shared receive queue");
    out = (faulty_t){.times = 1, .error = ENOMEM, .size = sizeof(vb_rx_t)};
    refused(&c, "shared receive queue");
    faulty_pthread_create = (faulty_t){.times = 1, .error = EAGAIN};
    refused(&with_thread, "no thread");
    assert_true(start(1, &c, NULL)); /* and nothing is in the way of the next one */
}

/* The port of a device that does not say how long a message may be, or more than verbs can count. */
static void ports_that_say_odd_things(void **state)
{
    static const uint32_t said[] = {0, UINT32_MAX};
    for (unsigned i = 0; i < 2; ++i) {
        kernel.is_odd_port = true;
        kernel.message_max = said[i];
        begin(1);
        assert_int_equal(vb_port_abilities(process[1].port)->message_max, UINT32_C(1) << 30);
        (void) teardown_faults(state);
        (void) setup_errors(state);
    }
}

static void devices(void **state)
{
    (void) state;
    vb_abilities_t able;
    struct sockaddr_in a = fake_address(2, 77), nobodys = fake_address(FAKE_NODES + 1, 0);
    assert_int_equal(vb_devices(), FAKE_NODES);
    faulty_ibv_get_device_list = (faulty_t){.times = 1, .error = ENOSYS};
    assert_int_equal(vb_devices(), 0);
    assert_true(vb_device_of(&a, &able));
    assert_string_equal(able.device, "fake2");
    assert_int_equal(able.port, 1);
    assert_false(vb_device_of(&nobodys, &able));
    kernel.no_device = true;
    assert_false(vb_device_of(&a, &able));
    kernel.no_device = false;
    faulty_rdma_create_event_channel = (faulty_t){.times = 1, .error = ENOENT};
    assert_false(vb_device_of(&a, &able));
    faulty_rdma_create_id = (faulty_t){.times = 1, .error = ENODEV};
    assert_false(vb_device_of(&a, &able));
    assert_string_equal(able.device, "");
    assert_int_equal(fake.ids, 0);
    assert_int_equal(descriptors(), open_before);
    /* What its driver counts. */
    snprintf(able.device, sizeof(able.device), "fake1");
    able.port = 1;
    assert_int_equal(vb_device_rnr(&able), 0);
    kernel.counter = "1234567890123\n";
    assert_true(UINT64_C(1234567890123) == vb_device_rnr(&able));
    kernel.counter = "N/A\n";
    assert_int_equal(vb_device_rnr(&able), 0);
}

static void names(void **state)
{
    (void) state;
    assert_string_not_equal(vb_fabric_name(VB_ROCE), vb_fabric_name(VB_IWARP));
    assert_string_not_equal(vb_fabric_name(VB_ROCE), vb_fabric_name(VB_INFINIBAND));
    assert_string_equal(vb_fabric_name((vb_fabric_t) 3), "?");
}

/* What others are told of a port: connections, buffers wanted, whose lock it is. */
static void what_a_port_tells(void **state)
{
    (void) state;
    fake.is_iwarp = true;
    fake.has_atomics = false;
    begin(3);
    open_up(1, 2);
    open_up(1, 3);
    assert_int_equal(vb_port_links(process[1].port), 2);
    assert_int_equal(vb_port_wanted(process[1].port), 2 * 8);
    assert_int_equal(vb_port_wanted(process[2].port), 8);
    assert_null(vb_port_window(process[1].port));
    assert_ptr_equal(vb_peer_user(process[1].peer[2]), &process[1]);
    assert_int_equal(vb_peer_name(process[1].peer[2]), process[2].name);
    assert_true(vb_port_trylock(process[1].port));
    assert_false(vb_port_trylock(process[1].port));
    vb_port_unlock(process[1].port);
}

static void what_a_port_with_a_shared_queue_tells(void **state)
{
    (void) state;
    begin(3);
    open_up(1, 2);
    open_up(1, 3);
    assert_int_equal(vb_port_links(process[1].port), 2);
    assert_int_equal(vb_port_wanted(process[1].port), 8);
}

/* A thread of the port's own does all that connecting takes, and finds that nobody listens. Everything that is not
 * there is used by one thread at a time. */
static void a_thread_of_its_own(void **state)
{
    (void) state;
    process_t *p = &process[1];
    vb_config_t c = config_of(p);
    const struct sockaddr_in nobody = fake_address(2, 99);
    c.thread = true;
    assert_true(start(1, &c, NULL));
    vb_port_lock(p->port);
    p->peer[2] = vb_peer_add(p->port, process[2].name, &nobody, 5, p);
    vb_port_unlock(p->port);
    assert_int_equal(say(1, 2, 1), VB_AGAIN);
    bool is_lost = false;
    for (unsigned i = 0; i < 60000 && !is_lost; ++i) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        vb_port_lock(p->port);
        is_lost = p->lost > 0;
        vb_port_unlock(p->port);
    }
    assert_true(is_lost);
    assert_non_null(strstr(p->why, "nobody listens"));
    assert_int_equal(say(1, 2, 1), VB_LOST);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_errors, teardown_faults)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ports_that_cannot_be_had),
        TEST(ports_that_say_odd_things),
        TEST(devices),
        TEST(names),
        TEST(what_a_port_tells),
        TEST(what_a_port_with_a_shared_queue_tells),
        TEST(a_thread_of_its_own),
    };
    return cmocka_run_group_tests_name("verbs_open_errors", tests, NULL, NULL);
}
