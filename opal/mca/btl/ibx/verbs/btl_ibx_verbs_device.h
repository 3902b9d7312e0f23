/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Memory of an accelerator (GPU) that an adapter reads and writes by itself (docs/design/verbs.md, Memory of accelerators).
 *
 * Open MPI's accelerator framework gives out no dma-bufs; so the accelerator's own library is asked, which its component has
 * loaded. */
#ifndef BTL_IBX_VERBS_DEVICE_H
#define BTL_IBX_VERBS_DEVICE_H

#include "verbs/btl_ibx_verbs_module.h"
#include "verbs/vb_dmabuf.h"

/* The module's port is open: can it have device memory? Then it says so in its flags. */
void mca_btl_ibx_verbs_device_open(mca_btl_ibx_verbs_module_t *module);

#endif
