/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The network that loses (lossy.h), over sockets of the loopback interface: what is drawn is what happens, to each datagram
 * by itself, and to no other socket. */
#define _GNU_SOURCE /* lossy.h */
#include "spec_unit.h"

#include "lossy.h"

#include <arpa/inet.h>

#ifndef UDP_SEGMENT
#    define UDP_SEGMENT 103
#endif

enum { COUNT = 100, LONG = 200 };

typedef struct pair {
    int from, to;
    struct sockaddr_in source;
    unsigned times[COUNT];   /* that each has arrived */
    unsigned all, bad, late; /* datagrams in all, damaged ones, those behind a later one */
    int last;
} pair_t;

static int udp(struct sockaddr_in *at)
{
    socklen_t length = sizeof(*at);
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int s = socket(AF_INET, SOCK_DGRAM, 0);
    assert_int_equal(bind(s, (struct sockaddr *) at, length), 0);
    assert_int_equal(getsockname(s, (struct sockaddr *) at, &length), 0);
    return s;
}

static pair_t begin(const char *faults)
{
    iw_fault_rates_t rates;
    pair_t p = {.last = -1};
    struct sockaddr_in to;
    assert_true(iw_fault_parse(&rates, faults));
    lossy_set(&rates, 7);
    p.to = udp(&to);
    p.from = udp(&p.source);
    assert_int_equal(connect(p.from, (struct sockaddr *) &to, sizeof(to)), 0);
    return p;
}

static void end(pair_t *p)
{
    static const iw_fault_rates_t none;
    close(p->from);
    close(p->to);
    lossy_set(&none, 0);
}

static void fill(uint8_t *data, unsigned i)
{
    memset(data, (int) i, LONG);
}

static void send_all(pair_t *p)
{
    uint8_t data[LONG];
    for (unsigned i = 0; i < COUNT; ++i) {
        fill(data, i);
        assert_int_equal(send(p->from, data, LONG, 0), LONG);
    }
}

static void note(pair_t *p, const uint8_t *data, size_t length)
{
    uint8_t right[LONG];
    ++p->all;
    fill(right, data[0]);
    if (LONG != length || data[0] >= COUNT || 0 != memcmp(data, right, LONG)) {
        ++p->bad;
        return;
    }
    ++p->times[data[0]];
    p->late += data[0] < p->last;
    p->last = data[0] > p->last ? data[0] : p->last;
}

/* Until nothing is left, with the call of that number. */
static void receive_all(pair_t *p, unsigned call)
{
    struct pollfd fd = {.fd = p->to, .events = POLLIN};
    const struct timespec quiet = {0, 300000000};
    while (ppoll(&fd, 1, &quiet, NULL) > 0) {
        uint8_t data[2][LOSSY_ROOM];
        struct sockaddr_in from[2] = {{0}};
        struct iovec piece[2][2] = {{{data[0], 10}, {data[0] + 10, LOSSY_ROOM - 10}},
                                    {{data[1], LOSSY_ROOM}}};
        struct mmsghdr m[2] = {{.msg_hdr = {&from[0], sizeof(from[0]), piece[0], 2, NULL, 0, 0}},
                               {.msg_hdr = {&from[1], sizeof(from[1]), piece[1], 1, NULL, 0, 0}}};
        if (0 == call) {
            const ssize_t n = recv(p->to, data[0], LOSSY_ROOM, MSG_DONTWAIT);
            if (n >= 0) {
                note(p, data[0], (size_t) n);
            }
            continue;
        }
        int n = 1;
        if (1 == call) {
            const ssize_t length = recvmsg(p->to, &m[0].msg_hdr, MSG_DONTWAIT);
            m[0].msg_len = (unsigned) length;
            n = length < 0 ? -1 : 1;
        } else {
            n = recvmmsg(p->to, m, 2, MSG_DONTWAIT, NULL);
        }
        assert_true(n > 0 || EAGAIN == errno);
        for (int i = 0; i < n; ++i) {
            note(p, data[i], m[i].msg_len);
            assert_memory_equal(&from[i], &p->source, sizeof(p->source));
        }
    }
}

