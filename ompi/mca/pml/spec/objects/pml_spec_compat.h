/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* All that pml/spec uses of Open MPI's inside where releases differ, or may: nothing else in this component tests the
 * version. */
#ifndef PML_SPEC_COMPAT_H
#define PML_SPEC_COMPAT_H

#include "ompi_config.h"
#include "pml_spec_wire.h"
#include "opal/include/spec/spec_hot.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "ompi/attribute/attribute.h"
#include "ompi/communicator/communicator.h"
#include "ompi/constants.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/errhandler/errcode-internal.h"
#include "ompi/mca/bml/base/base.h"
#include "ompi/mca/bml/bml.h"
#include "ompi/mca/coll/coll.h"
#include "ompi/mca/pml/base/base.h"
#include "ompi/mca/pml/base/pml_base_bsend.h"
#include "ompi/mca/pml/base/pml_base_recvreq.h"
#include "ompi/mca/pml/base/pml_base_sendreq.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/message/message.h"
#include "ompi/op/op.h"
#include "ompi/proc/proc.h"
#include "ompi/request/request.h"
#include "ompi/runtime/mpiruntime.h"
#include "ompi/runtime/params.h"
#include "ompi/win/win.h"
#include "opal/mca/base/mca_base_pvar.h"
#include "opal/mca/btl/base/base.h"
#include "opal/mca/btl/btl.h"
#include "opal/runtime/opal_progress.h"
#include "opal/include/spec/release.h"
#include "opal/include/spec/tell.h"
#include "opal/util/error.h"
#include "opal/util/output.h"

/* Declares a function of the module, with the arguments that the interface gives it (its parts: pml.h). */
#define MCA_PML_SPEC_DECLARE(part, name) __typeof__(*(mca_pml_base_module_##part##_fn_t) NULL) name

#include "ompi/errhandler/errhandler.h"

#if OMPI_MAJOR_VERSION < 5

#    include "ompi/mca/rte/rte.h"
#    include "opal/threads/mutex.h"

#    define MCA_PML_SPEC_COMPONENT_VERSION MCA_PML_BASE_VERSION_2_0_0

typedef mca_pml_base_module_1_0_1_t mca_pml_spec_super_t;

/* The number that stands for a communicator in message headers. */
static inline uint32_t mca_pml_spec_cid(const ompi_communicator_t *comm)
{
    return comm->c_contextid;
}

static inline const char *mca_pml_spec_comm_name(const ompi_communicator_t *comm)
{
    return comm->c_name;
}

/* Open MPI's wait for requests (ompi_wait_sync_t): its lock, and waking its thread. */
#    define MCA_PML_SPEC_WAIT_LOCK(sync)   pthread_mutex_lock(&(sync)->lock)
#    define MCA_PML_SPEC_WAIT_UNLOCK(sync) pthread_mutex_unlock(&(sync)->lock)
#    define MCA_PML_SPEC_WAIT_WAKE(sync)   pthread_cond_signal(&(sync)->condition)

/* Does every process know the communicator by the same number? In 4.1 always. If not, *base and *sub
 * are what all know it by. */
static inline bool mca_pml_spec_is_global(const ompi_communicator_t *comm, uint64_t *base,
                                          uint64_t *sub)
{
    (void) comm;
    *base = *sub = 0;
    return true;
}

/* What this PML can do beyond the least, for pml_flags. */
#    define MCA_PML_SPEC_ABILITIES 0

/* With threads MPI_Waitall of 4.1 never returns from requests that failed before (pml_spec_wait.h). */
#    define MCA_PML_SPEC_WAITALL_LOOPS 1

/* Ends the job; why has been told. */
#    define mca_pml_spec_abort(code)                                                               \
        do {                                                                                       \
            ompi_rte_abort(code, NULL);                                                            \
            abort();                                                                               \
        } while (0)

#else /* 5.0, 6.0 */

#    include "ompi/runtime/ompi_rte.h"
#    include "opal/mca/threads/mutex.h"

#    define MCA_PML_SPEC_COMPONENT_VERSION MCA_PML_BASE_VERSION_2_1_0

typedef mca_pml_base_module_2_1_0_t mca_pml_spec_super_t;

