/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See mpool_freq_segment.h: memory from the kernel (huge pages), its registrations with the network, and
 * the time between MPI_Init and MPI_Finalize in which those can be made. */
#include "mpool_freq_segment.h"

#include <mpi.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t) 2 << 20)

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) & ~(to - 1);
}

/* ---- memory ---- */

static char *map(size_t size, int flags)
{
    void *base =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    return MAP_FAILED == base ? NULL : base;
}

/* Pages of the usual size at a multiple of `alignment`. */
static char *map_aligned(size_t size, size_t alignment)
{
    if (alignment <= (size_t) sysconf(_SC_PAGESIZE)) {
        return map(size, 0);
    }
    if (size + alignment < size) {
        return NULL;
    }
    char *base = map(size + alignment, 0);
    if (NULL == base) {
        return NULL;
    }
    char *aligned = (char *) round_up((uintptr_t) base, alignment);
    if (aligned > base) {
        (void) munmap(base, (size_t) (aligned - base));
    }
    (void) munmap(aligned + size, alignment - (size_t) (aligned - base));
    return aligned;
}

/* Huge pages that the administrator set aside, if there are enough of them now and little is wasted
 * by whole ones. */
static char *map_huge(size_t *size, size_t alignment)
{
    const size_t whole = round_up(*size, HUGE_PAGE);
    if (!mca_mpool_freq_component.huge_pages || alignment > HUGE_PAGE || whole < *size
        || whole - *size > *size / 8) {
        return NULL;
    }
    char *base = map(whole, MAP_HUGETLB | 21 << MAP_HUGE_SHIFT);
    if (NULL != base) {
        *size = whole;
        mca_mpool_freq_count(&mca_mpool_freq_component.counters.segments_huge);
    }
    return base;
}

static void raise_to(_Atomic uint64_t *most, uint64_t value)
{
    uint64_t was = atomic_load(most);
    while (was < value && !atomic_compare_exchange_weak(most, &was, value)) {}
}

mca_mpool_freq_segment_t *mca_mpool_freq_segment_new(size_t size, size_t alignment, bool is_pool)
{
    mca_mpool_freq_counters_t *counters = &mca_mpool_freq_component.counters;
    mca_mpool_freq_segment_t *segment = calloc(1, sizeof(*segment));
    size = round_up(size, (size_t) sysconf(_SC_PAGESIZE));
    if (NULL == segment || 0 == size) {
        free(segment);
        return NULL;
    }
    segment->base = size >= HUGE_PAGE ? map_huge(&size, alignment) : NULL;
    if (NULL == segment->base) {
        const bool is_big = size >= HUGE_PAGE && mca_mpool_freq_component.huge_pages;
        segment->base = map_aligned(size, is_big && alignment < HUGE_PAGE ? HUGE_PAGE : alignment);
        if (NULL != segment->base && is_big) {
            /* The kernel makes huge pages of it if it can; a device then has fewer to translate. */
            (void) madvise(segment->base, size, MADV_HUGEPAGE);
        }
    }
    if (NULL != segment->base && is_pool) {
        const uint32_t units = (uint32_t) (size >> MCA_MPOOL_FREQ_UNIT_LOG);
        segment->record = calloc(units, sizeof(*segment->record));
        if (NULL == segment->record) {
            (void) munmap(segment->base, size);
            segment->base = NULL;
        } else {
            freq_space_init(&segment->space, segment->record, units);
        }
    }
    if (NULL == segment->base) {
        free(segment);
        return NULL;
    }
    segment->size = size;
    segment->is_pool = is_pool;
    mca_mpool_freq_count(&counters->segments);
    raise_to(&counters->bytes_mapped_most, atomic_fetch_add(&counters->bytes_mapped, size) + size);
    return segment;
}

void mca_mpool_freq_segment_free(mca_mpool_freq_segment_t *segment)
{
    mca_mpool_freq_segment_deregister(segment);
    (void) munmap(segment->base, segment->size);
    (void) atomic_fetch_sub(&mca_mpool_freq_component.counters.bytes_mapped, segment->size);
    free(segment->record);
    free(segment);
}

/* ---- registrations ---- */

void mca_mpool_freq_segment_deregister(mca_mpool_freq_segment_t *segment)
{
    for (uint32_t i = 0; i < segment->keys; ++i) {
        mca_btl_base_module_t *btl = segment->key[i].btl;
        (void) btl->btl_deregister_mem(btl, segment->key[i].handle);
        mca_mpool_freq_count(&mca_mpool_freq_component.counters.deregistrations);
    }
    if (segment->keys > 0) {
        (void) atomic_fetch_sub(&mca_mpool_freq_component.counters.bytes_registered, segment->size);
    }
    segment->keys = 0;
}

