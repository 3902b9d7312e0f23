/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The component: parameters, selection, life. */
#include "../objects/pml_spec.h"

#include "../objects/pml_spec_comm.h"
#include "../objects/pml_spec_explain.h"
#include "../protocols/pml_spec_proto.h"

/* Below ob1's default of 20: an installed but unasked-for spec changes nothing. */
#define DEFAULT_PRIORITY 10

static const mca_base_var_enum_value_t speculation_values[] = {
    {.value = MCA_PML_SPEC_SPECULATION_OFF, .string = "off"},
    {.value = MCA_PML_SPEC_SPECULATION_ON, .string = "on"},
    {.value = MCA_PML_SPEC_SPECULATION_AUTO, .string = "auto"},
    {.value = 0, .string = NULL},
};

static int register_int(const char *name, const char *help, int level, int *storage)
{
    return mca_base_component_var_register(
        &mca_pml_spec_component.pmlm_version, name, help, MCA_BASE_VAR_TYPE_INT, NULL, 0, 0,
        (mca_base_var_info_lvl_t) level, MCA_BASE_VAR_SCOPE_READONLY, storage);
}

static int register_size(const char *name, const char *help, int level, size_t *storage)
{
    return mca_base_component_var_register(
        &mca_pml_spec_component.pmlm_version, name, help, MCA_BASE_VAR_TYPE_SIZE_T, NULL, 0, 0,
        (mca_base_var_info_lvl_t) level, MCA_BASE_VAR_SCOPE_READONLY, storage);
}

