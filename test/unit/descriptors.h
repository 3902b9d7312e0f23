/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* How many descriptors the process has open (and the one that counts them): nothing is left behind if there are as many
 * as before. */
#ifndef DESCRIPTORS_H
#define DESCRIPTORS_H

#include "spec_unit.h"

#include <dirent.h>

static inline int descriptors(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    assert_non_null(d);
    while (NULL != readdir(d)) {
        ++n;
    }
    closedir(d);
    return n;
}

#endif
