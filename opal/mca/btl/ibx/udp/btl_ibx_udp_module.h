/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The UDP transport's modules: one network interface each, with a socket (iw_port.h) and a protocol engine (iw_engine.h), and
 * what the files of this folder share.
 *
 * A message is an 8-byte header (which callback it is for) and what the PML gave. Large data goes by RDMA Write and Read and
 * never through fragments.
 *
 * Threads: the lock of a module covers its engine, lists and endpoints: the agent's (iw_agent.h), if the module has one; else
 * its own, taken only with MPI_THREAD_MULTIPLE. No callback is called in the agent's thread: completions wait in the engine for
 * progress. */
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
    iw_reach_host_t *host;    /* what is known of that host; NULL: not looked up yet */
} mca_btl_ibx_udp_endpoint_t;
OBJ_CLASS_DECLARATION(mca_btl_ibx_udp_endpoint_t);

typedef struct mca_btl_ibx_udp_key {
    opal_free_list_item_t super;
    struct mca_btl_base_registration_handle_t handle;
} mca_btl_ibx_udp_key_t;
OBJ_CLASS_DECLARATION(mca_btl_ibx_udp_key_t);

/* iw_reach_partner has no more. */
#define MCA_BTL_IBX_UDP_EARLY 64

struct mca_btl_ibx_udp_module {
    mca_btl_ibx_module_t base;
    opal_mutex_t lock;
    iw_port_t *port;
    iw_engine_t *engine;
    iw_agent_t *agent; /* NULL: only progress moves data. Its thread begins with the first peer */
    bool is_alone;     /* there was none to be had, and that was told */
    iw_key_t key;
    mca_btl_ibx_udp_buffers_t frags;   /* with room for btl_max_send_size bytes */
    mca_btl_ibx_udp_buffers_t smalls;  /* with room for MCA_BTL_IBX_UDP_SMALL_ROOM */
    mca_btl_ibx_udp_buffers_t headers; /* with room for MCA_BTL_IBX_UDP_HEADER_ROOM */
    opal_free_list_t keys;
    size_t ahead; /* bytes of fragments that are complete for the PML and not acknowledged */
    opal_list_t gathered;      /* fragments that wait for others, posted; their senders are told */
    opal_list_t waiting_frags; /* the engine had no room; in their order */
    opal_list_t waiting_jobs;
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
    bool has_begun; /* the first module: these were */
};

extern uint32_t mca_btl_ibx_udp_modules_n;
extern mca_btl_ibx_udp_module_t *mca_btl_ibx_udp_modules[MCA_BTL_IBX_INTERFACES];

static inline mca_btl_ibx_udp_module_t *mca_btl_ibx_udp_of(mca_btl_ibx_module_t *module)
{
    return (mca_btl_ibx_udp_module_t *) module;
}

static inline void mca_btl_ibx_udp_lock(mca_btl_ibx_udp_module_t *module)
{
    if (NULL != module->agent) {
        iw_agent_lock(module->agent);
    } else if (mca_btl_ibx_component.locked) {
        opal_mutex_lock(&module->lock);
    }
}

/* For progress: false if another thread has the lock, which is never for long. */
static inline bool mca_btl_ibx_udp_enter(mca_btl_ibx_udp_module_t *module)
{
    return NULL != module->agent ? iw_agent_enter(module->agent)
                                 : !mca_btl_ibx_component.locked || 0 == opal_mutex_trylock(&module->lock);
}

static inline void mca_btl_ibx_udp_unlock(mca_btl_ibx_udp_module_t *module)
{
    if (NULL != module->agent) {
        iw_agent_unlock(module->agent);
    } else if (mca_btl_ibx_component.locked) {
        opal_mutex_unlock(&module->lock);
    }
}

/* Transfers of this size last long enough for the application to be gone before they end. */
#define MCA_BTL_IBX_UDP_BULK ((size_t) 32768)

/* A large transfer begins, here or by a peer. */
static inline void mca_btl_ibx_udp_expect_bulk(mca_btl_ibx_udp_module_t *module)
{
    if (NULL != module->agent) {
        iw_agent_expect_bulk(module->agent);
    }
}

/* Send what was posted, now. The lock is held. */
static inline void mca_btl_ibx_udp_flush(mca_btl_ibx_udp_module_t *module)
{
    if (NULL != module->agent) {
        iw_agent_flush(module->agent);
    } else {
        iw_port_flush(module->port, module->engine);
    }
}

/* What was posted may wait for the next flush, or poll. The lock is held. */
static inline void mca_btl_ibx_udp_gather(mca_btl_ibx_udp_module_t *module)
{
    if (NULL != module->agent) {
        iw_agent_gather(module->agent);
    } else {
        iw_port_gather(module->port);
    }
}

/* What a request that ended like this (not IW_OK, not IW_AGAIN) is for the PML. */
static inline int mca_btl_ibx_udp_error(iw_status_t status)
{
    return IW_DEAD == status || IW_CLOSED == status || IW_RESTARTED == status || IW_FLUSHED == status
               ? OPAL_ERR_UNREACH
               : OPAL_ERROR;
}

#endif
