/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
#include "freq_budget.h"

#include <string.h>

/* At least one unit where there is anything: an account that nothing comes into would be closed for
 * good. */
static int32_t units(double ns)
{
    const double u = ns * FREQ_BUDGET_UNIT;
    return !(u > 0) ? 0 : u < 1 ? 1 : u > INT32_MAX ? INT32_MAX : (int32_t) u;
}

void freq_budget_make(freq_budget_t *budget, const freq_costs_t *costs, uint32_t permille)
{
    memset(budget, 0, sizeof(*budget));
    budget->look = units(costs->look);
    budget->add = units(costs->add - costs->look);
    for (uint32_t class = 0; class < FREQ_CLASSES; ++class) {
        const size_t size = freq_class_size(class);
        const double c = freq_cost_at(costs->c, size), r = freq_cost_at(costs->r, size);
        budget->earns[class] = units(c * permille / 1000 / 2);
        budget->gains[class] = units(freq_gain_at(costs, size) / 8);
        budget->price[class] = (int64_t) (r * FREQ_BUDGET_UNIT);
        if (budget->most < FREQ_BUDGET_REGISTRATIONS * budget->price[class]) {
            budget->most = FREQ_BUDGET_REGISTRATIONS * budget->price[class];
        }
    }
    budget->saved = FREQ_BUDGET_START * budget->price[freq_class_of(FREQ_BUDGET_START_SIZE)];
    budget->looks = FREQ_BUDGET_START_LOOKS * (budget->look + budget->add);
}
