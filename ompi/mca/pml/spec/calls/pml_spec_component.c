/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The component as Open MPI's framework sees it: its parameters, whether it can be selected, open and close. */
#include "pml_spec_calls.h"

#include "../objects/pml_spec_processors.h"
#include "pml_spec_pvars.h"

#include "opal/include/spec/component.h"
#include "opal/include/spec/parameters.h"

#include <sys/stat.h>

static const mca_base_var_enum_value_t speculation_values[] = {
    {.value = MCA_PML_SPEC_SPECULATION_OFF, .string = "off"},
    {.value = MCA_PML_SPEC_SPECULATION_ON, .string = "on"},
    {.value = MCA_PML_SPEC_SPECULATION_AUTO, .string = "auto"},
    {.value = 0, .string = NULL},
};

static const mca_base_var_enum_value_t progress_values[] = {
    {.value = MCA_PML_SPEC_PROGRESS_OFF, .string = "off"},
    {.value = MCA_PML_SPEC_PROGRESS_ON, .string = "on"},
    {.value = MCA_PML_SPEC_PROGRESS_AUTO, .string = "auto"},
    {.value = 0, .string = NULL},
};

static const char *refuse_processors(const char *list)
{
    mca_pml_spec_processors_t named;
    return mca_pml_spec_processors_named(&named, list) > 0
               ? NULL
               : "numbers of processors such as 0-3,8";
}

/* NULL: the file may be used as a profile, or can be made. */
static const char *refuse_profile(const char *name)
{
    struct stat file;
    char directory[PATH_MAX];
    const char *slash = strrchr(name, '/');
    if (0 == stat(name, &file)) {
        return S_ISREG(file.st_mode) ? NULL
                                     : "the name of a regular file (no directory, FIFO or device)";
    }
    snprintf(directory, sizeof(directory), "%.*s", NULL == slash ? 1 : (int) (slash - name + 1),
             NULL == slash ? "." : name);
    return 0 == stat(directory, &file) && S_ISDIR(file.st_mode)
               ? NULL
               : "the name of a file in a directory that exists";
}

#define TIB (1LL << 40)