#    define MCA_PML_SPEC_WAIT_LOCK(sync)   opal_thread_internal_mutex_lock(&(sync)->lock)
#    define MCA_PML_SPEC_WAIT_UNLOCK(sync) opal_thread_internal_mutex_unlock(&(sync)->lock)
#    define MCA_PML_SPEC_WAIT_WAKE(sync)   opal_thread_internal_cond_signal(&(sync)->condition)

static inline uint32_t mca_pml_spec_cid(const ompi_communicator_t *comm)
{
    return ompi_comm_get_local_cid(comm);
}

static inline const char *mca_pml_spec_comm_name(const ompi_communicator_t *comm)
{
    return NULL == comm->c_name ? "without a name" : comm->c_name;
}

static inline bool mca_pml_spec_is_global(const ompi_communicator_t *comm, uint64_t *base,
                                          uint64_t *sub)
{
    const ompi_comm_extended_cid_t cid = ompi_comm_get_extended_cid(comm);
    *base = cid.cid_base;
    *sub = cid.cid_sub.u64;
    return OMPI_COMM_IS_GLOBAL_INDEX(comm);
}

/* (PMIx could tell the numbers, but not on every launcher: the PML asks its peers instead.) */
#    define MCA_PML_SPEC_ABILITIES         MCA_PML_BASE_FLAG_SUPPORTS_EXT_CID

/* (5.0 returns from MPI_Waitall.) */
#    define MCA_PML_SPEC_WAITALL_LOOPS     0

/* (The abort of 5.0 gives its text to the launcher, which keeps it.) */
#    define mca_pml_spec_abort(code)                                                               \
        do {                                                                                       \
            ompi_rte_abort(code, "pml/spec ends the job");                                         \
            abort();                                                                               \
        } while (0)

#endif

/* Define the callback `name` of an active message, whose body follows. It sees the transport and
 * the segments, whatever form the release passes them in. */
#define MCA_PML_SPEC_AM_CALLBACK(name) MCA_PML_SPEC_AM_CALLBACK_OF(, name)

/* The same with an attribute. */
#define MCA_PML_SPEC_AM_CALLBACK_OF(attribute, name)                                               \
    static attribute void name##_am(mca_btl_base_module_t *btl, const mca_btl_base_segment_t *seg, \
                                    size_t nseg);                                                  \
    attribute SPEC_AM_DECLARE(name)                                                                \
    {                                                                                              \
        name##_am(btl, des->des_segments, des->des_segment_count);                                 \
    }                                                                                              \
    static void name##_am(mca_btl_base_module_t *btl, const mca_btl_base_segment_t *seg,           \
                          size_t nseg)

/* ---- buffers in the memory of an accelerator: from 5.0 on, and in 4.1 if it was built for them ---- */

#if OMPI_MAJOR_VERSION >= 5

#    include "opal/mca/accelerator/accelerator.h"
#    include "opal/mca/accelerator/base/base.h"

#    include <string.h>

/* May buffers be in the memory of an accelerator? */
static inline bool mca_pml_spec_has_device(void)
{
    const char *component =
        opal_accelerator_base_selected_component.base_version.mca_component_name;
    return NULL != opal_accelerator.check_addr && 0 != strcmp(component, "null");
}

#    define mca_pml_spec_driver_fini() ((void) 0)

/* Is this address? */
static inline bool mca_pml_spec_on_device(const void *p)
{
    int device;
    uint64_t flags;
    return opal_accelerator.check_addr(p, &device, &flags) > 0;
}

/* Copies n bytes from or to a device; they are there when this returns. OPAL_SUCCESS or an error of the device. A thread that has
 * not used the device has no context of its driver, in which it copies; asking for an address gives it that of the memory. */
static inline int mca_pml_spec_device_copy(void *to, const void *from, size_t n)
{
    (void) (mca_pml_spec_on_device(to) || mca_pml_spec_on_device(from));
    return opal_accelerator.mem_copy(MCA_ACCELERATOR_NO_DEVICE_ID, MCA_ACCELERATOR_NO_DEVICE_ID, to,
                                     from, n, MCA_ACCELERATOR_TRANSFER_UNSPEC);
}