/* Drawn were these; each call tells the same. */
static void what_is_drawn_happens(void **state)
{
    (void) state;
    for (unsigned call = 0; call < 3; ++call) {
        pair_t p = begin("drop=0.3,duplicate=0.2,reorder=0.4,corrupt=0.1");
        send_all(&p);
        receive_all(&p, call);
        const iw_fault_t *f = &lossy.socket[p.to].fault;
        unsigned lost = 0, twice = 0;
        for (unsigned i = 0; i < COUNT; ++i) {
            lost += 0 == p.times[i];
            twice += 2 == p.times[i];
        }
        assert_true(f->dropped > 0 && f->duplicated > 0 && f->reordered > 0 && f->corrupted > 0);
        assert_int_equal(p.all, COUNT - f->dropped + f->duplicated);
        assert_true(p.bad >= f->corrupted && p.bad <= 2 * f->corrupted);
        assert_int_equal(lost, f->dropped + f->corrupted);
        assert_true(twice <= f->duplicated && twice + f->corrupted >= f->duplicated);
        assert_true(p.late > 0);
        end(&p);
    }
}

/* The kernel hands them over as one; each has its fate, and is handed out alone. */
static void a_train_is_taken_apart(void **state)
{
    (void) state;
    pair_t p = begin("drop=0.3");
    uint8_t data[COUNT / 2][LONG];
    const int on = 1, size = LONG;
    if (0 != setsockopt(p.to, IPPROTO_UDP, UDP_GRO, &on, sizeof(on))
        || 0 != setsockopt(p.from, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof(size))) {
        print_message("SKIP: the kernel makes no trains\n");
        end(&p);
        skip();
    }
    for (unsigned i = 0; i < COUNT / 2; ++i) {
        fill(data[i], i);
    }
    assert_int_equal(send(p.from, data, sizeof(data), 0), (ssize_t) sizeof(data));
    receive_all(&p, 2);
    const iw_fault_t *f = &lossy.socket[p.to].fault;
    assert_true(f->dropped > 0 && f->dropped < COUNT / 2);
    assert_int_equal(p.all, COUNT / 2 - f->dropped);
    assert_int_equal(p.bad, 0);
    end(&p);
}

static void others_are_let_alone(void **state)
{
    (void) state;
    pair_t p = begin("drop=1");
    int local[2];
    char byte = 0;
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, local), 0);
    assert_int_equal(send(local[0], "x", 1, 0), 1);
    assert_int_equal(recv(local[1], &byte, 1, MSG_DONTWAIT), 1);
    assert_int_equal(send(p.from, "y", 1, 0), 1);
    assert_int_equal(recv(p.to, &byte, 1, MSG_DONTWAIT | MSG_PEEK), 1);
    assert_int_equal(recv(p.to, &byte, 1, 0), 1);
    assert_int_equal(byte, 'y');
    assert_int_equal(send(p.from, "z", 1, 0), 1);
    assert_int_equal(recv(p.to, &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
    close(local[0]);
    close(local[1]);
    end(&p);
}

/* What was kept for one is not there for the next that has its number; what is too long is cut. */
static void a_socket_that_is_closed_keeps_nothing(void **state)
{
    (void) state;
    pair_t p = begin("duplicate=1");
    char text[4] = "";
    assert_int_equal(send(p.from, "abc", 3, 0), 3);
    assert_int_equal(recv(p.to, text, 2, MSG_DONTWAIT), 2);
    assert_string_equal(text, "ab");
    assert_non_null(lossy.socket[p.to].kept);
    const int number = p.to;
    end(&p);
    assert_null(lossy.socket[number].kept);
    p = begin("duplicate=1");
    assert_int_equal(p.to, number);
    assert_int_equal(recv(p.to, text, 2, MSG_DONTWAIT), -1);
    end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_drawn_happens),
        cmocka_unit_test(a_train_is_taken_apart),
        cmocka_unit_test(others_are_let_alone),
        cmocka_unit_test(a_socket_that_is_closed_keeps_nothing),
    };
    return cmocka_run_group_tests_name("lossy", tests, NULL, NULL);
}
