/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Connections that go on by another port while their own network carries nothing, and come back to it: nothing is lost, nothing comes
 * twice, nothing is overtaken, whatever breaks when. The other port is this test, which carries parcels in order, or fails to. */
#include "verbs_talk.h"

#include "vb_parts.h"

#define PART 100u

static unsigned carried;
static vb_part_t last; /* that went from the first to the second */
static int fails_after; /* so many parcels are carried, the next is not; -1: all are */

/* At most so many, from one process to the other. */
static void carry(unsigned from, unsigned to, unsigned most)
{
    for (unsigned i = 0; i < most; ++i) {
        vb_port_lock(process[from].port);
        vb_parcel_t *parcel = vb_port_next_part(process[from].port);
        const bool fails = NULL != parcel && 0 == fails_after;
        fails_after -= NULL != parcel && fails_after >= 0;
        if (fails) {
            vb_peer_is_not_carried(parcel->peer);
        }
        vb_port_unlock(process[from].port);
        if (NULL == parcel) {
            return;
        }
        assert_true(parcel->length <= process[from].port->config.part_max);
        assert_ptr_equal(parcel->peer, process[from].peer[to]);
        ++carried;
        if (1 == from) {
            assert_true(vb_part_read(&last, parcel->data, parcel->length));
        }
        if (!fails) {
            vb_port_lock(process[from].port);
            vb_peer_is_carried(parcel->peer);
            vb_port_unlock(process[from].port);
            vb_port_lock(process[to].port);
            vb_port_take_part(process[to].port, process[from].name, parcel->data, parcel->length);
            vb_port_unlock(process[to].port);
        }
        free(parcel);
    }
}

/* The own network carries nothing from now on, or again. */
static void cut_network(bool is_cut)
{
    fake.silent = is_cut;
    fake.lost = is_cut ? 100 : 0;
}

static void begin_with_elsewhere(const kind_t *kind)
{
    begin_resumable(kind);
    fill_sources();
    carried = 0;
    fails_after = -1;
    for (unsigned i = 1; i <= 2; ++i) {
        vb_port_lock(process[i].port);
        vb_peer_offer_elsewhere(process[i].peer[3 - i], true);
        vb_port_unlock(process[i].port);
    }
}

static void turn(unsigned most)
{
    hear(1);
    hear(2);
    carry(1, 2, most);
    carry(2, 1, most);
}

typedef struct {
    unsigned at_once; /* parcels carried in a turn */
    bool cuts;        /* the network, with the connection */
    unsigned heals;   /* turns after that it carries again; 0: never */
    bool strands;     /* it is not tried any more, either */
    unsigned fails;   /* again and again a parcel is not carried, after so many; 0: none */
} course_t;

static vb_conn_t *conn(unsigned node)
{
    return &process[node].peer[3 - node]->conn;
}

static void exchange(const course_t *course)
{
    unsigned since = 0;
    for (unsigned i = 0; i < 100000 && !is_done(); ++i) {
        speak(1, 2);
        speak(2, 1);
        turn(course->at_once);
        if (fake.requests_left < 0 && course->cuts) {
            cut_network(0 == course->heals || ++since < course->heals);
            conn(1)->is_stranded = conn(2)->is_stranded = course->strands;
        }
        if (course->fails > 0 && fails_after < 0) {
            fails_after = (int) course->fails;
        }
        if (i > 100) {
            nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
        }
    }
    check_talk();
}

static const kind_t kinds[] = {{.has_srq = true, .part_max = PART},
                               {.has_srq = false, .part_max = PART},
                               {.has_srq = true, .by_datagrams = true, .part_max = PART}};

/* Both are there. */
static void until_open(bool is_elsewhere)
{
    for (unsigned i = 0; i < 100000; ++i) {
        if (VB_OPEN == conn(1)->state && VB_OPEN == conn(2)->state && is_elsewhere == conn(1)->is_elsewhere
            && is_elsewhere == conn(2)->is_elsewhere) {
            return;
        }
        turn(100);
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    }
    fail_msg("the connection is %s%s", vb_conn_state_name(conn(1)->state), conn(1)->is_elsewhere ? " elsewhere" : "");
}