static int register_long(const char *name, const char *help, int level, long *storage)
{
    return mca_base_component_var_register(
        &mca_pml_spec_component.pmlm_version, name, help, MCA_BASE_VAR_TYPE_LONG, NULL, 0, 0,
        (mca_base_var_info_lvl_t) level, MCA_BASE_VAR_SCOPE_READONLY, storage);
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

/* A number outside its range is an error with a text, not a surprise later. */
static bool in_range(const char *name, long long value, long long least, long long most)
{
    if (value >= least && value <= most) {
        return true;
    }
    mca_pml_spec_explain("parameter out of range", name, value, least, most);
    return false;
}

static int spec_register(void)
{
    opal_show_help_add_dir(SPEC_HELP_DIR); /* here, because parameters may have to be refused */

    mca_pml_spec.priority = DEFAULT_PRIORITY;
    register_int("priority",
                 "Priority of this component when several are asked for. No unit; default 10, "
                 "below ob1's, so that an installed spec is used only when asked for "
                 "(--mca pml spec)",
                 OPAL_INFO_LVL_9, &mca_pml_spec.priority);

    mca_pml_spec.verbose = 0;
    register_int("verbose",
                 "How much to tell on the standard error: 0 nothing, 10 speculation that stops or "
                 "resumes and refused packets, 20 why a protocol is chosen, at each change, 30 "
                 "each RTR, 50 each step of each large message. No unit, range 0 to "
                 "100; default 0. Slows the job down",
                 OPAL_INFO_LVL_3, &mca_pml_spec.verbose);

    mca_pml_spec.pipeline_depth = 4;
    register_int("pipeline_depth",
                 "Fragments of one message under way at once when its data must be sent by copy "
                 "(datatype with gaps, transport without RDMA). Unit: fragments, range 1 to 1024; "
                 "default 4. More helps on a long line with small fragments",
                 OPAL_INFO_LVL_5, &mca_pml_spec.pipeline_depth);

    mca_pml_spec.copy_limit = 4096;
    register_size("copy_limit",
                  "Eager messages up to this size are copied into the transport's buffer and are "
                  "then complete for the sender; longer ones are sent from the user's buffer where "
                  "the transport can do that. Unit: bytes, any size; default 4096. The copy costs "
                  "less than tracking a request up to a few KiB",
                  OPAL_INFO_LVL_5, &mca_pml_spec.copy_limit);

    mca_pml_spec.hold_max = (size_t) 256 << 20;
    register_size(
        "hold_max",
        "Memory that persistent requests keep registered for as long as they exist, so "
        "that no start registers; what is beyond it is registered in advance only, and may "
        "be evicted. Unit: bytes, any size; default 268435456",
        OPAL_INFO_LVL_5, &mca_pml_spec.hold_max);

    mca_pml_spec.stripe_min = 64 * 1024;
    register_size("stripe_min",
                  "A large message is shared among several transports only if each gets at least "
                  "this much. Unit: bytes, at least 1; default 65536. Raise it if the transports "
                  "differ much in latency",
                  OPAL_INFO_LVL_5, &mca_pml_spec.stripe_min);

    mca_pml_spec.unexpected_max = -1;
    register_long(
        "unexpected_max",
        "How much memory messages that no receive has asked for yet may take in one process. Each "
        "sender begins with its share of it as credit, never less than 1 MiB. Beyond the limit a sender "
        "of whom "
        "more than its share is kept gets no more credit, and the user is told once: its blocking "
        "sends "
        "wait until messages are received, its nonblocking ones complete later. Unit: bytes, any "
        "size; "
        "default -1: a quarter of the memory of the host or of the process's control group, "
        "divided by the "
        "processes of the job on the host, but no less than 64 MiB. 0: no limit. A program that relies on "
        "standard sends "
        "being buffered, which MPI does not promise, may need more",
        OPAL_INFO_LVL_4, &mca_pml_spec.unexpected_max);

    mca_pml_spec.free_list_inc = 64;
    register_int("free_list_inc",
                 "By how many objects the lists of requests and fragments grow when they are "
                 "empty. Unit: objects, range 1 to 65536; default 64",
                 OPAL_INFO_LVL_9, &mca_pml_spec.free_list_inc);

    mca_pml_spec.adapt_threshold = 80;
    register_int(
        "adapt_threshold",
        "With speculation auto: a receiver stops offering its buffers to a sender (for one "
        "communicator and tag) when fewer than this share of its latest offers was of use, "
        "and begins again when halfway from here to 100 % of its receives would have been "
        "in time. Unit: percent, range 0 (never stop) to 100; default 80",
        OPAL_INFO_LVL_5, &mca_pml_spec.adapt_threshold);

    mca_pml_spec.adapt_window = 16;
    register_int("adapt_window",
                 "With speculation auto: how many offers, or receives, make the share of "
                 "pml_spec_adapt_threshold. Unit: messages, range 1 to 65536; default 16. Larger "
                 "is slower to change and surer",
                 OPAL_INFO_LVL_6, &mca_pml_spec.adapt_window);

    mca_pml_spec.patience_max = 2000;
    register_size(
        "patience_max",
        "How long a nonblocking send or receive of 64 KiB and more, of two processes that send "
        "to each other, waits at most for what the other one may have on its way (an offer of "
        "its buffer, or its message), if such came just too late before. It waits less where "
        "that was in vain, and not at all where this processor moves the data. "
        "Unit: microseconds, any size, above 2000 as 2000; default 2000, 0: never",
        OPAL_INFO_LVL_6, &mca_pml_spec.patience_max);

    mca_pml_spec.gather = 32;
    register_int(
        "gather",
        "Nonblocking sends, 64 KiB together, to one process with no other MPI call that waits or "
        "tests between them: the first four leave at once, those behind them wait for "
        "each other, at most so many, or for the next call that waits or tests, where the "
        "transport can send several at a time (btl/ibx over UDP). Unit: messages, range 1 (never "
        "wait) to 4096; default 32. Lower it for a program that begins to compute after many sends",
        OPAL_INFO_LVL_5, &mca_pml_spec.gather);

    mca_pml_spec.adapt_entries = 4096;
    register_int("adapt_entries",
                 "With speculation auto: for how many (communicator, source, tag) a process "
                 "remembers what it found out, in each direction; the longest unused is forgotten. "
                 "Unit: entries of 40 bytes, range 4 to 1048576; default 4096. Allocated when the "
                 "first is needed",
                 OPAL_INFO_LVL_7, &mca_pml_spec.adapt_entries);

    mca_pml_spec.summary = false;
    (void) mca_base_component_var_register(
        &mca_pml_spec_component.pmlm_version, "summary",
        "Print one table at MPI_Finalize: messages by protocol, RTRs and what became of them, "
        "bytes "
        "by path, longest queues; summed over the job, with the least and the most of a rank. "
        "0 or 1; default 0",
        MCA_BASE_VAR_TYPE_BOOL, NULL, 0, 0, OPAL_INFO_LVL_2, MCA_BASE_VAR_SCOPE_READONLY,
        &mca_pml_spec.summary);

    mca_pml_spec.profile = NULL;
    (void) mca_base_component_var_register(
        &mca_pml_spec_component.pmlm_version, "profile",
        "With speculation auto: a file that keeps for which (communicator, source, tag) "
        "speculation "
        "did not pay. If it exists it is used from the beginning, if the number of ranks is the "
        "same; at MPI_Finalize it is written anew, one file for the job. Name of a file that all "
        "hosts see; default none",
        MCA_BASE_VAR_TYPE_STRING, NULL, 0, 0, OPAL_INFO_LVL_4, MCA_BASE_VAR_SCOPE_READONLY,
        &mca_pml_spec.profile);

    mca_pml_spec_counters_register();

    int rc = register_speculation();
    if (rc < 0) {
        mca_pml_spec_explain("unknown speculation");
        return OPAL_ERR_BAD_PARAM;
    }
    if (!in_range("pml_spec_verbose", mca_pml_spec.verbose, 0, 100)
        || !in_range("pml_spec_pipeline_depth", mca_pml_spec.pipeline_depth, 1, 1024)
        || !in_range("pml_spec_gather", mca_pml_spec.gather, 1, 4096)
        || !in_range("pml_spec_free_list_inc", mca_pml_spec.free_list_inc, 1, 65536)
        || !in_range("pml_spec_adapt_threshold", mca_pml_spec.adapt_threshold, 0, 100)
        || !in_range("pml_spec_adapt_window", mca_pml_spec.adapt_window, 1, 65536)
        || !in_range("pml_spec_adapt_entries", mca_pml_spec.adapt_entries, 4, 1048576)
        || !in_range("pml_spec_stripe_min", (long long) mca_pml_spec.stripe_min, 1, INT64_MAX)) {
        return OPAL_ERR_BAD_PARAM;
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
static void look_at_transports(void)
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
    look_at_transports();
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
