/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The steps of the progress agent, and its processors. */
#include "spec_agent.h"

void spec_agent_init(spec_agent_t *agent, const spec_agent_view_t *view, bool has_own)
{
    *agent = (spec_agent_t){.spin = has_own ? SPEC_AGENT_SPIN : 0,
                            .seen = *view,
                            .last = SPEC_AGENT_SLEEP,
                            .needed = view->now,
                            .news = view->now};
}

static uint64_t longer(spec_agent_t *agent)
{
    const uint64_t twice = 0 == agent->pause ? SPEC_AGENT_PAUSE_LEAST : 2 * agent->pause;
    return agent->pause = twice < SPEC_AGENT_PAUSE_MOST ? twice : SPEC_AGENT_PAUSE_MOST;
}

static spec_agent_act_t decide(spec_agent_t *agent, const spec_agent_view_t *view)
{
    const spec_agent_view_t *seen = &agent->seen;
    const bool slept = SPEC_AGENT_SLEEP == agent->last, ran = SPEC_AGENT_RUN == agent->last,
               begun = view->begun != seen->begun, rung = view->rings != seen->rings,
               ended = view->ended != seen->ended,
               moved = ran && view->now - seen->now >= SPEC_AGENT_WORK;
    /* What it called before the agent slept says nothing. Where a large request began it has just come out of MPI. */
    const bool inside = view->calls != seen->calls && !slept && !rung;

    if (view->outstanding || begun) {
        agent->needed = view->now;
    } else if (view->now - agent->needed >= SPEC_AGENT_LINGER) {
        return SPEC_AGENT_SLEEP;
    }
    if (rung || ended || slept) {
        agent->news = view->now;
    }
    if (rung || ended || slept || moved) {
        agent->pause = 0;
    }
    /* A program with which it shares a processor may be about to wait: a piece of a message in the agent's hands would then
     * wait for the agent's next time slice. */
    const bool in_its_way = 0 == agent->spin && (rung || slept);
    if (inside || in_its_way || view->barred) {
        return SPEC_AGENT_PAUSE;
    }
    if (view->now - agent->news < (moved ? SPEC_AGENT_TRUST : agent->spin)) {
        return SPEC_AGENT_RUN;
    }
    /* What ended may have been waited for by what progress does next. */
    return ran && !ended ? SPEC_AGENT_PAUSE : SPEC_AGENT_RUN;
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

unsigned spec_agent_spare(uint64_t *set, const uint64_t *owned, size_t words)
{
    unsigned n = 0;
    for (size_t i = 0; i < words; ++i) {
        set[i] &= ~owned[i];
        n += (unsigned) __builtin_popcountll(set[i]);
    }
    return n;
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
