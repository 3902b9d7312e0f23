/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See lazy_policy.h. */
#include "lazy_policy.h"

#include <string.h>

#define POLICY(name) extern const lazy_policy_t lazy_policy_##name;
#include "lazy_policy_list.h"
#undef POLICY

static const lazy_policy_t *const all[] = {
#define POLICY(name) &lazy_policy_##name,
#include "lazy_policy_list.h"
#undef POLICY
};

const lazy_policy_t *lazy_policy_at(unsigned i)
{
    return i < sizeof(all) / sizeof(*all) ? all[i] : NULL;
}

const lazy_policy_t *lazy_policy_find(const char *name)
{
    for (unsigned i = 0; i < sizeof(all) / sizeof(*all); ++i) {
        if (0 == strcmp(all[i]->name, name)) {
            return all[i];
        }
    }
    return NULL;
}
