/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Asks the kernel for the processors of the launcher, whose are all that the job may use on this host, and for those of
 * its children that are ranks. Not hwloc: to discover a whole machine takes a large part of MPI_Init. */
#include "pml_spec_compat.h" /* first: it asks for GNU's functions */

#include "pml_spec_processors.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS = MCA_PML_SPEC_PROCESSORS / 64 };

/* Those that a process may use. False: not known. */
static bool allowed(pid_t process, mca_pml_spec_processors_t *processors)
{
    memset(processors, 0, sizeof(*processors));
    return 0 == sched_getaffinity(process, sizeof(processors->set), (cpu_set_t *) processors->set);
}

/* Was a process started as a rank? The launcher has other children, too: a remote shell for each other host. */
static bool is_rank(pid_t process)
{
    char name[64], *word = NULL;
    size_t size = 0;
    bool is = false;
    snprintf(name, sizeof(name), "/proc/%ld/environ", (long) process);
    FILE *in = fopen(name, "re");
    while (NULL != in && !is && 0 < getdelim(&word, &size, '\0', in)) {
        is = 0 == strncmp(word, "PMIX_RANK=", strlen("PMIX_RANK="));
    }
    if (NULL != in) {
        fclose(in);
    }
    free(word);
    return is;
}

/* All that the ranks among the children of a process may use. Returns how many these are. */
static unsigned allowed_to_ranks(pid_t process, mca_pml_spec_processors_t *owned)
{
    char name[64];
    unsigned n = 0;
    long child;
    snprintf(name, sizeof(name), "/proc/%ld/task/%ld/children", (long) process, (long) process);
    FILE *in = fopen(name, "re");
    memset(owned, 0, sizeof(*owned));
    while (NULL != in && 1 == fscanf(in, "%ld", &child)) {
        mca_pml_spec_processors_t one;
        if (is_rank((pid_t) child) && allowed((pid_t) child, &one)) {
            ++n;
            for (size_t i = 0; i < WORDS; ++i) {
                owned->set[i] |= one.set[i];
            }
        }
    }
    if (NULL != in) {
        fclose(in);
    }
    return n;
}

/* Without this process's own, if others are left. */
static spec_agent_home_t beside_mine(mca_pml_spec_processors_t *processors)
{
    mca_pml_spec_processors_t mine, others = *processors;
    if (!allowed(0, &mine) || 0 == spec_agent_spare(others.set, mine.set, WORDS)) {
        return SPEC_AGENT_SHARED;
    }
    *processors = others;
    return SPEC_AGENT_APART;
}

unsigned mca_pml_spec_processors_named(mca_pml_spec_processors_t *processors, const char *list)
{
    return spec_agent_parse(processors->set, WORDS, list);
}

/* One of the n for this process's agent. */
static spec_agent_home_t one_of(mca_pml_spec_processors_t *processors, unsigned n)
{
    const int mine =
        spec_agent_nth(processors->set, WORDS, (unsigned) opal_process_info.my_local_rank % n);
    memset(processors, 0, sizeof(*processors));
    processors->set[mine / 64] = UINT64_C(1) << mine % 64;
    processors->is_alone = spec_local_ranks() <= n;
    return SPEC_AGENT_OWN;
}

spec_agent_home_t mca_pml_spec_processors_find(mca_pml_spec_processors_t *processors,
                                               const char *named, char *why, size_t size)
{
    const pid_t launcher = getppid();
    const unsigned ranks = spec_local_ranks();
    mca_pml_spec_processors_t owned, spare;
    if (NULL != named && '\0' != *named) {
        snprintf(why, size, "processors of this host that pml_spec_progress_processors names: %s",
                 named);
        return one_of(processors, mca_pml_spec_processors_named(processors, named));
    }
    if (!allowed(launcher, processors)) {
        snprintf(why, size, "which processors the job may use is not known");
        return SPEC_AGENT_SHARED;
    }
    if (allowed_to_ranks(launcher, &owned) < ranks) {
        snprintf(why, size, "which processors the %u ranks of this host own is not known", ranks);
        return beside_mine(processors);
    }
    spare = *processors;
    const unsigned n = spec_agent_spare(spare.set, owned.set, WORDS);
    snprintf(why, size, "processors of this host that none of its %u ranks owns: %u", ranks, n);
    if (!spec_agent_suffice(n, ranks)) {
        return beside_mine(processors);
    }
    *processors = spare;
    return one_of(processors, n);
}

void mca_pml_spec_processors_use(const mca_pml_spec_processors_t *processors)
{
    (void) sched_setaffinity(0, sizeof(processors->set), (const cpu_set_t *) processors->set);
}

/* Asked once: it may be dear in a virtual machine. */
uint64_t mca_pml_spec_processors_cache(void)
{
    static int64_t bytes = -1;
    int64_t known = __atomic_load_n(&bytes, __ATOMIC_RELAXED);
    if (known < 0) {
        const long told = sysconf(_SC_LEVEL2_CACHE_SIZE);
        known = told > 0 ? told : 0;
        __atomic_store_n(&bytes, known, __ATOMIC_RELAXED);
    }
    return (uint64_t) known;
}
