/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* When the progress agent - a thread that calls progress for a program which computes - runs, pauses and sleeps.
 *
 *   - Nothing is outstanding, has not been for a while, and a poll has found nothing more to begin: it sleeps until a request
 *     begins. (A pause may last much longer than it was meant to.) With a processor of its own it does not yet sleep where the program
 *     has used nonblocking collective operations lately: the first step of one may be a copy, of which nothing is heard here.
 *   - It must not call progress now: it pauses.
 *   - The program calls progress itself, so it is inside MPI: the agent steps back, and returns after a pause.
 *   - Otherwise it calls progress: without a pause as long as that moves something, or right after news; then after each
 *     pause until nothing more ends.
 * A pause is twice as long as the last one, up to SPEC_AGENT_PAUSE_MOST; one that begins after news is short again. Beside a program
 * that computes pauses stay short for a while after each request: to end a pause costs the one that begins the next request a system
 * call, so short ones are not ended. So a
 * program that computes for seconds with a receive posted pays a thousand short polls a second, and its message waits
 * for a pause at most.
 *
 * News is that a request has ended, or, while one is outstanding, that a process of this host calls: it waits in MPI for an
 * answer of this one. That ends
 * a pause, and where the one that waits gives way, the agent has its processor. Where a thread of a transport says that something has
 * arrived, an agent with a processor of its own polls once: it is told of what comes next, too. A large request that begins is news
 * only where the agent has a processor of its own; elsewhere nobody is disturbed before somebody waits.
 *
 * With the program's own processor only it begins with a pause, and goes on where the program has not called since.
 *
 * Also which processors the agents of a host may have: those that no rank owns.
 *
 * Pure: the caller gives the time and what it sees. Threads: the agent's alone. */
#ifndef SPEC_AGENT_H
#define SPEC_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ns. Beside the program's processor the agent polls so long without a pause after news: about what it takes to wake a thread,
 * twice. On it, it would keep the program from the processor, whose silence it then took for computing. */
#define SPEC_AGENT_SPIN UINT64_C(100000)
/* ns. The first pause; and the longest, for which a message or a program that went to compute may wait. */
#define SPEC_AGENT_PAUSE_LEAST UINT64_C(20000)
#define SPEC_AGENT_PAUSE_MOST  UINT64_C(1000000)
/* ns. With a processor of its own: what is as short ends by itself; and the longest pause while requests have begun or ended lately. */
#define SPEC_AGENT_PAUSE_SHORT UINT64_C(80000)
#define SPEC_AGENT_PAUSE_BUSY  UINT64_C(40000)
/* ns. After the last request the agent goes on for so long before it sleeps: a nonblocking collective has nothing outstanding
 * between two of its steps, and waking the agent costs the program a system call. */
#define SPEC_AGENT_LINGER UINT64_C(10000000)
/* ns. The same after a message of a nonblocking collective operation: about as long as a program computes between two of them. */
#define SPEC_AGENT_LINGER_COLLECTIVE UINT64_C(1000000000)
/* ns. A poll that took so long has moved something, most likely: an empty one takes less. That is believed for so long after
 * the last news, since with some transports it may take more; from then on such polls have short pauses between them. */
#define SPEC_AGENT_WORK  UINT64_C(3000)
#define SPEC_AGENT_TRUST UINT64_C(20000000)

/* Where the agent's thread runs. */
typedef enum spec_agent_home {
    SPEC_AGENT_OWN,    /* a processor that no rank owns */
    SPEC_AGENT_APART,  /* those of other ranks */
    SPEC_AGENT_SHARED, /* the program's, or it is not known */
} spec_agent_home_t;

/* ns. A program inside MPI polls within that time, unless it moves data: so another process that calls is not answered here. */
#define SPEC_AGENT_CHECK UINT64_C(2000)

typedef enum spec_agent_act {
    SPEC_AGENT_SLEEP, /* until a request begins */
    SPEC_AGENT_PAUSE, /* for some time, or until there is news */
    SPEC_AGENT_RUN,   /* call progress once */
} spec_agent_act_t;

