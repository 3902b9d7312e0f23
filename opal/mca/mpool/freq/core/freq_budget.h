/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Budget: what the table of buffer usage may cost a program that it is of no use to.
 *
 * The rule of the thesis (freq_rule.h) bets on each buffer by itself, and a program whose buffers
 * are used just too seldom loses every bet. So there are two accounts, in time: one for looking
 * buffers up, one for registering them.
 *
 *   in    to each half of a share (FREQ_BUDGET_PERMILLE) of what copying each small message costs, of
 *         the first FREQ_BUDGET_YOUNG messages FREQ_BUDGET_YOUNG_TIMES as much; FREQ_BUDGET_COUNTED
 *         percent of what a message gained that was left in place, for looks while there are few, or where
 *         there is plenty for registrations, else for these; its own look is paid back
 *   out   what a look costs, each, more where few are made, and more of a buffer that the table takes in;
 *         what every message costs that may be looked up (freq_gate.h); what a registration costs, each
 *
 * A use is looked at while its account is not below zero; when it is, nothing at all is asked for so many
 * messages as it takes to earn something (freq_budget_rest). A buffer is registered when there is its
 * whole price; else the message is copied as ever. So all looks and all registrations together cost
 * at most that share of the copying, and what was gained before, and what the accounts begin with:
 * whatever the sizes and counts of reuse. Two accounts, since looks would use one up before it has the
 * price of a registration. Not all of a gain is counted, since it is of costs that vary. An account
 * holds at most FREQ_BUDGET_REGISTRATIONS of the dearest registrations, so that a long good time does
 * not pay for a long bad one.
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
    FREQ_BUDGET_PERMILLE = 2,
    FREQ_BUDGET_REGISTRATIONS = 64,
    FREQ_BUDGET_START = 8, /* registrations of FREQ_BUDGET_START_SIZE bytes */
    FREQ_BUDGET_START_SIZE = 8192,
    FREQ_BUDGET_START_LOOKS = 512, /* and of as many messages at their gate: */
    FREQ_BUDGET_START_WATCHED = 12288,
    FREQ_BUDGET_YOUNG = 20480,      /* so many messages, at first, */
    FREQ_BUDGET_YOUNG_TIMES = 36,   /* earn so many times as much */
    FREQ_BUDGET_RICH = 16,          /* times what was spent of late: to spend twice as much, */
    FREQ_BUDGET_AHEAD = 16,         /* if so many registrations can be paid */
    FREQ_BUDGET_AGAIN = 8,          /* looks, to look at any after there was nothing left */
    FREQ_BUDGET_KEEP = 64,          /* looks, before what is gained is for registrations */
    FREQ_BUDGET_PLENTY = 4,         /* times that */
    FREQ_BUDGET_COUNTED = 90,       /* percent of a gain */
    FREQ_BUDGET_DEAREST = 4,        /* times the price of a registration */
    FREQ_BUDGET_REST_MAX = 1 << 20, /* messages */
    FREQ_BUDGET_UNIT = 256
};

typedef struct freq_budget {
    _Atomic int64_t looks, saved; /* the accounts */
    int64_t most;                 /* in each */
    _Atomic uint32_t young;       /* messages yet to come that earn more */
    _Atomic int64_t spent;        /* on looks, less what came back; for who asks, and resets it */
    int64_t look;                 /* where most messages are looked up */
    int64_t gate;                 /* of a message that may be looked up */
    /* These may become others. */
    _Atomic int64_t rare,
        add;              /* a look where few are made; besides, of a buffer that is not known */
    _Atomic int64_t keep; /* of looks, before gains are for registrations */
    _Atomic int64_t price[FREQ_CLASSES]; /* of R */
    _Atomic int32_t earns[FREQ_CLASSES]; /* for each account */
    _Atomic int32_t gains[FREQ_CLASSES]; /* what is counted of it */
} freq_budget_t;

/* permille: the share, 0 to 1000. */
void freq_budget_make(freq_budget_t *budget, const freq_costs_t *costs, uint32_t permille);

