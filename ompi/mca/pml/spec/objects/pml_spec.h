/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* pml/spec: point-to-point messaging with a speculative rendezvous. The module and what all its
 * files share. docs/design/protocol.md tells the protocol, README.md in this folder the way of a message
 * through the files. */
#ifndef PML_SPEC_H
#define PML_SPEC_H

#include "pml_spec_compat.h"

#include "../core/spec_adapt.h"
#include "../core/spec_bias.h"
#include "../core/spec_costs.h"
#include "../core/spec_flow.h"
#include "../core/spec_handle.h"
#include "spec_list.h"
#include "spec_now.h"
#include "../core/spec_retry.h"
#include "../core/spec_stage.h"
#include "pml_spec_counters.h"
#include "pml_spec_wire.h"

/* Messages up to this size (bytes) are built on the stack and handed to the transport in one
 * piece, without a request. */
#define MCA_PML_SPEC_TINY ((size_t) 256)
/* Of these, up to this size are copied behind the header first: cheaper than a convertor. */
#define MCA_PML_SPEC_TINY_COPY 64

enum {
    MCA_PML_SPEC_SPECULATION_OFF,
    MCA_PML_SPEC_SPECULATION_ON,
    MCA_PML_SPEC_SPECULATION_AUTO,
};

enum {
    MCA_PML_SPEC_PROGRESS_OFF,
    MCA_PML_SPEC_PROGRESS_ON,
    MCA_PML_SPEC_PROGRESS_AUTO,
};

/* Communicator ids are 16 bits on the wire; the table of them has two levels, so that it costs
 * memory only where ids are used and can be read without a lock. */
#define MCA_PML_SPEC_CID_CHUNK 256u

typedef struct mca_pml_spec_module {
    mca_pml_spec_super_t super;

    /* parameters (pml_spec_component.c) */
    int priority;
    int verbose;
    int speculation;
    int stage_gaps;
    int progress;
    char *progress_processors; /* a list, or NULL */
    int pipeline_depth;
    size_t copy_limit;
    size_t slot_min;
    size_t stripe_min;
    size_t persistent_max;
    size_t staging_max;
    long unexpected_max; /* bytes; -1: by the memory of the host */
    long eager_max;      /* bytes; -1: by what copies cost */
    long pipeline_max;   /* the same */
    long cico_min;       /* bytes */
    int adapt_threshold; /* percent */
    size_t patience_max; /* microseconds */
    int gather;          /* messages */
    int yield_polls;     /* 0: never */
    bool summary;
    char *profile; /* file, or NULL */

    int output; /* stream of opal_output_verbose */
    bool enabled;
    bool profile_refused; /* it is somebody else's file: do not write it */
    int depth;            /* mca_pml_spec_depth() of the only thread */
    bool threaded;        /* callbacks may come in other threads: locks and atomics are needed */
    bool has_agent;       /* requests are counted for it: pml_spec_agent.h */
    bool waits_alone;     /* nobody else of the program waits: pml_spec_wait.h */
    spec_bias_t bias; /* threaded: whether the program goes without them while the agent pauses */
    bool devices;     /* buffers may be in the memory of an accelerator */
    size_t eager_min; /* smallest eager payload of all transports, bytes */
    uint64_t my_name;
    volatile int32_t offers;    /* large receives that have sent an RTR and are not complete */
    volatile int32_t announced; /* large sends that have sent an RTS and are not complete */
    volatile int32_t revokes;   /* REVOKEs that have no answer yet: MPI_Finalize waits for those */
    volatile int32_t packed;    /* sends that are complete for MPI and have not left their copies */
    volatile int32_t late_revokes; /* of them, those of communicators that were freed */

    spec_costs_t costs; /* pml_spec_costs.h; under lock, as the next */
    bool costs_measured;

    opal_free_list_t frags;       /* mca_pml_spec_frag_t */
    opal_free_list_t transfers;   /* mca_pml_spec_transfer_t */
    opal_free_list_t pipes;       /* mca_pml_spec_pipe_t */
    opal_free_list_t ranges;      /* mca_pml_spec_range_t */
    opal_free_list_t late_copies; /* mca_pml_spec_device_late_t */
    opal_convertor_t bytes;       /* single-threaded use: a block of bytes to be sent */
    uint32_t immediate; /* longer messages by send-immediate, or by slot: pml_spec_eager.h */
    opal_free_list_t rtrs;        /* mca_pml_spec_rtr_t */

    /* Protects handles, store, retry, lost, parked, early_hellos, the slots of the table of communicators and those for data
     * (pml_spec_slots.c). Innermost: nothing is called under it. */
    opal_mutex_t lock;
    spec_handle_table_t send_handles;
    spec_handle_table_t recv_handles;
    spec_store_t store;       /* what unexpected messages take: pml_spec_flow.h */
    spec_retry_t retry;       /* mca_pml_spec_pending_t: what the transports refused for now */
    spec_node_t early_hellos; /* pml_spec_hello.c */
    struct mca_pml_spec_lost *lost; /* processes that a transport gave up: pml_spec_lost.h */
    volatile uint32_t lost_n;
    struct mca_pml_spec_cid_slot *cids[65536u / MCA_PML_SPEC_CID_CHUNK];

    /* Adaptation (pml_spec_adapt.c): what I receive, what I send. Innermost lock; covers also the
     * clocks of all peers. */
    opal_mutex_t adapt_lock;
    spec_adapt_t adapt_in;
    spec_adapt_t adapt_out;

    mca_pml_spec_counters_t counters;
} mca_pml_spec_module_t;

extern mca_pml_spec_module_t mca_pml_spec;
extern mca_pml_base_component_t mca_pml_spec_component;

