/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The verbs transport's modules, one for each port of an RDMA adapter, and what the files that bind it to Open MPI share.
 *
 * Words are those of btl_ibx_module.h (module, endpoint, fragment, job) and vb_port.h (port, peer).
 *
 * Threads: the port's lock (vb_port_lock) covers module, endpoints and lists. Callbacks of the port come
 * with it held, perhaps in the port's thread: they put what ended on a list, and progress tells the
 * PML without the lock.
 *
 * Order: everything for one endpoint takes one queue pair, and what has to wait does so in one queue. Where there are large
 * transfers there are two of each (vb_bulk.h, docs/design/verbs.md). */
#ifndef BTL_IBX_VERBS_MODULE_H
#define BTL_IBX_VERBS_MODULE_H

#include "btl_ibx_fragment.h"
#include "btl_ibx_module.h"

#include "opal/runtime/opal_params.h"
#include "verbs/vb_bulk.h"
#include "verbs/vb_dgram.h"
#include "verbs/vb_dmabuf.h"
#include "verbs/vb_map.h"
#include "verbs/vb_port.h"

#include <stdatomic.h>

/* ---- what is published: follows the iWARP part (mca_btl_ibx_modex_t) ---- */

#define MCA_BTL_IBX_VERBS_MODEX_VERSION 4

typedef struct mca_btl_ibx_verbs_offer {
    mca_btl_ibx_offer_t ip; /* address (family 0: none), port; the first 8 bytes of key */
    uint8_t fabric;         /* vb_fabric_t: only alike ones talk */
    uint8_t by_datagrams;   /* 1: whoever connects does so by datagrams */
    /* Where it takes datagrams (vb_dgram_address_t), in network byte order: messages, and requests to connect. */
    iw_be16_t lid;
    iw_be32_t number; /* messages; 0: nowhere */
    iw_be32_t qkey;   /* of both */
    iw_be32_t mailbox; /* requests; 0: nowhere */
    uint8_t gid[16];
    uint8_t datagram_key[16];
    uint8_t atomics; /* vb_atomics_t: in which way the process's memory is reached by atomic operations */
    uint8_t reserved[3];
} mca_btl_ibx_verbs_offer_t;
_Static_assert(sizeof(mca_btl_ibx_verbs_offer_t) == 92, "an offer has no holes");

typedef struct mca_btl_ibx_verbs_modex {
    uint8_t version;
    uint8_t count;
    uint8_t reserved[6];
    mca_btl_ibx_verbs_offer_t offer[MCA_BTL_IBX_INTERFACES];
} mca_btl_ibx_verbs_modex_t;

/* ---- parameters ---- */

typedef struct mca_btl_ibx_verbs_params {
    int shared_queue;
    unsigned inline_max, link_window_max;
    unsigned rnr_timer, ack_timeout, retries, resume_timeout_ms, service_level, traffic_class;
    size_t max_send_size; /* btl_ibx_max_send_size is of datagrams */
    char *rc_after;
    unsigned max_rc;
    size_t bulk_min;
    int connect; /* vb_connect_t */
    int dmabuf;  /* VB_OFF, VB_AUTO */
    int relaxed; /* the same */
    int atomics; /* vb_atomics_wish_t */
    bool failover;
} mca_btl_ibx_verbs_params_t;

extern mca_btl_ibx_verbs_params_t mca_btl_ibx_verbs_params;

/* ---- objects ---- */

typedef struct mca_btl_ibx_verbs_module mca_btl_ibx_verbs_module_t;

typedef struct mca_btl_ibx_verbs_endpoint {
    mca_btl_base_endpoint_t base;
    struct sockaddr_in address;
    uint64_t key;
    vb_dgram_address_t mailbox;   /* for requests to connect; number 0: rdma_cm connects */
    vb_dgram_address_t datagrams; /* number 0: by connection only */
    uint8_t datagram_key[16];
    uint8_t pair;        /* its module that is reached */
    vb_peer_t *peer;     /* NULL before the first word */
    opal_list_t pending; /* fragments and jobs that have to wait, in their order */
    /* The second connection, for large transfers. */
    vb_bulk_t bulk;
    vb_peer_t *bulk_peer;     /* NULL before it is wanted */
    opal_list_t bulk_pending; /* likewise */
    atomic_uint transfers;    /* puts and gets under way by the first */
    const char *why;     /* it is lost */
} mca_btl_ibx_verbs_endpoint_t;
OBJ_CLASS_DECLARATION(mca_btl_ibx_verbs_endpoint_t);

