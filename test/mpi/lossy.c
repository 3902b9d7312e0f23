/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* For a program that this library is loaded before (LD_PRELOAD): what arrives at its UDP sockets is lost, doubled, late or
 * damaged on purpose, at the rates in LOSSY, as in drop=0.01,duplicate=0.01,reorder=0.05,delay=0.01:3ms,corrupt=0.001
 * (iw_fault.h). LOSSY_SEED: of all ranks; without it a number by chance. Each rank says its seed when it first receives. */
#define _GNU_SOURCE
#include "lossy.h"

#include <stdio.h>
#include <sys/random.h>

static uint64_t seed;
static const char *rank;

static void say_seed(void)
{
    dprintf(STDERR_FILENO, "lossy: rank %s, seed %llu\n", rank, (unsigned long long) seed);
}

__attribute__((constructor)) static void begin(void)
{
    const char *text = getenv("LOSSY"), *number = getenv("LOSSY_SEED");
    iw_fault_rates_t rates;
    if (NULL == text) {
        return;
    }
    if (!iw_fault_parse(&rates, text)) {
        dprintf(STDERR_FILENO, "lossy: LOSSY=%s cannot be understood\n", text);
        _exit(2);
    }
    rank = getenv("OMPI_COMM_WORLD_RANK");
    rank = NULL == rank ? "0" : rank;
    if (NULL != number) {
        seed = strtoull(number, NULL, 0);
    } else {
        (void) !getrandom(&seed, 4, 0);
    }
    lossy.first = say_seed;
    lossy_set(&rates, seed + 1000 * strtoull(rank, NULL, 10));
}
