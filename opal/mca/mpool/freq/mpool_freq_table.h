/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* For a BTL: is this small buffer to be sent in place, or copied? (000 chapter 5)
 *
 * mpool/freq keeps a table of buffer usage for each transport that asks for one. This header is all
 * that a BTL needs of it; nothing is linked. The service is found by the name of the component and
 * by its version; without it (not installed, excluded, another version) everything is copied.
 *
 *     const mca_mpool_freq_service_t *freq = mca_mpool_freq_service();
 *     if (NULL != freq) {
 *         module->table = freq->open(&transport);       // at start-up; NULL: copy everything
 *     }
 *     ...
 *     // least: what freq->least said, if not 0; gate: transport.gate
 *     if (size >= module->least && !freq_gate_passes(&module->gate, data)) {
 *         start = freq_gate_place_starts(&module->gate);
 *         if (freq->is_frequent(module->table, data, size, &note)) {
 *             if (what is noted serves) freq_gate_place_ends(&module->gate, start);
 *             else if (registering it fails) freq->refused(module->table, data, size);
 *             else freq->registered(module->table, size, the ns that took);
 *         }
 *     }
 *     if (it is to be copied) {
 *         // gate: NULL if size < module->least
 *         start = freq_gate_copy_starts(gate); ...; freq_gate_copy_ends(gate, start, size);
 *     }
 *     ...
 *     freq->close(module->table);                       // before the BTL goes
 *
 * Registrations are the BTL's: it finds them in its cache (rcache), which also sees to memory that
 * goes away while it is registered. What the table knows of such memory is dropped as well.
 *
 * Threads: is_frequent, registered and refused may be called by any number at once; they allocate nothing, make
 * no system call and wait for nobody. The others are for start-up and end. */
#ifndef MPOOL_FREQ_TABLE_H
#define MPOOL_FREQ_TABLE_H

#include "opal_config.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "opal/mca/mpool/base/base.h"
#include "core/freq_gate.h"

#define MCA_MPOOL_FREQ_SERVICE_VERSION 6

/* The table knows of nothing larger, and says no. */
enum { MCA_MPOOL_FREQ_SIZE_MAX = 65536 };

/* What a buffer costs with a transport; used by open, in the calling thread. */
typedef struct mca_mpool_freq_transport {
    /* What the costs depend on: transport and device ("ibx verbs mlx5_0"). At most 63 characters.
     * Costs that were measured for the same name on this host are used again. */
    const char *name;
    /* Register memory as for sending it, in the cache that sends use: a range that is registered
     * already is found there. *registration is given back to deregister. An OPAL code. */
    int (*register_mem)(void *context, void *base, size_t size, void **registration);
    void (*deregister_mem)(void *context, void *registration);
    /* Take a registration once more, as by a note, and give it back; or NULL: there is no such way. */
    bool (*again)(void *context, void *registration, void *base, size_t size);
    /* ns that a message in place costs the transport beyond a copied one, without finding, registering or
     * copying anything; measured. Negative: not known. NULL: nothing. */
    double (*place)(void *context);
    /* The transport's, zeroed, until close: what it looks at before it asks, and where it counts copies. */
    freq_gate_t *gate;
    void *context;
} mca_mpool_freq_transport_t;

typedef struct mca_mpool_freq_table mca_mpool_freq_table_t;

/* Where a transport keeps what it found last for a buffer, for example its registration. It may be
 * of another buffer by now, or of one that is gone: a hint, to be checked. Zero at first. */
typedef _Atomic(void *) mca_mpool_freq_note_t;

/* What a transport left in place of the payload of small messages, counted by the transport. Of threads that
 * count at once one may be lost. */
typedef struct mca_mpool_freq_traffic {
    _Atomic uint64_t in_place, bytes_in_place;
    _Atomic uint64_t notes_used; /* registrations found by a note, without a look into the cache */
} mca_mpool_freq_traffic_t;

static inline void mca_mpool_freq_add(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

typedef struct mca_mpool_freq_service {
    uint32_t version; /* MCA_MPOOL_FREQ_SERVICE_VERSION */
    uint32_t size;    /* of this struct */
    /* A table with the break-even counts of a transport. NULL: out of memory, there are as many tables
     * as there may be, or the transport has no gate. The strings of `transport` are copied. */
    mca_mpool_freq_table_t *(*open)(const mca_mpool_freq_transport_t *transport);
    /* The table is used no more. Its counts stay in the summary. */
    void (*close)(mca_mpool_freq_table_t *table);
    /* The buffer is used, and did not pass the gate. True: send (or fetch) it in place; *note is then the buffer's.
     * false: copy it; that is counted at the gate. */
    bool (*is_frequent)(mca_mpool_freq_table_t *table, const void *base, size_t size,
                        mca_mpool_freq_note_t **note);
    /* is_frequent said true, but the registration that was noted is gone. True: make another one;
     * false: too many were made of late for what they gained, copy. */
    bool (*may_renew)(mca_mpool_freq_table_t *table, size_t size);
    /* is_frequent said true, nothing (that serves) was noted, and registering the buffer took so many ns: also if the cache
     * had it already. */
    void (*registered)(mca_mpool_freq_table_t *table, size_t size, uint64_t ns);
    /* is_frequent said true, but the buffer could not be registered. */
    void (*refused)(mca_mpool_freq_table_t *table, const void *base, size_t size);
    /* Break-even count of a size, and the uses after which is_frequent says true; 0: never. */
    void (*counts)(const mca_mpool_freq_table_t *table, size_t size, uint32_t *n, uint32_t *after);
    /* The least size that is ever sent in place; 0: none is. What is smaller need not be asked of, nor counted. */
    size_t (*least)(const mca_mpool_freq_table_t *table);
    /* To be counted by the transport. */
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
    if (NULL == component
        || SPEC_VERSION_MAJOR != component->mpool_version.mca_component_major_version
        || SPEC_VERSION_MINOR != component->mpool_version.mca_component_minor_version
        || SPEC_VERSION_RELEASE != component->mpool_version.mca_component_release_version) {
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
