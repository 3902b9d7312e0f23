/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What btl/ibx, rcache/lazy and mpool/freq promise to each other and to pml/spec beyond Open MPI's own interfaces.
 * No component includes another's headers or links against another: this header is all that they share.
 *
 * A promise is found by the name of its component and a version. Without the component, or with another version of it, a
 * caller does what it does with any other component. */
#ifndef SPEC_PROMISES_H
#define SPEC_PROMISES_H

#include "opal_config.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "opal/mca/btl/btl.h"
#include "opal/mca/mpool/base/base.h"
#include "opal/mca/rcache/base/base.h"
#include "opal/mca/rcache/rcache.h"

#include "freq_gate.h"

/* Is this component ours, and from the same build? */
static inline bool mca_spec_is_component(const mca_base_component_t *component, const char *name)
{
    return 0 == strcmp(name, component->mca_component_name)
           && SPEC_VERSION_MAJOR == component->mca_component_major_version
           && SPEC_VERSION_MINOR == component->mca_component_minor_version
           && SPEC_VERSION_RELEASE == component->mca_component_release_version;
}

/* ======== btl/ibx ======== */

/* Read with mca_btl_ibx_promises(), which reads only a module whose component is named ibx and which begins with this
 * struct of this version.
 *
 * MCA_BTL_IBX_ORDERED: for one endpoint of one module, a message with order MCA_BTL_IBX_ORDER given to btl_send
 * or btl_sendi after a btl_put was is seen by the peer - its callback is called - only after all data of that
 * put is in the peer's memory, whatever gets lost or overtaken and however many puts there are. It need not
 * wait for the put's callback; a FIN directly behind its put leaves while both processes compute. Messages with
 * another order pass the puts that are under way. (Descriptors have it from btl_alloc and btl_prepare_src.)
 * MCA_BTL_IBX_FENCED: a message with order MCA_BTL_IBX_ORDER given after a btl_get leaves only after all data
 * of that get is here, so that a FIN may be given directly behind its get. Without this promise, or with
 * another order, nothing is said about what is posted behind a get (its data comes the other way: wait for
 * its callback).
 * MCA_BTL_IBX_PINS: registrations (btl_register_mem) are kept in a cache, and one that is pinned while its
 * memory is given back to the system does no harm: no use gets it any more. A caller that only keeps one says
 * so with MCA_BTL_IBX_REG_PIN in the flags, and never gives its handle to a peer or to a transfer.
 * MCA_BTL_IBX_GATHERS: with MCA_BTL_IBX_MORE in des_flags btl_send says that the message may wait, in its order, for others that
 * follow: until one without the flag takes it along, or `flush` or the component's progress is called. If it lies in the BTL's
 * buffer its callback is called by the next progress, and btl_send does not return 1. *polls counts the calls of progress. The same
 * flag given to btl_sendi says it of its message, and given to btl_put of the put, whose callback is called as ever.
 * MCA_BTL_IBX_BLOCKS in des_flags: the caller can do nothing else until the message is complete. It is complete as soon as it
 * is copied, however many before it are not acknowledged; without the flag one behind many may be complete no earlier than
 * its acknowledgement. A transport without the promise MCA_BTL_IBX_GATHERS ignores it.
 * MCA_BTL_IBX_ASYNC: what was put, and what the peer gets, moves while neither process calls MPI.
 * Not promised: anything about puts behind a message, between endpoints, or between modules. If the put fails the
 * connection has ended, and the message is not delivered either. */

#define MCA_BTL_IBX_MAGIC   UINT32_C(0x69627870)
#define MCA_BTL_IBX_VERSION UINT32_C(5) /* changes when the meaning of anything here does */

enum { MCA_BTL_IBX_ORDER = 0 };
enum { MCA_BTL_IBX_REG_PIN = 1 << 30 };                            /* beyond MCA_BTL_REG_FLAG_* */
enum { MCA_BTL_IBX_MORE = 1 << 30, MCA_BTL_IBX_BLOCKS = 1 << 29 }; /* beyond MCA_BTL_DES_* */
enum {
    MCA_BTL_IBX_ORDERED = 1,
    MCA_BTL_IBX_FENCED = 2,
    MCA_BTL_IBX_PINS = 4,
    MCA_BTL_IBX_GATHERS = 8,
    MCA_BTL_IBX_ASYNC = 16,
};

/* A thread of the caller that calls progress while the program computes, and has processors that no program computes on. */
typedef struct mca_btl_ibx_helper {
    /* Progress will find something. It neither waits nor calls MPI or a BTL, and may be called often for one thing. */
    void (*arrived)(void);
    const void *processors; /* a cpu_set_t of so many bytes */
    size_t size;
} mca_btl_ibx_helper_t;