/* Connected by the own network, which is then cut; and by the other port, where they stay (until try_home). */
static void open_elsewhere(const kind_t *kind)
{
    begin_with_elsewhere(kind);
    for (unsigned i = 1; i <= 2; ++i) {
        process[i].port->config.rules.return_ns = UINT64_C(1000000000000);
    }
    speak(1, 2);
    until_open(false);
    cut_network(true);
    fake_break(1);
    speak(1, 2);
    until_open(true);
    for (unsigned i = 0; i < 50; ++i) {
        turn(100);
    }
}

/* It is time to. */
static void try_home(void)
{
    for (unsigned i = 1; i <= 2; ++i) {
        vb_port_lock(process[i].port);
        process[i].port->config.rules.return_ns = 3000000;
        conn(i)->deadline = 0 == conn(i)->deadline ? 0 : spec_now();
        vb_port_unlock(process[i].port);
    }
}

/* ---- over adapters ---- */

static void each(void **state, void (*run)(const kind_t *))
{
    for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); ++k) {
        run(&kinds[k]);
        assert_int_equal(teardown(state), 0);
        assert_int_equal(setup(state), 0);
    }
}

/* Whichever request it breaks at. */
static void break_at_each(const kind_t *kind)
{
    void *none = NULL;
    const unsigned all = 2 * (2 * MESSAGES + MESSAGES / 5);
    for (unsigned at = 0; at < all; at += at < 20 ? 1 : 7) {
        for (unsigned unheard = 0; unheard < 2; ++unheard) {
            const course_t course = {.at_once = 100, .cuts = true};
            begin_with_elsewhere(kind);
            fake.requests_left = (int) at;
            fake.is_unheard = unheard;
            exchange(&course);
            if (fake.requests_left < 0) {
                assert_true(process[1].port->counters.elsewhere > 0);
                assert_true(carried > 0);
            }
            assert_int_equal(teardown(&none), 0);
            assert_int_equal(setup(&none), 0);
        }
    }
}

static void a_cut_is_not_felt(void **state)
{
    each(state, break_at_each);
}

/* Slowly, so that the own network is tried meanwhile: in vain, or not. */
static void talk_through_trials(const kind_t *kind)
{
    void *none = NULL;
    for (unsigned heals = 0; heals < 400; heals += 133) {
        const course_t course = {.at_once = 1, .cuts = true, .heals = heals};
        begin_with_elsewhere(kind);
        fake.requests_left = 20;
        exchange(&course);
        assert_true(process[1].port->counters.elsewhere > 0);
        if (0 == heals) {
            for (unsigned i = 0; i < 100000 && conn(1)->trials + conn(2)->trials < 2; ++i) { /* the talk may have been short */
                turn(100);
                nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
            }
            assert_true(conn(1)->trials + conn(2)->trials > 1);
        } else {
            cut_network(false);
            until_open(false);
        }
        assert_int_equal(teardown(&none), 0);
        assert_int_equal(setup(&none), 0);
    }
}

static void trials_are_not_felt(void **state)
{
    each(state, talk_through_trials);
}

static void talk_through_failures(const kind_t *kind)
{
    void *none = NULL;
    for (unsigned fails = 1; fails < 70; fails += fails < 12 ? 1 : 18) {
        for (unsigned strands = 0; strands < 1 + (fails > 50); ++strands) {
            const course_t course = {.at_once = strands ? 100 : 7, .cuts = true, .heals = strands ? 0 : 100, .strands = strands, .fails = fails};
            begin_with_elsewhere(kind);
            fake.requests_left = 20;
            exchange(&course);
            assert_int_equal(teardown(&none), 0);
            assert_int_equal(setup(&none), 0);
        }
    }
}

static void another_port_may_fail_too(void **state)
{
    each(state, talk_through_failures);
}

