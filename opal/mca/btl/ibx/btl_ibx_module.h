/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What a module, an endpoint and a transfer are, whatever the transport: each transport's own types begin with these, and its
 * table of functions says what it does differently.
 *
 * Words
 *   module    one network interface (UDP) or adapter port (verbs) of this process
 *   endpoint  another process as seen by one module; made when it is first wanted or first heard of
 *   fragment  a descriptor with its buffer: one message from here
 *   job       a put, get or atomic operation under way
 *
 * Threads: a lock of the transport's covers a module's lists and endpoints. No callback of the PML is called under it:
 * what is to be told waits until progress tells it, which a callback may call again (ibx_delivery.h; docs/design/threads.md). Nor is
 * the runtime asked under it, which may take long: a process that speaks first is looked up when the lock has been given back. */
#ifndef BTL_IBX_MODULE_H
#define BTL_IBX_MODULE_H

#include "btl_ibx.h"
#include "btl_ibx_net.h"
#include "btl_ibx_deferred.h"
#include "ibx_delivery.h"

#include "opal/include/spec/promises.h"

typedef struct mca_btl_ibx_module mca_btl_ibx_module_t;
struct mca_btl_ibx_frag;
struct mca_btl_ibx_atomic_ask;
typedef struct mca_btl_base_endpoint_t mca_btl_base_endpoint_t;
typedef struct mca_btl_base_endpoint_t mca_btl_ibx_endpoint_t;

/* An endpoint, as far as both transports have the same. */
struct mca_btl_base_endpoint_t {
    opal_list_item_t super; /* in the module's list */
    mca_btl_ibx_module_t *module;
    opal_proc_t *proc;
    uint64_t name;
    bool is_self;
    bool is_dead; /* reported, deleted or refused; nothing is sent any more. Under the lock */
    bool is_refused; /* it is not reached, and was never given to the PML */
    bool is_given;   /* to the PML, which has asked the other transports, too */
    uint8_t atomics; /* MCA_BTL_IBX_ATOMICS_...: how its memory is reached by atomic operations, as its process says */
};
OBJ_CLASS_DECLARATION(mca_btl_ibx_endpoint_t);

enum { MCA_BTL_IBX_ATOMICS_BY_MESSAGES, MCA_BTL_IBX_ATOMICS_BY_TRANSPORT, MCA_BTL_IBX_ATOMICS_IN_NO_WAY };

/* A put, get or atomic operation under way. */
typedef struct mca_btl_ibx_job {
    opal_free_list_item_t super;
    uint8_t type; /* the transport's, or MCA_BTL_IBX_ASK */
    mca_btl_base_endpoint_t *endpoint;
    char *local;
    uint64_t remote; /* UDP: offset in the region; verbs: address */
    uint32_t stag;   /* of the region; verbs: rkey */
    uint64_t length, issued;
    uint32_t parts; /* requests under way, and one while parts are still to be issued */
    int status;
    bool more; /* a message follows, which takes it along */
    mca_btl_base_rdma_completion_fn_t callback;
    mca_btl_base_registration_handle_t *local_handle;
    void *context;
    void *cbdata;
    uint32_t number; /* of an atomic operation that is a message */
} mca_btl_ibx_job_t;
OBJ_CLASS_DECLARATION(mca_btl_ibx_job_t);

enum { MCA_BTL_IBX_PUT, MCA_BTL_IBX_GET, MCA_BTL_IBX_ASK /* an atomic operation as a message */, MCA_BTL_IBX_JOB_TYPES };

/* What the PML is to be told of, as a transport has it: at most so many bytes, copied. */
typedef union mca_btl_ibx_event {
    _Alignas(16) char bytes[48];
} mca_btl_ibx_event_t;

