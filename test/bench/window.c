/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The adaptive receive window beside fixed ones: the experiments of Sur, Koop, Panda 2006, figures 2 and 3.
 *
 * The verbs transport itself runs, over adapters that are not there (test/unit/fake_verbs.h) and in virtual time, so the
 * numbers are the same on every machine. One process receives, others send, all on their own node:
 *
 *   burst          the receiver computes while a burst arrives, takes it, and the next round begins
 *   steady         messages come at an even pace; the receiver computes and takes what is there in turn
 *   many-to-one    a burst of several senders, each beginning at a random moment
 *
 * A message occupies the receiver's link for LINK_NS, also when it finds no buffer; then its sender waits for the
 * receiver's RNR timer and nothing behind the message overtakes it. Taking a message costs HANDLE_NS. The limit event is
 * handled LIMIT_NS later, by the thread of the port. An adaptive window gets SETTLE_TIMES quiet times more of the traffic before the
 * second half of the rounds, whose speed and memory are those of a window that fits. After the traffic there is a quiet time
 * with a message now and then. btl_ibx_window_quiet is QUIET_TIME_NS, a tenth of its default, so that
 * all is sooner done, but for the longest RNR timer.
 *
 * usage: window [--bursts]. Prints CSV; test/bench/window-table makes tables and plot data of it. */
#include "fake_verbs.h"
#include "vb_port.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RECEIVER = 1, SENDERS = FAKE_NODES - 1, BATCH = 16, BYTES = 64 };
#define LINK_NS       UINT64_C(1300)     /* 8 KiB at 50 Gb/s */
#define HANDLE_NS     UINT64_C(1000)     /* matching, copying 8 KiB */
#define LIMIT_NS      UINT64_C(15000)    /* interrupt, event channel, thread, posting */
#define POLL_NS       UINT64_C(10000000) /* a tenth of what the BTL's progress waits */
#define QUIET_N       6000u
#define QUIET_TIME_NS UINT64_C(200000000)
#define SETTLE_TIMES  6 /* quiet times */
#define QUIET_TIMES   15
#define NEVER         UINT64_MAX

typedef struct traffic {
    const char *name;
    unsigned senders, each, rounds; /* messages of each sender in a round */
    uint64_t pace_ns;               /* between two messages of a sender */
    uint64_t compute_ns;
    uint64_t jitter_ns; /* a sender begins so much later, at most */
    bool is_stream;     /* the receiver computes again when nothing is there, not when all is */
} traffic_t;

static const traffic_t traffics[] = {
    {"burst", 1, 64, 1000, 0, 200000, 0, false},
    {"steady", 1, 640, 100, 2000, 20000, 0, true},
    {"many-to-one", 16, 4, 1000, 0, 200000, 100000, false},
};

typedef struct process {
    vb_port_t *port;
    vb_peer_t *peer;
    struct ibv_mr *mr;
    _Alignas(64) char memory[128];
    unsigned left;    /* of the round */
    uint64_t next_at; /* the next may leave */
    bool is_waiting;  /* for the RNR timer */
} process_t;

typedef enum { COMPUTING, HANDLING, IDLE } phase_t;

/* Where time goes and what happens. */
static struct {
    uint64_t now, link_free, limit_at, polled_at, phase_end;
    phase_t phase;
    vb_received_t held[BATCH];
    int held_n;
    unsigned long received, expected;
    unsigned limits;
    double byte_ns; /* bytes held, over time */
    uint64_t most;  /* bytes held, since it was set */
    uint32_t random;
    const traffic_t *traffic;
    process_t process[FAKE_NODES + 1];
} sim;

/* The clock of all that runs here. */
int clock_gettime(clockid_t id, struct timespec *t)
{
    (void) id;
    t->tv_sec = (time_t) (sim.now / UINT64_C(1000000000));
    t->tv_nsec = (long) (sim.now % UINT64_C(1000000000));
    return 0;
}

static void die(const char *what)
{
    fprintf(stderr, "window: %s\n", what);
    exit(1);
}

static uint64_t random_below(uint64_t n)
{
    sim.random = sim.random * 1664525u + 1013904223u;
    return 0 == n ? 0 : (sim.random >> 8) % n;
}

