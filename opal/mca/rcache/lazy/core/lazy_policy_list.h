/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* All policies, each as POLICY(name) with its descriptor lazy_policy_NAME in lazy_policy_NAME.c. The
 * first is the default. */
POLICY(lru)
POLICY(lfu)
POLICY(best_fit)
POLICY(random)
POLICY(immediate)