/* What a transport does in its own way. Where it says so the module's lock is held. */
typedef struct mca_btl_ibx_transport {
    void (*lock)(mca_btl_ibx_module_t *module);
    void (*unlock)(mca_btl_ibx_module_t *module);
    /* A new endpoint for a process as it published itself, without what is common, in no list. NULL: the module does not reach
     * it. Asks the runtime: lock is not held. */
    mca_btl_base_endpoint_t *(*endpoint_new)(mca_btl_ibx_module_t *module, opal_proc_t *proc, bool is_self);
    /* Before endpoints of these processes are given to the PML: refuses those that are not reached. NULL: all are taken to be.
     * lock is not held. */
    void (*reach)(size_t n, opal_proc_t **procs);
    /* A process that spoke first has this endpoint; data: what it said, or NULL. lock is held. */
    void (*meet)(mca_btl_base_endpoint_t *endpoint, const uint8_t *data, size_t length);
    /* Ends the connection; what waits for the endpoint goes to the module's list `ended`. lock is held. */
    void (*part)(mca_btl_base_endpoint_t *endpoint);
    /* What is to be done after that without the lock. NULL: nothing. */
    void (*parted)(mca_btl_base_endpoint_t *endpoint);
    /* Begins a put or get to another process, whose `remote` is an address: issues it, as far as there is room. Not OPAL_SUCCESS:
     * it cannot be, and the job is the caller's again. lock is not held. */
    int (*job_starts)(mca_btl_ibx_module_t *module, mca_btl_ibx_job_t *job,
                      const mca_btl_base_registration_handle_t *remote_handle, int order);
    /* The same for an atomic operation as the transport does it, to this process, too; only to endpoints whose `atomics` say so. */
    int (*atomic_starts)(mca_btl_ibx_module_t *module, mca_btl_ibx_job_t *job, const struct mca_btl_ibx_atomic_ask *ask,
                         const mca_btl_base_registration_handle_t *remote_handle, int order);
    /* Post a fragment, or what is left of a put or get that has begun. No room: OPAL_ERR_RESOURCE_BUSY, or false. lock
     * is held. */
    int (*frag_post)(struct mca_btl_ibx_frag *frag);
    bool (*job_issue)(mca_btl_ibx_job_t *job);
    /* A fragment that nobody uses any more. lock is not held. */
    void (*frag_return)(mca_btl_ibx_module_t *module, struct mca_btl_ibx_frag *frag);
    /* A job ends: what the transport added to it. NULL: nothing. lock is not held. */
    void (*job_ends)(mca_btl_ibx_module_t *module, mca_btl_ibx_job_t *job);
    /* The connection as text, for people: which way the endpoint was reached. */
    void (*describe)(const mca_btl_base_endpoint_t *endpoint, char *text, size_t size);
    /* The word of `size` bytes at `offset` of a region, if the endpoint's process may change it by atomic operations; else
     * NULL. Only if not module->has_atomics. lock and the lock of atomic operations are held. */
    char *(*word)(const mca_btl_base_endpoint_t *endpoint, uint32_t stag, uint64_t offset, uint64_t size);

    /* For progress (btl_ibx_progress.h). Is there a reason to poll? NULL: always. lock is not held. */
    bool (*is_due)(mca_btl_ibx_module_t *module);
    /* The lock, if it is free: no thread has it for long. */
    bool (*trylock)(mca_btl_ibx_module_t *module);
    /* Moves data, and takes what came (mca_btl_ibx_take_event). Returns how many of these; *others: how much else
     * happened. These and the next four with the lock. */
    unsigned (*poll)(mca_btl_ibx_module_t *module, int *others);
    /* Takes more of what has come. Returns how many. */
    unsigned (*take)(mca_btl_ibx_module_t *module);
    /* Does anything wait for room, or wait to be told, that is no event? retry sees to it; it gives back the lock meanwhile. */
    bool (*some_wait)(mca_btl_ibx_module_t *module);
    void (*retry)(mca_btl_ibx_module_t *module);
    /* What callbacks posted leaves now. NULL: it has left. */
    void (*flush)(mca_btl_ibx_module_t *module);
    /* Tells one. True: the memory of its message is to be given back. lock is not held. */
    bool (*tell)(mca_btl_ibx_module_t *module, const mca_btl_ibx_event_t *event);
    /* The memory of n messages that have been told. lock is held. */
    void (*give_back)(mca_btl_ibx_module_t *module, const mca_btl_ibx_event_t *event, unsigned n);
} mca_btl_ibx_transport_t;