/* What the other port did not carry ends the connection by it at once: the own network might not be tried for long. */
static void a_loss_is_heard(void **state)
{
    (void) state;
    open_elsewhere(&kinds[0]);
    speak(1, 2);
    assert_true(vb_port_has_parts(process[1].port));
    fails_after = 0;
    carry(1, 2, 1);
    assert_true(process[1].peer[2]->is_cut);
    for (unsigned i = 0; i < 100000 && !is_done(); ++i) {
        speak(1, 2);
        speak(2, 1);
        turn(100);
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    }
    check_talk();
}

/* Longer than a part, from one piece or two. */
static void long_requests_are_put_together(void **state)
{
    (void) state;
    open_elsewhere(&kinds[0]);
    process_t *p = &process[1], *q = &process[2];
    char *const from = p->memory + 50000, *const to = q->memory + 50000, *const back = p->memory + 58000;
    const uint32_t length = 5003;
    const unsigned before = p->done;
    for (uint32_t i = 0; i < length; ++i) {
        from[i] = (char) (i * 7);
    }
    struct ibv_sge put = piece_of(1, from, length), get = piece_of(1, back, length);
    vb_port_lock(p->port);
    assert_int_equal(vb_post_rdma(p->peer[2], &put, (uintptr_t) to, q->mr->rkey, VB_SIGNAL, p), VB_OK);
    assert_int_equal(vb_post_rdma(p->peer[2], &get, (uintptr_t) to, q->mr->rkey, VB_SIGNAL | VB_READ, p), VB_OK);
    vb_hdr_t *hdr = (vb_hdr_t *) (void *) (p->memory + 1024);
    struct ibv_sge two[2] = {piece_of(1, (char *) hdr, sizeof(*hdr) + 90), piece_of(1, p->memory + 2048, 150)};
    memset(hdr + 1, 0x11, 90);
    memset(p->memory + 2048, 0x22, 150);
    assert_int_equal(vb_post_send(p->peer[2], hdr, 9, two, 2, VB_SIGNAL, p), VB_OK);
    vb_port_unlock(p->port);
    vb_received_t r[16];
    int n = 0, events;
    for (unsigned i = 0; i < 1000 && (p->done < before + 3 || 0 == n); ++i) {
        hear(1);
        carry(1, 2, 100);
        carry(2, 1, 100);
        vb_port_lock(q->port);
        n = 0 == n ? vb_port_poll(q->port, r, 16, &events) : n;
        vb_port_unlock(q->port);
    }
    assert_int_equal(p->done, before + 3);
    assert_memory_equal(from, to, length);
    assert_memory_equal(from, back, length);
    const vb_received_t *newest = &r[n - 1];
    assert_int_equal(newest->length, 240);
    assert_int_equal(newest->tag, 9);
    assert_int_equal(((const char *) newest->data)[89], 0x11);
    assert_int_equal(((const char *) newest->data)[90], 0x22);
    assert_int_equal(((const char *) newest->data)[239], 0x22);
    vb_port_lock(q->port);
    vb_port_return(q->port, r, n);
    vb_port_unlock(q->port);
}

static void take_parcel(unsigned to, const vb_parcel_t *parcel)
{
    vb_port_lock(process[to].port);
    vb_port_take_part(process[to].port, process[3 - to].name, parcel->data, parcel->length);
    vb_port_unlock(process[to].port);
}

/* A request that waited in the other port while a connection was made by the network, and was used. */
static void late_requests_break_nothing(void **state)
{
    (void) state;
    begin_with_elsewhere(&kinds[0]);
    speak(1, 2);
    until_open(false);
    cut_network(true);
    fake_break(1);
    speak(1, 2);
    for (unsigned i = 0; i < 100000 && !vb_port_has_parts(process[1].port); ++i) {
        turn(0);
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    }
    vb_parcel_t *late = vb_port_next_part(process[1].port);
    assert_non_null(late);
    cut_network(false);
    for (unsigned i = 0; i < 100000 && !is_done(); ++i) {
        speak(1, 2);
        speak(2, 1);
        turn(0);
        nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
    }
    check_talk();
    const uint64_t opened[] = {conn(1)->opened_at, conn(2)->opened_at};
    take_parcel(2, late);
    assert_int_equal(conn(2)->state, VB_OPEN);
    free(late);
    turn(100); /* what else waited */
    for (unsigned node = 1; node <= 2; ++node) {
        assert_int_equal(conn(node)->state, VB_OPEN);
        assert_int_equal(conn(node)->opened_at, opened[node - 1]);
    }
}