/* The costs are others, but for `look` and `gate`. What is in the accounts stays, and so does the most there may be. */
void freq_budget_again(freq_budget_t *budget, const freq_costs_t *costs, uint32_t permille);

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
    const uint32_t young = atomic_load_explicit(&budget->young, memory_order_relaxed);
    const uint32_t more = messages < young ? messages : young;
    const int64_t earned = ((int64_t) messages + (FREQ_BUDGET_YOUNG_TIMES - 1) * (int64_t) more)
                           * atomic_load_explicit(&budget->earns[class], memory_order_relaxed);
    atomic_store_explicit(&budget->young, young - more, memory_order_relaxed);
    /* Half each; all for registrations where there is plenty for looks. */
    const bool is_plenty =
        freq_budget_in(&budget->looks) > FREQ_BUDGET_PLENTY * freq_budget_in(&budget->keep);
    _Atomic int64_t *other = is_plenty ? &budget->saved : &budget->looks;
    freq_budget_set(budget, &budget->saved, freq_budget_in(&budget->saved) + earned);
    freq_budget_set(budget, other, freq_budget_in(other) + earned);
}

static inline int64_t freq_budget_price(const freq_budget_t *budget, bool is_rare)
{
    return is_rare ? freq_budget_in(&budget->rare) : budget->look;
}

/* Negative: something comes back. */
static inline void freq_budget_spend(freq_budget_t *budget, int64_t price)
{
    freq_budget_set(budget, &budget->looks, freq_budget_in(&budget->looks) - price);
    atomic_store_explicit(&budget->spent, freq_budget_in(&budget->spent) + price,
                          memory_order_relaxed);
}

/* Is there nothing left for looks? */
static inline bool freq_budget_is_out(const freq_budget_t *budget)
{
    return freq_budget_in(&budget->looks) < 0;
}

/* A look. */
static inline void freq_budget_look(freq_budget_t *budget, bool is_rare)
{
    freq_budget_spend(budget, freq_budget_price(budget, is_rare));
}

/* It was of a buffer that the table did not know. */
static inline void freq_budget_added(freq_budget_t *budget)
{
    freq_budget_spend(budget, freq_budget_in(&budget->add));
}

/* So many messages could have been looked up. */
static inline void freq_budget_watched(freq_budget_t *budget, uint64_t messages)
{
    freq_budget_set(budget, &budget->looks,
                    freq_budget_in(&budget->looks) - (int64_t) messages * budget->gate);
}

/* Can twice as much be spent on looks as since the last time it was asked? Not while what is found could not be
 * registered: looks at frequent buffers that are copied all the same would eat what the others gain. */
bool freq_budget_is_rich(freq_budget_t *budget, uint32_t class);

/* Messages of the class that earn what looking anew takes. */
uint64_t freq_budget_rest(const freq_budget_t *budget, uint32_t class);

static inline int64_t freq_budget_price_of(const freq_budget_t *budget, uint32_t class)
{
    return atomic_load_explicit((_Atomic int64_t *) &budget->price[class], memory_order_relaxed);
}

/* It was left in place. The look is paid back: it is a part of V, but for what it takes more where few are made. */
static inline void freq_budget_gain(freq_budget_t *budget, uint32_t class, bool was_rare)
{
    const int64_t paid = freq_budget_price(budget, was_rare);
    const int64_t gained =
        atomic_load_explicit(&budget->gains[class], memory_order_relaxed) - (paid - budget->look);
    freq_budget_spend(budget, -paid);
    const bool is_for_looks =
        freq_budget_in(&budget->looks) < freq_budget_in(&budget->keep)
        || freq_budget_in(&budget->saved) > FREQ_BUDGET_AHEAD * freq_budget_price_of(budget, class);
    _Atomic int64_t *account = is_for_looks ? &budget->looks : &budget->saved;
    freq_budget_set(budget, account, freq_budget_in(account) + gained);
}

/* May a buffer be registered? That is paid. */
static inline bool freq_budget_pay(freq_budget_t *budget, uint32_t class)
{
    const int64_t saved = freq_budget_in(&budget->saved),
                  price = freq_budget_price_of(budget, class);
    if (saved < price) {
        return false;
    }
    freq_budget_set(budget, &budget->saved, saved - price);
    return true;
}

/* It took so long, and that is what is paid: at most FREQ_BUDGET_DEAREST times the price. What took longer was something
 * else at the same time. */
void freq_budget_took(freq_budget_t *budget, uint32_t class, double ns);

#endif
