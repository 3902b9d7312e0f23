/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The UDP transport of the BTL, datagram iWARP over sockets: what the component needs of it. The protocol is in iwarp/ (no
 * Open MPI in it); this folder binds it to Open MPI. */
#ifndef BTL_IBX_UDP_H
#define BTL_IBX_UDP_H

#include "btl_ibx.h"
#include "btl_ibx_net.h"

struct pollfd;

/* The standard parameters of a BTL, before they are registered. */
void mca_btl_ibx_udp_defaults(mca_btl_base_module_t *standard);

/* Modules for these interfaces, into modules. Returns how many; each that is not possible is told. */
int mca_btl_ibx_udp_open(const mca_btl_base_module_t *standard, const mca_btl_ibx_interface_t *interface, int n,
                         mca_btl_base_module_t **modules);

/* What is published of them. */
void mca_btl_ibx_udp_offer(mca_btl_ibx_modex_t *modex);

/* Of all modules; called by opal_progress. Returns how much happened. */
int mca_btl_ibx_udp_progress(void);

/* The sockets that what comes makes readable. Returns how many, at most MCA_BTL_IBX_INTERFACES. */
int mca_btl_ibx_udp_sockets(struct pollfd *fd);

/* What is counted, of all modules together (btl_ibx_stats.h): once, with the parameters; and at the end, if
 * btl_ibx_summary is set. */
void mca_btl_ibx_udp_stats_register(void);
void mca_btl_ibx_udp_stats_print(void);

/* The program ends, and the modules were not finalized: goodbyes to the peers, and nothing of Open MPI is called. */
void mca_btl_ibx_udp_leave(void);

#endif