/* So many processes that spoke first are looked up at a time; another one speaks again. */
#define MCA_BTL_IBX_STRANGERS 16

struct mca_btl_ibx_module {
    union {
        mca_btl_base_module_t super;
        mca_btl_ibx_public_t public; /* begins with super */
    };
    const mca_btl_ibx_transport_t *transport;
    uint32_t index;
    mca_btl_ibx_interface_t interface;
    mca_rcache_base_module_t *rcache; /* or NULL: nothing is kept registered */
    opal_list_t endpoints;
    opal_list_t gone; /* endpoints deleted: freed with the module, since what is to be told still names them */
    opal_hash_table_t by_name;
    opal_free_list_t jobs;
    ibx_told_t told;
    mca_btl_ibx_event_t to_tell[IBX_TOLD_MOST];
    mca_btl_ibx_event_t to_give_back[IBX_TOLD_MOST]; /* messages that have been told */
    opal_list_t ended;  /* fragments and jobs that failed, or waited: to be told */
    opal_list_t asking; /* jobs that wait for the answer to an atomic operation */
    bool has_atomics; /* over adapters: memory of this process is reached by their atomic operations alone; else by messages alone */
    uint32_t ask_number;
    struct {
        uint64_t asked, done, refused;
    } atomics; /* as messages: of others, for others, what could not be meant */
    mca_btl_ibx_deferred_t deferred;
    mca_btl_base_module_error_cb_fn_t error;
    bool is_ending; /* strangers are not looked up any more. Set when only one thread is left */
    uint32_t strangers_n; /* processes that spoke first and are not known yet, and what they said */
    struct {
        uint64_t name;
        uint8_t *data;
        size_t length;
    } strangers[MCA_BTL_IBX_STRANGERS];
};

static inline void mca_btl_ibx_lock(mca_btl_ibx_module_t *module)
{
    module->transport->lock(module);
}

static inline void mca_btl_ibx_unlock(mca_btl_ibx_module_t *module)
{
    module->transport->unlock(module);
}

static inline opal_free_list_item_t *mca_btl_ibx_item_get(opal_free_list_t *list)
{
    return mca_btl_ibx_component.locked ? opal_free_list_get_mt(list) : opal_free_list_get_st(list);
}

static inline void mca_btl_ibx_item_return(opal_free_list_t *list, opal_free_list_item_t *item)
{
    if (mca_btl_ibx_component.locked) {
        opal_free_list_return_mt(list, item);
    } else {
        opal_free_list_return_st(list, item);
    }
}

/* The beginning and the end of a module's life, for what is common. `super` is set and stays. */
void mca_btl_ibx_module_construct(mca_btl_ibx_module_t *module, const mca_btl_ibx_transport_t *transport, uint32_t index,
                                  const mca_btl_ibx_interface_t *interface);
/* Jobs of `size` bytes of this class. Returns an Open MPI error code. */
int mca_btl_ibx_module_jobs(mca_btl_ibx_module_t *module, size_t size, opal_class_t *class);
/* Nobody else is at the module any more; its connections have ended, and what is in its lists is not touched: the memory of
 * fragments may be gone. Frees the module. */
void mca_btl_ibx_module_destruct(mca_btl_ibx_module_t *module);

/* Is a BTL in use that is none of this list and has one of these flags (0: any)? */
bool mca_btl_ibx_has_others(const char *list, uint32_t flags);

