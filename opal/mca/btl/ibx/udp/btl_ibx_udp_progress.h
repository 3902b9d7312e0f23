/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Progress: moves datagrams, and gives completions to the PML. */
#ifndef BTL_IBX_PROGRESS_H
#define BTL_IBX_PROGRESS_H

#include "btl_ibx.h"

/* Of all modules; called by opal_progress. Returns how much happened. */
int mca_btl_ibx_progress(void);

#endif