static const spec_parameter_t parameters[] = {
    SPEC_CHOICE("speculation", 1, &mca_pml_spec.speculation, MCA_PML_SPEC_SPECULATION_AUTO,
                speculation_values,
                .help = "A large receive that is posted before its message arrives may offer its "
                        "buffer to the sender with a control packet (RTR), so that the data moves "
                        "while the receiver computes. off: no receive offers its buffer, and the "
                        "sender always announces the message first. on: every large receive "
                        "does. auto: a receive does where that helped before, as is observed for "
                        "each communicator, sender and tag while the program runs. No unit, one "
                        "of off, on, auto, default auto."),
    SPEC_CHOICE("progress", 2, &mca_pml_spec.progress, MCA_PML_SPEC_PROGRESS_OFF, progress_values,
                .help = "A thread of each process (the progress agent) calls Open MPI's progress "
                        "while the program computes, so that all that is nonblocking goes on: "
                        "receives with wildcards or gaps, collective and one-sided operations. "
                        "Open MPI then works as with MPI_THREAD_MULTIPLE, which makes each call "
                        "slower, and the program's reduction functions and callbacks may be "
                        "called in that thread. off: there is none. on: there is one. auto: there "
                        "is one if this host has processors that no rank is bound to, one for "
                        "every two ranks. No unit, one of off, on, auto, default off."),
    SPEC_WORDS("progress_processors", 9, &mca_pml_spec.progress_processors, NULL,
               .refuse = refuse_processors,
               .help = "The progress agents of this host run on these processors, from the "
                       "highest number on, one after the other, and take them for their own: no "
                       "rank should compute there. By default the component finds those that no "
                       "rank is bound to, which it cannot where mpirun does not start the ranks "
                       "(srun). No unit, numbers such as 0-3,8, default none."),
    SPEC_SWITCH("summary", 2, &mca_pml_spec.summary, false,
                .help = "Rank 0 prints one table in MPI_Finalize: messages by protocol, offers of "
                        "receive buffers (RTR) and what became of them, bytes by path, and the "
                        "longest queues, summed over the job, with the least and the most of a "
                        "rank. No unit, 0 or 1, default 0."),
    SPEC_NUMBER("verbose", 3, &mca_pml_spec.verbose, 0, 0, 100,
                .help = "The component tells on the standard error what it does, which slows the "
                        "job down. Each higher number adds something: 10 speculation that stops "
                        "or resumes and refused packets, 20 why a protocol is chosen whenever the "
                        "choice changes, 30 each offer of a receive buffer (RTR), 50 each step of "
                        "each large message. No unit, range 0 (nothing) to 100, default 0."),
    SPEC_WORDS("profile", 4, &mca_pml_spec.profile, NULL, .refuse = refuse_profile,
               .help = "A file of this name keeps from one job to the next for which "
                       "communicators, senders and tags speculation did not pay. If the file "
                       "exists, and a job of as many ranks has written it, the job begins with "
                       "what it says; in MPI_Finalize rank 0 writes it anew. The parameter has "
                       "an effect only with pml_spec_speculation auto. No unit, the name of a "
                       "file that all hosts see, default none."),
    SPEC_NUMBER("unexpected_max", 4, &mca_pml_spec.unexpected_max, -1, -1, TIB,
                .help = "Messages that no receive has asked for yet may take this much memory in "
                        "one process. A sender begins with its share of it as credit, but at "
                        "least 1 MiB. Beyond the limit, a sender of which more than its share is "
                        "stored gets no more credit, which is told once: its blocking sends wait "
                        "until messages are received, its nonblocking sends complete later. A "
                        "program that relies on standard sends being buffered, which MPI does not "
                        "promise, may need more. 0 means no limit; -1 means a quarter of the "
                        "memory of the host or of the control group, divided by the processes of "
                        "the job on the host, but at least 64 MiB. Unit: bytes, range -1 to "
                        "1024G, default -1."),
    SPEC_NUMBER("eager_max", 5, &mca_pml_spec.eager_max, -1, -1, TIB,
                .help = "A message up to this size goes out with its data, without a handshake, "
                        "where processors copy the data (shared memory): at least what the "
                        "transport's own eager limit says, at most what fits its largest packet, "
                        "or 64K in several packets. "
                        "-1 means that the size follows from what a copy and a single copy by the "
                        "kernel take on this machine, as is measured at first and while messages "
                        "are copied (pml_spec_verbose 20 prints it); 0 means the transport's own "
                        "limit. Unit: bytes, range -1 to 1024G, "
                        "default -1."),
    SPEC_NUMBER("stripe_min", 5, &mca_pml_spec.stripe_min, 65536, 1, TIB,
                .help = "A large message is divided among several transports only if each part "
                        "has at least this size. A larger value helps where the transports "
                        "differ much in latency. Unit: bytes, range 1 to 1024G, default 64K."),
    SPEC_NUMBER("persistent_max", 5, &mca_pml_spec.persistent_max, 256 << 20, 0, TIB,
                .was = "hold_max",
                .help = "Persistent requests keep up to this much memory registered with the "
                        "transports for as long as the requests exist, so that MPI_Start "
                        "registers nothing. Memory beyond the limit is registered in advance "
                        "only, and may be evicted from the registration cache. Unit: bytes, "
                        "range 0 to 1024G, default 256M."),
    SPEC_NUMBER("staging_max", 9, &mca_pml_spec.staging_max, 256 << 20, 0, TIB,
                .help = "Large messages from and to the memory of an accelerator (GPU), and those "
                        "that are sent from or received into memory with gaps by a call that does "
                        "not wait, go through host memory of one block, where the transport moves "
                        "data by itself: up to "
                        "this much of it is used at once. Messages for which there is none left, "
                        "and all with 0, go in fragments. Unit: bytes, range 0 to 1024G, default "
                        "256M."),
    SPEC_CHOICE(
        "stage_gaps", 9, &mca_pml_spec.stage_gaps, MCA_PML_SPEC_SPECULATION_AUTO,
        speculation_values,
        .help = "Does a large nonblocking message from or into memory with gaps go through "
                "host memory of one block, so that it moves while the program computes? "
                "off: it goes in fragments, which are packed and unpacked in calls of MPI. "
                "on: it does; a send is complete when it is packed, if the transport moves data "
                "while nobody calls MPI. auto: where the "
                "transport takes so long, as is measured, "
                "that packing is not felt by a program that only waits. No unit, one of "
                "off, on, auto, default auto."),
    SPEC_NUMBER("gather", 5, &mca_pml_spec.gather, 32, 1, 4096,
                .help = "Up to this many nonblocking sends to one process leave together, where "
                        "the transport can send several messages at a time (btl/ibx over UDP) and "
                        "no MPI call between the sends waits or tests. The first four sends leave "
                        "at once; a later one waits until the group has this many messages or "
                        "64 KiB, or until the program waits or tests. A program that computes "
                        "after many sends wants a smaller value. Unit: messages, range 1 (no send "
                        "waits) to 4096, default 32."),
    SPEC_NUMBER("patience_max", 9, &mca_pml_spec.patience_max, 2000, 0, 2000,
                .help = "A nonblocking send or receive of at least 64 KiB, between two processes "
                        "that send to each other, waits up to this long for the offer (RTR) or "
                        "the announcement (RTS) that the other process may have under way, if "
                        "the last ones came just too late. The wait is shorter where waiting was "
                        "in vain, and there is none where this processor moves the data itself. "
                        "Unit: microseconds, range 0 (never wait) to 2000, default 2000."),
    SPEC_NUMBER("adapt_threshold", 9, &mca_pml_spec.adapt_threshold, 80, 0, 100,
                .help = "A receiver with pml_spec_speculation auto stops offering its buffers to "
                        "a sender, for one communicator and tag, when less than this share of "
                        "its latest offers was of use. It resumes when halfway from this share "
                        "to 100 percent of its receives would have been in time. Unit: percent, "
                        "range 0 (never stop) to 100, default 80."),
    SPEC_NUMBER("copy_limit", 9, &mca_pml_spec.copy_limit, 4096, 0, TIB,
                .help = "Eager messages up to this size are copied into the transport's buffer "
                        "and are complete for the sender at once. Longer ones are sent from the "
                        "user's buffer where the transport can do that. Unit: bytes, range 0 to "
                        "1024G, default 4K."),
    SPEC_NUMBER("slot_min", 9, &mca_pml_spec.slot_min, 2048, 1, TIB,
                .help = "Between processes of a host the data of an eager message of at least this "
                        "size goes through memory of the sender that both map. A very large value "
                        "means that no message's does. Unit: bytes, range 1 to 1024G, default "
                        "2K."),
    SPEC_NUMBER("pipeline_max", 9, &mca_pml_spec.pipeline_max, -1, -1, TIB,
                .help =
                    "Where processors copy the data (shared memory), a message up to this size "
                    "goes in fragments that sender and receiver copy at the same time, as long "
                    "as both wait for it; an end that finds the other one computing, and both "
                    "ends of a longer message, have the kernel copy it. -1 means that the size "
                    "follows from what a copy and a single copy by the kernel take on this "
                    "machine, as is measured (pml_spec_verbose 20 prints it), and that no "
                    "message goes so while such copies turn out dearer; 0 means that none does. "
                    "Unit: bytes, range -1 to 1024G, default -1."),
    SPEC_NUMBER("pipeline_depth", 9, &mca_pml_spec.pipeline_depth, 4, 1, 1024,
                .help = "Up to this many fragments of one message are under way at once when its "
                        "data is copied (a datatype with gaps, a transport without RDMA, "
                        "pml_spec_pipeline_max). "
                        "More fragments help on a long line. Unit: fragments, range 1 to 1024, "
                        "default 4."),
    SPEC_NUMBER("cico_min", 9, &mca_pml_spec.cico_min, 131072, 0, TIB,
                .help = "Between processes of a host that may not copy from each other's memory, "
                        "a message of at least this size goes through memory that both map, so "
                        "that it goes on while one of them computes: a thread of that process, "
                        "which sleeps otherwise, copies for it on the processor of the one that "
                        "waits. A very large value means that no message does, and that there is "
                        "no thread. Unit: bytes, range 0 to 1024G, default 128K."),
    SPEC_NUMBER("priority", 9, &mca_pml_spec.priority, 10, 0, 1000,
                .help = "The component with the highest priority is selected if several can be "
                        "used. The default is below that of ob1, so that an installed spec is "
                        "used only if it is asked for (--mca pml spec). No unit, range 0 to "
                        "1000, default 10."),
    SPEC_NUMBER("yield_polls", 9, &mca_pml_spec.yield_polls, 1024, 0, INT_MAX,
                .help = "With MPI_THREAD_MULTIPLE a thread that waits in MPI yields its processor "
                        "each time it has polled so often, so that another thread of the process "
                        "can send or receive. 0 means never. Unit: polls, range 0 to 2147483647, "
                        "default 1024."),
};