/* Registered memory, as the registration cache keeps it. */
typedef struct mca_btl_ibx_verbs_reg {
    mca_btl_ibx_reg_t super;
    struct ibv_mr *mr;
} mca_btl_ibx_verbs_reg_t;

/* While it waits it is in its endpoint's pending list. The buffer (super.base.super.ptr) begins with the header; segments
 * follow. */
typedef struct mca_btl_ibx_verbs_frag {
    mca_btl_ibx_frag_t super;
    mca_btl_ibx_verbs_reg_t *user; /* of the user's memory, or NULL */
    mca_btl_base_tag_t tag;
    bool is_bulk; /* it takes the second connection */
} mca_btl_ibx_verbs_frag_t;
OBJ_CLASS_DECLARATION(mca_btl_ibx_verbs_frag_t);

/* Beside those of btl_ibx_module.h: the adapter's own atomic operations. */
enum { MCA_BTL_IBX_VERBS_ADD = MCA_BTL_IBX_JOB_TYPES, MCA_BTL_IBX_VERBS_SWAP };

typedef struct mca_btl_ibx_verbs_job {
    mca_btl_ibx_job_t base;
    bool is_ordered;
    bool is_inline; /* a put that the work request holds */
    bool is_bulk;   /* it takes the second connection */
    bool is_counted; /* in the endpoint's transfers */
    /* Without a registration of the caller's (btl_ibx_verbs_inplace.h): one of ours, or a buffer in
     * place of `user`. */
    mca_btl_ibx_verbs_reg_t *in_place;
    opal_free_list_item_t *bounce;
    char *user;
    freq_gate_t *gate;  /* where that copy is counted, or NULL */
    uint64_t region;    /* address of the remote memory, and its name, for datagrams */
    uint32_t datagrams;
    uint32_t lkey;
    uint64_t operand, swap;
} mca_btl_ibx_verbs_job_t;
OBJ_CLASS_DECLARATION(mca_btl_ibx_verbs_job_t);

struct mca_btl_ibx_verbs_module {
    mca_btl_ibx_module_t base;
    vb_port_t *port;
    uint64_t key;
    bool is_iwarp;
    uint64_t
        bulk_min; /* bytes of a transfer for which a process gets a second connection; 0: none does */
    const char *atomics_why; /* has_atomics is false for this reason */
    vb_export_t export; /* of memory of the accelerator; NULL: the adapter does not reach it */
    /* Which small buffers are used so often that they stay in place; all NULL: not known. */
    const mca_mpool_freq_service_t *freq;
    mca_mpool_freq_table_t *table;
    mca_mpool_freq_traffic_t *traffic;
    freq_gate_t gate;
    const mca_rcache_lazy_service_t *lazy; /* of rcache, or NULL */
    opal_free_list_t frags;
    uint64_t rnr_before; /* the device's count when this began */
    vb_map_t keys;       /* registrations that others may reach by way of this process, by rkey */
    bool has_lost;
    bool has_lists;
    uint32_t polls;
    uint64_t checked_at; /* the window */
};

extern uint32_t mca_btl_ibx_verbs_modules_n;
extern mca_btl_ibx_verbs_module_t *mca_btl_ibx_verbs_modules[MCA_BTL_IBX_INTERFACES];
static inline mca_btl_ibx_verbs_module_t *mca_btl_ibx_verbs_of(mca_btl_ibx_module_t *module)
{
    return (mca_btl_ibx_verbs_module_t *) module;
}

static inline int mca_btl_ibx_verbs_rc(vb_status_t status)
{
    return OPAL_LIKELY(VB_OK == status)              ? OPAL_SUCCESS
           : VB_LOST == status || VB_ENDED == status ? OPAL_ERR_UNREACH
           : VB_FAULT == status                      ? OPAL_ERR_NOT_AVAILABLE
                                                     : OPAL_ERR_RESOURCE_BUSY;
}

/* ---- btl_ibx_verbs_ports.c ---- */