/* The beginning of each module. */
typedef struct mca_btl_ibx_public {
    mca_btl_base_module_t super;
    uint32_t magic;
    uint32_t version;
    uint32_t promises;
    uint32_t in_place_min; /* see mca_btl_ibx_sends_in_place */
    const uint32_t *polls; /* with MCA_BTL_IBX_GATHERS; to be read atomically */
    /* With MCA_BTL_IBX_GATHERS: what was gathered leaves. Any thread. */
    void (*flush)(mca_btl_base_module_t *btl);
    void (*help)(mca_btl_base_module_t *btl, const mca_btl_ibx_helper_t *helper); /* see mca_btl_ibx_help */
} mca_btl_ibx_public_t;

/* MCA_BTL_IBX_ORDERED and the like of this module; 0 of any other BTL's. */
static inline uint32_t mca_btl_ibx_promises(const mca_btl_base_module_t *btl)
{
    const mca_btl_ibx_public_t *module = (const mca_btl_ibx_public_t *) btl;
    const char *name = btl->btl_component->btl_version.mca_component_name;
    if ('i' != name[0]
        || 0 != strcmp("bx", name + 1) /* asked for each message: mostly without a call */
        || MCA_BTL_IBX_MAGIC != module->magic || MCA_BTL_IBX_VERSION != module->version) {
        return 0;
    }
    return module->promises;
}

/* Messages of this size are worth btl_prepare_src: it finds out by itself which of them to copy and
 * which to send in place. False of smaller ones, of any other BTL, and where it does not find out. */
static inline bool mca_btl_ibx_sends_in_place(const mca_btl_base_module_t *btl, size_t size)
{
    return 0 != mca_btl_ibx_promises(btl) && 0 != ((const mca_btl_ibx_public_t *) btl)->in_place_min
           && size >= ((const mca_btl_ibx_public_t *) btl)->in_place_min;
}

/* How often the progress of this transport was called, if it gathers; NULL of any other BTL. */
static inline const uint32_t *mca_btl_ibx_polls(const mca_btl_base_module_t *btl)
{
    return mca_btl_ibx_promises(btl) & MCA_BTL_IBX_GATHERS
               ? ((const mca_btl_ibx_public_t *) btl)->polls
               : NULL;
}

/* Sends what this transport gathered, if it does. */
static inline void mca_btl_ibx_flush(mca_btl_base_module_t *btl)
{
    if (mca_btl_ibx_promises(btl) & MCA_BTL_IBX_GATHERS) {
        ((const mca_btl_ibx_public_t *) btl)->flush(btl);
    }
}

/* There is such a thread, or (NULL) no more; then no call of `arrived` is under way when this returns. A thread of the transport, if it
 * has one, calls `arrived`; if it has no processor of its own, and the user has not said how it is to work, it moves to these for
 * good, and takes all that comes as it comes. *helper is copied. Not from within `arrived`. */
static inline void mca_btl_ibx_help(mca_btl_base_module_t *btl, const mca_btl_ibx_helper_t *helper)
{
    const mca_btl_ibx_public_t *module = (const mca_btl_ibx_public_t *) btl;
    if (0 != mca_btl_ibx_promises(btl) && NULL != module->help) {
        module->help(btl, helper);
    }
}

/* ======== rcache/lazy: a hit without a search ======== */

#define MCA_RCACHE_LAZY_SERVICE_VERSION 1

typedef struct mca_rcache_lazy_service {
    uint32_t version; /* MCA_RCACHE_LAZY_SERVICE_VERSION */
    uint32_t size;    /* of this struct */
    /* As rcache_register without flags, but only if `reg`, which this cache gave to the caller at any time before, still
     * serves. False: nothing was taken. Any thread; no lock, no search. */
    bool (*again)(mca_rcache_base_module_t *rcache, mca_rcache_base_registration_t *reg, void *base,
                  size_t size, int32_t access);
} mca_rcache_lazy_service_t;

/* The component as others see it. */
typedef struct mca_rcache_lazy_public {
    mca_rcache_base_component_t super;
    const mca_rcache_lazy_service_t *service;
} mca_rcache_lazy_public_t;

/* The service of a cache; NULL: the cache is another component's, or another version's. */
static inline const mca_rcache_lazy_service_t *
mca_rcache_lazy_service(const mca_rcache_base_module_t *rcache)
{
    if (!mca_spec_is_component(&rcache->rcache_component->rcache_version, "lazy")) {
        return NULL;
    }
    const mca_rcache_lazy_service_t *service =
        ((const mca_rcache_lazy_public_t *) rcache->rcache_component)->service;
    return NULL != service && MCA_RCACHE_LAZY_SERVICE_VERSION == service->version
                   && service->size >= sizeof(*service)
               ? service
               : NULL;
}

