/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The component as Open MPI's framework sees it: its parameters, whether it can be selected, open and close. */
#include "pml_spec_calls.h"

#include "../objects/pml_spec_explain.h"
#include "pml_spec_pvars.h"

#include <stdio.h>

static const mca_base_var_enum_value_t speculation_values[] = {
    {.value = MCA_PML_SPEC_SPECULATION_OFF, .string = "off"},
    {.value = MCA_PML_SPEC_SPECULATION_ON, .string = "on"},
    {.value = MCA_PML_SPEC_SPECULATION_AUTO, .string = "auto"},
    {.value = 0, .string = NULL},
};

/* All but speculation. least and most: the range, unless both are 0. */
static const struct parameter {
    const char *name;
    mca_base_var_type_t type;
    int level;
    void *storage;
    long value, least, most;
    const char *help;
} parameters[] = {
    {"priority", MCA_BASE_VAR_TYPE_INT, 9, &mca_pml_spec.priority, 10, 0, 0,
     "Priority of this component when several are asked for. No unit; default 10, below ob1's, "
     "so that an installed spec is used only when asked for (--mca pml spec)"},
    {"verbose", MCA_BASE_VAR_TYPE_INT, 3, &mca_pml_spec.verbose, 0, 0, 100,
     "How much to tell on the standard error: 0 nothing, 10 speculation that stops or resumes "
     "and refused packets, 20 why a protocol is chosen, at each change, 30 each RTR, 50 each "
     "step of each large message. No unit, range 0 to 100; default 0. Slows the job down"},
    {"pipeline_depth", MCA_BASE_VAR_TYPE_INT, 5, &mca_pml_spec.pipeline_depth, 4, 1, 1024,
     "Fragments of one message under way at once when its data must be sent by copy (datatype "
     "with gaps, transport without RDMA). Unit: fragments, range 1 to 1024; default 4. More "
     "helps on a long line with small fragments"},
    {"copy_limit", MCA_BASE_VAR_TYPE_SIZE_T, 5, &mca_pml_spec.copy_limit, 4096, 0, 0,
     "Eager messages up to this size are copied into the transport's buffer and are then "
     "complete for the sender; longer ones are sent from the user's buffer where the transport "
     "can do that. Unit: bytes, any size; default 4096. The copy costs less than tracking a "
     "request up to a few KiB"},
    {"eager_max", MCA_BASE_VAR_TYPE_LONG, 5, &mca_pml_spec.eager_max, -1, 0, 0,
     "Up to this size a message goes out with its data, without a handshake, where processors copy "
     "the "
     "data (shared memory): at least what the transport's own eager limit says, at most what fits "
     "its "
     "largest packet. Unit: bytes, any size; default -1: measured, from what a copy and a single "
     "copy "
     "by the kernel take on this machine (pml_spec_verbose 20 prints it); longer for messages that "
     "are sent one right after the other. 0: the transport's own limit"},
    {"hold_max", MCA_BASE_VAR_TYPE_SIZE_T, 5, &mca_pml_spec.hold_max, 268435456, 0, 0,
     "Memory that persistent requests keep registered for as long as they exist, so that no "
     "start registers; what is beyond it is registered in advance only, and may be evicted. "
     "Unit: bytes, any size; default 268435456"},
    {"stripe_min", MCA_BASE_VAR_TYPE_SIZE_T, 5, &mca_pml_spec.stripe_min, 65536, 1, INT64_MAX,
     "A large message is shared among several transports only if each gets at least this much. "
     "Unit: bytes, at least 1; default 65536. Raise it if the transports differ much in latency"},
    {"unexpected_max", MCA_BASE_VAR_TYPE_LONG, 4, &mca_pml_spec.unexpected_max, -1, 0, 0,
     "How much memory messages that no receive has asked for yet may take in one process. Each "
     "sender begins with its share of it as credit, never less than 1 MiB. Beyond the limit a "
     "sender of whom more than its share is kept gets no more credit, and the user is told "
     "once: its blocking sends wait until messages are received, its nonblocking ones complete "
     "later. Unit: bytes, any size; default -1: a quarter of the memory of the host or of the "
     "process's control group, divided by the processes of the job on the host, but no less "
     "than 64 MiB. 0: no limit. A program that relies on standard sends being buffered, which "
     "MPI does not promise, may need more"},
    {"free_list_inc", MCA_BASE_VAR_TYPE_INT, 9, &mca_pml_spec.free_list_inc, 64, 1, 65536,
     "By how many objects the lists of requests and fragments grow when they are empty. Unit: "
     "objects, range 1 to 65536; default 64"},
    {"adapt_threshold", MCA_BASE_VAR_TYPE_INT, 5, &mca_pml_spec.adapt_threshold, 80, 0, 100,
     "With speculation auto: a receiver stops offering its buffers to a sender (for one "
     "communicator and tag) when fewer than this share of its latest offers was of use, and "
     "begins again when halfway from here to 100 % of its receives would have been in time. "
     "Unit: percent, range 0 (never stop) to 100; default 80"},
    {"adapt_window", MCA_BASE_VAR_TYPE_INT, 6, &mca_pml_spec.adapt_window, 16, 1, 65536,
     "With speculation auto: how many offers, or receives, make the share of "
     "pml_spec_adapt_threshold. Unit: messages, range 1 to 65536; default 16. Larger is slower "
     "to change and surer"},
    {"patience_max", MCA_BASE_VAR_TYPE_SIZE_T, 6, &mca_pml_spec.patience_max, 2000, 0, 0,
     "How long a nonblocking send or receive of 64 KiB and more, of two processes that send to "
     "each other, waits at most for what the other one may have on its way (an offer of its "
     "buffer, or its message), if such came just too late before. It waits less where that was "
     "in vain, and not at all where this processor moves the data. Unit: microseconds, any "
     "size, above 2000 as 2000; default 2000, 0: never"},
    {"gather", MCA_BASE_VAR_TYPE_INT, 5, &mca_pml_spec.gather, 32, 1, 4096,
     "Nonblocking sends, 64 KiB together, to one process with no other MPI call that waits or "
     "tests between them: the first four leave at once, those behind them wait for each other, "
     "at most so many, or for the next call that waits or tests, where the transport can send "
     "several at a time (btl/ibx over UDP). Unit: messages, range 1 (never wait) to 4096; "
     "default 32. Lower it for a program that begins to compute after many sends"},
    {"adapt_entries", MCA_BASE_VAR_TYPE_INT, 7, &mca_pml_spec.adapt_entries, 4096, 4, 1048576,
     "With speculation auto: for how many (communicator, source, tag) a process remembers what "
     "it found out, in each direction; the longest unused is forgotten. Unit: entries of 40 "
     "bytes, range 4 to 1048576; default 4096. Allocated when the first is needed"},
    {"summary", MCA_BASE_VAR_TYPE_BOOL, 2, &mca_pml_spec.summary, 0, 0, 0,
     "Print one table at MPI_Finalize: messages by protocol, RTRs and what became of them, "
     "bytes by path, longest queues; summed over the job, with the least and the most of a "
     "rank. 0 or 1; default 0"},
    {"profile", MCA_BASE_VAR_TYPE_STRING, 4, &mca_pml_spec.profile, 0, 0, 0,
     "With speculation auto: a file that keeps for which (communicator, source, tag) "
     "speculation did not pay. If it exists it is used from the beginning, if the number of "
     "ranks is the same; at MPI_Finalize it is written anew, one file for the job. Name of a "
     "file that all hosts see; default none"},
};