static void advance(uint64_t to)
{
    const vb_counters_t *c = vb_port_counters(sim.process[RECEIVER].port);
    sim.byte_ns += (double) c->registered * (double) (to - sim.now);
    sim.most = c->registered > sim.most ? c->registered : sim.most;
    sim.now = fake.now = to;
}

/* ---- processes ---- */

static void on_done(void *context, vb_peer_t *peer, void *request, vb_status_t status)
{
    (void) context, (void) peer, (void) request, (void) status;
}
static void on_ready(void *context, vb_peer_t *peer)
{
    (void) context, (void) peer;
}
static void on_down(void *context, vb_peer_t *peer, const char *why)
{
    (void) context, (void) peer;
    die(why);
}

static void start(unsigned node, uint32_t initial, uint32_t max, uint8_t rnr_timer)
{
    process_t *p = &sim.process[node];
    char why[256];
    vb_config_t c;
    vb_config_default(&c);
    c.address = fake_address(node, 0);
    c.name = node;
    c.key = 1000 + node;
    c.window_initial = initial;
    c.window_max = max;
    c.rnr_timer = rnr_timer;
    c.window_quiet_ns = QUIET_TIME_NS;
    c.thread = false;
    c.done = on_done;
    c.ready = on_ready;
    c.down = on_down;
    p->port = vb_port_open(&c, why, sizeof(why));
    if (NULL == p->port) {
        die(why);
    }
    p->mr = ibv_reg_mr(vb_port_pd(p->port), p->memory, sizeof(p->memory), IBV_ACCESS_LOCAL_WRITE);
}

static void stop(unsigned node)
{
    process_t *p = &sim.process[node];
    (void) ibv_dereg_mr(p->mr);
    vb_port_quiesce(p->port, 0);
    vb_port_close(p->port);
}

static vb_status_t post(process_t *p)
{
    struct ibv_sge piece = {
        .addr = (uintptr_t) p->memory, .length = sizeof(vb_hdr_t) + BYTES, .lkey = p->mr->lkey};
    vb_received_t none[1];
    int events;
    const vb_status_t status = vb_post_send(p->peer, (vb_hdr_t *) p->memory, 0, &piece, 1, 0, NULL);
    (void) vb_port_poll(p->port, none, 1, &events);
    return status;
}

static void connect_all(unsigned senders)
{
    const struct sockaddr_in there =
        fake_address(RECEIVER, vb_port_number(sim.process[RECEIVER].port));
    for (unsigned i = 0; i < senders; ++i) {
        process_t *p = &sim.process[RECEIVER + 1 + i];
        p->peer = vb_peer_add(p->port, RECEIVER, &there, 1000 + RECEIVER, NULL);
        /* The message that waits for the connection is not one of the experiment's. */
        while (VB_AGAIN == post(p)) {
            vb_received_t r[BATCH];
            int events;
            vb_port_events(p->port, 0);
            vb_port_events(sim.process[RECEIVER].port, 0);
            vb_port_return(sim.process[RECEIVER].port, r,
                           vb_port_poll(sim.process[RECEIVER].port, r, BATCH, &events));
        }
    }
}

/* ---- what happens ---- */

static void check_limit(void)
{
    if (sim.limits != fake.limits) {
        sim.limits = fake.limits;
        sim.limit_at = NEVER == sim.limit_at ? sim.now + LIMIT_NS : sim.limit_at;
    }
}

static void wake(void)
{
    if (IDLE == sim.phase) {
        sim.phase = HANDLING;
        sim.phase_end = sim.now;
    }
}

static void arrive(unsigned node)
{
    process_t *p = &sim.process[node];
    if (VB_OK != post(p)) {
        die("a message cannot be posted");
    }
    p->left -= 1;
    p->next_at = sim.now + sim.traffic->pace_ns;
    p->is_waiting = fake_is_waiting(node);
    sim.link_free = sim.now + LINK_NS;
    check_limit();
    wake();
}