/* The same request once more; and the next one. */
static void a_request_is_heard_once(void **state)
{
    (void) state;
    open_elsewhere(&kinds[0]);
    const unsigned to = process[2].peer[1]->elsewhere_asked > 0 ? 2 : 1, from = 3 - to;
    const vb_hello_t hello = {.answer = VB_ASK,
                              .credits = VB_UNCOUNTED,
                              .buffer = SIZE,
                              .name = process[from].name,
                              .key = 1000 + to,
                              .received = process[from].peer[to]->messages_received,
                              .is_again = true};
    for (unsigned n = 0; n < 2; ++n) {
        const vb_part_t part = {.kind = VB_PART_HELLO,
                                .is_mine = true,
                                .attempt = process[to].peer[from]->elsewhere_asked + n,
                                .length = sizeof(vb_hello_wire_t)};
        struct {
            vb_part_wire_t part;
            vb_hello_wire_t hello;
        } wire;
        vb_part_write(&wire.part, &part);
        vb_hello_write(&wire.hello, &hello);
        vb_port_lock(process[to].port);
        vb_port_take_part(process[to].port, process[from].name, &wire, sizeof(wire));
        vb_port_unlock(process[to].port);
        assert_int_equal(conn(to)->state, 0 == n ? VB_OPEN : VB_BREAKING);
    }
}

/* Of any memory. */
static bool copy_anything(void *context, uint32_t rkey, uint64_t remote, void *data, uint32_t size, bool is_write)
{
    (void) context, (void) rkey;
    void *memory = (void *) (uintptr_t) remote;
    memcpy(is_write ? memory : data, is_write ? data : memory, size);
    return true;
}

/* There and back again, as parts of this size. */
static void move_much(uint32_t part_max, size_t length)
{
    char *from = malloc(length), *to = malloc(length), *back = malloc(length);
    process_t *p = &process[1];
    assert_true(NULL != from && NULL != to && NULL != back);
    memset(to, 0, length);
    memset(back, 0, length);
    for (size_t i = 0; i < length; ++i) {
        from[i] = (char) (i * 7 + (i >> 12));
    }
    for (unsigned node = 1; node <= 2; ++node) {
        process[node].port->config.part_max = part_max;
        process[node].port->config.copy = copy_anything;
    }
    const unsigned before = p->done;
    const uint64_t opened_at = conn(1)->opened_at;
    struct ibv_sge put = piece_of(1, from, (uint32_t) length), get = piece_of(1, back, (uint32_t) length);
    vb_port_lock(p->port);
    assert_int_equal(vb_post_rdma(p->peer[2], &put, (uintptr_t) to, 1, VB_SIGNAL, p), VB_OK);
    assert_int_equal(vb_post_rdma(p->peer[2], &get, (uintptr_t) to, 1, VB_SIGNAL | VB_READ, p), VB_OK);
    vb_port_unlock(p->port);
    for (unsigned i = 0; i < 100000 && p->done < before + 2; ++i) {
        assert_true(p->peer[2]->parcel_bytes <= part_max); /* one at a time */
        assert_int_equal(conn(1)->opened_at, opened_at);
        hear(1);
        carry(1, 2, 100);
        carry(2, 1, 100);
    }
    assert_int_equal(p->done, before + 2);
    assert_memory_equal(from, to, length);
    assert_memory_equal(from, back, length);
    free(from);
    free(to);
    free(back);
}

