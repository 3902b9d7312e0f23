/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What the files of the verbs transport share.
 *
 * Words are those of btl_ibx.h (module, endpoint, fragment, job) and verbs/vb_port.h (port, peer).
 *
 * Threads: the port's lock (vb_port_lock) covers module, endpoints and lists. Callbacks of the port come
 * with it held, perhaps in the port's thread: they put what ended on a list, and progress tells the
 * PML without the lock. Progress may be called again by a callback (ibx_told.h; docs/threads.md).
 *
 * Order: everything for one endpoint takes one queue pair, and what has to wait does so in one queue. So a
 * send after a put is delivered after the put's data in any case; a send (or put) with `order` other
 * than MCA_BTL_NO_ORDER leaves after the data of earlier gets has come. */
#ifndef BTL_IBX_VERBS_MODULE_H
#define BTL_IBX_VERBS_MODULE_H

#include "btl_ibx.h"
#include "btl_ibx_verbs.h"

#include "opal/include/spec/promises.h"
#include "opal/mca/rcache/base/base.h"
#include "opal/mca/rcache/rcache.h"
#include "opal/runtime/opal_params.h"
#include "verbs/vb_dgram.h"
#include "verbs/vb_map.h"
#include "verbs/vb_port.h"

/* ---- what is published: follows the iWARP part (mca_btl_ibx_modex_t) ---- */

#define MCA_BTL_IBX_VERBS_MODEX_VERSION 2

typedef struct mca_btl_ibx_verbs_offer {
    mca_btl_ibx_offer_t ip; /* address, port; the first 8 bytes of key */
    uint8_t fabric;         /* vb_fabric_t: only alike ones talk */
    uint8_t reserved;
    /* Where it takes datagrams (vb_dgram_address_t), in network byte order. */
    uint8_t lid[2];
    uint8_t number[4]; /* 0: nowhere */
    uint8_t qkey[4];
    uint8_t reserved_2[4];
    uint8_t gid[16];
    uint8_t datagram_key[16];
} mca_btl_ibx_verbs_offer_t;
_Static_assert(sizeof(mca_btl_ibx_verbs_offer_t) == 88, "an offer has no holes");

typedef struct mca_btl_ibx_verbs_modex {
    uint8_t version;
    uint8_t count;
    uint8_t reserved[6];
    mca_btl_ibx_verbs_offer_t offer[MCA_BTL_IBX_INTERFACES];
} mca_btl_ibx_verbs_modex_t;
_Static_assert(sizeof(mca_btl_ibx_verbs_modex_t) <= MCA_BTL_IBX_VERBS_OFFER_MAX, "fits");

/* ---- parameters ---- */

typedef struct mca_btl_ibx_verbs_params {
    int shared_queue;
    char *rcache;
    unsigned send_depth, cq_entries, inline_max, link_window_max;
    unsigned rnr_timer, ack_timeout, retries;
    unsigned ring_peers, ring_after, ring_slots, ring_slot;
    unsigned connect_timeout_ms, connect_tries, connect_attempts;
    size_t eager_limit, max_send_size; /* btl_ibx_eager_limit and btl_ibx_max_send_size are of datagrams */
    size_t inplace_min, place_rdma_max;
    unsigned rc_after, max_rc;
    bool summary;
} mca_btl_ibx_verbs_params_t;

extern mca_btl_ibx_verbs_params_t mca_btl_ibx_verbs_params;

/* ---- objects ---- */

typedef struct mca_btl_ibx_verbs_module mca_btl_ibx_verbs_module_t;

typedef struct mca_btl_ibx_verbs_endpoint {
    opal_list_item_t super; /* in the module's list */
    mca_btl_ibx_verbs_module_t *module;
    opal_proc_t *proc;
    uint64_t name;
    struct sockaddr_in address;
    uint64_t key;
    vb_dgram_address_t datagrams; /* number 0: by connection only */
    uint8_t datagram_key[16];
    vb_peer_t *peer;     /* NULL before the first word */
    opal_list_t pending; /* fragments and jobs that have to wait, in their order */
    const char *why;     /* it is lost */
    bool is_self;
    bool is_dead;
} mca_btl_ibx_verbs_endpoint_t;
OBJ_CLASS_DECLARATION(mca_btl_ibx_verbs_endpoint_t);

