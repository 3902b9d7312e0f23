/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The UDP transport's modules: one network interface each, with a socket (iw_port.h) and a protocol engine (iw_engine.h), and
 * what the files of this folder share.
 *
 * A message is an 8-byte header (which callback it is for) and what the PML gave. Large data goes by RDMA Write and Read and
 * never through fragments.
 *
 * Threads: the lock of a module, which is the agent's (iw_agent.h), covers its engine, lists and endpoints. No callback
 * is called in the agent's thread: completions wait in the engine for progress. */
#ifndef BTL_IBX_UDP_MODULE_H
#define BTL_IBX_UDP_MODULE_H

#include "btl_ibx_module.h"
#include "iwarp/iw_agent.h"
#include "iwarp/iw_cma.h"
#include "iwarp/iw_engine.h"
#include "iwarp/iw_port.h"
#include "iwarp/iw_reach.h"
#include "udp/btl_ibx_udp_buffers.h"
#include "window/ibx_window.h"

typedef struct mca_btl_ibx_udp_module mca_btl_ibx_udp_module_t;

typedef struct mca_btl_ibx_udp_endpoint {
    mca_btl_base_endpoint_t base;
    iw_address_t address;
    iw_key_t key;
    iw_peer_t *peer; /* NULL before the first word */
    iw_cma_t memory; /* of the process, if it is of this host */
    bool is_remote;           /* on another host */
    iw_reach_verdict_t reach; /* if so: whether it is reached */
    /* The next two belong to the one thread that gives datagrams to other transports. */
    const mca_btl_base_module_t *carrier; /* the transport that carried last; NULL: none yet */
    bool is_told;                         /* that another transport carries */
    uint8_t pair;             /* its module that is reached */
    iw_reach_host_t *host;    /* what is known of that host; NULL: not looked up yet */
} mca_btl_ibx_udp_endpoint_t;
OBJ_CLASS_DECLARATION(mca_btl_ibx_udp_endpoint_t);

/* Beside those of btl_ibx_module.h. */
enum { MCA_BTL_IBX_UDP_ATOMIC = MCA_BTL_IBX_JOB_TYPES };

typedef struct mca_btl_ibx_udp_job {
    mca_btl_ibx_job_t base;
    uint64_t operand, compare; /* these of an atomic operation */
    uint8_t op;                /* iw_atomic_op_t */
} mca_btl_ibx_udp_job_t;
OBJ_CLASS_DECLARATION(mca_btl_ibx_udp_job_t);

/* iw_reach_partner has no more. */
#define MCA_BTL_IBX_UDP_EARLY 64

struct mca_btl_ibx_udp_module {
    mca_btl_ibx_module_t base;
    iw_port_t *port;
    iw_engine_t *engine;
    iw_agent_t *agent; /* with the lock; its thread begins with the first peer */
    void (*arrived)(void); /* what the PML wants to be called; NULL: nothing. Under the lock */
    bool has_no_thread; /* only progress moves data: btl_ibx_iwarp_async is off */
    bool is_alone;      /* or there was none to be had, and that was told */
    iw_key_t key;
    mca_btl_ibx_udp_buffers_t frags;   /* with room for btl_max_send_size bytes */
    mca_btl_ibx_udp_buffers_t smalls;  /* with room for MCA_BTL_IBX_UDP_SMALL_ROOM */
    mca_btl_ibx_udp_buffers_t headers; /* with room for MCA_BTL_IBX_UDP_HEADER_ROOM */
    size_t ahead; /* bytes of fragments that are complete for the PML and not acknowledged */
    opal_list_t gathered;      /* fragments that wait for others, posted; their senders are told */
    opal_list_t waiting; /* fragments and jobs: the engine had no room; in their order */
    ibx_window_t window;
    struct mca_btl_ibx_udp_receive *receives; /* all receive buffers */
    uint64_t checked_at; /* when it was last checked for memory to give back */
    uint64_t came;       /* messages since then */
    bool is_used;        /* messages came or went since memory was given back last */
    uint64_t given_back; /* how often it was */
    atomic_uint_least64_t single_copies;
    opal_hash_table_t hosts; /* iw_reach_host_t, by address without a port */
    iw_reach_net_t net;
    mca_btl_ibx_udp_endpoint_t *early[MCA_BTL_IBX_UDP_EARLY]; /* asked before anybody wants to know */
    uint32_t early_n;
    struct { /* datagrams that wait for another transport */
        struct mca_btl_ibx_udp_carried *first, *last;
        atomic_size_t bytes;
    } failover;
    bool has_begun; /* the first module: these were */
};

/* btl_ibx_udp_progress.c */
extern const mca_btl_ibx_transport_t mca_btl_ibx_udp_transport;

extern uint32_t mca_btl_ibx_udp_modules_n;
extern mca_btl_ibx_udp_module_t *mca_btl_ibx_udp_modules[MCA_BTL_IBX_INTERFACES];

static inline mca_btl_ibx_udp_module_t *mca_btl_ibx_udp_of(mca_btl_ibx_module_t *module)
{
    return (mca_btl_ibx_udp_module_t *) module;
}

static inline void mca_btl_ibx_udp_lock(mca_btl_ibx_udp_module_t *module)
{
    iw_agent_lock(module->agent);
}

/* ---- btl_ibx_udp_failover.c: datagrams that the network does not carry go by another transport ---- */

