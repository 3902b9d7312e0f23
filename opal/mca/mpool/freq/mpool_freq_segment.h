/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Segments: memory from the kernel, on huge pages where that helps, and
 * registered with the transports of the process.
 *
 * Registrations are made once MPI is initialised, and given back when MPI_COMM_SELF is freed at the beginning of MPI_Finalize
 * (docs/design/mpool.md). Nothing here locks: the caller holds mca_mpool_freq_component.lock. */
#ifndef MPOOL_FREQ_SEGMENT_H
#define MPOOL_FREQ_SEGMENT_H

#include "mpool_freq.h"

/* BTL modules that may register one segment; a process has a few. */
enum { MCA_MPOOL_FREQ_MODULES = 16 };

typedef struct mca_mpool_freq_segment {
    char *base;
    size_t size;
    bool is_pool;    /* else one allocation has all of it */
    bool is_refused; /* a transport did not register it: not tried again */
    freq_space_t space;
    freq_space_record_t *record;
    uint32_t keys;
    struct {
        mca_btl_base_module_t *btl;
        mca_btl_base_registration_handle_t *handle;
    } key[MCA_MPOOL_FREQ_MODULES];
} mca_mpool_freq_segment_t;

/* At least `size` bytes at a multiple of `alignment` (a power of two). NULL: no memory. */
mca_mpool_freq_segment_t *mca_mpool_freq_segment_new(size_t size, size_t alignment, bool is_pool);

void mca_mpool_freq_segment_free(mca_mpool_freq_segment_t *segment);

/* Register with every transport that registers, unless that is done. False: one of them refused;
 * the segment then is registered with none. */
bool mca_mpool_freq_segment_register(mca_mpool_freq_segment_t *segment);

void mca_mpool_freq_segment_deregister(mca_mpool_freq_segment_t *segment);

/* May segments be registered now? Sees to it (without the lock) that they are given back in time. */
bool mca_mpool_freq_may_register(void);

#endif
