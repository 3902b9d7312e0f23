/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What copying, registering and searching cost with a transport (core/freq_measure.h): measured by the first process of a
 * host, and kept in a file for the others. */
#include "mpool_freq.h"
#include "core/freq_measure.h"

#include <fcntl.h>
#include <sys/stat.h>

/* ---- measuring ---- */

static bool measure(const mca_mpool_freq_transport_t *transport, freq_costs_t *costs)
{
    const freq_probe_t probe = {.take = transport->register_mem,
                                .give = transport->deregister_mem,
                                .again = transport->again,
                                .context = transport->context};
    return freq_measure(&probe, mca_mpool_freq_component.measure_ms * 1e6, costs);
}

/* ---- the file ---- */

enum { PATH = 1024 };

static bool path_of(char *path, const char *name)
{
    const char *dir = mca_mpool_freq_component.cost_dir;
    char host[256] = "";
    if (NULL == dir || '\0' == *dir) {
        dir = opal_process_info.job_session_dir; /* goes away with the job */
    }
    if (NULL == dir || 0 != gethostname(host, sizeof(host) - 1)) {
        return false;
    }
    const int length = snprintf(path, PATH, "%s/mpool-freq-%s-%s", dir, host, name);
    for (char *at = path + strlen(dir) + 1; length > 0 && length < PATH && '\0' != *at; ++at) {
        *at = '/' == *at || ' ' == *at ? '_' : *at;
    }
    return length > 0 && length < PATH;
}

#define FORMAT "mpool/freq costs 8"

static bool parse(FILE *file, const char *name, freq_costs_t *costs)
{
    char line[128], want[128];
    (void) snprintf(want, sizeof(want), FORMAT " %s\n", name);
    if (NULL == fgets(line, sizeof(line), file) || 0 != strcmp(line, want)) {
        return false;
    }
    for (uint32_t i = 0; i < FREQ_POINTS; ++i) {
        if (2 != fscanf(file, "%lf %lf", &costs->r[i], &costs->c[i])) {
            return false;
        }
    }
    char end[8];
    return 3 == fscanf(file, "%lf %lf %7s", &costs->v, &costs->search, end)
           && 0 == strcmp(end, "end") && freq_costs_are_sane(costs);
}

/* Only a file of this user that no other can write to is believed. */
static bool read_file(const char *path, const char *name, freq_costs_t *costs)
{
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return false;
    }
    const bool is_mine = 0 == fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid()
                         && 0 == (st.st_mode & (S_IWGRP | S_IWOTH));
    FILE *file = is_mine ? fdopen(fd, "r") : NULL;
    if (NULL == file) {
        (void) close(fd);
        return false;
    }
    const bool ok = parse(file, name, costs);
    (void) fclose(file);
    return ok;
}

/* Whole or not at all: others may be reading. A file that cannot be written is no loss. */
static void write_file(const char *path, const char *name, const freq_costs_t *costs)
{
    char fresh[PATH + 32];
    (void) snprintf(fresh, sizeof(fresh), "%s.%ld", path, (long) getpid());
    const int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (NULL == file) {
        if (fd >= 0) {
            (void) close(fd);
            (void) unlink(fresh);
        }
        return;
    }
    (void) fprintf(file, FORMAT " %s\n", name);
    for (uint32_t i = 0; i < FREQ_POINTS; ++i) {
        (void) fprintf(file, "%.3f %.3f\n", costs->r[i], costs->c[i]);
    }
    const bool ok = fprintf(file, "%.3f %.3f end\n", costs->v, costs->search) > 0;
    if (0 != fclose(file) || !ok || 0 != rename(fresh, path)) {
        (void) unlink(fresh);
    }
}

bool mca_mpool_freq_costs(const mca_mpool_freq_transport_t *transport, freq_costs_t *costs,
                          const char **from)
{
    char path[PATH];
    const bool has_path = path_of(path, transport->name);
    if (has_path && read_file(path, transport->name, costs)) {
        *from = "found in the file of an earlier measurement";
        return true;
    }
    if (!measure(transport, costs)) {
        *costs = (freq_costs_t){.v = 0};
        *from = "not measured: the transport refused or was too slow; everything is copied";
        return false;
    }
    *from = "measured by this process";
    if (has_path) {
        write_file(path, transport->name, costs);
    }
    return true;
}