/* BTLs that carry no messages to another host, or are this one. */
#define MCA_BTL_IBX_UDP_NEAR "self,sm,vader,smcuda,ibx"

/* Datagrams are taken from other transports while there is a module. Before this process publishes itself: another one may be
 * further, and Open MPI's tcp calls what is registered for a message whether anything is or not. */
void mca_btl_ibx_udp_failover_listen(void);
/* Other transports are known from now on. Before the first endpoint is given to the PML; lock is not held. */
void mca_btl_ibx_udp_failover_open(void);
/* A module ends: what waits there is dropped; with the last one nothing is taken from other transports any more. */
void mca_btl_ibx_udp_failover_close(mca_btl_ibx_udp_module_t *module);
/* A peer was made for an endpoint: tells the engine whether there is an alternate path. lock is held. */
void mca_btl_ibx_udp_failover_offer(mca_btl_ibx_udp_endpoint_t *endpoint);
/* The PML has left a process: what carried its datagrams is left, too. The transport's `parted`. */
void mca_btl_ibx_udp_failover_part(mca_btl_base_endpoint_t *endpoint);
/* Gives datagrams that wait to their transports. lock is not held; not in the agent's thread. */
void mca_btl_ibx_udp_failover_give(mca_btl_ibx_udp_module_t *module);

static inline void mca_btl_ibx_udp_failover_check(mca_btl_ibx_udp_module_t *module)
{
    if (OPAL_UNLIKELY(0 != atomic_load_explicit(&module->failover.bytes, memory_order_relaxed))) {
        mca_btl_ibx_udp_failover_give(module);
    }
}

static inline void mca_btl_ibx_udp_unlock(mca_btl_ibx_udp_module_t *module)
{
    iw_agent_unlock(module->agent);
}

/* The same for a caller of the BTL that has sent, or progress: it may not call again for long, and the agent's thread must not
 * call other BTLs. */
static inline void mca_btl_ibx_udp_unlock_sent(mca_btl_ibx_udp_module_t *module)
{
    iw_agent_unlock(module->agent);
    mca_btl_ibx_udp_failover_check(module);
}

/* Transfers of this size last long enough for the application to be gone before they end. */
#define MCA_BTL_IBX_UDP_BULK ((size_t) 32768)

/* What a request that was posted, or ended, like this is for the PML. */
static inline int mca_btl_ibx_udp_rc(iw_status_t status)
{
    return OPAL_LIKELY(IW_OK == status) ? OPAL_SUCCESS
           : IW_AGAIN == status         ? OPAL_ERR_RESOURCE_BUSY
           : IW_DEAD == status || IW_CLOSED == status || IW_RESTARTED == status || IW_FLUSHED == status
               ? OPAL_ERR_UNREACH
               : OPAL_ERROR;
}

/* ---- btl_ibx_udp_rdma.c: registered memory, put, get and atomic operations ---- */

/* Give the module the cache that btl_ibx_rcache names. Without one (none is wanted, or to be had:
 * told) module->base.rcache stays NULL, and each use of memory is registered by itself. */
void mca_btl_ibx_udp_rcache_open(mca_btl_ibx_udp_module_t *module);
MCA_BTL_IBX_DECLARE(register_mem, mca_btl_ibx_udp_register_mem);
MCA_BTL_IBX_DECLARE(deregister_mem, mca_btl_ibx_udp_deregister_mem);

/* The transport's `job_starts`, `job_issue` and `atomic_starts` (btl_ibx_module.h). */
int mca_btl_ibx_udp_job_starts(mca_btl_ibx_module_t *module, mca_btl_ibx_job_t *job,
                               const mca_btl_base_registration_handle_t *remote_handle, int order);
bool mca_btl_ibx_udp_job_issue(mca_btl_ibx_job_t *job);
int mca_btl_ibx_udp_atomic_starts(mca_btl_ibx_module_t *module, mca_btl_ibx_job_t *job,
                                  const struct mca_btl_ibx_atomic_ask *ask,
                                  const mca_btl_base_registration_handle_t *remote_handle, int order);

/* ---- btl_ibx_udp_reach.c: which processes of other hosts are reached ---- */

/* Decides for all of these processes, and all modules (iw_reach.h): the endpoints of those that a module does not reach are
 * refused (is_refused), and nothing more is taken from them. The first process of two hosts that comes to it says so. The first
 * call, in MPI_Init, begins to ask others, too, which need not be waited for then. Where no other transport could take them
 * nothing is decided. Sends and receives, but tells the PML nothing, since callers may be inside of its callbacks. lock is not
 * held. */
void mca_btl_ibx_udp_reach(size_t n, opal_proc_t **procs);

/* A process that no other transport could take has been silent for so long, or is given up for it. If it is on another host and
 * has never answered that is told, once for an interface and a host, and true is returned: mostly a firewall drops datagrams. Not
 * for processes of other jobs. lock is not held. */
bool mca_btl_ibx_udp_no_answer(const mca_btl_base_endpoint_t *endpoint, uint32_t seconds);

/* The beginning and the end of what a module knows of hosts. */
void mca_btl_ibx_udp_reach_open(mca_btl_ibx_udp_module_t *module);
void mca_btl_ibx_udp_reach_close(mca_btl_ibx_udp_module_t *module);

/* ---- btl_ibx_udp_stats.c ---- */

/* A module is about to be freed: its counts stay. */
void mca_btl_ibx_udp_stats_keep(mca_btl_ibx_udp_module_t *module);

#endif
