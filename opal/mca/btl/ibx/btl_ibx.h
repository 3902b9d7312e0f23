/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* btl/ibx: byte transfer over datagram iWARP on UDP (iwarp/). What all files of the BTL share.
 *
 * Words
 *   module    one network interface of this process, with one UDP socket and one protocol engine
 *   endpoint  another process as seen by one module; made when it is first wanted or first heard of
 *   fragment  a descriptor with its buffer: one message from here
 *   job       a put, get or atomic operation under way
 *   bay       a receive buffer
 *
 * A message is an 8-byte header (which callback it is for) and what the PML gave. Large data goes by
 * RDMA Write and Read and never through these buffers.
 *
 * Threads: a lock covers a module's engine, lists and endpoints: the agent's (iwarp/iw_agent.h), if
 * the module has one; else its own, taken only with MPI_THREAD_MULTIPLE. No callback is called under
 * it, and none in the agent's thread: completions wait in the engine for progress, which may be called again by a callback
 * (ibx_told.h; docs/threads.md). Nor is the runtime asked under it, which may take long: who says hello and is not known is
 * looked up when the lock has been given back. */
#ifndef BTL_IBX_H
#define BTL_IBX_H

#include "btl_ibx_compat.h"

#include "opal/include/spec/promises.h"

#include "btl_ibx_net.h"
#include "btl_ibx_rooms.h"
#include "btl_ibx_unsaid.h"
#include "ibx_told.h"
#include "iwarp/iw_agent.h"
#include "iwarp/iw_engine.h"
#include "iwarp/iw_port.h"
#include "window/ibx_window.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- on the wire ---- */

typedef struct mca_btl_ibx_hdr {
    uint8_t tag; /* active message tag */
    uint8_t reserved[7];
} mca_btl_ibx_hdr_t;
_Static_assert(sizeof(mca_btl_ibx_hdr_t) == 8, "what follows the header stays aligned");

/* Our own messages, below the tags of the PML. */
enum { MCA_BTL_IBX_TAG_ATOMIC = MCA_BTL_TAG_BTL + 8, MCA_BTL_IBX_TAG_ATOMIC_DONE };

/* Names registered memory to a peer: 16 bytes that travel with the PML's packets. */
struct mca_btl_base_registration_handle_t {
    uint64_t base; /* address of the first byte, which has offset 0 */
    uint32_t stag;
    union {
        uint32_t module;    /* index here: who registered it */
        uint32_t datagrams; /* verbs: name of the memory for peers that come by datagrams; 0: none */
    };
};
/* Transfers of this size last long enough for the application to be gone before they end. */
#define MCA_BTL_IBX_BULK ((size_t) 32768)
#define MCA_BTL_IBX_HANDLE_SIZE sizeof(struct mca_btl_base_registration_handle_t)

/* ---- objects ---- */

typedef struct mca_btl_ibx_module mca_btl_ibx_module_t;
typedef struct mca_btl_base_endpoint_t mca_btl_base_endpoint_t;
typedef struct mca_btl_base_endpoint_t mca_btl_ibx_endpoint_t;

struct mca_btl_base_endpoint_t {
    opal_list_item_t super; /* in the module's list */
    mca_btl_ibx_module_t *module;
    opal_proc_t *proc;
    uint64_t name;
    iw_address_t address;
    iw_key_t key;
    iw_peer_t *peer; /* NULL before the first word */
    bool is_self;
    bool is_dead; /* reported, or deleted; nothing is sent any more. Under the lock */
};
OBJ_CLASS_DECLARATION(mca_btl_ibx_endpoint_t);

#define MCA_BTL_IBX_HEADER_ROOM 256 /* bytes that a fragment has room for of which the message is the user's memory */
#define MCA_BTL_IBX_SMALL_ROOM  4352 /* the same, of a copied message of up to 4 KiB: one for each of many peers is soon touched */

