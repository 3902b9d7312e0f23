/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Offers the counters to tools as MPI_T performance variables, with the lengths of the two matching queues. */
#include "pml_spec_pvars.h"

const mca_pml_spec_counter_t mca_pml_spec_counter[] = {
#define ROW(name, text) {#name, text, offsetof(mca_pml_spec_counters_t, name)},
    MCA_PML_SPEC_COUNTERS(ROW)
#undef ROW
};

static void raise_to(uint64_t *mark, uint64_t value)
{
    uint64_t seen = MCA_PML_SPEC_GLANCE(*mark);
    while (seen < value
           && !__atomic_compare_exchange_n(mark, &seen, value, true, __ATOMIC_RELAXED,
                                           __ATOMIC_RELAXED)) {}
}

void mca_pml_spec_counters_fold(const mca_pml_spec_comm_t *comm)
{
    mca_pml_spec_lock(&comm->slot->lock);
    const uint64_t posted = comm->match.posted_max, unexpected = comm->match.unexp_max;
    mca_pml_spec_unlock(&comm->slot->lock);
    raise_to(&mca_pml_spec.counters.posted_most, posted);
    raise_to(&mca_pml_spec.counters.unexpected_most, unexpected);
}

/* What peers have counted, and keep. */
typedef struct of_peers {
    uint64_t messages, bytes, rtr_kept;
} of_peers_t;

/* Add that of the peers of a communicator; moves: and take the counts away from them. */
static void add_peers(mca_pml_spec_comm_t *comm, bool moves, of_peers_t *sum)
{
    for (uint32_t i = 0; i < comm->size; ++i) {
        mca_pml_spec_peer_t *peer = MCA_PML_SPEC_SEEN(comm->peers[i]);
        if (NULL == peer) {
            continue;
        }
        mca_pml_spec_lock(&peer->send_lock);
        sum->messages += peer->sent_eager;
        sum->bytes += peer->bytes_eager;
        sum->rtr_kept += spec_send_kept(&peer->send);
        if (moves) {
            peer->sent_eager = peer->bytes_eager = 0;
        }
        mca_pml_spec_unlock(&peer->send_lock);
    }
}

void mca_pml_spec_counters_fold_peers(mca_pml_spec_comm_t *comm)
{
    of_peers_t sum = {0};
    add_peers(comm, true, &sum);
    MCA_PML_SPEC_COUNT_N(sent_eager, sum.messages);
    MCA_PML_SPEC_COUNT_N(bytes_eager, sum.bytes);
}

mca_pml_spec_counters_t mca_pml_spec_counters_now(uint64_t *rtr_kept)
{
    of_peers_t sum = {0};
    mca_pml_spec_comm_t *comm;
    mca_pml_spec_lock(&mca_pml_spec.lock);
    const uint64_t kept = mca_pml_spec.store.most;
    mca_pml_spec_unlock(&mca_pml_spec.lock);
    raise_to(&mca_pml_spec.counters.unexpected_bytes_most, kept);
    for (uint32_t cid = 0; NULL != (comm = mca_pml_spec_comm_next(&cid));) {
        mca_pml_spec_counters_fold(comm);
        add_peers(comm, false, &sum);
        mca_pml_spec_comm_put(comm);
    }
    *rtr_kept = sum.rtr_kept;
    mca_pml_spec_counters_t now;
    for (size_t i = 0; i < sizeof(now) / sizeof(uint64_t); ++i) {
        ((uint64_t *) &now)[i] = MCA_PML_SPEC_GLANCE(((uint64_t *) &mca_pml_spec.counters)[i]);
    }
    now.sent_eager += sum.messages;
    now.bytes_eager += sum.bytes;
    return now;
}

static int read_counter(const mca_base_pvar_t *pvar, void *value, void *object)
{
    (void) object;
    const size_t offset = (size_t) (uintptr_t) pvar->ctx;
    const bool walks = offset >= offsetof(mca_pml_spec_counters_t, posted_most)
                       || offset == offsetof(mca_pml_spec_counters_t, sent_eager)
                       || offset == offsetof(mca_pml_spec_counters_t, bytes_eager);
    if (walks) {
        uint64_t rtr_kept;
        const mca_pml_spec_counters_t now = mca_pml_spec_counters_now(&rtr_kept);
        *(unsigned long long *) value = *(const uint64_t *) ((const char *) &now + offset);
    } else {
        *(unsigned long long *) value = MCA_PML_SPEC_GLANCE(
            *(const uint64_t *) ((const char *) &mca_pml_spec.counters + offset));
    }
    return OMPI_SUCCESS;
}

/* The two queue lengths have an element per peer of a communicator, as ob1's of the same name, so
 * that tools which know those find these. */
static int one_per_peer(mca_base_pvar_t *pvar, mca_base_pvar_event_t event, void *object,
                        int *count)
{
    (void) pvar;
    if (MCA_BASE_PVAR_HANDLE_BIND == event) {
        const ompi_communicator_t *comm = object;
        *count = comm->c_remote_group->grp_proc_count;
    }
    return OMPI_SUCCESS;
}

/* ctx: NULL for unexpected messages, else receives. */
static int read_queue(const mca_base_pvar_t *pvar, void *value, void *object)
{
    mca_pml_spec_comm_t *comm = mca_pml_spec_comm_of(object);
    unsigned *length = value;
    memset(length, 0, comm->size * sizeof(*length));
    mca_pml_spec_lock(&comm->slot->lock);
    if (NULL == pvar->ctx) {
        SPEC_LIST_EACH (n, &comm->match.arrival) {
            ++length[SPEC_ENTRY(n, spec_unexp_t, arrival)->src];
        }
    }
    for (uint32_t i = 0; NULL != pvar->ctx && i <= comm->match.mask; ++i) {
        for (const spec_bin_t *bin = comm->match.bucket[i]; NULL != bin; bin = bin->chain) {
            if (SPEC_ANY != bin->src) {
                length[bin->src] += bin->posted_n;
            }
        }
    }
    mca_pml_spec_unlock(&comm->slot->lock);
    return OMPI_SUCCESS;
}

static void register_queue(const char *name, const char *text, bool of_receives)
{
    (void) mca_base_component_pvar_register(
        &mca_pml_spec_component.pmlm_version, name, text, OPAL_INFO_LVL_4, MPI_T_PVAR_CLASS_SIZE,
        MCA_BASE_VAR_TYPE_UNSIGNED_INT, NULL, MPI_T_BIND_MPI_COMM,
        MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, read_queue, NULL, one_per_peer,
        (void *) (uintptr_t) of_receives);
}

void mca_pml_spec_counters_register(void)
{
    for (size_t i = 0; i < MCA_PML_SPEC_COUNTERS_N; ++i) {
        const mca_pml_spec_counter_t *counter = &mca_pml_spec_counter[i];
        (void) mca_base_component_pvar_register(
            &mca_pml_spec_component.pmlm_version, counter->name, counter->text, OPAL_INFO_LVL_4,
            mca_pml_spec_is_mark(counter) ? MPI_T_PVAR_CLASS_HIGHWATERMARK
                                          : MPI_T_PVAR_CLASS_COUNTER,
            MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL, MCA_BASE_VAR_BIND_NO_OBJECT,
            MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, read_counter, NULL, NULL,
            (void *) (uintptr_t) counter->offset);
    }
    register_queue("unexpected_msgq_length", "unexpected messages waiting, per peer", false);
    register_queue("posted_recvq_length", "receives posted and not matched, per peer", true);
}