static int spec_register(void)
{
    if (!SPEC_FITS) {
        return OPAL_ERR_NOT_AVAILABLE;
    }
    opal_show_help_add_dir(SPEC_HELP_DIR);
    spec_parameters_register(&mca_pml_spec_component.pmlm_version, SPEC_PARAMETERS(parameters));
    mca_pml_spec_counters_register();
    return OPAL_SUCCESS;
}

static int spec_open(void)
{
    spec_parameters_check(&mca_pml_spec_component.pmlm_version, SPEC_PARAMETERS(parameters));
    spec_parameters_check_names(&mca_pml_spec_component.pmlm_version);
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
    const size_t least = mca_pml_spec.eager_min, header = sizeof(mca_pml_spec_match_hdr_t);
    mca_pml_spec.eager_min = SIZE_MAX == least || least < header ? 0 : least - header;
}

static mca_pml_base_module_t *spec_init(int *priority, bool progress_threads, bool mpi_threads)
{
    *priority = mca_pml_spec.priority;

    if (OMPI_SUCCESS != mca_bml_base_init(progress_threads, mpi_threads)) {
        return NULL;
    }
    mca_pml_spec.threaded = mpi_threads || opal_using_threads();
    mca_pml_spec.bias = (spec_bias_t){.state = SPEC_BIAS_SHARED};
    mca_pml_spec.devices = mca_pml_spec_has_device();
    ask_transports();
    return &mca_pml_spec.super;
}

static int spec_fini(void)
{
    mca_pml_spec_finalize();
    mca_pml_spec_driver_fini();
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
SPEC_COMPONENT_POINTER(ompi, pml, spec)