static void repeat(void)
{
    fake_repeat();
    for (unsigned i = 0; i < sim.traffic->senders; ++i) {
        process_t *p = &sim.process[RECEIVER + 1 + i];
        p->is_waiting = p->is_waiting && fake_is_waiting(RECEIVER + 1 + i);
    }
    sim.link_free = sim.now + LINK_NS;
    check_limit();
    wake();
}

static void next_round(void)
{
    for (unsigned i = 0; i < sim.traffic->senders; ++i) {
        process_t *p = &sim.process[RECEIVER + 1 + i];
        p->left += sim.traffic->each;
        p->next_at = sim.now + random_below(sim.traffic->jitter_ns);
        sim.expected += sim.traffic->each;
    }
}

static void compute(void)
{
    sim.phase = COMPUTING;
    sim.phase_end = sim.now + sim.traffic->compute_ns;
}

/* The receiver calls MPI. False: the round is complete. */
static bool progress(void)
{
    vb_port_t *port = sim.process[RECEIVER].port;
    int events;
    vb_port_return(port, sim.held, sim.held_n);
    sim.held_n = vb_port_poll(port, sim.held, BATCH, &events);
    sim.received += (unsigned long) sim.held_n;
    check_limit();
    if (sim.now - sim.polled_at > POLL_NS) {
        sim.polled_at = sim.now;
        vb_port_check(port, sim.now);
    }
    if (sim.held_n > 0) {
        sim.phase = HANDLING;
        sim.phase_end = sim.now + (uint64_t) sim.held_n * HANDLE_NS;
    } else if (sim.received == sim.expected) {
        return false;
    } else if (sim.traffic->is_stream) {
        compute();
    } else {
        sim.phase = IDLE;
        sim.phase_end = NEVER;
    }
    return true;
}

/* Until the round is complete. */
static void run_round(void)
{
    next_round();
    compute();
    for (;;) {
        const uint64_t repeat_at = fake_next_repeat();
        uint64_t first = NEVER;
        unsigned sender = 0;
        for (unsigned i = 0; i < sim.traffic->senders; ++i) {
            const process_t *p = &sim.process[RECEIVER + 1 + i];
            const uint64_t at = p->next_at > sim.link_free ? p->next_at : sim.link_free;
            if (p->left > 0 && !p->is_waiting && at < first) {
                first = at;
                sender = RECEIVER + 1 + i;
            }
        }
        if (sim.limit_at <= first && sim.limit_at <= sim.phase_end && sim.limit_at <= repeat_at
            && NEVER != sim.limit_at) {
            advance(sim.limit_at);
            sim.limit_at = NEVER;
            vb_port_events(sim.process[RECEIVER].port, 0);
            check_limit();
        } else if (sim.phase_end <= first && sim.phase_end <= repeat_at && NEVER != sim.phase_end) {
            advance(sim.phase_end);
            if (!progress()) {
                return;
            }
        } else if (first <= repeat_at && NEVER != first) {
            advance(first > sim.now ? first : sim.now);
            arrive(sender);
        } else if (NEVER != repeat_at) {
            advance(repeat_at > sim.now ? repeat_at : sim.now);
            repeat();
        } else {
            die("nothing happens any more");
        }
    }
}

/* A message now and then, for longer than it takes to shrink. */
static void be_quiet(unsigned messages, uint64_t pace_ns)
{
    static traffic_t quiet = {"quiet", 1, 1, 1, 0, 0, 0, false};
    quiet.compute_ns = pace_ns;
    sim.traffic = &quiet;
    for (unsigned i = 0; i < messages; ++i) {
        run_round();
    }
}

