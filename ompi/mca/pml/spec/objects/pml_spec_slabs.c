/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Memory for copies of messages that came before their receive or out of order: from the system, and given back when none
 * was kept for a while. */
#include "pml_spec_slabs.h"

#include "../core/spec_slab.h"

#include <sys/mman.h>

static opal_mutex_t lock; /* innermost */
static spec_slabs_t slabs;
static bool waits;            /* `give_back` is registered */
static volatile uint64_t due; /* ns: what `give_back` waits for */

/* More than is needed, so that an aligned piece lies in it; what is beyond goes back. */
static void *map(void)
{
    char *p =
        mmap(NULL, 2 * SPEC_SLAB_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (MAP_FAILED == (void *) p) {
        return NULL;
    }
    const size_t before = (size_t) (-(uintptr_t) p & (SPEC_SLAB_SIZE - 1));
    if (before > 0) {
        (void) munmap(p, before);
    }
    (void) munmap(p + before + SPEC_SLAB_SIZE, SPEC_SLAB_SIZE - before);
    MCA_PML_SPEC_COUNT(slabs_mapped);
    return p + before;
}

static void unmap(void *slab)
{
    (void) munmap(slab, SPEC_SLAB_SIZE);
    MCA_PML_SPEC_COUNT(slabs_unmapped);
}

static void wait_from(uint64_t now)
{
    __atomic_store_n(&due, now + MCA_PML_SPEC_SLABS_QUIET, __ATOMIC_RELAXED);
}

static int give_back(void)
{
    const uint64_t now = spec_now();
    if (now < MCA_PML_SPEC_GLANCE(due)) {
        return 0;
    }
    mca_pml_spec_lock(&lock);
    wait_from(now);
    if (waits && !spec_slabs_quiet(&slabs)) {
        waits = false;
        opal_progress_unregister(give_back);
    }
    mca_pml_spec_unlock(&lock);
    return 0;
}

void mca_pml_spec_slabs_init(void)
{
    OBJ_CONSTRUCT(&lock, opal_mutex_t);
    spec_slabs_init(&slabs, map, unmap);
    waits = false;
}

void *mca_pml_spec_slabs_take(size_t size)
{
    mca_pml_spec_lock(&lock);
    void *memory = spec_slab_take(&slabs, size);
    mca_pml_spec_unlock(&lock);
    return memory;
}

void mca_pml_spec_slabs_put(void *memory, size_t size)
{
    mca_pml_spec_lock(&lock);
    spec_slab_put(&slabs, memory, size);
    if (!waits && spec_slabs_idle(&slabs)) {
        waits = true;
        wait_from(spec_now());
        opal_progress_register_lp(give_back);
    }
    mca_pml_spec_unlock(&lock);
}

void mca_pml_spec_slabs_fini(void)
{
    if (waits) {
        waits = false;
        opal_progress_unregister(give_back);
    }
    spec_slabs_give_back(&slabs);
    OBJ_DESTRUCT(&lock);
}
