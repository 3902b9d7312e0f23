/* The mutex and the condition that opal/mca/threads/mutex.h builds on, for an Open MPI 5.0 on POSIX threads.
 *
 * That header includes the one of the thread component which configure chose (MCA_threads_mutex_base_include_HEADER),
 * and no package brings it. The types must be pthreads' own: objects with such a mutex inside are made by the library
 * and locked here, and the other way round. */
#ifndef SPEC_SHIM_THREADS_PTHREADS_MUTEX_H
#define SPEC_SHIM_THREADS_PTHREADS_MUTEX_H

#include <pthread.h>
#include <stdbool.h>

typedef pthread_mutex_t opal_thread_internal_mutex_t;
typedef pthread_cond_t opal_thread_internal_cond_t;

#define OPAL_THREAD_INTERNAL_MUTEX_INITIALIZER PTHREAD_MUTEX_INITIALIZER
#define OPAL_THREAD_INTERNAL_COND_INITIALIZER  PTHREAD_COND_INITIALIZER
#ifdef PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
#    define OPAL_THREAD_INTERNAL_RECURSIVE_MUTEX_INITIALIZER PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
#endif

/* 0, or an error number. */
static inline int opal_thread_internal_mutex_init(opal_thread_internal_mutex_t *mutex, bool recursive)
{
    if (!recursive) {
        return pthread_mutex_init(mutex, NULL);
    }
    pthread_mutexattr_t kind;
    int rc = pthread_mutexattr_init(&kind);
    if (0 == rc) {
        rc = pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
        if (0 == rc) {
            rc = pthread_mutex_init(mutex, &kind);
        }
        (void) pthread_mutexattr_destroy(&kind);
    }
    return rc;
}

static inline void opal_thread_internal_mutex_lock(opal_thread_internal_mutex_t *mutex)
{
    (void) pthread_mutex_lock(mutex);
}

/* 0 if the caller has it now, 1 if not. */
static inline int opal_thread_internal_mutex_trylock(opal_thread_internal_mutex_t *mutex)
{
    return 0 != pthread_mutex_trylock(mutex);
}

static inline void opal_thread_internal_mutex_unlock(opal_thread_internal_mutex_t *mutex)
{
    (void) pthread_mutex_unlock(mutex);
}

static inline void opal_thread_internal_mutex_destroy(opal_thread_internal_mutex_t *mutex)
{
    (void) pthread_mutex_destroy(mutex);
}

static inline int opal_thread_internal_cond_init(opal_thread_internal_cond_t *cond)
{
    return pthread_cond_init(cond, NULL);
}

static inline void opal_thread_internal_cond_wait(opal_thread_internal_cond_t *cond,
                                                  opal_thread_internal_mutex_t *mutex)
{
    (void) pthread_cond_wait(cond, mutex);
}

static inline void opal_thread_internal_cond_signal(opal_thread_internal_cond_t *cond)
{
    (void) pthread_cond_signal(cond);
}

static inline void opal_thread_internal_cond_broadcast(opal_thread_internal_cond_t *cond)
{
    (void) pthread_cond_broadcast(cond);
}

static inline void opal_thread_internal_cond_destroy(opal_thread_internal_cond_t *cond)
{
    (void) pthread_cond_destroy(cond);
}

#endif
