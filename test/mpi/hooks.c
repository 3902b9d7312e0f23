/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Open MPI's memory hooks are written over the first instructions of munmap and its like, when the first
 * registration cache of a process is made. A thread that is just in there returns into the middle of the
 * new code and dies, rarely enough to be seen once in fifty jobs. So no component may have a thread
 * before the hooks are in: here the threads of components are noticed as they are made, and what munmap
 * begins with is compared with what it begins with later.
 *
 * usage: hooks [--threads N]   at least N threads of components must have been made (0) */
#define _GNU_SOURCE /* RTLD_NEXT, dladdr */
#include "testlib.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>

enum { CODE = 16, THREADS = 64 };

typedef int create_t(pthread_t *, const pthread_attr_t *, void *(*) (void *), void *);

static struct {
    char library[256];
    unsigned char code[CODE]; /* of munmap, when the thread was made */
} made[THREADS];
static int made_n;

static void copy_code(unsigned char *code)
{
    memcpy(code, dlsym(RTLD_DEFAULT, "munmap"), CODE);
}

/* Components find this one before libc's. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                   void *argument)
{
    Dl_info info;
    if (0 != dladdr((void *) (uintptr_t) run, &info) && NULL != strstr(info.dli_fname, "/mca_")
        && made_n < THREADS) {
        snprintf(made[made_n].library, sizeof(made[0].library), "%s", info.dli_fname);
        copy_code(made[made_n++].code);
    }
    create_t *real = (create_t *) (uintptr_t) dlsym(RTLD_NEXT, "pthread_create");
    return real(thread, attr, run, argument);
}

int main(int argc, char **argv)
{
    unsigned char code[CODE];
    int ours = 0;
    tl_start(&argc, &argv, "hooks", 60);
    copy_code(code);
    for (int i = 0; i < made_n; ++i) {
        if (NULL != strstr(made[i].library, "/mca_btl_ibx")
            || NULL != strstr(made[i].library, "/mca_pml_spec")
            || NULL != strstr(made[i].library, "/mca_rcache_lazy")
            || NULL != strstr(made[i].library, "/mca_mpool_freq")) {
            ++ours;
            CHECK(0 == memcmp(made[i].code, code, CODE),
                  "%s made a thread, and then munmap was rewritten under it", made[i].library);
        }
    }
    CHECK(ours >= tl_option("--threads", 0), "%d threads of the components were seen", ours);
    return tl_finish();
}
