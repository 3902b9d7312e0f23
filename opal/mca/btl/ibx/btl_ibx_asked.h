/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Whether this job wants btl/ibx: to be installed changes nothing for jobs that do not ask for it. */
#ifndef BTL_IBX_ASKED_H
#define BTL_IBX_ASKED_H

#include <stdbool.h>

/* True: the parameter btl names ibx, or pml names spec, or btl_ibx_always is set. Reads the parameters as they were given,
 * so that the answer does not depend on which PML is chosen in the end. Called once, from btl_init. */
bool mca_btl_ibx_asked(void);

#endif