/* What the agent sees before each step. The counts may wrap around. */
typedef struct spec_agent_view {
    uint64_t now;     /* ns */
    uint32_t calls;   /* of progress, by threads of the program */
    uint32_t begun;   /* requests */
    uint32_t rings;   /* of these, large ones, */
    uint32_t collectives; /* and those of nonblocking collective operations */
    uint32_t bells;   /* calls of other processes */
    uint32_t arrivals; /* times a transport said that progress will find something */
    uint32_t then;    /* `calls` at the last of these, which was at least SPEC_AGENT_CHECK ago */
    uint64_t took;    /* the last call of progress, ns */
    uint32_t ended;   /* requests that the agent has brought to their end */
    bool outstanding; /* a request, or a window that others may access */
    bool barred;      /* progress may be called in the program's threads only */
} spec_agent_view_t;

typedef struct spec_agent {
    spec_agent_home_t home;
    spec_agent_view_t seen; /* before the last step */
    spec_agent_act_t last;
    uint64_t needed; /* when something was outstanding last, ns */
    uint64_t busy;   /* when a request began or ended last, ns */
    uint64_t awake_until; /* for what a collective operation may begin unseen, ns */
    uint64_t news;   /* the last, ns */
    uint64_t pause;  /* the last one, ns; 0: the next is short */
    bool is_apart;   /* the program is in MPI, or progress is barred */
    bool is_quiet;   /* progress was called since something was outstanding, and began nothing */
} spec_agent_t;

/* Begins asleep. */
void spec_agent_init(spec_agent_t *agent, const spec_agent_view_t *view, spec_agent_home_t home);

/* The next step. *ns: how long it pauses; only for SPEC_AGENT_PAUSE. */
spec_agent_act_t spec_agent_next(spec_agent_t *agent, const spec_agent_view_t *view, uint64_t *ns);

/* Is a pause of so many ns ended when there is news? */
static inline bool spec_agent_is_woken(spec_agent_home_t home, uint64_t ns)
{
    return SPEC_AGENT_OWN != home || ns > SPEC_AGENT_PAUSE_SHORT;
}

/* Does the program go without locks while it pauses for so many ns (0: sleeps)? To take them back costs the agent, and with it whoever
 * has its processor, up to ten microseconds (core/spec_bias.h): too much for a short pause. */
static inline bool spec_agent_offers(uint64_t ns)
{
    return 0 == ns || ns >= SPEC_AGENT_PAUSE_MOST;
}

/* ---- a thread of the program that waits ---- */

/* After so many polls since it last sent or asked for something it calls the processes that it sent to, and again after twice as many
 * each time; and gives way with each poll in between (core/spec_give.h). Some microseconds where a processor moves the data. */
#define SPEC_AGENT_POLLS 64u
static inline bool spec_agent_waits(uint32_t polls)
{
    return polls > SPEC_AGENT_POLLS;
}

/* Is it its turn to call? */
static inline bool spec_agent_calls(uint32_t polls)
{
    return polls > SPEC_AGENT_POLLS && 0 == ((polls - 1) & (polls - 2));
}

/* ---- processors: sets of `words` words, a bit for each ---- */

/* Takes those that are owned out of a set. Returns how many are left. */
unsigned spec_agent_spare(uint64_t *set, const uint64_t *owned, size_t words);

/* The n-th of a set, from 0, counted from the highest: the lower ones are what other jobs get first. -1: there are fewer. */
int spec_agent_nth(const uint64_t *set, size_t words, unsigned n);

/* Puts the processors that a list names, as "0-3,8", into a set, which is empty before. Returns how many; 0: it is no such list, or
 * names one that the set has no room for. */
unsigned spec_agent_parse(uint64_t *set, size_t words, const char *list);

/* Ranks whose agents may share a processor: they sleep most of the time, but not when all compute. */
#define SPEC_AGENT_SHARE 2u

/* Are there enough for the agents of so many ranks of a host? */
static inline bool spec_agent_suffice(unsigned spare, unsigned ranks)
{
    return spare * SPEC_AGENT_SHARE >= ranks;
}

#endif