/* To use a port, as an interface; able: its device and number. */
typedef void (*mca_btl_ibx_verbs_opener_t)(void *context, const mca_btl_ibx_interface_t *interface, const vb_abilities_t *able);
/* For each port that is up and wanted; at most MCA_BTL_IBX_INTERFACES. False: this host has no adapter. */
bool mca_btl_ibx_verbs_each_port(mca_btl_ibx_verbs_opener_t open, void *context);

/* ---- btl_ibx_verbs_progress.c ---- */

extern const mca_btl_ibx_transport_t mca_btl_ibx_verbs_transport;

/* ---- btl_ibx_verbs_endpoint.c ---- */

/* The transport's endpoint_new, meet, part and describe (btl_ibx_module.h). */
mca_btl_base_endpoint_t *mca_btl_ibx_verbs_endpoint_new(mca_btl_ibx_module_t *module, opal_proc_t *proc, bool is_self);
void mca_btl_ibx_verbs_meet(mca_btl_base_endpoint_t *endpoint, const uint8_t *data, size_t length);
void mca_btl_ibx_verbs_part(mca_btl_base_endpoint_t *endpoint);
void mca_btl_ibx_verbs_describe(const mca_btl_base_endpoint_t *endpoint, char *text, size_t size);
/* Makes the peer. NULL: out of memory, or dead. lock is held. */
vb_peer_t *mca_btl_ibx_verbs_connect(mca_btl_ibx_verbs_endpoint_t *endpoint);
static inline vb_peer_t *mca_btl_ibx_verbs_peer(mca_btl_ibx_verbs_endpoint_t *endpoint)
{
    return OPAL_LIKELY(NULL != endpoint->peer) ? endpoint->peer : mca_btl_ibx_verbs_connect(endpoint);
}
/* The process that a message is from, if it was not known when it came; NULL: not known to this process. lock is not held. */
mca_btl_base_endpoint_t *mca_btl_ibx_verbs_sender(mca_btl_ibx_verbs_module_t *module,
                                                       vb_peer_t *peer);
/* Callbacks of the port. */
void mca_btl_ibx_verbs_ready(void *context, vb_peer_t *peer);
void mca_btl_ibx_verbs_down(void *context, vb_peer_t *peer, const char *why);
void mca_btl_ibx_verbs_stranger(void *context, uint64_t name, const uint8_t *data, size_t length);
/* Tell the PML of those that are lost. lock is not held. */
void mca_btl_ibx_verbs_tell_lost(mca_btl_ibx_verbs_module_t *module);

/* ---- btl_ibx_verbs_bulk.c: the second connection to a process; lock is held ---- */

/* A put or get of so many bytes begins, by which all may change over (vb_bulk.h). */
void mca_btl_ibx_verbs_bulk_begins(mca_btl_ibx_verbs_endpoint_t *endpoint, uint64_t bytes);
/* Does something that begins take the second connection, which is made if it is wanted? bytes: of a put or get; 0: it is something
 * else. */
static inline bool mca_btl_ibx_verbs_bulk_takes(mca_btl_ibx_verbs_endpoint_t *endpoint,
                                                uint64_t bytes, bool is_ordered)
{
    if (vb_bulk_may_change(&endpoint->bulk, bytes)) {
        mca_btl_ibx_verbs_bulk_begins(endpoint, bytes);
    }
    return vb_bulk_takes(&endpoint->bulk, bytes, is_ordered);
}
/* NULL: there is none, as by mca_btl_ibx_verbs_connect. */
static inline vb_peer_t *mca_btl_ibx_verbs_peer_of(mca_btl_ibx_verbs_endpoint_t *endpoint,
                                                   bool is_bulk)
{
    return OPAL_UNLIKELY(is_bulk) ? endpoint->bulk_peer : mca_btl_ibx_verbs_peer(endpoint);
}
static inline opal_list_t *mca_btl_ibx_verbs_pending_of(mca_btl_ibx_verbs_endpoint_t *endpoint,
                                                        bool is_bulk)
{
    return OPAL_UNLIKELY(is_bulk) ? &endpoint->bulk_pending : &endpoint->pending;
}
/* There is a second connection, or the process asks for one: what becomes of it concerns the endpoint from now on. */
void mca_btl_ibx_verbs_bulk_meet(mca_btl_ibx_verbs_endpoint_t *endpoint);
/* The same, for the port. */
void mca_btl_ibx_verbs_asked_for_second(void *context, vb_peer_t *first);
/* The second connection ended. False: it was in use, and the process is lost. */
bool mca_btl_ibx_verbs_bulk_failed(mca_btl_ibx_verbs_endpoint_t *endpoint);
/* Once in a while: transfers that have waited for a connection for too long take the first. */
void mca_btl_ibx_verbs_bulk_check(mca_btl_ibx_verbs_module_t *module, uint64_t now);