/* Has the device itself reach this host memory, so that its copies need not be made by a processor; until the next. It may refuse. */
static inline void mca_pml_spec_device_pin(void *p, size_t size)
{
    if (NULL != opal_accelerator.host_register) {
        (void) opal_accelerator.host_register(MCA_ACCELERATOR_NO_DEVICE_ID, p, size);
    }
}

static inline void mca_pml_spec_device_unpin(void *p, size_t size)
{
    (void) size;
    if (NULL != opal_accelerator.host_unregister) {
        (void) opal_accelerator.host_unregister(MCA_ACCELERATOR_NO_DEVICE_ID, p);
    }
}

/* Copies that a device makes beside the processor, in their order, and what tells that those before it are over. */
typedef opal_accelerator_stream_t mca_pml_spec_stream_t;
typedef opal_accelerator_event_t mca_pml_spec_event_t;

/* NULL: the component has none. */
static inline mca_pml_spec_stream_t *mca_pml_spec_stream_new(void)
{
    mca_pml_spec_stream_t *stream = NULL;
    if (NULL == opal_accelerator.create_stream || NULL == opal_accelerator.mem_copy_async
        || NULL == opal_accelerator.create_event || NULL == opal_accelerator.record_event
        || NULL == opal_accelerator.query_event
        || OPAL_SUCCESS != opal_accelerator.create_stream(MCA_ACCELERATOR_NO_DEVICE_ID, &stream)) {
        return NULL;
    }
    return stream;
}

/* The same. */
static inline mca_pml_spec_event_t *mca_pml_spec_event_new(void)
{
    mca_pml_spec_event_t *event = NULL;
#    if OMPI_MAJOR_VERSION >= 6
    const int rc = opal_accelerator.create_event(MCA_ACCELERATOR_NO_DEVICE_ID, &event, false);
#    else
    const int rc = opal_accelerator.create_event(MCA_ACCELERATOR_NO_DEVICE_ID, &event);
#    endif
    return OPAL_SUCCESS == rc ? event : NULL;
}

#    define mca_pml_spec_stream_free(stream) OBJ_RELEASE(stream)
#    define mca_pml_spec_event_free(event)   OBJ_RELEASE(event)

/* OPAL_SUCCESS: the device copies n bytes when it has made the copies before. Else it was not asked. */
static inline int mca_pml_spec_stream_copy(mca_pml_spec_stream_t *stream, bool to_device, void *to,
                                           const void *from, size_t n)
{
    return opal_accelerator.mem_copy_async(
        MCA_ACCELERATOR_NO_DEVICE_ID, MCA_ACCELERATOR_NO_DEVICE_ID, to, from, n, stream,
        to_device ? MCA_ACCELERATOR_TRANSFER_HTOD : MCA_ACCELERATOR_TRANSFER_DTOH);
}

/* From now on the event tells of the copies that the stream has so far. OPAL_SUCCESS, or an error of the device. */
static inline int mca_pml_spec_event_record(mca_pml_spec_event_t *event,
                                            mca_pml_spec_stream_t *stream)
{
    return opal_accelerator.record_event(MCA_ACCELERATOR_NO_DEVICE_ID, event, stream);
}

/* OPAL_ERR_RESOURCE_BUSY: not all are over. Else all are, and have succeeded, or failed with this error. */
static inline int mca_pml_spec_event_query(mca_pml_spec_event_t *event)
{
    return opal_accelerator.query_event(MCA_ACCELERATOR_NO_DEVICE_ID, event);
}

/* What a convertor is told when it is prepared for a buffer, which may be on a device. */
static inline int32_t mca_pml_spec_convertor_flags(bool on_device)
{
    return on_device ? CONVERTOR_ACCELERATOR : 0;
}

/* Was it prepared for one? */
static inline bool mca_pml_spec_convertor_is_device(const opal_convertor_t *convertor)
{
    return convertor->flags & CONVERTOR_ACCELERATOR;
}

static inline void mca_pml_spec_convertor_copies_by(opal_convertor_t *convertor, memcpy_fct_t copy)
{
    convertor->cbmemcpy = copy;
}

#elif OPAL_CUDA_SUPPORT /* 4.1, configured --with-cuda */

#    include "opal/datatype/opal_datatype_cuda.h"
#    include "opal/mca/common/cuda/common_cuda.h"
#    include "opal/runtime/opal_params.h"

