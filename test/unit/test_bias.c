/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The biased lock (core/spec_bias.h), its owner and the agent, with every access a step: all orders in which a running one is
 * interrupted three times at most. What the owner writes stays in its processor's buffer until some step, or the agent's
 * fence, has it written. */
#include "spec_unit.h"

#include <ucontext.h>

static uint32_t at_get(const void *at);
static void at_set(void *at, uint32_t value);
static bool at_cas(uint32_t *at, uint32_t of, uint32_t to);

#define SPEC_BIAS_GET(at)         at_get(at)
#define SPEC_BIAS_SET(at, value)  at_set(at, (uint32_t) (value))
#define SPEC_BIAS_CAS(at, of, to) at_cas(at, of, to)
#define SPEC_BIAS_ORDER()         ((void) 0)
#include "spec_bias.h"

enum { OWNER, AGENT, ACTORS, BUFFER = ACTORS, CHOICES }; /* BUFFER: it is written to memory */
enum { LOCKS = 2, STEPS = 512, INTERRUPTIONS = 3, STACK = 1 << 16 };

static spec_bias_t bias;
static int32_t inside; /* in memory: what the agent sees. bias.inside is what the owner has written */

static struct {
    ucontext_t context;
    char stack[STACK];
    bool over;
    int awaits; /* a lock; LOCKS: the owner to leave; -1: nothing */
} actor[ACTORS];
static ucontext_t scheduler;
static int running;

static int holder[LOCKS]; /* of real locks; -1: none */
static int biased;        /* sections that the owner is in without a real lock */
static bool at_work;      /* the agent: nobody else may be in such a section */
static int sections[2];   /* that the owner had: real, biased */

/* The choices of this run, and how many there were. */
static struct {
    uint8_t chosen, of;
} path[STEPS];
static size_t steps, known;

static void step(void)
{
    swapcontext(&actor[running].context, &scheduler);
    assert_false(at_work && biased > 0);
}

static void flush(void)
{
    inside = bias.inside;
}

static uint32_t at_get(const void *at)
{
    step();
    return at == &bias.inside && AGENT == running ? (uint32_t) inside : *(const uint32_t *) at;
}

static void at_set(void *at, uint32_t value)
{
    step();
    *(uint32_t *) at = value;
}

static bool at_cas(uint32_t *at, uint32_t of, uint32_t to)
{
    step();
    if (OWNER == running) {
        flush();
    }
    if (of != *at) {
        return false;
    }
    *at = to;
    return true;
}

static void take(int lock)
{
    actor[running].awaits = lock;
    step();
    actor[running].awaits = -1;
    assert_int_equal(holder[lock], -1);
    holder[lock] = running;
    if (OWNER == running) {
        flush();
    }
}

static void give(int lock)
{
    assert_int_equal(holder[lock], running);
    holder[lock] = -1;
}

/* As the adapter does it. */
static void lock(int n)
{
    const bool is_biased = spec_bias_enter(&bias);
    assert_false(is_biased && AGENT == running);
    ++sections[is_biased];
    if (is_biased) {
        ++biased;
    } else {
        take(n);
    }
    step();
}

static void unlock(int n)
{
    /* The section ends with the access that says so. */
    const int before = biased;
    biased -= OWNER == running && bias.state < SPEC_BIAS_SHARED && bias.inside > 0;
    if (spec_bias_unlock(&bias)) {
        assert_int_equal(biased, before - 1);
    } else {
        biased = before;
        give(n);
    }
}

static void add(void)
{
    if (spec_bias_enter(&bias)) {
        assert_int_equal(OWNER, running);
        ++biased;
        step();
        --biased;
        spec_bias_leave(&bias);
    }
}

static void owner(void)
{
    add();
    lock(0);
    lock(1);
    add();
    unlock(1);
    unlock(0);
    spec_bias_accept(&bias);
    lock(1);
    unlock(1);
    actor[OWNER].over = true;
    step();
}

