/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Which processes of other hosts are reached over UDP, so that another transport takes those that are not. */
#ifndef BTL_IBX_UDP_REACH_H
#define BTL_IBX_UDP_REACH_H

#include "udp/btl_ibx_udp_module.h"

/* Decides for all of these processes, and all modules (iw_reach.h): the endpoints of those that a module does not reach are
 * refused (is_refused), and nothing more is taken from them. The first process of two hosts that comes to it says so. The first
 * call, in MPI_Init, begins to ask others, too, which need not be waited for then. Where no other transport could take them
 * nothing is decided. Sends and receives, but tells the PML nothing, since callers may be inside of its callbacks. lock is not
 * held. */
void mca_btl_ibx_udp_reach(size_t n, opal_proc_t **procs);

/* The beginning and the end of what a module knows of hosts. */
void mca_btl_ibx_udp_reach_open(mca_btl_ibx_udp_module_t *module);
void mca_btl_ibx_udp_reach_close(mca_btl_ibx_udp_module_t *module);

#endif