/* ---- btl_ibx_verbs_message.c ---- */

MCA_BTL_IBX_DECLARE(alloc, mca_btl_ibx_verbs_alloc);
MCA_BTL_IBX_DECLARE(prepare, mca_btl_ibx_verbs_prepare_src);
MCA_BTL_IBX_DECLARE(send, mca_btl_ibx_verbs_send);
MCA_BTL_IBX_DECLARE(sendi, mca_btl_ibx_verbs_sendi);
/* The transport's frag_post and frag_return (btl_ibx_module.h). */
int mca_btl_ibx_verbs_frag_post(mca_btl_ibx_frag_t *frag);
void mca_btl_ibx_verbs_frag_return(mca_btl_ibx_module_t *module, mca_btl_ibx_frag_t *frag);

/* ---- btl_ibx_verbs_rdma.c ---- */

int mca_btl_ibx_verbs_open_cache(mca_btl_ibx_verbs_module_t *module);
/* The rights to ask the cache for: for iWARP the answer to a read is a tagged write (RFC 5040 section 5.2), so what is written
 * here can be written by others, and the cache is to know it. */
int32_t mca_btl_ibx_verbs_access(const mca_btl_ibx_verbs_module_t *module, int32_t access);
MCA_BTL_IBX_DECLARE(register_mem, mca_btl_ibx_verbs_register_mem);
/* The transport's `job_starts`, `job_issue`, `job_ends` and `atomic_starts` (btl_ibx_module.h). */
int mca_btl_ibx_verbs_job_starts(mca_btl_ibx_module_t *module, mca_btl_ibx_job_t *job,
                                 const mca_btl_base_registration_handle_t *remote_handle, int order);
bool mca_btl_ibx_verbs_job_issue(mca_btl_ibx_job_t *job);
void mca_btl_ibx_verbs_job_ends(mca_btl_ibx_module_t *module, mca_btl_ibx_job_t *job);
int mca_btl_ibx_verbs_atomic_starts(mca_btl_ibx_module_t *module, mca_btl_ibx_job_t *job,
                                    const struct mca_btl_ibx_atomic_ask *ask,
                                    const mca_btl_base_registration_handle_t *remote_handle, int order);

/* Registered memory that peers may ask for atomic operations on (btl_ibx_atomic.h): the transport's `word`. */
char *mca_btl_ibx_verbs_word(const mca_btl_base_endpoint_t *endpoint, uint32_t stag, uint64_t offset, uint64_t size);

/* The port's `done`: request is a fragment, or a job plus one. */
void mca_btl_ibx_verbs_done(void *context, vb_peer_t *peer, void *request, vb_status_t status);

/* ---- btl_ibx_verbs_failover.c ---- */

/* The port's part_max, and its callback `copy`. */
uint32_t mca_btl_ibx_verbs_part_max(void);
bool mca_btl_ibx_verbs_copy(void *context, uint32_t rkey, uint64_t remote, void *data, uint32_t size, bool is_write);
/* Are connections of this process's ports to go on by others of them? */
static inline bool mca_btl_ibx_verbs_has_failover(void)
{
    return mca_btl_ibx_verbs_params.failover && mca_btl_ibx_verbs_params.resume_timeout_ms > 0;
}
/* Gives away what waits in the module's port. lock is not held. */
void mca_btl_ibx_verbs_failover_give(mca_btl_ibx_verbs_module_t *module);
/* When the modules are there, and when they are gone. */
void mca_btl_ibx_verbs_failover_listen(void);

/* ---- btl_ibx_verbs_stats.c ---- */

/* Once, with the parameters. */
void mca_btl_ibx_verbs_stats_register(const mca_base_component_t *version);
/* The module is about to be freed: its counts stay, and are printed if that is wanted. */
void mca_btl_ibx_verbs_stats_keep(const mca_btl_ibx_verbs_module_t *module);

#endif