/* Registered memory, as the registration cache keeps it. */
typedef struct mca_btl_ibx_verbs_reg {
    mca_rcache_base_registration_t base;
    struct ibv_mr *mr;
    struct mca_btl_base_registration_handle_t handle;
    struct mca_btl_base_registration_handle_t hold; /* for who only holds it: base 0 */
    atomic_uint uses;                               /* by who may have given the handle to a peer */
} mca_btl_ibx_verbs_reg_t;

/* A fragment is with the PML, in its endpoint's pending list, in the port, or in the module's list of
 * what ended; free when the PML and the port are both done with it. The buffer (base.super.ptr) begins
 * with the header; segments follow. */
typedef struct mca_btl_ibx_verbs_frag {
    mca_btl_base_descriptor_t base;
    mca_btl_base_segment_t segment[2]; /* after the header: buffer, user's memory */
    mca_btl_ibx_verbs_endpoint_t *endpoint;
    mca_btl_ibx_verbs_reg_t *user; /* of the user's memory, or NULL */
    int status;
    mca_btl_base_tag_t tag;
    uint8_t holds;
    bool is_complete;
    bool is_freed;
} mca_btl_ibx_verbs_frag_t;
OBJ_CLASS_DECLARATION(mca_btl_ibx_verbs_frag_t);

typedef enum {
    MCA_BTL_IBX_VERBS_PUT,
    MCA_BTL_IBX_VERBS_GET,
    MCA_BTL_IBX_VERBS_ADD,
    MCA_BTL_IBX_VERBS_SWAP,
    MCA_BTL_IBX_VERBS_ASK, /* an atomic operation as a message: in the module's list of those asking */
} mca_btl_ibx_verbs_job_type_t;

typedef struct mca_btl_ibx_verbs_job {
    opal_free_list_item_t super;
    mca_btl_ibx_verbs_job_type_t type;
    bool is_ordered;
    bool is_inline; /* a put that the work request holds */
    mca_btl_ibx_verbs_endpoint_t *endpoint;
    char *local;
    /* Without a registration of the caller's (btl_ibx_verbs_place.h): one of ours, or a buffer in
     * place of `user`. */
    mca_btl_ibx_verbs_reg_t *placed;
    opal_free_list_item_t *bounce;
    char *user;
    freq_gate_t *gate; /* where that copy is counted, or NULL */
    uint64_t remote;
    uint64_t base; /* of the remote memory, and its name, for datagrams */
    uint32_t datagrams;
    uint32_t lkey, rkey;
    uint64_t length, issued;
    uint32_t parts; /* under way, and one while parts are still to be issued */
    uint64_t operand, swap;
    uint32_t number; /* of an operation asked for */
    int status;
    mca_btl_base_rdma_completion_fn_t callback;
    mca_btl_base_registration_handle_t *local_handle;
    void *context;
    void *cbdata;
    uint64_t result; /* of an atomic operation that nobody wants the result of: sink */
} mca_btl_ibx_verbs_job_t;
OBJ_CLASS_DECLARATION(mca_btl_ibx_verbs_job_t);

/* A message that the PML is to be told of. */
typedef struct mca_btl_ibx_verbs_event {
    vb_received_t received;
    mca_btl_ibx_verbs_endpoint_t *endpoint; /* NULL: not known yet */
} mca_btl_ibx_verbs_event_t;

/* So many at a time; who finds no place speaks again. */
#define MCA_BTL_IBX_VERBS_STRANGERS 16

