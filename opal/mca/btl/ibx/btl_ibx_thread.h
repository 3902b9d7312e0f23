/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The software adapter: a thread that moves datagrams while the application computes.
 *
 * It receives, acknowledges, sends again and serves RDMA; completions stay in the engine until
 * progress gives them to the PML, so no callback ever runs in this thread. It sleeps in the kernel
 * while there is nothing to do, and keeps away while progress is called often anyway. */
#ifndef BTL_IBX_THREAD_H
#define BTL_IBX_THREAD_H

#include "btl_ibx.h"

typedef enum { MCA_BTL_IBX_ASYNC_OFF, MCA_BTL_IBX_ASYNC_ON, MCA_BTL_IBX_ASYNC_AUTO } mca_btl_ibx_async_t;

/* Is there a processor to spare for each process of this host? (async = auto) */
bool mca_btl_ibx_thread_pays(void);

/* 0, or an Open MPI error. */
int mca_btl_ibx_thread_start(void);
void mca_btl_ibx_thread_stop(void);

#endif