/* Some transports load the driver, but perhaps none of those that are here; each that was loaded by anybody is counted. Convertors
 * find out once whether there is one, and none was prepared yet. */
static inline bool mca_pml_spec_has_device(void)
{
    (void) mca_common_cuda_stage_one_init();
    return opal_cuda_support;
}

static inline void mca_pml_spec_driver_fini(void)
{
    mca_common_cuda_fini();
}

/* As a convertor asks: memory that moves between host and device (managed) it only marks. */
static inline bool mca_pml_spec_on_device(const void *p)
{
    opal_convertor_t asks;
    asks.flags = 0;
    return opal_cuda_check_one_buf((char *) (uintptr_t) p, &asks)
           || 0 != (asks.flags & CONVERTOR_CUDA_UNIFIED);
}

/* If it fails Open MPI ends the process. A thread that the program has not made has no context of the driver; asking for an
 * address gives it that of the memory. */
static inline int mca_pml_spec_device_copy(void *to, const void *from, size_t n)
{
    (void) opal_cuda_check_bufs((char *) to, (char *) (uintptr_t) from);
    (void) opal_cuda_memcpy_sync(to, from, n);
    return OPAL_SUCCESS;
}

static inline int32_t mca_pml_spec_convertor_flags(bool on_device)
{
    return on_device ? CONVERTOR_CUDA : 0;
}

static inline bool mca_pml_spec_convertor_is_device(const opal_convertor_t *convertor)
{
    return convertor->flags & CONVERTOR_CUDA;
}

static inline void mca_pml_spec_convertor_copies_by(opal_convertor_t *convertor, memcpy_fct_t copy)
{
    convertor->cbmemcpy = copy;
}

#else /* 4.1, as Debian has it */
#    define mca_pml_spec_has_device()  false
#    define mca_pml_spec_driver_fini() ((void) 0)
#    define mca_pml_spec_on_device(p)  ((void) (p), false)
#    define mca_pml_spec_device_copy(to, from, n)                                                  \
        ((void) (to), (void) (from), (void) (n), OPAL_ERR_NOT_SUPPORTED)
#    define mca_pml_spec_convertor_flags(on_device)           ((void) (on_device), 0)
#    define mca_pml_spec_convertor_is_device(convertor)       ((void) (convertor), false)
#    define mca_pml_spec_convertor_copies_by(convertor, copy) ((void) (convertor), (void) (copy))
#endif

#if OMPI_MAJOR_VERSION < 5 /* no streams */
#    define mca_pml_spec_device_pin(p, size)   ((void) (p), (void) (size))
#    define mca_pml_spec_device_unpin(p, size) ((void) (p), (void) (size))
typedef char mca_pml_spec_stream_t, mca_pml_spec_event_t;
#    define mca_pml_spec_stream_new()        NULL
#    define mca_pml_spec_event_new()         NULL
#    define mca_pml_spec_stream_free(stream) ((void) (stream))
#    define mca_pml_spec_event_free(event)   ((void) (event))
#    define mca_pml_spec_stream_copy(stream, to_device, to, from, n)                               \
        ((void) (stream), (void) (to_device), (void) (to), (void) (from), (void) (n),              \
         OPAL_ERR_NOT_SUPPORTED)
#    define mca_pml_spec_event_record(event, stream)                                               \
        ((void) (event), (void) (stream), OPAL_ERR_NOT_SUPPORTED)
#    define mca_pml_spec_event_query(event) ((void) (event), OPAL_ERR_NOT_SUPPORTED)
#endif

/* ---- MPI goes on after failures (ULFM): from 5.0 on, if it was built for that ---- */

#if OMPI_MAJOR_VERSION >= 5 && OPAL_ENABLE_FT_MPI

/* May the job outlive a process of it, which then answers nothing more? */
static inline bool mca_pml_spec_outlives(void)
{
    return ompi_ftmpi_enabled;
}

/* A process is lost. True: MPI goes on without it, and requests with it end in error. */
static inline bool mca_pml_spec_goes_on_without(const opal_proc_t *proc)
{
    if (!ompi_ftmpi_enabled || NULL == proc) {
        return false;
    }
    ompi_errhandler_proc_failed((ompi_proc_t *) (uintptr_t) proc);
    return true;
}