static void agent(void)
{
    for (int i = 0; i < 2; ++i) {
        if (!spec_bias_claim(&bias)) {
            flush();
            while (!spec_bias_has(&bias)) {
                actor[AGENT].awaits = LOCKS;
            }
            actor[AGENT].awaits = -1;
        }
        at_work = true;
        lock(i);
        add();
        unlock(i);
        at_work = false;
        spec_bias_offer(&bias);
    }
    actor[AGENT].over = true;
    step();
}

static bool may_go(int who)
{
    const int awaits = BUFFER == who ? -1 : actor[who].awaits;
    if (BUFFER == who) {
        return inside != bias.inside;
    }
    return !actor[who].over
           && (awaits < 0 || (LOCKS == awaits ? 0 == inside : -1 == holder[awaits]));
}

/* The one that goes next, by the path; what is beyond it goes on as long as it can. -1: none can. */
static int choose(int last, int *interruptions)
{
    int who[CHOICES], n = 0;
    if (may_go(last)) {
        who[n++] = last;
    }
    for (int i = 0; i < CHOICES; ++i) {
        if (i != last && may_go(i) && (0 == n || *interruptions < INTERRUPTIONS)) {
            who[n++] = i;
        }
    }
    if (n <= 1) {
        return 0 == n ? -1 : who[0];
    }
    assert_true(steps < STEPS);
    if (steps == known) {
        path[known++].chosen = 0;
    }
    path[steps].of = (uint8_t) n;
    const int chosen = path[steps++].chosen;
    *interruptions += chosen > 0 && who[0] == last;
    return who[chosen];
}

static void begin(int who, void (*what)(void))
{
    actor[who].over = false;
    actor[who].awaits = -1;
    getcontext(&actor[who].context);
    actor[who].context.uc_stack.ss_sp = actor[who].stack;
    actor[who].context.uc_stack.ss_size = STACK;
    actor[who].context.uc_link = &scheduler;
    makecontext(&actor[who].context, what, 0);
}

static void run_once(uint32_t first)
{
    int last = OWNER, interruptions = 0;
    bias = (spec_bias_t){.state = first};
    inside = biased = 0;
    at_work = false;
    holder[0] = holder[1] = -1;
    steps = 0;
    begin(OWNER, owner);
    begin(AGENT, agent);
    for (int who; 0 <= (who = choose(last, &interruptions)); last = BUFFER == who ? last : who) {
        if (BUFFER == who) {
            flush();
        } else {
            running = who;
            swapcontext(&scheduler, &actor[who].context);
        }
    }
    assert_true(actor[OWNER].over && actor[AGENT].over); /* nobody waits in vain */
    assert_int_equal(0, bias.inside);
    assert_int_equal(0, biased);
    assert_true(-1 == holder[0] && -1 == holder[1]);
}

static void the_agent_is_never_beside_a_biased_section(void **state)
{
    unsigned long runs = 0;
    (void) state;
    for (uint32_t first = SPEC_BIAS_OWNED; first <= SPEC_BIAS_OFFERED; first += SPEC_BIAS_OFFERED) {
        for (known = 0;;) {
            run_once(first);
            ++runs;
            while (known > 0 && path[known - 1].chosen + 1 >= path[known - 1].of) {
                --known;
            }
            if (0 == known) {
                break;
            }
            ++path[known - 1].chosen;
        }
    }
    assert_true(runs > 1000 && sections[0] > 0 && sections[1] > 0);
}

/* The owner alone: no real lock at all, once it has accepted. */
static void an_offer_is_accepted(void **state)
{
    (void) state;
    bias = (spec_bias_t){.state = SPEC_BIAS_SHARED};
    running = OWNER;
    begin(OWNER, owner);
    sections[0] = sections[1] = 0;
    holder[0] = holder[1] = -1;
    biased = 0;
    at_work = false;
    while (!actor[OWNER].over) {
        bias.state = SPEC_BIAS_SHARED == bias.state ? SPEC_BIAS_OFFERED : bias.state;
        swapcontext(&scheduler, &actor[OWNER].context);
    }
    assert_int_equal(1 + sections[1], sections[0]); /* two before, one behind */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_agent_is_never_beside_a_biased_section),
        cmocka_unit_test(an_offer_is_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