/* Parts of half a megabyte, of which 32 are more than may wait. */
static void large_parts_do_not_break_it(void **state)
{
    (void) state;
    open_elsewhere(&kinds[0]);
    move_much(512 << 10, (size_t) 16 << 20);
}

/* The parcels of others are more than may wait in a port. */
static void many_peers_do_not_break_it(void **state)
{
    (void) state;
    open_elsewhere(&kinds[0]);
    process[1].port->parcel_bytes += (size_t) 15 << 20;
    process[2].port->parcel_bytes += (size_t) 15 << 20;
    move_much(PART, 5003);
    process[1].port->parcel_bytes -= (size_t) 15 << 20;
    process[2].port->parcel_bytes -= (size_t) 15 << 20;
}

/* A get of source(2), and behind it a message that is not to leave before the get is done. */
static void post_fenced(void)
{
    process_t *p = &process[1];
    struct ibv_sge get = piece_of(1, source(1) + 512, WORD);
    vb_hdr_t *hdr = (vb_hdr_t *) (void *) (p->memory + 1024);
    struct ibv_sge message = piece_of(1, (char *) hdr, sizeof(*hdr) + 1);
    vb_port_lock(p->port);
    assert_int_equal(vb_post_rdma(p->peer[2], &get, (uintptr_t) source(2), process[2].mr->rkey, VB_SIGNAL | VB_READ, p), VB_OK);
    assert_int_equal(vb_post_send(p->peer[2], hdr, 9, &message, 1, VB_SIGNAL | VB_FENCE, p), VB_OK);
    vb_port_unlock(p->port);
}

/* Messages that the second process takes now. */
static int heard(void)
{
    process_t *q = &process[2];
    vb_received_t r[16];
    int events;
    vb_port_lock(q->port);
    const int n = vb_port_poll(q->port, r, 16, &events);
    vb_port_return(q->port, r, n);
    vb_port_unlock(q->port);
    return n;
}

static void what_is_fenced_waits_for_reads(void **state)
{
    (void) state;
    open_elsewhere(&kinds[0]);
    (void) heard();
    post_fenced();
    carry(1, 2, 100);
    assert_int_equal(heard(), 0);
    carry(2, 1, 100);
    assert_int_equal(source(1)[512], 0x5a);
    carry(1, 2, 100);
    assert_int_equal(heard(), 1);
}

/* The program there uses the memory again when the message has come; the get is not done once more after that. */
static void what_was_read_before_a_fence_is_not_read_again(void **state)
{
    (void) state;
    open_elsewhere(&kinds[0]);
    (void) heard();
    post_fenced();
    carry(1, 2, 100);
    bool is_used_again = heard() > 0;
    memset(source(2), is_used_again ? 0x66 : 0x5a, WORD);
    for (unsigned node = 1; node <= 2; ++node) { /* the answer does not come */
        vb_port_lock(process[node].port);
        vb_peer_is_not_carried(process[node].peer[3 - node]);
        vb_port_unlock(process[node].port);
    }
    cut_network(false);
    for (unsigned i = 0; i < 20000 && !is_used_again; ++i) {
        is_used_again = heard() > 0;
        memset(source(2), is_used_again ? 0x66 : 0x5a, WORD);
        vb_port_events(process[2].port, 0);
        hear(1);
        carry(1, 2, 100);
        carry(2, 1, 100);
        nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
    }
    for (unsigned i = 0; i < 100; ++i) {
        turn(100);
    }
    assert_true(is_used_again);
    for (unsigned i = 0; i < WORD; ++i) {
        assert_int_equal(source(1)[512 + i], 0x5a);
    }
}

/* What was copied of a connection goes elsewhere, too, whatever the adapter takes into a work request meanwhile. */
static void what_was_inline_stays_so(void **state)
{
    (void) state;
    begin_with_elsewhere(&kinds[0]);
    speak(1, 2);
    until_open(false);
    for (unsigned i = 0; i < 20; ++i) {
        turn(0);
    }
    cut_network(true);
    fake_break(1);
    assert_int_equal(send_flags(1, 2, 0x33, 200, VB_INLINE), VB_OK);
    process[1].port->inline_max = 16;
    int n = 0;
    for (unsigned i = 0; i < 10000 && 0 == n; ++i) {
        hear(1);
        carry(1, 2, 100);
        carry(2, 1, 100);
        vb_port_events(process[2].port, 0);
        n = heard();
        nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
    }
    assert_int_equal(n, 1);
    assert_int_equal(process[1].lost, 0);
}