/* How deep the calling thread is in what may call back: a poll of ours, or a completion callback. Both may start
 * sends and receives. */
extern _Thread_local int mca_pml_spec_thread_depth;
static inline int *mca_pml_spec_depth(void)
{
    /* To find a thread's variable is a call in a component, which every completion would make twice. */
    return OPAL_LIKELY(!mca_pml_spec.threaded) ? &mca_pml_spec.depth : &mca_pml_spec_thread_depth;
}

/* May a call that starts a message poll first (mca_pml_spec_poll)? Not below another poll: each message that arrived
 * would start the next call, and that the next poll, without end. */
static inline bool mca_pml_spec_may_poll(void)
{
    return OPAL_LIKELY(0 == *mca_pml_spec_depth());
}

/* ---- locks and atomics that cost nothing while there is one thread, and little while the agent pauses ---- */

/* Begins a section in which nobody else is at work, and which ends soon, with mca_pml_spec_leave. False: others may be. */
static inline bool mca_pml_spec_enter(void)
{
    return OPAL_LIKELY(!mca_pml_spec.threaded) || spec_bias_enter(&mca_pml_spec.bias);
}

static inline void mca_pml_spec_leave(void)
{
    if (OPAL_UNLIKELY(mca_pml_spec.threaded)) {
        spec_bias_leave(&mca_pml_spec.bias);
    }
}

static inline void mca_pml_spec_lock(opal_mutex_t *lock)
{
    if (OPAL_UNLIKELY(!mca_pml_spec_enter())) {
        opal_mutex_lock(lock);
    }
}

static inline void mca_pml_spec_unlock(opal_mutex_t *lock)
{
    if (OPAL_UNLIKELY(mca_pml_spec.threaded) && !spec_bias_unlock(&mca_pml_spec.bias)) {
        opal_mutex_unlock(lock);
    }
}

/* Add and return the new value. */
static inline int64_t mca_pml_spec_add64(volatile int64_t *v, int64_t n)
{
    if (OPAL_UNLIKELY(!mca_pml_spec_enter())) {
        return __atomic_add_fetch(v, n, __ATOMIC_ACQ_REL);
    }
    const int64_t sum = *v += n;
    mca_pml_spec_leave();
    return sum;
}

static inline int32_t mca_pml_spec_add32(volatile int32_t *v, int32_t n)
{
    if (OPAL_UNLIKELY(!mca_pml_spec_enter())) {
        return __atomic_add_fetch(v, n, __ATOMIC_ACQ_REL);
    }
    const int32_t sum = *v += n;
    mca_pml_spec_leave();
    return sum;
}

/* Set bits and return what was set before. */
static inline int32_t mca_pml_spec_set_bits(volatile int32_t *v, int32_t bits)
{
    if (OPAL_UNLIKELY(!mca_pml_spec_enter())) {
        return __atomic_fetch_or(v, bits, __ATOMIC_ACQ_REL);
    }
    const int32_t old = *v;
    *v = old | bits;
    mca_pml_spec_leave();
    return old;
}

/* What another thread has published, and all that it did before. */
#define MCA_PML_SPEC_SEEN(v) __atomic_load_n(&(v), __ATOMIC_ACQUIRE)

/* What other threads count, as it may have been a moment ago. */
#define MCA_PML_SPEC_GLANCE(v) __atomic_load_n(&(v), __ATOMIC_RELAXED)

static inline opal_free_list_item_t *mca_pml_spec_get(opal_free_list_t *list)
{
    if (OPAL_UNLIKELY(!mca_pml_spec_enter())) {
        return opal_free_list_get_mt(list);
    }
    opal_free_list_item_t *item = opal_free_list_get_st(list);
    mca_pml_spec_leave();
    return item;
}

static inline void mca_pml_spec_put_back(opal_free_list_t *list, opal_free_list_item_t *item)
{
    if (OPAL_UNLIKELY(!mca_pml_spec_enter())) {
        opal_free_list_return_mt(list, item);
        return;
    }
    opal_free_list_return_st(list, item);
    mca_pml_spec_leave();
}

static inline void mca_pml_spec_count(uint64_t *counter, uint64_t n)
{
    if (OPAL_UNLIKELY(!mca_pml_spec_enter())) {
        (void) __atomic_add_fetch(counter, n, __ATOMIC_RELAXED);
        return;
    }
    *counter += n;
    mca_pml_spec_leave();
}

#define MCA_PML_SPEC_COUNT_N(name, n)                                                              \
    mca_pml_spec_count(&mca_pml_spec.counters.name, (uint64_t) (n))
#define MCA_PML_SPEC_COUNT(name) MCA_PML_SPEC_COUNT_N(name, 1)

#define MCA_PML_SPEC_VERBOSE(level, ...)                                                           \
    do {                                                                                           \
        if (OPAL_UNLIKELY(mca_pml_spec.verbose >= (level))) {                                      \
            spec_tell(mca_pml_spec.output, __VA_ARGS__);                                           \
        }                                                                                          \
    } while (0)

/* Is (type, count) one block of memory, and where does it begin relative to the buffer? Then the
 * convertor is not needed. (Peers of another architecture are refused by add_procs.) */
static inline bool mca_pml_spec_is_flat(const ompi_datatype_t *dtype, size_t count)
{
    const uint16_t flags = dtype->super.flags;
    return (flags & OPAL_DATATYPE_FLAG_CONTIGUOUS)
           && (1 == count || (flags & OPAL_DATATYPE_FLAG_NO_GAPS));
}

static inline char *mca_pml_spec_flat_base(const void *buf, const ompi_datatype_t *dtype)
{
    return (char *) (uintptr_t) buf + dtype->super.true_lb;
}

#endif