struct mca_btl_ibx_verbs_module {
    union {
        mca_btl_base_module_t super;
        mca_btl_ibx_public_t public; /* begins with super */
    };
    uint32_t index;
    mca_btl_ibx_interface_t interface;
    vb_port_t *port;
    uint64_t key;
    bool is_iwarp;
    bool has_atomics; /* the adapter's, atomic with the processor's */
    bool asks;        /* atomic operations are messages */
    mca_rcache_base_module_t *rcache;
    /* Which small buffers are used so often that they stay in place; all NULL: not known. */
    const mca_mpool_freq_service_t *freq;
    mca_mpool_freq_table_t *table;
    mca_mpool_freq_traffic_t *traffic;
    freq_gate_t gate;
    const mca_rcache_lazy_service_t *lazy; /* of rcache, or NULL */
    opal_list_t endpoints;
    opal_hash_table_t by_name;
    opal_free_list_t frags;
    opal_free_list_t jobs;
    mca_btl_ibx_verbs_reg_t *sink_reg; /* where results of atomics go that nobody wants */
    uint64_t *sink;
    ibx_told_t told;
    mca_btl_ibx_verbs_event_t to_tell[IBX_TOLD_MOST];
    vb_received_t to_give_back[IBX_TOLD_MOST]; /* messages that have been told */
    opal_list_t ended;  /* fragments and jobs: to be told */
    opal_list_t asking; /* jobs that wait for the answer of another process */
    uint32_t ask_number;
    mca_btl_ibx_unsaid_t unsaid;
    struct {
        uint64_t asked, done, refused;
    } atomics;           /* as messages: of others, for others, what could not be meant */
    uint64_t rnr_before; /* the device's count when this began */
    vb_map_t keys;       /* registrations that others may change, by rkey */
    bool has_lost;
    bool has_lists;
    uint32_t strangers_n; /* who spoke by datagrams and is not known yet */
    uint64_t strangers[MCA_BTL_IBX_VERBS_STRANGERS];
    uint32_t polls;
    uint64_t looked_at; /* at the window */
    mca_btl_base_module_error_cb_fn_t error;
};

extern uint32_t mca_btl_ibx_verbs_modules_n;
extern mca_btl_ibx_verbs_module_t *mca_btl_ibx_verbs_modules[MCA_BTL_IBX_INTERFACES];
extern bool mca_btl_ibx_verbs_locked; /* several threads */

static inline opal_free_list_item_t *mca_btl_ibx_verbs_get_item(opal_free_list_t *list)
{
    return mca_btl_ibx_verbs_locked ? opal_free_list_get_mt(list) : opal_free_list_get_st(list);
}

static inline void mca_btl_ibx_verbs_put_item(opal_free_list_t *list, opal_free_list_item_t *item)
{
    if (mca_btl_ibx_verbs_locked) {
        opal_free_list_return_mt(list, item);
    } else {
        opal_free_list_return_st(list, item);
    }
}

static inline bool mca_btl_ibx_verbs_is_job(const opal_list_item_t *item)
{
    return OBJ_CLASS(mca_btl_ibx_verbs_job_t) == ((const opal_object_t *) item)->obj_class;
}

static inline int mca_btl_ibx_verbs_rc(vb_status_t status)
{
    return OPAL_LIKELY(VB_OK == status)              ? OPAL_SUCCESS
           : VB_LOST == status || VB_ENDED == status ? OPAL_ERR_UNREACH
           : VB_FAULT == status                      ? OPAL_ERR_NOT_AVAILABLE
                                                     : OPAL_ERR_RESOURCE_BUSY;
}

/* ---- btl_ibx_verbs_endpoint.c ---- */

int mca_btl_ibx_verbs_add_procs(mca_btl_base_module_t *btl, size_t n, opal_proc_t **procs,
                                mca_btl_base_endpoint_t **endpoints, opal_bitmap_t *reachable);
int mca_btl_ibx_verbs_del_procs(mca_btl_base_module_t *btl, size_t n, opal_proc_t **procs,
                                mca_btl_base_endpoint_t **endpoints);
/* Makes the peer. NULL: out of memory, or dead. lock is held. */
vb_peer_t *mca_btl_ibx_verbs_meet(mca_btl_ibx_verbs_endpoint_t *endpoint);
static inline vb_peer_t *mca_btl_ibx_verbs_peer(mca_btl_ibx_verbs_endpoint_t *endpoint)
{
    return OPAL_LIKELY(NULL != endpoint->peer) ? endpoint->peer : mca_btl_ibx_verbs_meet(endpoint);
}
/* Who a message is from that was not known when it came; NULL: not known to this process. lock is not held. */
mca_btl_ibx_verbs_endpoint_t *mca_btl_ibx_verbs_sender(mca_btl_ibx_verbs_module_t *module,
                                                       vb_peer_t *peer);
