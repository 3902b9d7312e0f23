/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Help texts that are read: each once on a host, although the job may end right after it.
 *
 * mpirun gathers what opal_show_help is given and prints equal texts once, but a process that ends right after its text
 * takes it with it now and then. So a text goes to the standard error, which is read to its end. That no other process
 * of the host tells the same is seen to by an empty directory in the job's session directory, which the launcher takes
 * away: a file is taken away by the first process that ends.
 *
 * To be included behind a component's compat header, which knows how texts are found. Threads: any. */
#ifndef SPEC_EXPLAIN_H
#define SPEC_EXPLAIN_H

#include "opal/util/proc.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SPEC_EXPLAIN_PATH = 1024, SPEC_EXPLAIN_WAIT = 50000 /* us */ };

/* The directory that says that this has been told on this host. False: there is no directory for it. */
static inline bool spec_told_path(char path[SPEC_EXPLAIN_PATH], const char *what)
{
    const char *directory = opal_process_info.job_session_dir;
    if (NULL == directory) {
        return false;
    }
    int at = snprintf(path, SPEC_EXPLAIN_PATH, "%s/told-", directory);
    for (; at < SPEC_EXPLAIN_PATH - 1 && '\0' != *what; ++what) {
        path[at++] = isalnum((unsigned char) *what) || NULL != strchr("-.", *what) ? *what : '_';
    }
    path[at < SPEC_EXPLAIN_PATH ? at : SPEC_EXPLAIN_PATH - 1] = '\0';
    return at < SPEC_EXPLAIN_PATH - 1;
}

/* Has it been told on this host, by this job? */
static inline bool spec_is_told(const char *what)
{
    char path[SPEC_EXPLAIN_PATH];
    return spec_told_path(path, what) && 0 == access(path, F_OK);
}

/* Is it the first time that this is seen? There is a bit for a text, the same for equal ones. */
static inline bool spec_is_first(_Atomic uint64_t *seen, const char *what)
{
    uint64_t hash = 5381;
    while ('\0' != *what) {
        hash = 33 * hash + (unsigned char) *what++;
    }
    const uint64_t bit = UINT64_C(1) << hash % 64;
    return 0 == (atomic_fetch_or(seen, bit) & bit);
}

/* That could not be made. Is that because the directory has gone, while the one above it is there? A process that ends the
 * job takes it away, and has told why. */
static inline bool spec_job_ends(char path[SPEC_EXPLAIN_PATH])
{
    for (int up = 0; up < 2; ++up) {
        char *end = strrchr(path, '/');
        if (NULL == end) {
            return false;
        }
        *end = '\0';
        if ((0 == access(path, F_OK)) != (1 == up)) {
            return false;
        }
    }
    return true;
}

/* What has become of the attempt to be the first that tells something. */
typedef enum spec_telling {
    SPEC_TELLING_FIRST,
    SPEC_TELLING_DONE,  /* by another process, or by this one before */
    SPEC_TELLING_ENDED, /* another process ends the job, and has told why */
    SPEC_TELLING_ALONE, /* there is no directory that others would see */
} spec_telling_t;

/* A job without a launcher may leave its directory to the next one: what the only process of a host finds there is not of its
 * job, unless it made that itself. */
static inline spec_telling_t spec_telling(const char *what, bool is_first_here)
{
    char path[SPEC_EXPLAIN_PATH];
    errno = 0;
    if (spec_told_path(path, what) && 0 == mkdir(path, 0700)) {
        return SPEC_TELLING_FIRST;
    }
    if (EEXIST == errno) {
        return 0 == opal_process_info.num_local_peers && is_first_here ? SPEC_TELLING_FIRST
                                                                       : SPEC_TELLING_DONE;
    }
    return ENOENT == errno && spec_job_ends(path) ? SPEC_TELLING_ENDED : SPEC_TELLING_ALONE;
}

/* From now on it has been told. True: by nobody before, so it is the caller's to tell. Without a session directory each process
 * tells, once: silence is worse. */
static inline bool spec_tell_once(const char *what)
{
    static _Atomic uint64_t told;
    const bool is_first_here = spec_is_first(&told, what);
    const spec_telling_t telling = spec_telling(what, is_first_here);
    return SPEC_TELLING_FIRST == telling || (SPEC_TELLING_ALONE == telling && is_first_here);
}

/* The same for what must not be missed after MPI_Init: the launcher may take the directory away with a process that is lost
 * although the job goes on. Then each process that is left tells. */
static inline bool spec_tell_surely(const char *what)
{
    static _Atomic uint64_t told;
    return SPEC_TELLING_DONE != spec_telling(what, spec_is_first(&told, what));
}

/* Tells a topic of a help file, whether or not it was told. What follows is what the text has places for. */
static inline void spec_explain_now(const char *file, const char *topic, ...)
{
    va_list args;
    va_start(args, topic);
    char *text = opal_show_help_vstring(file, topic, true, args);
    va_end(args);
    if (NULL != text) {
        fputs(text, stderr);
        free(text);
    } else {
        fprintf(stderr, "There is no memory to read the message \"%s\" of %s: docs/user/troubleshooting.md has it.\n", topic, file);
    }
}

/* Another process tells it. This one may end the job right after, and that the telling process, too: it waits a moment, once. */
static inline void spec_let_tell(const char *what)
{
    static _Atomic uint64_t waited;
    if (spec_is_first(&waited, what)) {
        (void) usleep(SPEC_EXPLAIN_WAIT);
    }
}

/* The same, if `first` (spec_tell_once, spec_tell_surely) says so of all that it is `about`. */
#define spec_explain_if(first, file, topic, about, ...)                                            \
    do {                                                                                           \
        char spec_explained[SPEC_EXPLAIN_PATH / 2];                                                \
        snprintf(spec_explained, sizeof(spec_explained), "%.60s-%.60s-%.360s", file, topic, about); \
        if (first(spec_explained)) {                                                               \
            spec_explain_now(file, topic, ##__VA_ARGS__);                                          \
        } else {                                                                                   \
            spec_let_tell(spec_explained);                                                         \
        }                                                                                          \
    } while (0)

/* The same, once on this host for all that it is `about`: what tells several messages of one topic apart, or "". */
#define spec_explain(file, topic, about, ...)                                                      \
    spec_explain_if(spec_tell_once, file, topic, about, ##__VA_ARGS__)

#endif
