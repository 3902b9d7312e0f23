/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What differs between the Open MPI releases for several components, and is included by their compat headers: these have
 * what differs for one. */
#ifndef SPEC_RELEASE_H
#define SPEC_RELEASE_H

#include "opal_config.h"

#include <stdint.h>

#include "opal/util/proc.h"
#include "opal/util/show_help.h"

#if !defined(SPEC_UNTESTED_OPENMPI) && !(OPAL_MAJOR_VERSION == 4 && OPAL_MINOR_VERSION == 1)       \
    && !(OPAL_MAJOR_VERSION == 5 && OPAL_MINOR_VERSION == 0)                                       \
    && !(OPAL_MAJOR_VERSION == 6 && OPAL_MINOR_VERSION == 0)
#    error "supported are Open MPI 4.1, 5.0 and 6.0 (others: -DSPEC_UNTESTED_OPENMPI)"
#endif

/* SPEC_FITS: is this the Open MPI that the component was compiled for? A 4.1 that was configured --with-cuda has other structures than
 * one that was not. A component that does not fit says that it is not available when its parameters are to be registered: then
 * Open MPI goes on without it. */
#if OPAL_MAJOR_VERSION < 5
#    include "opal/runtime/opal_params.h"
#    define SPEC_FITS (opal_built_with_cuda_support == (0 != OPAL_CUDA_SUPPORT))
#else
#    define SPEC_FITS true
#endif

/* 6.0 knows no help texts but those of its own tree. */
#ifdef SPEC_HELP_COMPILED
#    include "help/show_help.h"
#endif

/* SPEC_AM_DECLARE: declares the callback `name` of an active message, which finds the segments in *des. */
#if OPAL_MAJOR_VERSION < 5
#    define SPEC_FRESH_COMM , __opal_attribute_unused__ MPI_Comm fresh
#    define SPEC_AM_DECLARE(name)                                                                  \
        void name(mca_btl_base_module_t *btl, __opal_attribute_unused__ mca_btl_base_tag_t am_tag, \
                  mca_btl_base_descriptor_t *des, __opal_attribute_unused__ void *cbdata)
#else
#    define SPEC_FRESH_COMM
#    define SPEC_AM_DECLARE(name)                                                                  \
        void name(mca_btl_base_module_t *btl, const mca_btl_base_receive_descriptor_t *des)
#endif

/* Defines a callback of an attribute: a duplicate of its communicator does not get it. */
#define SPEC_DO_NOT_COPY(name)                                                                     \
    static int name(MPI_Comm comm, int key, void *extra, void *value, void *copy,                  \
                    int *flag SPEC_FRESH_COMM)                                                     \
    {                                                                                              \
        (void) comm, (void) key, (void) extra, (void) value, (void) copy;                          \
        *flag = 0;                                                                                 \
        return MPI_SUCCESS;                                                                        \
    }

/* The host of a process, for messages to people. Not given back: it belongs to the process by the header of 5.0, and is a copy
 * in its code. */
static inline const char *spec_host_of(const opal_proc_t *proc)
{
#if OPAL_MAJOR_VERSION < 5
    const char *host = NULL == proc ? NULL : proc->proc_hostname;
#else
    const char *host = NULL == proc ? NULL : opal_get_proc_hostname(proc);
#endif
    return NULL == host ? "unknown" : host;
}

/* A process's name as one number; the same on every process of the job. */
static inline uint64_t spec_name_of(const opal_proc_t *proc)
{
    return (uint64_t) proc->proc_name.jobid << 32 | proc->proc_name.vpid;
}

/* How many processes of the job run on this host, this one included. */
static inline uint32_t spec_local_ranks(void)
{
    return (uint32_t) opal_process_info.num_local_peers + 1;
}

#endif