/* A number outside its range is an error with a text, not a surprise later. */
static bool in_range(const struct parameter *p)
{
    char name[64];
    if (0 == p->least && 0 == p->most) {
        return true;
    }
    const long value =
        MCA_BASE_VAR_TYPE_INT == p->type ? *(int *) p->storage : *(long *) p->storage;
    if (value >= p->least && value <= p->most) {
        return true;
    }
    (void) snprintf(name, sizeof(name), "pml_spec_%s", p->name);
    mca_pml_spec_explain("parameter out of range", name, (long long) value, (long long) p->least,
                         (long long) p->most);
    return false;
}

static void register_parameter(const struct parameter *p)
{
    switch (p->type) {
    case MCA_BASE_VAR_TYPE_INT:
        *(int *) p->storage = (int) p->value;
        break;
    case MCA_BASE_VAR_TYPE_BOOL:
        *(bool *) p->storage = p->value;
        break;
    case MCA_BASE_VAR_TYPE_STRING:
        *(char **) p->storage = NULL;
        break;
    default: /* as long as a long, both of them */
        *(long *) p->storage = p->value;
        break;
    }
    (void) mca_base_component_var_register(
        &mca_pml_spec_component.pmlm_version, p->name, p->help, p->type, NULL, 0, 0,
        (mca_base_var_info_lvl_t) (p->level - 1), MCA_BASE_VAR_SCOPE_READONLY, p->storage);
}

