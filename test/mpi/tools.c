/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What a tool sees of our components through MPI_T while a job runs: every control variable (cvar)
 * has a description, a unit and a default if it is a number, and a value in the range that the
 * description gives; every performance variable (pvar) has a description and can be read.
 *
 *   --components N   how many of ours must have cvars (default 4; those the job has not opened have
 *                    none) */
#define _GNU_SOURCE /* strcasestr */
#include "testlib.h"

#include <ctype.h>

enum { TEXT = 2048, NAME = 256 };

static const char *const ours[] = {"pml_spec_", "btl_ibx_", "rcache_lazy_", "mpool_freq_"};

/* Which of ours a variable belongs to, or -1. The version numbers that Open MPI makes a variable of
 * for every component have no words. */
static int component_of(const char *name)
{
    const size_t length = strlen(name), tail = strlen("_version");
    if (length > tail && 0 == strcmp(name + length - tail, "_version")) {
        return -1;
    }
    for (size_t i = 0; i < TL_N(ours); ++i) {
        if (0 == strncmp(name, ours[i], strlen(ours[i]))) {
            return (int) i;
        }
    }
    return -1;
}

/* A number as the texts have it, 64K or -1; NULL if there is none at `text`, else what follows. */
static const char *number(const char *text, double *value)
{
    char *end;
    if (!isdigit((unsigned char) text[0])
        && !('-' == text[0] && isdigit((unsigned char) text[1]))) {
        return NULL;
    }
    *value = (double) strtoll(text, &end, 10);
    switch (*end) {
    case 'G':
        *value *= 1024;
        /* fall through */
    case 'M':
        *value *= 1024;
        /* fall through */
    case 'K':
        *value *= 1024;
        ++end;
    }
    return end;
}

/* "range A to B" and "at least A"; what they say of the value. */
static bool in_range(const char *text, double value)
{
    double least, most;
    const char *range = strcasestr(text, "range "), *after;
    if (NULL != range && NULL != (after = number(range + 6, &least))) {
        if (value < least) {
            return false;
        }
        after = strstr(after, " to ");
        return NULL == after || NULL == number(after + 4, &most) || value <= most;
    }
    range = strstr(text, "at least ");
    return NULL == range || NULL == number(range + 9, &least) || value >= least;
}

/* Reads a variable of any type of number. */
static bool value_of(int index, MPI_Datatype type, double *value)
{
    union {
        int i;
        unsigned u;
        unsigned long l;
        unsigned long long ll;
        double d;
        char bytes[64];
    } raw;
    MPI_T_cvar_handle handle;
    int count;
    memset(&raw, 0, sizeof(raw));
    if (MPI_SUCCESS != MPI_T_cvar_handle_alloc(index, NULL, &handle, &count)) {
        return false;
    }
    const bool is_read = 1 == count && MPI_SUCCESS == MPI_T_cvar_read(handle, &raw);
    MPI_T_cvar_handle_free(&handle);
    *value = MPI_INT == type             ? raw.i
             : MPI_UNSIGNED == type      ? raw.u
             : MPI_UNSIGNED_LONG == type ? (double) (long) raw.l /* Open MPI's type for long, too */
             : MPI_DOUBLE == type        ? raw.d
                                         : (double) (long long) raw.ll;
    return is_read;
}

