/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The steps of the progress agent, and its processors. */
#include "spec_agent.h"

#include <string.h>

void spec_agent_init(spec_agent_t *agent, const spec_agent_view_t *view, spec_agent_home_t home)
{
    *agent = (spec_agent_t){.home = home,
                            .seen = *view,
                            .last = SPEC_AGENT_SLEEP,
                            .needed = view->now,
                            .awake_until = SPEC_AGENT_OWN == home && view->collectives > 0
                                               ? view->now + SPEC_AGENT_LINGER_COLLECTIVE
                                               : 0,
                            .is_quiet = true,
                            .news = view->now};
}

static uint64_t longer(spec_agent_t *agent)
{
    const bool is_busy = SPEC_AGENT_OWN == agent->home && !agent->is_apart
                         && agent->seen.now - agent->busy < SPEC_AGENT_LINGER;
    const uint64_t most = is_busy ? SPEC_AGENT_PAUSE_BUSY : SPEC_AGENT_PAUSE_MOST;
    const uint64_t twice = 0 == agent->pause ? SPEC_AGENT_PAUSE_LEAST : 2 * agent->pause;
    return agent->pause = twice < most ? twice : most;
}

static spec_agent_act_t decide(spec_agent_t *agent, const spec_agent_view_t *view)
{
    const spec_agent_view_t *seen = &agent->seen;
    const bool has_own = SPEC_AGENT_OWN == agent->home, slept = SPEC_AGENT_SLEEP == agent->last,
               ran = SPEC_AGENT_RUN == agent->last, begun = view->begun != seen->begun,
               rung = has_own && view->rings != seen->rings, bell = view->bells != seen->bells,
               ended = view->ended != seen->ended, moved = ran && view->took >= SPEC_AGENT_WORK;
    /* What it called before the agent slept says nothing, nor before another process called. Where a large request began it has
     * just come out of MPI. */
    const bool inside =
        bell ? view->calls != view->then : view->calls != seen->calls && !slept && !rung;
    const bool called = bell && !inside && view->outstanding;
    const bool arrived = has_own && !inside && !view->barred && view->arrivals != seen->arrivals;

    agent->is_apart = inside || view->barred;
    if (begun || ended) {
        agent->busy = view->now;
    }
    if (view->outstanding || begun || ended) {
        agent->needed = view->now;
        agent->is_quiet = false;
    } else if (!seen->outstanding && (ran || view->calls != seen->calls || view->barred)) {
        agent->is_quiet = true;
    }
    if (has_own && view->collectives != seen->collectives) {
        agent->awake_until = view->now + SPEC_AGENT_LINGER_COLLECTIVE;
    }
    if (agent->is_quiet && view->now - agent->needed >= SPEC_AGENT_LINGER
        && view->now >= agent->awake_until) {
        return SPEC_AGENT_SLEEP;
    }
    if (rung || called || ended || (slept && has_own)) {
        agent->news = view->now;
    }
    if (rung || called || ended || slept || moved || arrived) {
        agent->pause = 0;
    }
    /* A program with which it shares a processor may be about to wait: a piece of a message in the agent's hands would then
     * wait for the agent's next time slice. */
    const bool in_its_way = SPEC_AGENT_SHARED == agent->home && slept && !called;
    if (inside || in_its_way || view->barred) {
        return SPEC_AGENT_PAUSE;
    }
    const uint64_t spin = SPEC_AGENT_SHARED == agent->home ? 0 : SPEC_AGENT_SPIN;
    if (view->now - agent->news < (moved ? SPEC_AGENT_TRUST : spin)) {
        return SPEC_AGENT_RUN;
    }
    /* What ended may have been waited for by what progress does next. */
    return ran && !ended && !arrived ? SPEC_AGENT_PAUSE : SPEC_AGENT_RUN;
}

spec_agent_act_t spec_agent_next(spec_agent_t *agent, const spec_agent_view_t *view, uint64_t *ns)
{
    agent->last = decide(agent, view);
    agent->seen = *view;
    if (SPEC_AGENT_PAUSE == agent->last) {
        *ns = longer(agent);
    }
    return agent->last;
}

static unsigned count(const uint64_t *set, size_t words)
{
    unsigned n = 0;
    for (size_t i = 0; i < words; ++i) {
        n += (unsigned) __builtin_popcountll(set[i]);
    }
    return n;
}

unsigned spec_agent_spare(uint64_t *set, const uint64_t *owned, size_t words)
{
    for (size_t i = 0; i < words; ++i) {
        set[i] &= ~owned[i];
    }
    return count(set, words);
}

int spec_agent_nth(const uint64_t *set, size_t words, unsigned n)
{
    for (size_t i = words; i-- > 0;) {
        for (int bit = 64; bit-- > 0;) {
            if ((set[i] >> bit & 1) && 0 == n--) {
                return (int) (64 * i) + bit;
            }
        }
    }
    return -1;
}

/* A number within the set, and where the list goes on; -1: there is none. */
static long number(const char **list, size_t words)
{
    long n = -1;
    for (; **list >= '0' && **list <= '9' && n < (long) (64 * words); ++*list) {
        n = 10 * (n < 0 ? 0 : n) + (**list - '0');
    }
    return n < (long) (64 * words) ? n : -1;
}

unsigned spec_agent_parse(uint64_t *set, size_t words, const char *list)
{
    memset(set, 0, words * sizeof(*set));
    do {
        const long first = number(&list, words);
        const long last = '-' == *list ? (++list, number(&list, words)) : first;
        if (first < 0 || last < first || ('\0' != *list && ',' != *list)) {
            return 0;
        }
        for (long i = first; i <= last; ++i) {
            set[i / 64] |= UINT64_C(1) << i % 64;
        }
    } while ('\0' != *list++);
    return count(set, words);
}
