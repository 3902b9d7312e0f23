/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What is counted, for people and tools: MPI_T performance variables btl_ibx_<name>, and a table at the
 * end (btl_ibx_summary). Values are those of this process, all modules together, since it began; what
 * is a level and not a count (window, bytes held, peers) is of now, and in the table of the end. */
#ifndef BTL_IBX_UDP_STATS_H
#define BTL_IBX_UDP_STATS_H

#include "udp/btl_ibx_udp_module.h"

/* Once, when the component registers its parameters. */
void mca_btl_ibx_udp_stats_register(void);

/* A module is about to be freed: its counts stay. */
void mca_btl_ibx_udp_stats_keep(mca_btl_ibx_udp_module_t *module);

/* What was kept, to the standard error, if btl_ibx_summary is set. */
void mca_btl_ibx_udp_stats_print(void);

#endif