static int walk_cvars(int *seen)
{
    int n, mine = 0;
    MPI_T_cvar_get_num(&n);
    for (int i = 0; i < n; ++i) {
        char name[NAME], text[TEXT];
        int name_length = NAME, text_length = TEXT, verbosity, bind, scope;
        MPI_Datatype type = MPI_DATATYPE_NULL;
        MPI_T_enum names = MPI_T_ENUM_NULL;
        if (MPI_SUCCESS
            != MPI_T_cvar_get_info(i, name, &name_length, &verbosity, &type, &names, text,
                                   &text_length, &bind, &scope)) {
            continue; /* of a component that was closed */
        }
        const int component = component_of(name);
        if (component < 0) {
            continue;
        }
        ++mine;
        ++seen[component];
        tl_step("cvar %s", name);
        CHECK(strlen(text) > 5, "no description");
        CHECK(verbosity >= MPI_T_VERBOSITY_USER_BASIC && verbosity <= MPI_T_VERBOSITY_MPIDEV_ALL,
              "level %d", verbosity);
        /* Every BTL has parameters that Open MPI describes. */
        const bool is_text = MPI_CHAR == type || MPI_T_ENUM_NULL != names;
        const bool is_theirs = 1 == component && NULL == strcasestr(text, "default");
        double value;
        if (is_text || is_theirs) {
            continue;
        }
        CHECK(NULL != strcasestr(text, "unit"), "no unit: %s", text);
        CHECK(NULL != strcasestr(text, "default"), "no default: %s", text);
        if (CHECK(value_of(i, type, &value), "cannot be read")) {
            CHECK(in_range(text, value), "its value %g is not in the range: %s", value, text);
        }
    }
    return mine;
}

/* Open MPI 6.0 takes what is at and behind the handle for the communicator itself, to see whether it is a valid one, so the handle
 * is in front of bytes that say nothing (docs/known-issues.md). */
static struct {
    MPI_Comm comm;
    char zeros[4096];
} bound;

static int walk_pvars(void)
{
    MPI_T_pvar_session session;
    int n, mine = 0;
    bound.comm = MPI_COMM_WORLD;
    MPI_T_pvar_session_create(&session);
    MPI_T_pvar_get_num(&n);
    for (int i = 0; i < n; ++i) {
        char name[NAME], text[TEXT];
        int name_length = NAME, text_length = TEXT, verbosity, class, bind, read_only, continuous,
            atomic, count = 0;
        MPI_Datatype type = MPI_DATATYPE_NULL;
        MPI_T_enum names = MPI_T_ENUM_NULL;
        if (MPI_SUCCESS
                != MPI_T_pvar_get_info(i, name, &name_length, &verbosity, &class, &type, &names,
                                       text, &text_length, &bind, &read_only, &continuous, &atomic)
            || component_of(name) < 0) {
            continue;
        }
        ++mine;
        tl_step("pvar %s", name);
        CHECK(strlen(text) > 5, "no description");
        MPI_T_pvar_handle handle;
        const bool is_bound = MPI_T_BIND_MPI_COMM == bind;
        if (CHECK(MPI_SUCCESS
                      == MPI_T_pvar_handle_alloc(session, i, is_bound ? &bound : NULL, &handle,
                                                 &count),
                  "no handle")) {
            unsigned long long *values = calloc((size_t) count + 1, sizeof(*values));
            if (!continuous) {
                MPI_T_pvar_start(session, handle);
            }
            CHECK(count >= 1 && MPI_SUCCESS == MPI_T_pvar_read(session, handle, values),
                  "cannot be read");
            MPI_T_pvar_handle_free(session, &handle);
            free(values);
        }
    }
    MPI_T_pvar_session_free(&session);
    return mine;
}

int main(int argc, char **argv)
{
    int provided, seen[TL_N(ours)] = {0}, components = 0;
    tl_start(&argc, &argv, "tools", 60);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    const int cvars = walk_cvars(seen), pvars = walk_pvars();
    tl_step("totals");
    for (size_t i = 0; i < TL_N(ours); ++i) {
        components += seen[i] > 0;
    }
    const int wanted = (int) tl_option("--components", TL_N(ours));
    CHECK(components >= wanted, "%d of our components have cvars, not %d", components, wanted);
    CHECK(pvars > 0, "there is no pvar of ours");
    if (0 == tl.rank) {
        printf("%d cvars, %d pvars\n", cvars, pvars);
    }
    MPI_T_finalize();
    return tl_finish();
}