/* What is sent from a fragment, and what the engine puts before it. */
typedef struct mca_btl_ibx_body {
    _Alignas(64) uint8_t hole[8];       /* so that user data behind 16 bytes of a PML begins a cache line */
    uint8_t headroom[IW_HEADROOM_SIZE]; /* the engine's, directly before what is sent */
    mca_btl_ibx_hdr_t hdr;              /* directly before the data */
    char data[];
} mca_btl_ibx_body_t;
_Static_assert(offsetof(mca_btl_ibx_body_t, hdr)
                   == offsetof(mca_btl_ibx_body_t, headroom) + IW_HEADROOM_SIZE,
               "no hole between headers and data");
_Static_assert(48 == offsetof(mca_btl_ibx_body_t, data) % 64, "user data begins a cache line");

typedef struct mca_btl_ibx_frag {
    mca_btl_base_descriptor_t base;
    opal_free_list_t *list; /* where it is from */
    mca_btl_ibx_body_t *body;
    mca_btl_base_segment_t segment[2]; /* after the header: buffer, user's memory */
    mca_btl_ibx_endpoint_t *endpoint;
    uint8_t holds;    /* users other than the PML: the engine, a send that still has to tell */
    bool is_complete; /* the PML was told, or is not to be told */
    bool is_freed;    /* by the PML, or never its own */
} mca_btl_ibx_frag_t;
OBJ_CLASS_DECLARATION(mca_btl_ibx_frag_t);

typedef enum { MCA_BTL_IBX_PUT, MCA_BTL_IBX_GET, MCA_BTL_IBX_ATOMIC } mca_btl_ibx_job_type_t;

typedef struct mca_btl_ibx_job {
    opal_free_list_item_t super;
    mca_btl_ibx_job_type_t type;
    mca_btl_ibx_endpoint_t *endpoint;
    char *local;
    uint64_t remote; /* offset in the region */
    uint32_t stag;
    uint64_t length;
    uint64_t issued;
    uint32_t parts; /* requests under way, and one while parts are still to be issued */
    int status;
    mca_btl_base_rdma_completion_fn_t callback;
    mca_btl_base_registration_handle_t *local_handle;
    void *context;
    void *cbdata;
    uint32_t number; /* of an atomic operation */
} mca_btl_ibx_job_t;
OBJ_CLASS_DECLARATION(mca_btl_ibx_job_t);

typedef struct mca_btl_ibx_key {
    opal_free_list_item_t super;
    struct mca_btl_base_registration_handle_t handle;
} mca_btl_ibx_key_t;
OBJ_CLASS_DECLARATION(mca_btl_ibx_key_t);

/* So many at a time; who finds no place says hello again. */
#define MCA_BTL_IBX_STRANGERS 16

/* A completion that the PML is to be told of. */
typedef struct mca_btl_ibx_event {
    iw_completion_t completion; /* without its peer, which may be gone */
    mca_btl_ibx_endpoint_t *endpoint;
} mca_btl_ibx_event_t;

