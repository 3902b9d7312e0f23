/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Ring memory, of this process and of others, and which of its rings are in use. */
#include "pml_spec_compat.h" /* first: it asks for GNU's functions */

#include "pml_spec_rings.h"

#include "pml_spec_processors.h"
#include "pml_spec_share.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Messages for which there is none go in fragments. */
enum { RINGS = 4 };

#define MAGIC UINT64_C(0x706d6c2f6369636f)

/* Shared. What a peer may have changed is never relied on. */
typedef struct rings {
    mca_pml_spec_share_head_t head;
    /* Its thread: waits for `calls` to change, and sleeps if it says so; 0: there is none. */
    uint32_t calls, sleeps, thread;
    uint32_t processor; /* where its last caller had it run, and 1; 0: none has called */
    _Alignas(64) uint32_t copying; /* threads of its program that copy at this moment */
    spec_cico_ring_t ring[RINGS];
} rings_t;

static mca_pml_spec_share_t share =
    MCA_PML_SPEC_SHARE("pml_spec_rings", MAGIC, sizeof(rings_t), false);

/* Under the lock; nothing of MPI is called under it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_taken[RINGS];
static unsigned taken_n; /* of them */

/* ---- of this process ---- */

static rings_t *my_rings(void)
{
    return mca_pml_spec_share_mine(&share);
}

/* The same, if they are made. */
static rings_t *mine(void)
{
    return MCA_PML_SPEC_SEEN(share.mine);
}

static rings_t *those_of(const mca_pml_spec_rings_of_t *of)
{
    return of->at;
}

static uint64_t name_of(unsigned ring)
{
    const spec_cico_name_t name = {.pid = share.pid,
                                   .fd = (uint16_t) share.fd,
                                   .ring = (uint8_t) ring,
                                   .use = (uint8_t) __atomic_load_n(&mine()->ring[ring].use,
                                                                    __ATOMIC_RELAXED)};
    return name.word;
}

spec_cico_ring_t *mca_pml_spec_rings_take(uint64_t *name)
{
    spec_cico_ring_t *taken = NULL;
    (void) pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < RINGS && NULL == taken && NULL != my_rings(); ++i) {
        if (!is_taken[i]) {
            is_taken[i] = true;
            ++taken_n;
            taken = &mine()->ring[i];
            spec_cico_renew(taken, spec_cico_slots(mca_pml_spec_processors_cache()));
            *name = name_of(i);
        }
    }
    (void) pthread_mutex_unlock(&lock);
    return taken;
}

bool mca_pml_spec_rings_has_room(void)
{
    (void) pthread_mutex_lock(&lock);
    const bool has_room = NULL != my_rings() && taken_n < RINGS;
    (void) pthread_mutex_unlock(&lock);
    return has_room;
}

void mca_pml_spec_rings_give(const spec_cico_ring_t *ring)
{
    (void) pthread_mutex_lock(&lock);
    is_taken[ring - mine()->ring] = false;
    --taken_n;
    (void) pthread_mutex_unlock(&lock);
}

/* ---- of others ---- */

mca_pml_spec_rings_of_t *mca_pml_spec_rings_find(mca_pml_spec_peer_t *peer, uint64_t name)
{
    const spec_cico_name_t at = {.word = name};
    mca_pml_spec_rings_of_t *of = MCA_PML_SPEC_SEEN(peer->rings);
    if (OPAL_UNLIKELY(NULL == of)) {
        of = mca_pml_spec_share_find(&share, &peer->rings, spec_name_of(&peer->proc->super), at.pid,
                                     at.fd);
    }
    return NULL == of || NULL == of->at ? NULL : of;
}

void mca_pml_spec_rings_forget(mca_pml_spec_peer_t *peer)
{
    mca_pml_spec_share_leave(&share, &peer->rings);
}

