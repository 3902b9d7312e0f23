/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Which helper thread (iw_agent.h) moves data while the application computes, and on which processor it runs. */
#ifndef BTL_IBX_UDP_AGENT_H
#define BTL_IBX_UDP_AGENT_H

#include <stdbool.h>
#include <stddef.h>

typedef enum mca_btl_ibx_async {
    MCA_BTL_IBX_ASYNC_OFF,
    MCA_BTL_IBX_ASYNC_ON,
    MCA_BTL_IBX_ASYNC_AUTO,
    MCA_BTL_IBX_ASYNC_BACKUP,
} mca_btl_ibx_async_t;

/* What auto means here (told at verbose level 10, with the reason): ON if the processors that this process may use, shared fairly among the
 * processes of the host, leave one for the agent; else BACKUP. Others stay as they are. */
mca_btl_ibx_async_t mca_btl_ibx_udp_agent_choose(mca_btl_ibx_async_t wanted);

/* The thread binds itself to the processors that were found for it, if there are any: when it begins, and when it got others. */
void mca_btl_ibx_udp_agent_bind(void *context);

/* Was one found? */
bool mca_btl_ibx_udp_agent_has_processor(void);

struct mca_btl_ibx_udp_module;

/* The thread gets processors of its own, of a cpu_set_t of so many bytes, and is ON from now on. The module's lock is held. */
void mca_btl_ibx_udp_agent_settle(struct mca_btl_ibx_udp_module *module, const void *processors, size_t size);

/* There is a peer to serve: the thread begins, if there is to be one and it has not yet. The module's lock is held. Without
 * resources for a thread, which is told once, the application moves the data. */
void mca_btl_ibx_udp_agent_start(struct mca_btl_ibx_udp_module *module);

/* The PML asks for a process: from now on all threads are ended when MPI ends, before PMIx does, which they ask for processes
 * that speak first. lock is not held. */
void mca_btl_ibx_udp_agent_end_in_time(void);

#endif