struct mca_btl_ibx_module {
    union {
        mca_btl_base_module_t super;
        mca_btl_ibx_public_t public; /* begins with super */
    };
    uint32_t index;
    mca_btl_ibx_interface_t interface;
    opal_mutex_t lock;
    iw_port_t *port;
    iw_engine_t *engine;
    iw_agent_t *agent; /* NULL: only progress moves data */
    iw_key_t key;
    mca_rcache_base_module_t *rcache; /* or NULL: nothing is kept registered */
    opal_list_t endpoints;
    opal_list_t gone; /* all endpoints deleted: freed with the module */
    opal_hash_table_t by_name;
    mca_btl_ibx_rooms_t frags;   /* with room for btl_max_send_size bytes */
    mca_btl_ibx_rooms_t smalls;  /* with room for MCA_BTL_IBX_SMALL_ROOM */
    mca_btl_ibx_rooms_t headers; /* with room for MCA_BTL_IBX_HEADER_ROOM */
    opal_free_list_t jobs;
    opal_free_list_t keys;
    ibx_told_t told;
    mca_btl_ibx_event_t to_tell[IBX_TOLD_MOST];
    mca_btl_ibx_event_t to_give_back[IBX_TOLD_MOST]; /* messages that have been told */
    opal_list_t ended;         /* fragments and jobs that failed, or waited: to be told */
    opal_list_t gathered;      /* fragments that wait for others, posted; whoever sent them is told */
    opal_list_t waiting_frags; /* the engine had no room; in their order */
    opal_list_t waiting_jobs;
    opal_list_t atomics;       /* jobs that wait for their answer */
    uint32_t atomic_number;
    mca_btl_ibx_unsaid_t unsaid;
    ibx_window_t window;
    struct mca_btl_ibx_bay *bays; /* all */
    uint64_t looked_at;
    uint64_t came;  /* messages since then */
    bool stirs;     /* messages came or went since all was at rest */
    uint64_t rests; /* how often it came to that */
    mca_btl_base_module_error_cb_fn_t error;
    uint32_t strangers_n; /* who said hello and is not known yet, and the datagram that did */
    struct {
        uint64_t name;
        uint8_t *data;
        size_t length;
    } strangers[MCA_BTL_IBX_STRANGERS];
};

typedef struct mca_btl_ibx_component {
    mca_btl_base_component_3_0_0_t super;
    /* parameters */
    char *transport;
    char *if_include, *if_exclude;
    char *window;
    int auth;
    int async;
    size_t peer_timeout_ms;
    size_t silent_timeout_ms;
    int window_initial, window_max;
    size_t window_quiet_ms;
    size_t socket_buffer;
    int port_min, port_range;
    bool segment;
    char *rcache; /* name of the component, or NULL: any */
    int lend;
    bool place;
    char *fault_in, *fault_out, *fault_register;
    unsigned long long fault_seed;
    bool summary;
    int rest; /* microseconds; -1: by the adapters */
    /* state */
    bool locked; /* several threads */
    uint32_t looks; /* atomic; calls of progress; one that another thread undoes does not matter */
    uint32_t modules_n;
    mca_btl_ibx_module_t **modules;
} mca_btl_ibx_component_t;

extern mca_btl_ibx_component_t mca_btl_ibx_component;
extern const mca_btl_ibx_module_t mca_btl_ibx_module_template;

static inline void mca_btl_ibx_lock(mca_btl_ibx_module_t *module)
{
    if (NULL != module->agent) {
        iw_agent_lock(module->agent);
    } else if (mca_btl_ibx_component.locked) {
        opal_mutex_lock(&module->lock);
    }
}

/* For progress: false if another thread has the lock, which is never for long. */
static inline bool mca_btl_ibx_enter(mca_btl_ibx_module_t *module)
{
    return NULL != module->agent ? iw_agent_enter(module->agent)
                                 : !mca_btl_ibx_component.locked
                                       || 0 == opal_mutex_trylock(&module->lock);
}

/* A large transfer begins, here or by a peer. */
static inline void mca_btl_ibx_expect_bulk(mca_btl_ibx_module_t *module)
{
    if (NULL != module->agent) {
        iw_agent_expect_bulk(module->agent);
    }
}

static inline void mca_btl_ibx_unlock(mca_btl_ibx_module_t *module)
{
    if (NULL != module->agent) {
        iw_agent_unlock(module->agent);
    } else if (mca_btl_ibx_component.locked) {
        opal_mutex_unlock(&module->lock);
    }
}

/* Send what was posted, now. The lock is held. */
static inline void mca_btl_ibx_flush(mca_btl_ibx_module_t *module)
{
    if (NULL != module->agent) {
        iw_agent_flush(module->agent);
    } else {
        iw_port_flush(module->port, module->engine);
    }
}

/* What was posted may wait for the next flush, or look. The lock is held. */
static inline void mca_btl_ibx_gather(mca_btl_ibx_module_t *module)
{
    if (NULL != module->agent) {
        iw_agent_gather(module->agent);
    } else {
        iw_port_gather(module->port);
    }
}

#endif
