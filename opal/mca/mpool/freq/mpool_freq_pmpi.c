/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* An MPI_Alloc_mem in place of the program's, by MPI's profiling interface, which has the info keys must_be_shared and
 * must_be_aligned (004 section III.C.2).
 *
 * The keys reach the pool, and a request with must_be_shared can fail, only through MPI's own way of interception: this
 * MPI_Alloc_mem, used if the component is loaded before the program. Else the words are given under mpool_hints, and a
 * failed must_be_shared is told but not returned (docs/design/mpool.md). So it is for a program of the standard ABI
 * (libmpi_abi). */
#include "mpool_freq.h"

#include <dlfcn.h>
#include <mpi.h>

/* The library with MPI's functions is the program's, and is not loaded for the sake of these. */
#pragma weak PMPI_Alloc_mem
#pragma weak PMPI_Comm_call_errhandler
#pragma weak PMPI_Free_mem
#pragma weak PMPI_Info_dup
#pragma weak PMPI_Info_free
#pragma weak PMPI_Info_get
#pragma weak PMPI_Info_set

_Thread_local bool mca_mpool_freq_is_wrapped;

/* The value of a key. False: the key is not there. */
static bool key_of(MPI_Info info, const char *key, char *value)
{
    int flag = 0;
    return MPI_SUCCESS == PMPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &flag) && flag;
}

static int failed(int code)
{
    (void) PMPI_Comm_call_errhandler(MPI_COMM_WORLD, code);
    return code;
}

/* Are the program's handles those of the standard ABI (6.0), and not those that this file is compiled with? */
static bool has_other_handles(void)
{
    Dl_info library;
    return 0 != dladdr((const void *) (uintptr_t) PMPI_Alloc_mem, &library)
           && NULL != library.dli_fname && NULL != strstr(library.dli_fname, "libmpi_abi");
}

/* What Open MPI gives instead of what was asked for is given back. */
static int alloc_checked(MPI_Aint size, MPI_Info info, void *baseptr, bool must_be_shared,
                         size_t alignment)
{
    bool is_registered = false;
    mca_mpool_freq_is_wrapped = true;
    const int rc = PMPI_Alloc_mem(size, info, baseptr);
    mca_mpool_freq_is_wrapped = false;
    void *base = *(void **) baseptr;
    if (MPI_SUCCESS != rc || NULL == base) {
        return rc;
    }
    if ((alignment > 0 && 0 != (uintptr_t) base % alignment)
        || (must_be_shared && (0 == mca_mpool_freq_size(base, &is_registered) || !is_registered))) {
        (void) PMPI_Free_mem(base);
        *(void **) baseptr = NULL;
        return failed(MPI_ERR_NO_MEM);
    }
    return rc;
}

__attribute__((visibility("default"))) int MPI_Alloc_mem(MPI_Aint size, MPI_Info info,
                                                         void *baseptr)
{
    char aligned[MPI_MAX_INFO_VAL + 1], shared[MPI_MAX_INFO_VAL + 1];
    char hints[MPI_MAX_INFO_VAL + 1] = "", all[MPI_MAX_INFO_VAL + 1];
    if (MPI_INFO_NULL == info || NULL == baseptr || has_other_handles()) {
        return PMPI_Alloc_mem(size, info, baseptr);
    }
    const bool has_aligned = key_of(info, "must_be_aligned", aligned);
    const bool must_be_shared =
        key_of(info, "must_be_shared", shared) && freq_hints_is_true(shared, strlen(shared));
    if (!has_aligned && !must_be_shared) {
        return PMPI_Alloc_mem(size, info, baseptr);
    }
    size_t alignment = 0;
    if (has_aligned && !freq_hints_alignment(aligned, strlen(aligned), &alignment)) {
        return failed(MPI_ERR_INFO_VALUE);
    }
    (void) key_of(info, "mpool_hints", hints);
    const int length =
        snprintf(all, sizeof(all), "%s%s%s%s", hints, must_be_shared ? ",must_be_shared" : "",
                 has_aligned ? ",must_be_aligned=" : "", has_aligned ? aligned : "");
    if (length < 0 || (size_t) length >= sizeof(all)) {
        return failed(MPI_ERR_INFO_VALUE);
    }
    MPI_Info with_hints;
    int rc = PMPI_Info_dup(info, &with_hints);
    if (MPI_SUCCESS != rc) {
        return rc;
    }
    rc = PMPI_Info_set(with_hints, "mpool_hints", all);
    if (MPI_SUCCESS == rc) {
        rc = alloc_checked(size, with_hints, baseptr, must_be_shared, alignment);
    }
    (void) PMPI_Info_free(&with_hints);
    return rc;
}
