/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The pool: allocating memory from segments that are registered with the network, freeing it, and the functions that Open
 * MPI calls for that. */
#include "mpool_freq.h"

#include "mpool_freq_segment.h"

/* ---- all segments, by address ---- */

static struct {
    mca_mpool_freq_segment_t **at;
    size_t n, room;
} all;

/* Where the first segment is that ends behind the address. */
static size_t index_of(const char *address)
{
    size_t low = 0, high = all.n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (all.at[middle]->base + all.at[middle]->size <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static mca_mpool_freq_segment_t *segment_of(const char *address)
{
    const size_t i = index_of(address);
    return i < all.n && all.at[i]->base <= address ? all.at[i] : NULL;
}

static mca_mpool_freq_segment_t *add_segment(size_t size, size_t alignment, bool is_pool)
{
    if (all.n == all.room) {
        const size_t room = 0 == all.room ? 16 : 2 * all.room;
        mca_mpool_freq_segment_t **at = realloc(all.at, room * sizeof(*at));
        if (NULL == at) {
            return NULL;
        }
        all.at = at;
        all.room = room;
    }
    mca_mpool_freq_segment_t *segment = mca_mpool_freq_segment_new(size, alignment, is_pool);
    if (NULL == segment) {
        return NULL;
    }
    const size_t i = index_of(segment->base);
    memmove(&all.at[i + 1], &all.at[i], (all.n - i) * sizeof(*all.at));
    all.at[i] = segment;
    ++all.n;
    return segment;
}

static void drop_segment(mca_mpool_freq_segment_t *segment)
{
    const size_t i = index_of(segment->base);
    --all.n;
    memmove(&all.at[i], &all.at[i + 1], (all.n - i) * sizeof(*all.at));
    mca_mpool_freq_segment_free(segment);
}

void mca_mpool_freq_deregister_all(void)
{
    pthread_mutex_lock(&mca_mpool_freq_component.lock);
    for (size_t i = 0; i < all.n; ++i) {
        mca_mpool_freq_segment_deregister(all.at[i]);
    }
    pthread_mutex_unlock(&mca_mpool_freq_component.lock);
}

/* ---- the pool ---- */

static void *take_from(mca_mpool_freq_segment_t *segment, size_t size, size_t alignment)
{
    const uint32_t units = (uint32_t) ((size + MCA_MPOOL_FREQ_UNIT - 1) >> MCA_MPOOL_FREQ_UNIT_LOG);
    const size_t in_units = alignment >> MCA_MPOOL_FREQ_UNIT_LOG;
    const uint32_t first = freq_space_take(&segment->space, units, in_units > 0 ? in_units : 1,
                                           (uintptr_t) segment->base >> MCA_MPOOL_FREQ_UNIT_LOG);
    return FREQ_SPACE_NONE == first ? NULL
                                    : segment->base + ((size_t) first << MCA_MPOOL_FREQ_UNIT_LOG);
}

static void *take_from_pool(size_t size, size_t alignment, bool may_register, bool must_be_shared)
{
    void *base = NULL;
    for (size_t i = 0; NULL == base && i < all.n; ++i) {
        mca_mpool_freq_segment_t *segment = all.at[i];
        if (segment->is_pool) {
            const bool shared = may_register && mca_mpool_freq_segment_register(segment);
            base = shared || !must_be_shared ? take_from(segment, size, alignment) : NULL;
        }
    }
    return base;
}

/* A segment of that size, registered if that may be. NULL: no memory, or (must_be_shared) not to be
 * registered. */
static mca_mpool_freq_segment_t *new_segment(size_t size, size_t alignment, bool is_pool,
                                             bool may_register, bool must_be_shared)
{
    mca_mpool_freq_segment_t *segment = add_segment(size, alignment, is_pool);
    if (NULL == segment) {
        return NULL;
    }
    const bool shared = may_register && mca_mpool_freq_segment_register(segment);
    if (must_be_shared && !shared) {
        drop_segment(segment);
        return NULL;
    }
    return segment;
}

/* The pool grows by a segment. If so much cannot be registered (RLIMIT_MEMLOCK) by a smaller one; if
 * nothing can be, by one that is not, unless that will not do. */
static void *grow_pool(size_t size, size_t alignment, bool may_register, bool must_be_shared)
{
    const size_t least = size + alignment;
    const size_t most =
        mca_mpool_freq_component.pool_size > least ? mca_mpool_freq_component.pool_size : least;
    mca_mpool_freq_segment_t *segment = NULL;
    for (size_t grow = most; may_register && NULL == segment;
         grow = grow / 2 > least ? grow / 2 : least) {
        segment = new_segment(grow, alignment, true, true, true);
        if (grow == least) {
            break;
        }
    }
    if (NULL == segment && !must_be_shared) {
        segment = new_segment(most, alignment, true, false, false);
    }
    return NULL == segment ? NULL : take_from(segment, size, alignment);
}

static void *alloc_locked(size_t size, size_t alignment, bool may_register, bool must_be_shared)
{
    mca_mpool_freq_counters_t *counters = &mca_mpool_freq_component.counters;
    if (size >= mca_mpool_freq_component.segment_min
        || alignment > mca_mpool_freq_component.pool_size) {
        mca_mpool_freq_segment_t *segment =
            new_segment(size, alignment, false, may_register, must_be_shared);
        if (NULL == segment) {
            return NULL;
        }
        mca_mpool_freq_count(&counters->own_allocations);
        (void) atomic_fetch_add(&counters->bytes_used, segment->size);
        return segment->base;
    }
    void *base = take_from_pool(size, alignment, may_register, must_be_shared);
    if (NULL == base) {
        base = grow_pool(size, alignment, may_register, must_be_shared);
    }
    if (NULL != base) {
        mca_mpool_freq_count(&counters->pool_allocations);
        (void) atomic_fetch_add(&counters->bytes_used, (size + MCA_MPOOL_FREQ_UNIT - 1)
                                                           & ~(size_t) (MCA_MPOOL_FREQ_UNIT - 1));
    }
    return base;
}

void *mca_mpool_freq_alloc(size_t size, size_t alignment, bool must_be_shared)
{
    void *base = NULL;
    size = 0 == size ? 1 : size;
    if (size <= SIZE_MAX / 2 && alignment <= FREQ_ALIGNMENT_MAX) {
        const bool may_register = mca_mpool_freq_may_register();
        pthread_mutex_lock(&mca_mpool_freq_component.lock);
        base = alloc_locked(size, alignment > MCA_MPOOL_FREQ_UNIT ? alignment : MCA_MPOOL_FREQ_UNIT,
                            may_register, must_be_shared);
        pthread_mutex_unlock(&mca_mpool_freq_component.lock);
    }
    if (NULL == base) {
        mca_mpool_freq_count(&mca_mpool_freq_component.counters.failed_allocations);
    }
    return base;
}

/* An allocation's size, 0: none begins there. The lock is held. */
static size_t size_at(const mca_mpool_freq_segment_t *segment, const char *base)
{
    if (NULL == segment) {
        return 0;
    }
    const size_t offset = (size_t) (base - segment->base);
    if (!segment->is_pool) {
        return 0 == offset ? segment->size : 0;
    }
    return 0 != offset % MCA_MPOOL_FREQ_UNIT
               ? 0
               : (size_t) freq_space_size(&segment->space,
                                          (uint32_t) (offset >> MCA_MPOOL_FREQ_UNIT_LOG))
                     << MCA_MPOOL_FREQ_UNIT_LOG;
}

static bool is_last_of_pool(const mca_mpool_freq_segment_t *segment)
{
    for (size_t i = 0; i < all.n; ++i) {
        if (all.at[i]->is_pool && all.at[i] != segment) {
            return false;
        }
    }
    return true;
}

bool mca_mpool_freq_free(void *base)
{
    mca_mpool_freq_counters_t *counters = &mca_mpool_freq_component.counters;
    pthread_mutex_lock(&mca_mpool_freq_component.lock);
    mca_mpool_freq_segment_t *segment = segment_of(base);
    const size_t size = size_at(segment, base);
    if (size > 0) {
        bool is_empty = true;
        if (segment->is_pool) {
            const size_t offset = (size_t) ((char *) base - segment->base);
            (void) freq_space_give(&segment->space, (uint32_t) (offset >> MCA_MPOOL_FREQ_UNIT_LOG));
            /* One empty segment stays: a program that allocates and frees in turn registers once. */
            is_empty = 0 == segment->space.used && !is_last_of_pool(segment);
        }
        if (is_empty) {
            drop_segment(segment);
        }
        (void) atomic_fetch_sub(&counters->bytes_used, size);
    }
    pthread_mutex_unlock(&mca_mpool_freq_component.lock);
    mca_mpool_freq_count(size > 0 ? &counters->frees : &counters->frees_refused);
    return size > 0;
}

size_t mca_mpool_freq_size(const void *base, bool *is_registered)
{
    const bool may_register = mca_mpool_freq_may_register();
    pthread_mutex_lock(&mca_mpool_freq_component.lock);
    mca_mpool_freq_segment_t *segment = segment_of(base);
    const size_t size = size_at(segment, base);
    *is_registered = size > 0 && may_register && mca_mpool_freq_segment_register(segment);
    pthread_mutex_unlock(&mca_mpool_freq_component.lock);
    return size;
}

/* ---- the interface ---- */

/* Open MPI notes what it is given, in memory for many notes at a time (16 KiB), and does not check that it got that memory;
 * what is not noted it takes for malloc's when it is freed. (mpool_base_alloc.c, 4.1.4 and 5.0.7.) False: it may not get
 * it. */
static bool can_be_noted(void)
{
    enum { ROOM = 65536 };
    void *volatile room = malloc(ROOM); /* volatile: or the compiler leaves both calls out */
    free(room);
    return NULL != room;
}

static void *module_alloc(mca_mpool_base_module_t *mpool, size_t size, size_t align, uint32_t flags)
{
    const mca_mpool_freq_module_t *module = (const mca_mpool_freq_module_t *) mpool;
    (void) flags;
    if (module->is_default && size < MCA_MPOOL_FREQ_DEFAULT_MIN) {
        mca_mpool_freq_count(&mca_mpool_freq_component.counters.left_to_malloc);
        return NULL;
    }
    void *base = mca_mpool_freq_alloc(size, align > module->alignment ? align : module->alignment,
                                      module->must_be_shared);
    if (NULL != base && OPAL_UNLIKELY(!can_be_noted())) {
        (void) mca_mpool_freq_free(base);
        mca_mpool_freq_count(&mca_mpool_freq_component.counters.failed_allocations);
        base = NULL;
    }
    if (NULL == base && module->must_be_shared && !mca_mpool_freq_is_wrapped) {
        spec_explain(MCA_MPOOL_FREQ_HELP, "must be shared", "", size, opal_process_info.nodename);
    }
    return base;
}

static void module_free(mca_mpool_base_module_t *mpool, void *base)
{
    (void) mpool;
    if (NULL != base && !mca_mpool_freq_free(base)) {
        spec_explain(MCA_MPOOL_FREQ_HELP, "not from here", "", base, opal_process_info.nodename);
    }
}

static void *module_realloc(mca_mpool_base_module_t *mpool, void *base, size_t size)
{
    bool is_registered;
    const size_t had = NULL == base ? 0 : mca_mpool_freq_size(base, &is_registered);
    if (NULL != base && (0 == had || size <= had)) {
        return 0 == had ? NULL : base;
    }
    const mca_mpool_freq_module_t *module = (const mca_mpool_freq_module_t *) mpool;
    void *fresh = mca_mpool_freq_alloc(size, module->alignment, module->must_be_shared);
    if (NULL != fresh && NULL != base) {
        memcpy(fresh, base, had);
        (void) mca_mpool_freq_free(base);
    }
    return fresh;
}

static void module_finalize(mca_mpool_base_module_t *mpool)
{
    (void) mpool;
}

/* Default, named, and named with must_be_shared, at each alignment. */
enum { DEFAULT, NAMED, SHARED, KINDS };
static mca_mpool_freq_module_t modules[KINDS][MCA_MPOOL_FREQ_ALIGNMENTS];

void mca_mpool_freq_modules_init(void)
{
    for (int kind = 0; kind < KINDS; ++kind) {
        for (int log = 0; log < MCA_MPOOL_FREQ_ALIGNMENTS; ++log) {
            modules[kind][log] = (mca_mpool_freq_module_t){
                .super = {.mpool_component = &mca_mpool_freq_component.super.super,
                          .mpool_alloc = module_alloc,
                          .mpool_realloc = module_realloc,
                          .mpool_free = module_free,
                          .mpool_finalize = module_finalize,
                          .flags = MCA_MPOOL_FLAGS_MPI_ALLOC_MEM,
                          .mpool_allocation_unit = MCA_MPOOL_FREQ_UNIT,
                          .mpool_name = "freq"},
                .is_default = DEFAULT == kind,
                .must_be_shared = SHARED == kind,
                .alignment = (size_t) 1 << log};
        }
    }
}

mca_mpool_base_module_t *mca_mpool_freq_module_for(const freq_hints_t *hints)
{
    const bool is_asked = hints->is_named || hints->must_be_shared || hints->must_be_aligned;
    const int kind = hints->must_be_shared ? SHARED : is_asked ? NAMED : DEFAULT;
    /* 0 says: as suits this library. Transports register pages. */
    const size_t alignment = !hints->must_be_aligned ? 1
                             : 0 == hints->alignment ? (size_t) sysconf(_SC_PAGESIZE)
                                                     : hints->alignment;
    return &modules[kind][__builtin_ctzll(alignment)].super;
}