/* Callbacks of the port. */
void mca_btl_ibx_verbs_ready(void *context, vb_peer_t *peer);
void mca_btl_ibx_verbs_down(void *context, vb_peer_t *peer, const char *why);
void mca_btl_ibx_verbs_stranger(void *context, uint64_t name);
/* Get to know the strangers. lock is not held. */
void mca_btl_ibx_verbs_meet_strangers(mca_btl_ibx_verbs_module_t *module);
/* The connection ends by us, who cannot go on: an error at both ends. lock is not held. */
void mca_btl_ibx_verbs_give_up(mca_btl_ibx_verbs_module_t *module, mca_btl_ibx_verbs_endpoint_t *endpoint, const char *why);
/* Tell the PML of those that are lost. lock is not held. */
void mca_btl_ibx_verbs_tell_lost(mca_btl_ibx_verbs_module_t *module);

/* ---- btl_ibx_verbs_message.c ---- */

mca_btl_base_descriptor_t *mca_btl_ibx_verbs_alloc(mca_btl_base_module_t *btl,
                                                   mca_btl_base_endpoint_t *endpoint, uint8_t order,
                                                   size_t size, uint32_t flags);
int mca_btl_ibx_verbs_free(mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *des);
mca_btl_base_descriptor_t *mca_btl_ibx_verbs_prepare_src(mca_btl_base_module_t *btl,
                                                         mca_btl_base_endpoint_t *endpoint,
                                                         opal_convertor_t *convertor, uint8_t order,
                                                         size_t reserve, size_t *size,
                                                         uint32_t flags);
int mca_btl_ibx_verbs_send(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *to,
                           mca_btl_base_descriptor_t *des, mca_btl_base_tag_t tag);
int mca_btl_ibx_verbs_sendi(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *to,
                            opal_convertor_t *convertor, void *header, size_t header_size,
                            size_t payload_size, uint8_t order, uint32_t flags,
                            mca_btl_base_tag_t tag, mca_btl_base_descriptor_t **descriptor);
/* Post a fragment. lock is held. */
vb_status_t mca_btl_ibx_verbs_post_frag(mca_btl_ibx_verbs_frag_t *frag);
/* The port is done with it. lock is not held. */
void mca_btl_ibx_verbs_frag_end(mca_btl_ibx_verbs_module_t *module, mca_btl_ibx_verbs_frag_t *frag);

/* ---- btl_ibx_verbs_rdma.c ---- */

int mca_btl_ibx_verbs_open_cache(mca_btl_ibx_verbs_module_t *module);
/* The rights to ask the cache for: for iWARP the answer to a read is a tagged write (RFC 5040 section 5.2), so what is written
 * here can be written by others, and the cache is to know it. */
int32_t mca_btl_ibx_verbs_access(const mca_btl_ibx_verbs_module_t *module, int32_t access);
mca_btl_base_registration_handle_t *
mca_btl_ibx_verbs_register_mem(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                               void *base, size_t size, uint32_t flags);
int mca_btl_ibx_verbs_deregister_mem(mca_btl_base_module_t *btl,
                                     mca_btl_base_registration_handle_t *handle);
int mca_btl_ibx_verbs_put(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                          void *local, uint64_t remote,
                          mca_btl_base_registration_handle_t *local_handle,
                          mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                          int order, mca_btl_base_rdma_completion_fn_t callback, void *context,
                          void *cbdata);
int mca_btl_ibx_verbs_get(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                          void *local, uint64_t remote,
                          mca_btl_base_registration_handle_t *local_handle,
                          mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                          int order, mca_btl_base_rdma_completion_fn_t callback, void *context,
                          void *cbdata);
int mca_btl_ibx_verbs_atomic_op(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                                uint64_t remote, mca_btl_base_registration_handle_t *remote_handle,
                                mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                                mca_btl_base_rdma_completion_fn_t callback, void *context,
                                void *cbdata);
int mca_btl_ibx_verbs_atomic_fop(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                                 void *local, uint64_t remote,
                                 mca_btl_base_registration_handle_t *local_handle,
                                 mca_btl_base_registration_handle_t *remote_handle,
                                 mca_btl_base_atomic_op_t op, uint64_t operand, int flags,
                                 int order, mca_btl_base_rdma_completion_fn_t callback,
                                 void *context, void *cbdata);