static bool has_key(const mca_mpool_freq_segment_t *segment, const mca_btl_base_module_t *btl)
{
    for (uint32_t i = 0; i < segment->keys; ++i) {
        if (btl == segment->key[i].btl) {
            return true;
        }
    }
    return false;
}

static bool register_with(mca_mpool_freq_segment_t *segment, mca_btl_base_module_t *btl)
{
    mca_mpool_freq_counters_t *counters = &mca_mpool_freq_component.counters;
    mca_btl_base_registration_handle_t *handle = NULL;
    if (segment->keys < MCA_MPOOL_FREQ_MODULES) {
        handle = btl->btl_register_mem(btl, MCA_BTL_ENDPOINT_ANY, segment->base, segment->size,
                                       MCA_BTL_REG_FLAG_ACCESS_ANY);
    }
    if (NULL == handle) {
        mca_mpool_freq_count(&counters->registrations_failed);
        return false;
    }
    if (0 == segment->keys) {
        raise_to(&counters->bytes_registered_most,
                 atomic_fetch_add(&counters->bytes_registered, segment->size) + segment->size);
    }
    segment->key[segment->keys].btl = btl;
    segment->key[segment->keys++].handle = handle;
    mca_mpool_freq_count(&counters->registrations);
    return true;
}

bool mca_mpool_freq_segment_register(mca_mpool_freq_segment_t *segment)
{
    mca_btl_base_selected_module_t *selected;
    if (segment->is_refused) {
        return false;
    }
    OPAL_LIST_FOREACH (selected, &mca_btl_base_modules_initialized,
                       mca_btl_base_selected_module_t) {
        mca_btl_base_module_t *btl = selected->btl_module;
        if (NULL != btl->btl_register_mem && NULL != btl->btl_deregister_mem
            && !has_key(segment, btl) && !register_with(segment, btl)) {
            /* What only some transports have pinned is of no use to the others and scarce. */
            mca_mpool_freq_segment_deregister(segment);
            segment->is_refused = true;
            return false;
        }
    }
    return true;
}

/* ---- from MPI_Init to MPI_Finalize ---- */

static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int watching; /* 1: MPI_COMM_SELF tells when it goes; -1: it has gone */

/* A duplicate of MPI_COMM_SELF tells nothing. */
SPEC_DO_NOT_COPY(do_not_copy)

static int comm_self_goes(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void) comm, (void) keyval, (void) value, (void) extra;
    atomic_store(&watching, -1);
    mca_mpool_freq_deregister_all();
    return MPI_SUCCESS;
}

static bool is_between_init_and_finalize(void)
{
    const int32_t state = ompi_mpi_state;
    return state >= OMPI_MPI_STATE_INIT_COMPLETED
           && state < OMPI_MPI_STATE_FINALIZE_PAST_COMM_SELF_DESTRUCT
           && opal_btl_base_framework.framework_refcnt > 0;
}

bool mca_mpool_freq_may_register(void)
{
    const int state = atomic_load(&watching);
    if (0 != state) {
        return state > 0;
    }
    if (!is_between_init_and_finalize()) {
        return false;
    }
    /* (Not by MPI's functions: those of the program may come from a library whose handles have other values.) */
    ompi_attribute_fn_ptr_union_t copy = {.attr_communicator_copy_fn = do_not_copy};
    ompi_attribute_fn_ptr_union_t goes = {.attr_communicator_delete_fn = comm_self_goes};
    ompi_communicator_t *self = &ompi_mpi_comm_self.comm;
    int key = MPI_KEYVAL_INVALID;
    pthread_mutex_lock(&watch_lock);
    if (0 == atomic_load(&watching)
        && OMPI_SUCCESS == ompi_attr_create_keyval(COMM_ATTR, copy, goes, &key, NULL, 0, NULL)) {
        /* Attributes go last in, first out: after those of the program's libraries that were set
         * later, before MPI takes anything down. */
        if (OMPI_SUCCESS == ompi_attr_set_c(COMM_ATTR, self, &self->c_keyhash, key, NULL, false)) {
            atomic_store(&watching, 1);
        }
        (void) ompi_attr_free_keyval(COMM_ATTR, &key, false); /* goes when the attribute does */
    }
    pthread_mutex_unlock(&watch_lock);
    return atomic_load(&watching) > 0;
}