spec_cico_ring_t *mca_pml_spec_rings_join(const mca_pml_spec_rings_of_t *of, uint64_t name)
{
    const spec_cico_name_t named = {.word = name};
    spec_cico_ring_t *ring = named.ring < RINGS ? &those_of(of)->ring[named.ring] : NULL;
    if (NULL == ring || named.use != (uint8_t) __atomic_load_n(&ring->use, __ATOMIC_RELAXED)) {
        return NULL;
    }
    if (NULL != my_rings()) { /* else nobody can call this process's thread */
        __atomic_store_n(&ring->other, name_of(0), __ATOMIC_RELEASE);
    }
    return ring;
}

/* ---- copying ---- */

void mca_pml_spec_rings_copying(bool begins)
{
    if (NULL != mine()) {
        (void) __atomic_add_fetch(&mine()->copying, begins ? 1 : UINT32_MAX, __ATOMIC_RELAXED);
    }
}

bool mca_pml_spec_rings_copies(const mca_pml_spec_rings_of_t *of)
{
    return 0 != __atomic_load_n(&those_of(of)->copying, __ATOMIC_RELAXED);
}

/* ---- calling ---- */

static void futex(uint32_t *at, int what, uint32_t n)
{
    (void) syscall(SYS_futex, at, what, n, NULL, NULL, 0);
}

/* The process says itself which thread that is. It must be one of its own. */
bool mca_pml_spec_rings_answers(mca_pml_spec_rings_of_t *of)
{
    const uint32_t thread = __atomic_load_n(&those_of(of)->thread, __ATOMIC_ACQUIRE);
    uint32_t seen = __atomic_load_n(&of->thread, __ATOMIC_RELAXED);
    char path[64];
    if (0 != thread && thread != seen) {
        snprintf(path, sizeof(path), "/proc/%u/task/%u", (unsigned) of->pid, (unsigned) thread);
        seen = 0 == access(path, F_OK) ? thread : 0;
        __atomic_store_n(&of->thread, seen, __ATOMIC_RELAXED);
    }
    return 0 != thread && 0 != seen;
}

/* Where that is forbidden the thread runs where it is. */
static void bring_here(mca_pml_spec_rings_of_t *of)
{
    const int processor = sched_getcpu();
    const uint32_t is = __atomic_load_n(&those_of(of)->processor, __ATOMIC_RELAXED);
    cpu_set_t set;
    if (processor < 0 || processor >= CPU_SETSIZE || (uint32_t) processor + 1 == is) {
        return;
    }
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    (void) sched_setaffinity((pid_t) __atomic_load_n(&of->thread, __ATOMIC_RELAXED), sizeof(set),
                             &set);
    __atomic_store_n(&those_of(of)->processor, (uint32_t) processor + 1, __ATOMIC_RELAXED);
}

static void call(rings_t *rings)
{
    (void) __atomic_add_fetch(&rings->calls, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&rings->sleeps, __ATOMIC_SEQ_CST)) {
        futex(&rings->calls, FUTEX_WAKE, 1);
    }
}

void mca_pml_spec_rings_call(mca_pml_spec_rings_of_t *of)
{
    bring_here(of);
    call(of->at);
}

bool mca_pml_spec_rings_attend(void)
{
    if (NULL != mine()) {
        __atomic_store_n(&mine()->thread, (uint32_t) syscall(SYS_gettid), __ATOMIC_RELEASE);
    }
    return NULL != mine();
}

uint32_t mca_pml_spec_rings_calls(void)
{
    return __atomic_load_n(&mine()->calls, __ATOMIC_SEQ_CST);
}

void mca_pml_spec_rings_await(uint32_t calls)
{
    __atomic_store_n(&mine()->sleeps, 1, __ATOMIC_SEQ_CST);
    futex(&mine()->calls, FUTEX_WAIT, calls);
    __atomic_store_n(&mine()->sleeps, 0, __ATOMIC_SEQ_CST);
}

void mca_pml_spec_rings_rouse(void)
{
    if (NULL != mine()) { /* others may have written what they like there */
        (void) __atomic_add_fetch(&mine()->calls, 1, __ATOMIC_SEQ_CST);
        futex(&mine()->calls, FUTEX_WAKE, 1);
    }
}

void mca_pml_spec_rings_fini(void)
{
    mca_pml_spec_share_fini(&share);
    memset(is_taken, 0, sizeof(is_taken));
    taken_n = 0;
}