/* Has the runtime found that this process of the communicator is gone? Nothing of it counts any more. */
static inline bool mca_pml_spec_is_gone(ompi_communicator_t *comm, int rank)
{
    return ompi_ftmpi_enabled && rank >= 0
           && !ompi_comm_is_proc_active(comm, rank, OMPI_COMM_IS_INTER(comm));
}

/* The same of a process, whatever the communicator. */
static inline bool mca_pml_spec_is_dead(ompi_proc_t *proc)
{
    return ompi_ftmpi_enabled && !ompi_proc_is_active(proc);
}

/* Can a request with this process and tag no more end by itself, because the process is gone, or the
 * communicator is revoked? Then the process may still write into the buffer of a receive. */
static inline bool mca_pml_spec_is_lost(ompi_communicator_t *comm, int rank, int tag)
{
    return ompi_ftmpi_enabled
           && ((ompi_comm_is_revoked(comm) && !ompi_request_tag_is_ft(tag))
               || (ompi_comm_coll_revoked(comm) && ompi_request_tag_is_collective(tag))
               || mca_pml_spec_is_gone(comm, rank));
}

/* Why a probe that finds nothing will never find anything, or MPI_SUCCESS. */
static inline int mca_pml_spec_probe_error(ompi_communicator_t *comm, int src, int tag)
{
    if (mca_pml_spec_is_lost(comm, src, tag)) {
        return ompi_comm_is_revoked(comm) ? MPI_ERR_REVOKED : MPI_ERR_PROC_FAILED;
    }
    return ompi_ftmpi_enabled && MPI_ANY_SOURCE == src && !ompi_comm_is_any_source_enabled(comm)
               ? MPI_ERR_PROC_FAILED
               : MPI_SUCCESS;
}

/* From now on nobody may wait for a message of the communicator; with coll_only, of its collective
 * operations. Threads that wait are woken after this and read these marks. */
static inline int mca_pml_spec_revoke_comm(ompi_communicator_t *comm, bool coll_only)
{
    if (OMPI_COMM_IS_INTER(comm)) {
        (void) mca_pml_spec_revoke_comm(comm->c_local_comm, coll_only);
    }
    comm->coll_revoked = true;
    if (!coll_only) {
        comm->comm_revoked = true;
    }
    return OMPI_SUCCESS;
}

/* Fields of the module that not all have: the last ones. */
#    define MCA_PML_SPEC_MODULE_EXTRAS .pml_revoke_comm = mca_pml_spec_revoke_comm

#else
#    define mca_pml_spec_outlives()            false
#    define mca_pml_spec_goes_on_without(proc) ((void) (proc), false)
#    define mca_pml_spec_is_gone(comm, rank)   ((void) (comm), (void) (rank), false)
#    define mca_pml_spec_is_dead(proc)         ((void) (proc), false)
#    define mca_pml_spec_is_lost(comm, rank, tag)                                                  \
        ((void) (comm), (void) (rank), (void) (tag), false)
#    define mca_pml_spec_probe_error(comm, src, tag)                                               \
        ((void) (comm), (void) (src), (void) (tag), MPI_SUCCESS)
#    define MCA_PML_SPEC_MODULE_EXTRAS
#endif

/* ---- all of them ---- */

static inline uint32_t mca_pml_spec_job_size(void)
{
    return (uint32_t) ompi_process_info.num_procs;
}

/* Is MPI_Finalize so far that peers may be gone by right? */
static inline bool mca_pml_spec_is_ending(void)
{
    return ompi_mpi_state >= OMPI_MPI_STATE_FINALIZE_PAST_COMM_SELF_DESTRUCT;
}

/* Is this MPI_Init (or MPI_Init_thread)? */
static inline bool mca_pml_spec_is_starting(void)
{
    return OMPI_MPI_STATE_INIT_STARTED == ompi_mpi_state;
}

/* This process and its job. */
static inline uint32_t mca_pml_spec_my_rank(void)
{
    return OMPI_PROC_MY_NAME->vpid;
}

static inline uint32_t mca_pml_spec_job_id(void)
{
    return OMPI_PROC_MY_NAME->jobid;
}

/* A convertor for one block of bytes, once and for all; only the block changes from use to use.
 * Transports' send-immediate reads the address from it and may pack through it. */