/* The registration cache that btl_ibx_rcache asks for: module->rcache, or NULL for none. One that is not there ends the job. */
void mca_btl_ibx_open_cache(mca_btl_ibx_module_t *module, mca_rcache_base_resources_t *resources);

/* A registration as the cache keeps it, with what a peer is told of it; a transport's begins with this, and it sets all of it.
 *
 * An adapter reaches memory that it has pinned, whatever becomes of the addresses. The protocol stack of datagrams is this
 * process, and memory that nobody uses any more may have been given back to the system. It must not be
 * touched then, not even for a datagram that is sent again because its acknowledgement was lost. So
 * peers reach what is in use, and a pinned registration is not in use. */
typedef struct mca_btl_ibx_reg {
    mca_rcache_base_registration_t base;
    struct mca_btl_base_registration_handle_t handle;
    struct mca_btl_base_registration_handle_t pinned; /* for callers that only keep it: base 0 */
    iw_uses_t uses;                                   /* by callers that may have given the handle to a peer */
    bool is_reached; /* peers reach it by way of this process */
} mca_btl_ibx_reg_t;

static inline mca_btl_ibx_reg_t *mca_btl_ibx_reg_of(mca_btl_base_registration_handle_t *handle)
{
    return (mca_btl_ibx_reg_t *) ((char *) handle - offsetof(mca_btl_ibx_reg_t, handle));
}

/* As btl_register_mem and btl_deregister_mem, for a module with a cache. lock is not held. kind: MCA_BTL_IBX_REG_DEVICE,
 * or 0 for memory of the host. */
mca_btl_base_registration_handle_t *mca_btl_ibx_register(mca_btl_ibx_module_t *module, void *base, size_t size,
                                                         int32_t access, uint32_t flags, uint32_t kind);
MCA_BTL_IBX_DECLARE(deregister_mem, mca_btl_ibx_deregister_mem);

/* What can be promised of registrations (promises.h) that this cache keeps; NULL: none does. */
uint32_t mca_btl_ibx_promises_of_cache(const mca_rcache_base_module_t *rcache);

/* btl_register_error. */
int mca_btl_ibx_register_error(mca_btl_base_module_t *btl, mca_btl_base_module_error_cb_fn_t callback);

/* ---- jobs ---- */

/* NULL: out of memory. What a transport adds is its own to set. */
mca_btl_ibx_job_t *mca_btl_ibx_job_new(mca_btl_ibx_module_t *module, uint8_t type, mca_btl_base_endpoint_t *endpoint,
                                       void *local, uint64_t length, mca_btl_base_registration_handle_t *local_handle,
                                       mca_btl_base_rdma_completion_fn_t callback, void *context, void *cbdata);
/* Its callback, and the job is free. lock is not held. */
void mca_btl_ibx_job_end(mca_btl_ibx_module_t *module, mca_btl_ibx_job_t *job);

/* Issues what is left of a job, in parts of at most `most` bytes; post: issues one of n bytes, and returns OPAL_ERR_RESOURCE_BUSY if
 * there is no room. False: not all is issued. True: it is, or the job has failed. lock is held. */
bool mca_btl_ibx_job_issue(mca_btl_ibx_job_t *job, uint64_t most, int (*post)(mca_btl_ibx_job_t *job, uint32_t n));

/* One part less. True: the job is over, and mca_btl_ibx_job_end is to be called without the lock. lock is held. */
static inline bool mca_btl_ibx_job_part_done(mca_btl_ibx_job_t *job, int status)
{
    if (OPAL_UNLIKELY(OPAL_SUCCESS != status)) {
        job->status = status;
    }
    return 0 == --job->parts;
}

/* The same; a job that is over goes to the module's list `ended`. lock is held. */
void mca_btl_ibx_job_part_ended(mca_btl_ibx_job_t *job, int status);

/* btl_put, btl_get. */
MCA_BTL_IBX_DECLARE(put, mca_btl_ibx_put);
MCA_BTL_IBX_DECLARE(get, mca_btl_ibx_get);

#endif