/* ======== mpool/freq: is this small buffer to be sent in place, or copied? (000 chapter 5) ========
 *
 * mpool/freq keeps a table of buffer uses for each transport that asks for one:
 *
 *     table = freq->open(&transport);         // at start-up; NULL: copy everything
 *     ...
 *     // per message; least: what freq->least said, if not 0; gate: transport.gate
 *     if (size >= least && !freq_gate_passes(gate, data) && freq->is_frequent(table, data, size, &note)) {
 *         if (the registration in *note serves) send in place;
 *         else if (*note was NULL or freq->may_renew(table, size)) {
 *             register it, note it, and call freq->registered(table, size, the ns that took),
 *             or freq->refused(table, data, size) if that fails;
 *         }
 *     }
 *     // around its copy, if size >= least: freq_gate_copy_starts(gate), freq_gate_copy_ends(gate, start, size)
 *     ...
 *     freq->close(table);                     // before the transport goes
 *
 * Registrations are the transport's. It finds them in its cache, which also sees to memory that goes away.
 *
 * Threads: is_frequent, may_renew, registered and refused may be called by any number at once; they allocate nothing, make no
 * system call and never wait. The others are for start-up and end. */

#define MCA_MPOOL_FREQ_SERVICE_VERSION 8

/* The table knows of nothing larger, and says no. */
enum { MCA_MPOOL_FREQ_SIZE_MAX = 65536 };

/* What open measures with, in the calling thread. */
typedef struct mca_mpool_freq_transport {
    /* What the costs depend on: transport and device ("ibx verbs mlx5_0"). At most 63 characters.
     * Costs that were measured for the same name on this host are used again. */
    const char *name;
    /* Registers memory as for sending it, in the cache that sends use. *registration is for deregister_mem. An OPAL code. */
    int (*register_mem)(void *context, void *base, size_t size, void **registration);
    void (*deregister_mem)(void *context, void *registration);
    /* Takes a registration once more, as by a note, and gives it back; or NULL: there is no such way. */
    bool (*again)(void *context, void *registration, void *base, size_t size);
    freq_gate_t *gate; /* the transport's, zeroed, until close */
    void *context;
} mca_mpool_freq_transport_t;

typedef struct freq_table mca_mpool_freq_table_t; /* only mpool/freq knows what is in it */

/* Where a transport keeps what it found last for a buffer, for example its registration. It may be
 * of another buffer by now, or of one that is gone: a hint, to be checked. NULL at first. */
typedef _Atomic(void *) mca_mpool_freq_note_t;

/* Counted by the transport. Of threads that count at once one may be lost. */
typedef struct mca_mpool_freq_traffic {
    _Atomic uint64_t in_place, bytes_in_place; /* payloads sent from where they are */
    _Atomic uint64_t notes_used;               /* of these, without a search in the cache */
} mca_mpool_freq_traffic_t;

static inline void mca_mpool_freq_add(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

typedef struct mca_mpool_freq_service {
    uint32_t version; /* MCA_MPOOL_FREQ_SERVICE_VERSION */
    uint32_t size;    /* of this struct */
    /* A table with the break-even counts of a transport. NULL: no memory, too many tables, or the transport has no gate. The
     * name is copied. */
    mca_mpool_freq_table_t *(*open)(const mca_mpool_freq_transport_t *transport);
    /* The table is used no more. Its counts stay in the summary. */
    void (*close)(mca_mpool_freq_table_t *table);
    /* The buffer is used, and did not pass the gate. True: send (or fetch) it in place; *note is then the buffer's. */
    bool (*is_frequent)(mca_mpool_freq_table_t *table, const void *base, size_t size,
                        mca_mpool_freq_note_t **note);
    /* is_frequent said true, but the registration that was noted does not serve. True: make another one; false: copy, since
     * that is not paid for yet. */
    bool (*may_renew)(mca_mpool_freq_table_t *table, size_t size);
    /* is_frequent said true, and registering the buffer, or finding it registered in the cache, took so many ns. */
    void (*registered)(mca_mpool_freq_table_t *table, size_t size, uint64_t ns);
    /* is_frequent said true, but the buffer could not be registered. */
    void (*refused)(mca_mpool_freq_table_t *table, const void *base, size_t size);
    /* Break-even count of a size, and the uses after which is_frequent says true; 0: never. */
    void (*counts)(const mca_mpool_freq_table_t *table, size_t size, uint32_t *n, uint32_t *after);
    /* The least size that is ever sent in place; 0: none is. The table is not to be asked of smaller ones. */
    size_t (*least)(const mca_mpool_freq_table_t *table);
    mca_mpool_freq_traffic_t *(*traffic)(mca_mpool_freq_table_t *table);
} mca_mpool_freq_service_t;

/* The component as others see it. */
typedef struct mca_mpool_freq_public {
    mca_mpool_base_component_t super;
    const mca_mpool_freq_service_t *service;
} mca_mpool_freq_public_t;

/* The service, or NULL. Valid until the mpool framework is closed, which is after all BTLs. */
static inline const mca_mpool_freq_service_t *mca_mpool_freq_service(void)
{
    const mca_mpool_base_component_t *component = mca_mpool_base_component_lookup("freq");
    if (NULL == component || !mca_spec_is_component(&component->mpool_version, "freq")) {
        return NULL;
    }
    const mca_mpool_freq_service_t *service =
        ((const mca_mpool_freq_public_t *) component)->service;
    return NULL != service && MCA_MPOOL_FREQ_SERVICE_VERSION == service->version
                   && service->size >= sizeof(*service)
               ? service
               : NULL;
}

#endif
