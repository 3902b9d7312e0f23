/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The table of all counters of the engine: name, meaning, offset. */
#include "iw_counters.h"

const iw_counter_info_t iw_counter_table[] = {
#define IW_X(name, meaning) {#name, meaning, offsetof(iw_counters_t, name)},
    IW_COUNTERS(IW_X)
#undef IW_X
        {NULL, NULL, 0},
};
