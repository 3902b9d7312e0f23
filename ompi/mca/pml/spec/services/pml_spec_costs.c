/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Measures what copies cost, and decides from that up to which size a peer's messages are eager. */
#ifndef _GNU_SOURCE
#    define _GNU_SOURCE /* process_vm_readv */
#endif

#include "pml_spec_costs.h"

#include "pml_spec_why.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { SAMPLES = 8, LITTLE = 8, MUCH = 32768 };

/* A single copy, which the kernel makes between buffers of this process as it would from another's memory. False: it refuses. */
static bool single(char *to, char *from, size_t n)
{
    struct iovec local = {.iov_base = to, .iov_len = n}, remote = {.iov_base = from, .iov_len = n};
    return (ssize_t) n == process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
}

static bool plain(char *to, char *from, size_t n)
{
    memcpy(to, from, n);
    __asm__ volatile("" : : "r"(to) : "memory");
    return true;
}

/* The quickest of some copies, nanoseconds; 0: one failed. */
static uint64_t quickest(bool (*copy)(char *to, char *from, size_t n), char *from, size_t n)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < SAMPLES; ++i) {
        const uint64_t start = spec_now();
        if (!copy(from + MUCH, from, n)) {
            return 0;
        }
        const uint64_t took = spec_now() - start;
        best = took < best ? took : best;
    }
    return best;
}

static spec_costs_t measure(void)
{
    spec_costs_t costs = {.known = false};
    char *from = malloc(2 * MUCH);
    if (NULL == from) {
        return costs;
    }
    memset(from, 1, 2 * MUCH);
    const uint64_t call = quickest(single, from, LITTLE);
    const uint64_t much = quickest(single, from, MUCH);
    if (call > 0 && much > 0) {
        costs.known = true;
        costs.call_ns = call < UINT32_MAX ? (uint32_t) call : UINT32_MAX;
        costs.single_ps = spec_costs_ps(call, much, MUCH - LITTLE);
        costs.copy_ps = spec_costs_ps(quickest(plain, from, LITTLE), quickest(plain, from, MUCH),
                                      MUCH - LITTLE);
    }
    free(from);
    return costs;
}

/* Another kind of single copy: a processor maps the other's memory and copies as it would its own, which is not what was measured. */
static bool maps_memory(void)
{
    return 0 == access("/dev/xpmem", R_OK | W_OK);
}

/* The process's; two threads that come here first both measure, and one of them is believed. */
static spec_costs_t costs_of_host(void)
{
    mca_pml_spec_lock(&mca_pml_spec.lock);
    const bool measured = mca_pml_spec.costs_measured;
    spec_costs_t costs = mca_pml_spec.costs;
    mca_pml_spec_unlock(&mca_pml_spec.lock);
    if (measured) {
        return costs;
    }
    costs = measure();
    mca_pml_spec_lock(&mca_pml_spec.lock);
    if (mca_pml_spec.costs_measured) {
        costs = mca_pml_spec.costs;
    }
    mca_pml_spec.costs = costs;
    mca_pml_spec.costs_measured = true;
    mca_pml_spec_unlock(&mca_pml_spec.lock);
    return costs;
}

/* What the user wants, within what the transport can. */
static void limit(spec_ends_t *ends, const mca_pml_spec_peer_t *peer)
{
    const uint64_t wanted = (uint64_t) mca_pml_spec.eager_max;
    uint64_t end = wanted < peer->eager_limit ? peer->eager_limit : wanted;
    ends->follows = false;
    ends->parts = !ends->in_parts || end <= peer->eager_most ? 0
                  : end < SPEC_COSTS_IN_PARTS                ? end
                                                             : SPEC_COSTS_IN_PARTS;
    end = end < peer->eager_most ? end : peer->eager_most;
    ends->alone = ends->gaps = end;
}

void mca_pml_spec_costs_learn(mca_pml_spec_peer_t *peer)
{
    const bool measures = SPEC_BY_SINGLE == peer->mover;
    const spec_costs_t costs = measures ? costs_of_host() : (spec_costs_t){.known = false};
    const bool in_parts = peer->one_queue && peer->eager_most >= MCA_PML_SPEC_FRAG_INLINE;
    spec_ends_t ends =
        spec_costs_ends(&costs, peer->mover, in_parts, peer->eager_limit, peer->eager_most);
    if (mca_pml_spec.eager_max >= 0) {
        limit(&ends, peer);
    }
    if (mca_pml_spec.pipeline_max >= 0) {
        ends.pipeline = measures ? (uint64_t) mca_pml_spec.pipeline_max : 0;
    } else if (measures && maps_memory()) {
        ends.pipeline = 0;
    }
    if (measures && mca_pml_spec.eager_max < 0 && maps_memory()) {
        ends.parts = 0;
        ends.follows = false;
    }
    mca_pml_spec_lock(&peer->send_lock);
    if (!peer->ends_known) {
        peer->ends = ends;
        __atomic_store_n(&peer->ends_known, true, __ATOMIC_RELEASE);
    }
    mca_pml_spec_unlock(&peer->send_lock);
    if (OPAL_UNLIKELY(mca_pml_spec.verbose >= MCA_PML_SPEC_WHY)) {
        mca_pml_spec_why_ends(peer, measures ? &costs : NULL);
    }
}

void mca_pml_spec_costs_saw(mca_pml_spec_peer_t *peer, spec_copies_t *copies, uint64_t bytes,
                            uint64_t ns)
{
    spec_copies_saw(copies, &mca_pml_spec.costs, bytes, ns);
    spec_ends_follow(&peer->ends, &peer->far, &mca_pml_spec.costs, peer->eager_limit,
                     peer->eager_most);
}