static int register_speculation(void)
{
    mca_base_var_enum_t *values = NULL;
    int rc = mca_base_var_enum_create("pml_spec_speculation_values", speculation_values, &values);
    if (OPAL_SUCCESS != rc) {
        return rc;
    }
    mca_pml_spec.speculation = MCA_PML_SPEC_SPECULATION_AUTO;
    rc = mca_base_component_var_register(
        &mca_pml_spec_component.pmlm_version, "speculation",
        "May a large receive that is posted before its message offers its buffer to the sender "
        "(RTR), so that the message arrives while the receiver computes? off: never, the sender "
        "always comes first; on: always; auto: where it helps, found out for "
        "each (communicator, source, tag) while the program runs. No unit; default auto",
        MCA_BASE_VAR_TYPE_INT, values, 0, 0, OPAL_INFO_LVL_1, MCA_BASE_VAR_SCOPE_READONLY,
        &mca_pml_spec.speculation);
    OBJ_RELEASE(values);
    return rc;
}

static int spec_register(void)
{
    const struct parameter *end = parameters + sizeof(parameters) / sizeof(*parameters);
    opal_show_help_add_dir(SPEC_HELP_DIR); /* here, because parameters may have to be refused */
    for (const struct parameter *p = parameters; p < end; ++p) {
        register_parameter(p);
    }
    mca_pml_spec_counters_register();
    if (register_speculation() < 0) {
        mca_pml_spec_explain("unknown speculation");
        return OPAL_ERR_BAD_PARAM;
    }
    for (const struct parameter *p = parameters; p < end; ++p) {
        if (!in_range(p)) {
            return OPAL_ERR_BAD_PARAM;
        }
    }
    return OPAL_SUCCESS;
}

static int spec_open(void)
{
    mca_pml_spec.output = opal_output_open(NULL);
    opal_output_set_verbosity(mca_pml_spec.output, mca_pml_spec.verbose);
    mca_pml_spec.enabled = false;
    /* Open MPI 4.1 has opened the BML already, 5.0 leaves it to the PML; opens are counted. */
    return mca_base_framework_open(&ompi_bml_base_framework, 0);
}

static int spec_close(void)
{
    opal_output_close(mca_pml_spec.output);
    return mca_base_framework_close(&ompi_bml_base_framework);
}

/* What the transports ask of a PML that uses them. */
static void ask_transports(void)
{
    mca_btl_base_selected_module_t *selected;
    mca_pml_spec.eager_min = SIZE_MAX;
    OPAL_LIST_FOREACH (selected, &mca_btl_base_modules_initialized,
                       mca_btl_base_selected_module_t) {
        const mca_btl_base_module_t *btl = selected->btl_module;
        if (btl->btl_flags & MCA_BTL_FLAGS_BTL_PROGRESS_THREAD_ENABLED) {
            mca_pml_spec.threaded = true;
        }
        if (btl->btl_flags & MCA_BTL_FLAGS_SINGLE_ADD_PROCS) {
            mca_pml_spec.super.pml_flags |= MCA_PML_BASE_FLAG_REQUIRE_WORLD;
        }
        if (btl->btl_eager_limit < mca_pml_spec.eager_min) {
            mca_pml_spec.eager_min = btl->btl_eager_limit;
        }
    }
    if (SIZE_MAX == mca_pml_spec.eager_min
        || mca_pml_spec.eager_min < sizeof(mca_pml_spec_match_hdr_t)) {
        mca_pml_spec.eager_min = 0;
    } else {
        mca_pml_spec.eager_min -= sizeof(mca_pml_spec_match_hdr_t);
    }
}

static mca_pml_base_module_t *spec_init(int *priority, bool progress_threads, bool mpi_threads)
{
    *priority = mca_pml_spec.priority;

    if (OMPI_SUCCESS != mca_bml_base_init(progress_threads, mpi_threads)) {
        return NULL;
    }
    mca_pml_spec.threaded = mpi_threads || opal_using_threads();
    mca_pml_spec.devices = mca_pml_spec_has_device();
    ask_transports();
    return &mca_pml_spec.super;
}

static int spec_fini(void)
{
    mca_pml_spec_finalize();
    return mca_bml.bml_finalize();
}

__attribute__((visibility("default"))) mca_pml_base_component_t mca_pml_spec_component = {
    .pmlm_version =
        {
            MCA_PML_SPEC_COMPONENT_VERSION,
            .mca_component_name = "spec",
            .mca_component_major_version = SPEC_VERSION_MAJOR,
            .mca_component_minor_version = SPEC_VERSION_MINOR,
            .mca_component_release_version = SPEC_VERSION_RELEASE,
            .mca_register_component_params = spec_register,
            .mca_open_component = spec_open,
            .mca_close_component = spec_close,
        },
    .pmlm_data = {MCA_BASE_METADATA_PARAM_NONE},
    .pmlm_init = spec_init,
    .pmlm_finalize = spec_fini,
};