/* As an adapter has it: the end of the connection, for good. */
static void keys_are_checked(void **state)
{
    for (int reads = 0; reads < 2; ++reads) {
        open_elsewhere(&kinds[0]);
        process_t *p = &process[1];
        struct ibv_sge piece = piece_of(1, p->memory, WORD);
        vb_port_lock(p->port);
        assert_int_equal(vb_post_rdma(p->peer[2], &piece, (uintptr_t) process[2].memory + sizeof(p->memory) - 4,
                                      process[2].mr->rkey, VB_SIGNAL | (reads ? VB_READ : 0), p),
                         VB_OK);
        vb_port_unlock(p->port);
        cut_network(false);
        for (unsigned i = 0; i < 20000 && (VB_DEAD != conn(1)->state || VB_DEAD != conn(2)->state); ++i) {
            turn(100);
            nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
        }
        assert_int_equal(process[2].lost, 1);
        assert_int_equal(process[1].lost, 1);
        assert_true(process[2].port->counters.bad_parts > 0);
        assert_int_equal(teardown(state), 0);
        assert_int_equal(setup(state), 0);
    }
}

static void goodbyes_are_carried(void **state)
{
    (void) state;
    open_elsewhere(&kinds[0]);
    vb_port_lock(process[1].port);
    vb_peer_close(process[1].peer[2]);
    vb_port_unlock(process[1].port);
    for (unsigned i = 0; i < 100; ++i) {
        turn(100);
    }
    assert_int_equal(conn(1)->state, VB_CLOSED);
    assert_int_equal(conn(2)->state, VB_CLOSED);
    assert_int_equal(process[2].lost, 0);
    assert_null(process[1].peer[2]->link);
}

/* What goes by another port does not end with the adapter, whose network is not tried any more. */
static void an_adapter_may_fail_then(void **state)
{
    for (unsigned node = 1; node <= 2; ++node) {
        open_elsewhere(&kinds[0]);
        fake_device_fatal(node);
        turn(100);
        until_open(true);
        try_home();
        const uint64_t trials = conn(2)->trials, since = spec_now();
        for (unsigned i = 0; i < 100000 && (!is_done() || spec_now() - since < 20 * process[2].port->config.rules.return_ns); ++i) {
            speak(1, 2);
            speak(2, 1);
            turn(100);
        }
        check_talk();
        until_open(true);
        assert_true(conn(2)->trials <= trials || 1 == node); /* the second tries it */
        assert_int_equal(teardown(state), 0);
        assert_int_equal(setup(state), 0);
    }
}

/* Only one that is not broken, and goes by its adapter, carries others. */
static void who_carries(void **state)
{
    (void) state;
    begin_with_elsewhere(&kinds[0]);
    assert_int_equal(conn(1)->state, VB_IDLE);
    assert_false(vb_peer_carries(process[1].peer[2])); /* but it is connected for the next time */
    assert_int_not_equal(conn(1)->state, VB_IDLE);
    until_open(false);
    assert_true(vb_peer_carries(process[1].peer[2]));
    process[1].peer[2]->is_cut = true; /* as between the poll that finds it broken and the one that tells it */
    assert_false(vb_peer_carries(process[1].peer[2]));
    process[1].peer[2]->is_cut = false;
    cut_network(true);
    fake_break(1);
    speak(1, 2);
    until_open(true);
    assert_false(vb_peer_carries(process[1].peer[2]));
}

static uint64_t seed = 1;

static uint32_t any(uint32_t below)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t) (seed >> 33) % below;
}

