/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The list of all caches of the process: for forks, after which registrations are not to be used, and for the sums of
 * counters.
 *
 * The lock covers the list and what modules that are gone have counted. It is held across a fork, so
 * that the child finds the list whole. Order: this lock, then a cache's. */
#include "rcache_lazy.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mca_rcache_lazy_module_t *modules;
static lazy_counters_t gone;

/* Nothing that was registered before a fork is found again (rcache_lazy_fork_flush); what is in use stays until it is
 * not. Told before the fork, so that no other thread finds it right after, and once more when it has been: they may have
 * registered in between. */
static void flush(void)
{
    for (mca_rcache_lazy_module_t *m = modules; NULL != m; m = m->next) {
        if (mca_rcache_lazy_component.fork_flush) {
            MCA_RCACHE_LAZY_EACH(m, lazy_invalidate_all);
        }
    }
}

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
    flush();
}

static void in_parent(void)
{
    flush();
    pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
    for (mca_rcache_lazy_module_t *m = modules; NULL != m; m = m->next) {
        MCA_RCACHE_LAZY_EACH(m, lazy_disown);
    }
    pthread_mutex_unlock(&lock);
}

void mca_rcache_lazy_modules_add(mca_rcache_lazy_module_t *module)
{
    static bool hears_of_forks;
    pthread_mutex_lock(&lock);
    if (!hears_of_forks) {
        hears_of_forks = 0 == pthread_atfork(before_fork, in_parent, in_child);
    }
    module->next = modules;
    modules = module;
    pthread_mutex_unlock(&lock);
}

static void add_up(lazy_counters_t *sum, const lazy_counters_t *n)
{
#define ADD(name, text) sum->name += n->name;
    LAZY_COUNTERS(ADD, ADD, ADD)
}

static lazy_counters_t count(const mca_rcache_lazy_module_t *module)
{
    lazy_counters_t n, more;
    lazy_count(module->cache, &n);
    if (NULL != module->device) {
        lazy_count(module->device, &more);
        add_up(&n, &more);
    }
    return n;
}

void mca_rcache_lazy_modules_remove(mca_rcache_lazy_module_t *module)
{
    const lazy_counters_t n = count(module);
    pthread_mutex_lock(&lock);
    for (mca_rcache_lazy_module_t **m = &modules; NULL != *m; m = &(*m)->next) {
        if (*m == module) {
            *m = module->next;
            break;
        }
    }
    add_up(&gone, &n);
#define NOTHING(name, text)
#define NOW(name, text) gone.name -= n.name;
    LAZY_COUNTERS(NOTHING, NOW, NOTHING)
    pthread_mutex_unlock(&lock);
    if (mca_rcache_lazy_component.summary) {
        mca_rcache_lazy_summarise(module, &n);
    }
}

void mca_rcache_lazy_modules_count(lazy_counters_t *sum)
{
    pthread_mutex_lock(&lock);
    *sum = gone;
    for (mca_rcache_lazy_module_t *m = modules; NULL != m; m = m->next) {
        const lazy_counters_t n = count(m);
        add_up(sum, &n);
    }
    pthread_mutex_unlock(&lock);
}