int mca_btl_ibx_verbs_atomic_cswap(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                                   void *local, uint64_t remote,
                                   mca_btl_base_registration_handle_t *local_handle,
                                   mca_btl_base_registration_handle_t *remote_handle,
                                   uint64_t compare, uint64_t value, int flags, int order,
                                   mca_btl_base_rdma_completion_fn_t callback, void *context,
                                   void *cbdata);
mca_btl_ibx_verbs_job_t *
mca_btl_ibx_verbs_job_new(mca_btl_ibx_verbs_module_t *module, mca_btl_ibx_verbs_job_type_t type,
                          mca_btl_base_endpoint_t *endpoint, void *local, uint64_t remote,
                          mca_btl_base_registration_handle_t *local_handle,
                          const mca_btl_base_registration_handle_t *remote_handle, uint64_t length,
                          int order, mca_btl_base_rdma_completion_fn_t callback, void *context,
                          void *cbdata);
/* Issue what is left of a job. lock is held. VB_OK: all is issued (or the job has failed). */
vb_status_t mca_btl_ibx_verbs_issue(mca_btl_ibx_verbs_job_t *job);
/* One part less. lock is held. */
void mca_btl_ibx_verbs_job_part_done(mca_btl_ibx_verbs_module_t *module,
                                     mca_btl_ibx_verbs_job_t *job, int status);
void mca_btl_ibx_verbs_job_end(mca_btl_ibx_verbs_module_t *module, mca_btl_ibx_verbs_job_t *job);

/* The port's `done`: request is a fragment, or a job plus one. */
void mca_btl_ibx_verbs_done(void *context, vb_peer_t *peer, void *request, vb_status_t status);

/* ---- btl_ibx_verbs_stats.c ---- */

/* Once, with the parameters. */
void mca_btl_ibx_verbs_stats_register(const mca_base_component_t *version);
/* The module is about to be freed: its counts stay, and are printed if that is wanted. */
void mca_btl_ibx_verbs_stats_keep(const mca_btl_ibx_verbs_module_t *module);

/* ---- btl_ibx_verbs_atomic.c ---- */

int mca_btl_ibx_verbs_ask_op(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                             uint64_t remote, mca_btl_base_registration_handle_t *remote_handle,
                             mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                             mca_btl_base_rdma_completion_fn_t callback, void *context,
                             void *cbdata);
int mca_btl_ibx_verbs_ask_fop(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                              void *local, uint64_t remote,
                              mca_btl_base_registration_handle_t *local_handle,
                              mca_btl_base_registration_handle_t *remote_handle,
                              mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                              mca_btl_base_rdma_completion_fn_t callback, void *context,
                              void *cbdata);
int mca_btl_ibx_verbs_ask_cswap(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                                void *local, uint64_t remote,
                                mca_btl_base_registration_handle_t *local_handle,
                                mca_btl_base_registration_handle_t *remote_handle, uint64_t compare,
                                uint64_t value, int flags, int order,
                                mca_btl_base_rdma_completion_fn_t callback, void *context,
                                void *cbdata);
/* Memory was registered (false: out of memory), or is about to be deregistered. */
bool mca_btl_ibx_verbs_key_add(mca_btl_ibx_verbs_module_t *module, mca_btl_ibx_verbs_reg_t *reg);
void mca_btl_ibx_verbs_key_remove(mca_btl_ibx_verbs_module_t *module,
                                  const mca_btl_ibx_verbs_reg_t *reg);
/* A message arrived. False: it is none of an atomic operation. lock is not held. */
bool mca_btl_ibx_verbs_atomic_message(mca_btl_ibx_verbs_module_t *module,
                                      mca_btl_ibx_verbs_endpoint_t *endpoint, uint8_t tag,
                                      const void *data, size_t size);
/* Answers for which there was no memory. lock is not held. */
void mca_btl_ibx_verbs_retry_answers(mca_btl_ibx_verbs_module_t *module);
/* Nothing comes from the endpoint any more: what waits for its answers fails. lock is held. */
void mca_btl_ibx_verbs_fail_atomics(mca_btl_ibx_verbs_module_t *module,
                                    const mca_btl_ibx_verbs_endpoint_t *endpoint);

#endif