/* As the first process says it; now and then with bytes missing. */
static void say_nonsense(void)
{
    struct {
        vb_part_wire_t wire;
        uint8_t data[64];
    } said;
    const vb_part_t part = {.kind = (vb_part_kind_t) any(VB_PART_KINDS + 1),
                            .is_mine = any(2),
                            .is_last = any(2),
                            .number = any(4) > 0 ? last.number : any(8),
                            .length = any(sizeof(said.data)),
                            .rkey = process[2].mr->rkey + (0 == any(9)),
                            .attempt = last.attempt + (0 == any(9)),
                            .remote = (uintptr_t) process[2].memory + any(70000)};
    const bool reads = VB_PART_READ == part.kind;
    memset(&said, (int) any(4), sizeof(said));
    vb_part_write(&said.wire, &part);
    vb_port_lock(process[2].port);
    vb_port_take_part(process[2].port, process[1].name, &said,
                      0 == any(9) ? any(sizeof(said)) : sizeof(said.wire) + (reads ? 0 : part.length));
    vb_port_unlock(process[2].port);
}

/* The process `to` is told this by the other one, with zeros for data. */
static void tell(unsigned to, const vb_part_t *part)
{
    struct {
        vb_part_wire_t wire;
        uint8_t data[64];
    } said = {.data = {0}};
    vb_part_write(&said.wire, part);
    vb_port_lock(process[to].port);
    vb_port_take_part(process[to].port, process[3 - to].name, &said, sizeof(said.wire) + part->length);
    vb_port_unlock(process[to].port);
}

/* Is the connection still good, and has it answered nothing since? */
static void is_ignored(unsigned node, uint64_t parts, bool is_cut)
{
    assert_int_equal(process[node].peer[3 - node]->is_cut, is_cut);
    assert_int_equal(process[node].port->counters.parts, parts);
    assert_null(process[node].port->arrivals);
}

/* In place of the next part that the first process has for the second, which never arrives: one of a message. */
static vb_part_t next_part(uint32_t length, bool is_last)
{
    vb_part_t part;
    speak(1, 2);
    vb_port_lock(process[1].port);
    vb_parcel_t *parcel = vb_port_next_part(process[1].port);
    vb_port_unlock(process[1].port);
    assert_true(NULL != parcel && vb_part_read(&part, parcel->data, parcel->length));
    free(parcel);
    part.kind = VB_PART_MESSAGE;
    part.length = length;
    part.is_last = is_last;
    return part;
}

static void late_parts_are_nobodys(void **state)
{
    (void) state;
    open_elsewhere(&kinds[0]);
    const uint64_t parts = process[2].port->counters.parts;
    vb_part_t part = next_part(9, true);
    --part.attempt;
    tell(2, &part);
    is_ignored(2, parts, false);
    ++part.attempt;
    tell(2, &part);
    assert_int_equal(process[2].port->counters.parts, parts + 1);
}

static void a_message_has_an_end(void **state)
{
    (void) state;
    open_elsewhere(&kinds[0]);
    vb_part_t part = next_part(64, false);
    for (uint32_t gathered = 64; gathered <= process[2].port->config.buffer_size; gathered += 64, ++part.number) {
        tell(2, &part);
        assert_false(process[2].peer[1]->is_cut);
    }
    const uint64_t parts = process[2].port->counters.parts;
    tell(2, &part);
    assert_int_equal(process[2].port->counters.bad_parts, 1);
    is_ignored(2, parts, true);
    part.kind = VB_PART_WRITE; /* nothing is heard after that */
    part.remote = (uintptr_t) process[2].memory;
    part.rkey = process[2].mr->rkey;
    ++part.number;
    tell(2, &part);
    is_ignored(2, parts, true);
}

static void answers_have_their_length(void **state)
{
    (void) state;
    open_elsewhere(&kinds[0]);
    speak(1, 2);
    carry(1, 2, 1);
    assert_int_equal(last.kind, VB_PART_WRITE);
    vb_part_t answer = {.kind = VB_PART_DONE, .is_mine = !last.is_mine, .number = last.number, .attempt = last.attempt, .length = 8};
    tell(1, &answer);
    assert_int_equal(process[1].port->counters.bad_parts, 1);
    assert_true(process[1].peer[2]->is_cut);
}

