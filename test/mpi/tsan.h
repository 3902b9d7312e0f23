/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Forced into every source that is built with ThreadSanitizer (./check): tells it what Open MPI orders in ways that it does
 * not see.
 *
 * - Fences, and a compare-and-exchange that is an acquire alone: it becomes sequentially consistent.
 * - Lists of free objects: one thread exchanges half of a head, another the whole of it, which ThreadSanitizer takes for
 *   two places. Who gets an object has all before it that was done with it until it was returned.
 * - Descriptors of messages, which a transport hands out again: what the sender has done with one ends with its sending.
 * - A request that is waited for: that it is complete is read like any variable.
 *
 * What this could hide: an acquire of ours, in a read-modify-write, that should have been a release as well. */
#ifndef TEST_MPI_TSAN_H
#define TEST_MPI_TSAN_H

#undef __ATOMIC_ACQUIRE
#define __ATOMIC_ACQUIRE __ATOMIC_SEQ_CST

#if defined(PIC)                                                                                   \
    && __has_include("ompi/request/request.h") /* a component, no program and no pure core */
#    include "opal/class/opal_free_list.h"

#    include <sanitizer/tsan_interface.h>

static inline opal_free_list_item_t *tsan_got(opal_free_list_item_t *item)
{
    if (NULL != item) {
        __tsan_acquire(item);
    }
    return item;
}

#    define opal_free_list_get(list)    tsan_got(opal_free_list_get(list))
#    define opal_free_list_get_mt(list) tsan_got(opal_free_list_get_mt(list))

static inline void tsan_return(opal_free_list_t *list, opal_free_list_item_t *item)
{
    __tsan_release(item);
    opal_free_list_return(list, item);
}

static inline void tsan_return_mt(opal_free_list_t *list, opal_free_list_item_t *item)
{
    __tsan_release(item);
    opal_free_list_return_mt(list, item);
}

#    define opal_free_list_return(list, item)    tsan_return(list, item)
#    define opal_free_list_return_mt(list, item) tsan_return_mt(list, item)

#    include "ompi/mca/bml/bml.h"

static inline void tsan_got_descriptor(mca_btl_base_descriptor_t *des)
{
    if (NULL != des) {
        __tsan_acquire(des);
    }
}

static inline int tsan_send(mca_bml_base_btl_t *bml_btl, mca_btl_base_descriptor_t *des,
                            mca_btl_base_tag_t tag)
{
    __tsan_release(des);
    const int rc = mca_bml_base_send(bml_btl, des, tag);
    __tsan_release(des); /* it may be somebody else's by now: its address alone counts */
    return rc;
}

#    define mca_bml_base_alloc(bml_btl, des, ...)                                                  \
        (mca_bml_base_alloc(bml_btl, des, __VA_ARGS__), tsan_got_descriptor(*(des)))
#    define mca_bml_base_prepare_src(bml_btl, convertor, order, reserve, size, flags, des)         \
        (mca_bml_base_prepare_src(bml_btl, convertor, order, reserve, size, flags, des),           \
         tsan_got_descriptor(*(des)))
#    define mca_bml_base_free(bml_btl, des)      (__tsan_release(des), mca_bml_base_free(bml_btl, des))
#    define mca_bml_base_send(bml_btl, des, tag) tsan_send(bml_btl, des, tag)

#    include "ompi/request/request.h"

#    define ompi_request_complete(request, with_signal)                                            \
        (__tsan_release((void *) &(request)->req_complete),                                        \
         ompi_request_complete(request, with_signal))
#    define ompi_request_wait_completion(request)                                                  \
        (ompi_request_wait_completion(request), __tsan_acquire((void *) &(request)->req_complete))
#endif

#endif