static inline void mca_pml_spec_bytes_convertor_init(opal_convertor_t *convertor)
{
    static char dummy;
    OBJ_CONSTRUCT(convertor, opal_convertor_t);
    opal_convertor_copy_and_prepare_for_send(ompi_proc_local()->super.proc_convertor,
                                             &ompi_mpi_byte.dt.super, 1, &dummy, 0, convertor);
}

static inline void mca_pml_spec_bytes_convertor_set(opal_convertor_t *convertor, const void *data,
                                                    size_t length)
{
    convertor->pBaseBuf = (unsigned char *) (uintptr_t) data;
    convertor->count = length;
    convertor->local_size = convertor->remote_size = length;
    convertor->bConverted = 0;
    convertor->flags &= ~CONVERTOR_COMPLETED;
}

/* MPI_Gatherv of bytes to rank 0. */
static inline int mca_pml_spec_gather_bytes(ompi_communicator_t *comm, const void *mine, int n,
                                            void *all, const int *counts, const int *displacements)
{
    ompi_datatype_t *type = &ompi_mpi_byte.dt;
    mca_coll_base_module_t *module = comm->c_coll->coll_gatherv_module;
#if OMPI_MAJOR_VERSION >= 6
    const ompi_count_array_t all_counts = OMPI_COUNT_ARRAY_CREATE(counts);
    const ompi_disp_array_t all_displacements = OMPI_DISP_ARRAY_CREATE(displacements);
    return comm->c_coll->coll_gatherv(mine, (size_t) n, type, all, all_counts, all_displacements,
                                      type, 0, comm, module);
#else
    return comm->c_coll->coll_gatherv(mine, n, type, all, counts, displacements, type, 0, comm,
                                      module);
#endif
}

/* With several threads, before the first message. Open MPI 6.0's btl/sm numbers what it writes into a fast box after it has
 * given up its lock, so that numbers come in another order than their messages, and the reader of the box waits for ever. No
 * fast box is set up then, unless the user says how. */
static inline void mca_pml_spec_avoid_fast_boxes(void)
{
#if OMPI_MAJOR_VERSION >= 6
    const unsigned never = 0;
    const unsigned *sends = NULL;
    mca_base_var_source_t source;
    int index;
    if (OPAL_SUCCESS == mca_base_var_find_by_name("btl_sm_fbox_threshold", &index)
        && OPAL_SUCCESS == mca_base_var_get_value(index, &sends, &source, NULL)
        && MCA_BASE_VAR_SOURCE_DEFAULT == source) {
        (void) mca_base_var_set_value(index, &never, sizeof(never), MCA_BASE_VAR_SOURCE_SET, NULL);
    }
#endif
}

/* Does a table of handles have others than the one that stands for none? As it may have been a moment ago. */
static inline bool mca_pml_spec_has_handles(const opal_pointer_array_t *table)
{
    const int size = __atomic_load_n(&table->size, __ATOMIC_RELAXED),
              unused = __atomic_load_n(&table->number_free, __ATOMIC_RELAXED);
    return size - unused > 1;
}

/* Is there a window, through which others may access this process's memory at any time? */
static inline bool mca_pml_spec_has_windows(void)
{
    return mca_pml_spec_has_handles(&ompi_mpi_windows);
}

/* Is a file open? The progress of MPI-IO (OMPIO) goes through its list of requests without a lock. An Open MPI that hides its
 * names says that there is none. */
extern opal_pointer_array_t ompi_file_f_to_c_table __attribute__((weak));
static inline bool mca_pml_spec_has_files(void)
{
    const opal_pointer_array_t *table = &ompi_file_f_to_c_table;
    return NULL != table && mca_pml_spec_has_handles(table);
}

/* The MPI error class for a status inside; MPI_SUCCESS for 0. */
static inline int mca_pml_spec_mpi_error(int status)
{
#if OMPI_MAJOR_VERSION >= 5 && OPAL_ENABLE_FT_MPI
    if (MCA_PML_SPEC_ERR_REVOKED == status) {
        return MPI_ERR_REVOKED;
    }
#endif
    return status < 0 ? ompi_errcode_get_mpi_code(status) : MPI_SUCCESS;
}

#endif
