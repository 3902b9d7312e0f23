/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
#include "freq_budget.h"

#include "freq_gate.h"

#include <string.h>

/* At least one unit where there is anything: an account that nothing comes into would be closed for
 * good. */
static int32_t units(double ns)
{
    const double u = ns * FREQ_BUDGET_UNIT;
    return !(u > 0) ? 0 : u < 1 ? 1 : u > INT32_MAX ? INT32_MAX : (int32_t) u;
}

static void set(_Atomic int64_t *price, int64_t value)
{
    atomic_store_explicit(price, value, memory_order_relaxed);
}

void freq_budget_again(freq_budget_t *budget, const freq_costs_t *costs, uint32_t permille)
{
    const int64_t rare = units(costs->rare > costs->look ? costs->rare : costs->look);
    const int64_t add = units(costs->add - costs->rare);
    set(&budget->rare, rare);
    set(&budget->add, add);
    set(&budget->keep, FREQ_BUDGET_KEEP * (rare + add) + 2 * FREQ_SETTLE * budget->gate);
    for (uint32_t class = 0; class < FREQ_CLASSES; ++class) {
        const size_t size = freq_class_size(class);
        const double c = freq_cost_at(costs->c, size), r = freq_cost_at(costs->r, size);
        set(&budget->price[class], (int64_t) (r * FREQ_BUDGET_UNIT));
        atomic_store_explicit(&budget->earns[class], units(c * permille / 1000 / 2),
                              memory_order_relaxed);
        atomic_store_explicit(&budget->gains[class],
                              units(freq_gain_at(costs, size) * FREQ_BUDGET_COUNTED / 100),
                              memory_order_relaxed);
    }
}

void freq_budget_make(freq_budget_t *budget, const freq_costs_t *costs, uint32_t permille)
{
    memset(budget, 0, sizeof(*budget));
    budget->look = units(costs->look);
    budget->gate = units(costs->gate);
    freq_budget_again(budget, costs, permille);
    for (uint32_t class = 0; class < FREQ_CLASSES; ++class) {
        if (budget->most < FREQ_BUDGET_REGISTRATIONS * freq_budget_price_of(budget, class)) {
            budget->most = FREQ_BUDGET_REGISTRATIONS * freq_budget_price_of(budget, class);
        }
    }
    budget->saved =
        FREQ_BUDGET_START * freq_budget_price_of(budget, freq_class_of(FREQ_BUDGET_START_SIZE));
    budget->young = FREQ_BUDGET_YOUNG;
    budget->looks = FREQ_BUDGET_START_LOOKS * freq_budget_in(&budget->rare)
                    + FREQ_BUDGET_START_WATCHED * budget->gate;
}

void freq_budget_took(freq_budget_t *budget, uint32_t class, double ns)
{
    const double price = (double) freq_budget_price_of(budget, class);
    const double took = ns * FREQ_BUDGET_UNIT, most = FREQ_BUDGET_DEAREST * price;
    freq_budget_set(budget, &budget->saved,
                    freq_budget_in(&budget->saved)
                        + (int64_t) (price - (took < most ? took : most)));
}

bool freq_budget_is_rich(freq_budget_t *budget, uint32_t class)
{
    const int64_t spent = atomic_exchange_explicit(&budget->spent, 0, memory_order_relaxed);
    /* What the first messages earn more is for finding out of the buffers that are looked at, not for more of them. */
    const bool is_young = 0 != atomic_load_explicit(&budget->young, memory_order_relaxed);
    return (!is_young || spent <= 0)
           && freq_budget_in(&budget->saved)
                  >= FREQ_BUDGET_AHEAD * freq_budget_price_of(budget, class)
           && freq_budget_in(&budget->looks) >= 2 * FREQ_BUDGET_RICH * (spent > 0 ? spent : 0);
}

uint64_t freq_budget_rest(const freq_budget_t *budget, uint32_t class)
{
    const int64_t want =
        FREQ_BUDGET_AGAIN * (freq_budget_in(&budget->rare) + freq_budget_in(&budget->add))
        + FREQ_SETTLE * budget->gate - freq_budget_in(&budget->looks);
    const int64_t earns =
        atomic_load_explicit((_Atomic int32_t *) &budget->earns[class], memory_order_relaxed);
    const int64_t messages = earns > 0 ? want / earns : FREQ_BUDGET_REST_MAX;
    return messages < FREQ_SETTLE            ? FREQ_SETTLE
           : messages > FREQ_BUDGET_REST_MAX ? FREQ_BUDGET_REST_MAX
                                             : (uint64_t) messages;
}
