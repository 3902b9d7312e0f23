/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Reads how much memory the host has, or the control group that the process is in. */
#include "pml_spec_memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The number in a file; UINT64_MAX: there is none ("max" is what a group without a limit says). */
static uint64_t number_in(const char *path)
{
    uint64_t n = UINT64_MAX;
    FILE *file = fopen(path, "re");
    if (NULL != file) {
        if (1 != fscanf(file, "%" SCNu64, &n)) {
            n = UINT64_MAX;
        }
        (void) fclose(file);
    }
    return n;
}

/* The smallest limit of a group and those around it; group: its path below the mount point, is changed. */
static uint64_t least_of(const char *mount, char *group, const char *file)
{
    uint64_t least = UINT64_MAX;
    for (;;) {
        char path[600];
        (void) snprintf(path, sizeof(path), "%s%s/%s", mount, group, file);
        const uint64_t n = number_in(path);
        least = n < least ? n : least;
        char *end = strrchr(group, '/');
        if (NULL == end) {
            return least;
        }
        *end = '\0';
    }
}

/* By the groups that the process is in; a line of /proc/self/cgroup is NUMBER:CONTROLLERS:PATH. */
static uint64_t limit_of_groups(void)
{
    uint64_t least = UINT64_MAX;
    char line[512];
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (NULL != file && NULL != fgets(line, sizeof(line), file)) {
        char *controllers = strchr(line, ':');
        char *group = NULL == controllers ? NULL : strchr(controllers + 1, ':');
        if (NULL == group) {
            continue;
        }
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        uint64_t n = UINT64_MAX;
        if ('\0' == controllers[1]) {
            n = least_of("/sys/fs/cgroup", group, "memory.max");
        } else if (NULL != strstr(controllers, "memory")) {
            n = least_of("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
        }
        least = n < least ? n : least;
    }
    if (NULL != file) {
        (void) fclose(file);
    }
    return least;
}

uint64_t mca_pml_spec_memory_of_host(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    const uint64_t machine = pages > 0 && page > 0 ? (uint64_t) pages * (uint64_t) page : 0;
    const uint64_t group = limit_of_groups();
    return group < machine ? group : machine;
}