static void experiment(const traffic_t *traffic, bool is_adaptive, uint32_t window,
                       uint8_t rnr_timer)
{
    memset(&sim, 0, sizeof(sim));
    fake_reset();
    fake.is_timed = true;
    fake.max_wr = 16384;
    sim.limit_at = NEVER;
    sim.traffic = traffic;
    sim.now = 1000000;
    sim.random = 1;
    start(RECEIVER, is_adaptive ? IBX_WINDOW_INITIAL : window, window, rnr_timer);
    for (unsigned i = 0; i < traffic->senders; ++i) {
        start(RECEIVER + 1 + i, 8, 8, rnr_timer);
    }
    connect_all(traffic->senders);
    check_limit();
    do { /* what connecting left, so that its buffers are free again */
        (void) progress();
        sim.expected = sim.received;
    } while (sim.held_n > 0);
    const uint64_t began = sim.now;
    sim.byte_ns = 0;
    fake.rnr = 0;
    const vb_counters_t *c = vb_port_counters(sim.process[RECEIVER].port);
    for (unsigned i = 0; i < traffic->rounds / 2; ++i) {
        run_round();
    }
    const uint64_t rnr_ns = 4 * fake_rnr_ns(rnr_timer),
                   quiet_ns = rnr_ns > QUIET_TIME_NS ? rnr_ns : QUIET_TIME_NS;
    uint64_t skipped = sim.now;
    while (is_adaptive && IBX_WINDOW_MAX == window && sim.now - skipped < SETTLE_TIMES * quiet_ns) {
        run_round();
    }
    skipped = sim.now - skipped;
    const uint64_t half = sim.now;
    sim.most = c->registered;
    for (unsigned i = 0; i < traffic->rounds - traffic->rounds / 2; ++i) {
        run_round();
    }
    const double second_half = (double) (sim.now - half);
    const double ns = (double) (sim.now - began), mean = sim.byte_ns / ns;
    const uint64_t most = c->registered_most, settled = sim.most, limits = c->starved;
    const unsigned rnr = fake.rnr;
    be_quiet(QUIET_N, QUIET_TIMES * quiet_ns / QUIET_N);
    printf("%s,%u,%u,%s,%u,%.2f,%.6f,%.6f,%u,%llu,%llu,%llu,%.0f,%llu\n", traffic->name,
           traffic->senders, traffic->senders * traffic->each, is_adaptive ? "adaptive" : "fixed",
           window, (double) fake_rnr_ns(rnr_timer) / 1e6, (ns - (double) skipped) / 1e9,
           second_half / 1e9, rnr, (unsigned long long) limits, (unsigned long long) most,
           (unsigned long long) settled, mean, (unsigned long long) c->registered);
    for (unsigned i = 0; i <= traffic->senders; ++i) {
        stop(RECEIVER + i);
    }
    if (fake.overflows > 0) {
        die("a queue has overflowed");
    }
}

int main(int argc, char **argv)
{
    static const uint32_t adaptive[] = {16, 32, 64, 128, 256, 512, 1024, 2048, 4096};
    static const uint32_t fixed[] = {8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512};
    static const uint8_t timers[] = {1, 6, 12, 18, 24, 0}; /* 0.01 to 655.36 ms */
    const bool is_bursts = argc > 1 && 0 == strcmp(argv[1], "--bursts");
    puts("traffic,senders,burst,window,size,rnr_timer_ms,seconds,seconds_second_half,rnr,limit_"
         "events,bytes_most,bytes_settled,bytes_"
         "mean,"
         "bytes_after_quiet");
    for (unsigned size = 8; is_bursts && size <= 1024; size *= 2) { /* how large a burst is */
        const traffic_t burst = {"burst", 1, size, 200, 0, 200000 + size * LINK_NS, 0, false};
        experiment(&burst, true, IBX_WINDOW_MAX, 12);
        for (size_t i = 0; i < sizeof(fixed) / sizeof(*fixed); ++i) {
            experiment(&burst, false, fixed[i], 12);
        }
        experiment(&burst, false, 768, 12);
        experiment(&burst, false, 1024, 12);
    }
    for (size_t t = 0; !is_bursts && t < sizeof(traffics) / sizeof(*traffics); ++t) {
        for (size_t r = 0; r < sizeof(timers); ++r) {
            for (size_t i = 0; i < sizeof(adaptive) / sizeof(*adaptive); ++i) {
                experiment(&traffics[t], true, adaptive[i], timers[r]);
            }
            for (size_t i = 0; i < sizeof(fixed) / sizeof(*fixed); ++i) {
                experiment(&traffics[t], false, fixed[i], timers[r]);
            }
        }
    }
    return 0;
}
