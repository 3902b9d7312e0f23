/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Budget: what the table of buffer usage may cost a program that it is of no use to.
 *
 * The rule of the thesis (freq_rule.h) bets on each buffer by itself, and a program whose buffers
 * are used just too seldom loses every bet. So there are two accounts, in time: one for looking
 * buffers up, one for registering them.
 *
 *   in    to each half of a share (FREQ_BUDGET_PERMILLE) of what copying each small message costs;
 *         of what a message gained that was left in place an eighth for looks (and its own look is
 *         paid back), five eighths for registrations
 *   out   what a look costs, each, and more of a buffer that the table takes in; what a registration costs, each
 *
 * A use is looked at while its account is not below zero, a buffer is registered when there is its
 * whole price; else the message is copied as ever. So all looks and all registrations together cost
 * at most that share of the copying, and what was gained before, and what the accounts begin with
 * (FREQ_BUDGET_START, FREQ_BUDGET_START_LOOKS): whatever the sizes and counts of reuse. Two accounts, since looks would use
 * one up before it has the price of a registration. Gains pay for more, so that the number of
 * registered buffers can double with each 1.6 R / (C - V - P) uses. A quarter of a gain is not counted,
 * since C is of a warm buffer at start-up and this one may differ. An account holds at most
 * FREQ_BUDGET_REGISTRATIONS of the dearest registrations, so that a long good time does not pay for
 * a long bad one.
 *
 * Zeroed, a budget is without bounds: everything is free.
 *
 * Threads: any number. The accounts are not added to atomically: of threads at the same moment one
 * may not be counted. Unit: 1/256 ns. */
#ifndef FREQ_BUDGET_H
#define FREQ_BUDGET_H

#include "freq_rule.h"

#include <stdatomic.h>

enum {
    FREQ_BUDGET_PERMILLE = 5,
    FREQ_BUDGET_REGISTRATIONS = 64,
    FREQ_BUDGET_START = 16, /* registrations of FREQ_BUDGET_START_SIZE bytes */
    FREQ_BUDGET_START_SIZE = 8192,
    FREQ_BUDGET_START_LOOKS = 1024, /* of buffers that are not known */
    FREQ_BUDGET_RICH = 64,          /* looks */
    FREQ_BUDGET_UNIT = 256
};

typedef struct freq_budget {
    _Atomic int64_t looks, saved; /* the accounts */
    int64_t most;                 /* in each */
    int64_t look, add;            /* add: besides, of a buffer that is not known */
    int64_t price[FREQ_CLASSES];
    int32_t earns[FREQ_CLASSES]; /* for each account */
    int32_t gains[FREQ_CLASSES]; /* an eighth of a gain */
} freq_budget_t;

/* permille: the share, 0 to 1000. */
void freq_budget_make(freq_budget_t *budget, const freq_costs_t *costs, uint32_t permille);

static inline int64_t freq_budget_in(const _Atomic int64_t *account)
{
    return atomic_load_explicit((_Atomic int64_t *) account, memory_order_relaxed);
}

static inline void freq_budget_set(const freq_budget_t *budget, _Atomic int64_t *account,
                                   int64_t value)
{
    atomic_store_explicit(account, value < budget->most ? value : budget->most,
                          memory_order_relaxed);
}

/* So many messages have come. */
static inline void freq_budget_earn(freq_budget_t *budget, uint32_t class, uint32_t messages)
{
    const int64_t earned = (int64_t) messages * budget->earns[class];
    freq_budget_set(budget, &budget->looks, freq_budget_in(&budget->looks) + earned);
    freq_budget_set(budget, &budget->saved, freq_budget_in(&budget->saved) + earned);
}

/* May its buffer be looked up? That is paid. */
static inline bool freq_budget_look(freq_budget_t *budget)
{
    const int64_t looks = freq_budget_in(&budget->looks);
    if (looks < 0) {
        return false;
    }
    freq_budget_set(budget, &budget->looks, looks - budget->look);
    return true;
}

/* It was of a buffer that the table did not know. */
static inline void freq_budget_added(freq_budget_t *budget)
{
    freq_budget_set(budget, &budget->looks, freq_budget_in(&budget->looks) - budget->add);
}

/* Is there enough for many looks? */
static inline bool freq_budget_is_rich(const freq_budget_t *budget)
{
    return freq_budget_in(&budget->looks) > FREQ_BUDGET_RICH * (budget->look + budget->add);
}

/* It was left in place. */
static inline void freq_budget_gain(freq_budget_t *budget, uint32_t class)
{
    const int64_t gained = budget->gains[class];
    freq_budget_set(budget, &budget->looks,
                    freq_budget_in(&budget->looks) + budget->look + gained);
    freq_budget_set(budget, &budget->saved, freq_budget_in(&budget->saved) + 5 * gained);
}

/* May a buffer be registered? That is paid. */
static inline bool freq_budget_pay(freq_budget_t *budget, uint32_t class)
{
    const int64_t saved = freq_budget_in(&budget->saved);
    if (saved < budget->price[class]) {
        return false;
    }
    freq_budget_set(budget, &budget->saved, saved - budget->price[class]);
    return true;
}

#endif
