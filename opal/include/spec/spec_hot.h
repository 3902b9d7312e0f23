/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What each small message runs through, and what only the first one of a pair does, stands together in the component, so that the
 * first touches few pages: where page tables are shadowed, as in some virtual machines, each costs microseconds (test/bench: parity,
 * row first). */
#ifndef SPEC_HOT_H
#define SPEC_HOT_H

#define SPEC_HOT __attribute__((hot))

#endif