/* The adapter does it, and its network carries nothing. */
static void atomics_wait(void **state)
{
    (void) state;
    open_elsewhere(&kinds[0]);
    process_t *p = &process[1];
    struct ibv_sge piece = piece_of(1, source(1) + 512, WORD);
    *(uint64_t *) (void *) (source(2) + 512) = 7;
    vb_port_lock(p->port);
    assert_int_equal(vb_post_atomic(p->peer[2], &piece, (uintptr_t) source(2) + 512, process[2].mr->rkey, 1, NULL, VB_SIGNAL, p),
                     VB_AGAIN);
    vb_port_unlock(p->port);
    cut_network(false);
    try_home();
    until_open(false);
    vb_port_lock(p->port);
    assert_int_equal(vb_post_atomic(p->peer[2], &piece, (uintptr_t) source(2) + 512, process[2].mr->rkey, 1, NULL, VB_SIGNAL, p),
                     VB_OK);
    vb_port_unlock(p->port);
    turn(0);
    assert_int_equal(*(uint64_t *) (void *) (source(2) + 512), 8);
}

/* Nonsense is refused, and what is late is nobody's: nothing is touched that the peer has no right to, and nothing waits for ever. */
static void what_a_peer_says_is_not_believed(void **state)
{
    unsigned refused = 0;
    for (unsigned round = 0; round < 12; ++round) {
        open_elsewhere(&kinds[round % 2]);
        conn(1)->is_stranded = conn(2)->is_stranded = true; /* what it breaks is asked for by the other port again */
        for (unsigned i = 0; i < 60; ++i) {
            say_nonsense();
            for (unsigned node = 1; node <= 2; ++node) {
                vb_received_t r[4];
                int events;
                vb_port_events(process[node].port, 0);
                vb_port_lock(process[node].port);
                vb_port_return(process[node].port, r, vb_port_poll(process[node].port, r, 4, &events));
                vb_port_unlock(process[node].port);
            }
            carry(2, 1, any(3));
            carry(1, 2, any(3));
        }
        refused += process[2].port->counters.bad_parts > 0;
        assert_int_equal(teardown(state), 0);
        assert_int_equal(setup(state), 0);
    }
    assert_true(refused > 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_cut_is_not_felt, setup, teardown),
        cmocka_unit_test_setup_teardown(trials_are_not_felt, setup, teardown),
        cmocka_unit_test_setup_teardown(another_port_may_fail_too, setup, teardown),
        cmocka_unit_test_setup_teardown(a_loss_is_heard, setup, teardown),
        cmocka_unit_test_setup_teardown(long_requests_are_put_together, setup, teardown),
        cmocka_unit_test_setup_teardown(late_requests_break_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_request_is_heard_once, setup, teardown),
        cmocka_unit_test_setup_teardown(large_parts_do_not_break_it, setup, teardown),
        cmocka_unit_test_setup_teardown(many_peers_do_not_break_it, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_fenced_waits_for_reads, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_read_before_a_fence_is_not_read_again, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_inline_stays_so, setup, teardown),
        cmocka_unit_test_setup_teardown(keys_are_checked, setup, teardown),
        cmocka_unit_test_setup_teardown(goodbyes_are_carried, setup, teardown),
        cmocka_unit_test_setup_teardown(an_adapter_may_fail_then, setup, teardown),
        cmocka_unit_test_setup_teardown(who_carries, setup, teardown),
        cmocka_unit_test_setup_teardown(late_parts_are_nobodys, setup, teardown),
        cmocka_unit_test_setup_teardown(a_message_has_an_end, setup, teardown),
        cmocka_unit_test_setup_teardown(answers_have_their_length, setup, teardown),
        cmocka_unit_test_setup_teardown(atomics_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(what_a_peer_says_is_not_believed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
