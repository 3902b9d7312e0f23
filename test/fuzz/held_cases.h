/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Part of fuzz_packets.c: what a script would have to be long to come to, step by step. */
#ifndef HELD_CASES_H
#define HELD_CASES_H

enum { LARGE_CASE = 3000, SMALL_CASE = 8, MIDDLE_CASE = 400 };

static void case_begin(bool registers, int speculation)
{
    held_configure(&(held_config_t){.registers = registers});
    mca_pml_spec.speculation = speculation;
    memset(&w, 0, sizeof(w));
    set_ways(0, 0, HELD_MODULES);
    MUST(MPI_SUCCESS == MPI_Comm_dup(MPI_COMM_WORLD, &w.comm));
}

/* As if it were another process. */
static mca_pml_spec_peer_t *case_peer(void)
{
    mca_pml_spec_peer_t *peer = mca_pml_spec_peer(mca_pml_spec_comm_of(w.comm), 0);
    peer->is_self = false;
    return peer;
}

static void case_end(void)
{
    drain();
    MUST(0 == held_windows());
    MUST(MPI_SUCCESS == MPI_Comm_free(&w.comm));
}

static uint8_t *case_memory(size_t size, uint8_t fill)
{
    uint8_t *memory = malloc(size);
    MUST(NULL != memory);
    memset(memory, fill, size);
    return memory;
}

/* What is missing is got, and what it is is what was sent. */
static void case_wait(MPI_Request *request, const uint8_t *memory, size_t size, uint8_t is)
{
    int done = 0;
    drain();
    MUST(MPI_SUCCESS == MPI_Test(request, &done, MPI_STATUS_IGNORE) && done);
    for (size_t i = 0; i < size; ++i) {
        MUST(is == memory[i]);
    }
}

static void case_send(uint8_t is)
{
    MUST(MPI_SUCCESS == MPI_Send(&is, 1, MPI_BYTE, 0, 0, w.comm));
}

static uint8_t case_recv(void)
{
    uint8_t is;
    MUST(MPI_SUCCESS == MPI_Recv(&is, 1, MPI_BYTE, 0, 0, w.comm, MPI_STATUS_IGNORE));
    return is;
}

/* A message of a communicator that was freed comes when another has its number: before the first message there, behind it, and
 * again. */
static void late_message(void)
{
    case_begin(false, MCA_PML_SPEC_SPECULATION_OFF);
    const uint16_t cid = mca_pml_spec_comm_of(w.comm)->cid;
    size_t size;
    uint8_t old[64];
    case_send(1);
    case_send(2);
    held_go(0);
    MUST(1 == case_recv() && 1 == held_count());
    const uint8_t *packet = held_packet(0, &size);
    MUST(NULL != packet && size <= sizeof(old));
    memcpy(old, packet, size);
    MUST(MPI_SUCCESS == MPI_Comm_free(&w.comm));
    held_forge(0, MCA_PML_SPEC_EAGER, old, size); /* it is kept until there is one */
    MUST(MPI_SUCCESS == MPI_Comm_dup(MPI_COMM_WORLD, &w.comm));
    MUST(cid == mca_pml_spec_comm_of(w.comm)->cid);
    const uint64_t refused = mca_pml_spec.counters.refused;
    held_go(0);
    case_send(3);
    case_send(4);
    held_go(1); /* of the same number as the old one, which came before it */
    MUST(refused == mca_pml_spec.counters.refused);
    held_go(0);
    MUST(refused + 2 == mca_pml_spec.counters.refused);
    MUST(3 == case_recv() && 4 == case_recv());
    case_send(5);
    ((mca_pml_spec_match_hdr_t *) (void *) old)->seq = 2;
    held_forge(0, MCA_PML_SPEC_EAGER, old, size);
    MUST(refused + 3 == mca_pml_spec.counters.refused);
    held_go(0);
    MUST(5 == case_recv());
    case_end();
}

/* The first messages of the first communicator of a number, whose epoch is as it is assumed to be, overtake each other. */
static void early_message(void)
{
    case_begin(false, MCA_PML_SPEC_SPECULATION_OFF);
    MPI_Comm before = w.comm;
    do {
        MUST(MPI_SUCCESS == MPI_Comm_dup(MPI_COMM_WORLD, &w.comm));
        if (0 != mca_pml_spec_comm_of(w.comm)->epoch) {
            MUST(MPI_SUCCESS == MPI_Comm_free(&before));
            before = w.comm;
        }
    } while (before == w.comm);
    case_send(1);
    case_send(2);
    held_go(1);
    held_go(0);
    MUST(1 == case_recv() && 2 == case_recv());
    MUST(MPI_SUCCESS == MPI_Comm_free(&before));
    case_end();
}

/* ---- the peer is lost at an unlucky moment ---- */

static mca_bml_base_module_t case_bml;

/* In the middle of finding the way to a process that is given up then. */
static int lost_on_the_way(struct ompi_proc_t *proc)
{
    mca_pml_spec_lost_report(&proc->super, "held", NULL);
    opal_progress();
    proc->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_BML] = (void *) case_bml.bml_component;
    return OMPI_SUCCESS;
}

/* The next way that is asked for is found when its process is lost. */
static void lose_on_the_way(void)
{
    ompi_proc_t *proc = ompi_proc_local();
    case_bml.bml_component = (void *) proc->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_BML];
    case_bml.bml_add_proc = mca_bml.bml_add_proc;
    mca_bml.bml_add_proc = (mca_bml_base_module_add_proc_fn_t) lost_on_the_way;
    proc->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_BML] = NULL;
}

static void lose_no_more(void)
{
    mca_bml.bml_add_proc = case_bml.bml_add_proc;
    ompi_proc_local()->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_BML] = (void *) case_bml.bml_component;
    mca_pml_spec_lost_fini();
}

static void lost_before_its_first_use(void)
{
    case_begin(false, MCA_PML_SPEC_SPECULATION_OFF);
    mca_pml_spec_peer_t *peer = case_peer();
    lose_on_the_way();
    MUST(NULL == mca_pml_spec_endpoint(peer));
    MUST(NULL == peer->open && NULL == mca_pml_spec_endpoint(peer));
    lose_no_more();
    case_end();
}

/* A receive that has offered its buffer is cancelled, and nobody is there to be asked. */
static void lost_before_the_revoke(void)
{
    MPI_Request request;
    int done = 0;
    case_begin(false, MCA_PML_SPEC_SPECULATION_ON);
    mca_pml_spec_peer_t *peer = case_peer();
    uint8_t *memory = case_memory(LARGE_CASE, 0);
    MUST(MPI_SUCCESS == MPI_Irecv(memory, LARGE_CASE, MPI_BYTE, 0, 0, w.comm, &request));
    MUST(1 == held_count()); /* RTR */
    peer->open = NULL;       /* so that the way is asked for */
    lose_on_the_way();
    MUST(MPI_SUCCESS == MPI_Cancel(&request));
    mca_pml_spec_lost_report(&peer->proc->super, "held", NULL); /* if that did not happen */
    opal_progress();
    (void) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    MUST(done);
    held_break(HELD_MODULES);
    lose_no_more();
    free(memory);
    case_end();
}

/* Of requests that a lost process keeps for ever nothing is counted. */
static void lost_and_counted(void)
{
    MPI_Request request[2];
    int done = 0;
    case_begin(true, MCA_PML_SPEC_SPECULATION_ON);
    mca_pml_spec_peer_t *peer = case_peer();
    enum { ANNOUNCED = SPEC_PATIENCE_LEAST };
    uint8_t *out = case_memory(ANNOUNCED, 1), *in = case_memory(ANNOUNCED, 0);
    MUST(MPI_SUCCESS == MPI_Isend(out, ANNOUNCED, MPI_BYTE, 0, 0, w.comm, &request[0]));
    MUST(1 == held_count() && 1 == mca_pml_spec.announced); /* RTS */
    MUST(MPI_SUCCESS == MPI_Irecv(in, ANNOUNCED, MPI_BYTE, 0, 0, w.comm, &request[1]));
    MUST(1 == mca_pml_spec.offers);
    held_go(0); /* the RTS, so that the receive waits for gets */
    mca_pml_spec_lost_report(&peer->proc->super, "held", NULL);
    opal_progress();
    for (int i = 0; i < 2; ++i) {
        MUST(MPI_SUCCESS != MPI_Test(&request[i], &done, MPI_STATUS_IGNORE) && done);
    }
    MUST(0 == mca_pml_spec.announced && 0 == mca_pml_spec.offers);
    MUST(0 == peer->announced && 0 == peer->offers);
    held_break(HELD_MODULES);
    drain();
    forget_waiting();
    MUST(0 == mca_pml_spec.announced && 0 == mca_pml_spec.offers);
    mca_pml_spec_lost_fini();
    free(out);
    free(in);
    case_end();
}

/* A small send that waits for the transport is given up: the credit that comes back is its own, and not that of the message which had
 * its request before. */
static void credit_of_a_small_one(void)
{
    MPI_Request request;
    int done = 0;
    case_begin(false, MCA_PML_SPEC_SPECULATION_OFF);
    mca_pml_spec_peer_t *peer = case_peer();
    const bool self = peer->is_self;
    uint8_t out[MIDDLE_CASE] = {1}, in[MIDDLE_CASE];
    const size_t limit = mca_pml_spec.copy_limit;
    mca_pml_spec.copy_limit = MIDDLE_CASE / 2; /* it needs a request */
    MUST(MPI_SUCCESS == MPI_Isend(out, MIDDLE_CASE, MPI_BYTE, 0, 0, w.comm, &request));
    mca_pml_spec.copy_limit = limit;
    drain();
    MUST(MPI_SUCCESS == MPI_Recv(in, MIDDLE_CASE, MPI_BYTE, 0, 0, w.comm, MPI_STATUS_IGNORE));
    MUST(MPI_SUCCESS == MPI_Test(&request, &done, MPI_STATUS_IGNORE) && done);
    const uint64_t spent = peer->flow_out.spent;
    held_refuse.sends = STEPS;
    MUST(MPI_SUCCESS == MPI_Isend(out, SMALL_CASE, MPI_BYTE, 0, 0, w.comm, &request));
    MUST(MPI_REQUEST_NULL != request && spent + spec_flow_cost(SMALL_CASE) == peer->flow_out.spent);
    mca_pml_spec_send_request_t *sendreq = MCA_PML_SPEC_SENDREQ(request);
    MUST(spec_life_lose(&sendreq->life));
    mca_pml_spec_send_lost(sendreq);
    held_refuse.sends = 0;
    opal_progress();
    (void) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    MUST(done && spent + spec_flow_cost(0) == peer->flow_out.spent);
    peer->is_self = self;
    case_end();
}

/* ---- memory, transports and agents ---- */

/* Sizes that malloc refuses, the next time. */
static size_t no_malloc_from, no_malloc_to;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
    if (size >= no_malloc_from && size < no_malloc_to) {
        no_malloc_to = 0;
        return NULL;
    }
    return __real_malloc(size);
}

/* A receive that cannot be posted takes back what it was about to offer: the next has its object, and another buffer. */
static void no_memory_to_post(void)
{
    MPI_Request request = MPI_REQUEST_NULL, out;
    case_begin(true, MCA_PML_SPEC_SPECULATION_ON);
    (void) case_peer();
    uint8_t *first = case_memory(LARGE_CASE, 0), *second = case_memory(LARGE_CASE, 0),
            *data = case_memory(LARGE_CASE, 7);
    for (int32_t tag = 1; tag <= (int32_t) SPEC_MATCH_OWN_BINS; ++tag) { /* patterns that need no memory */
        MUST(NULL != spec_match_bin_create(&mca_pml_spec_comm_of(w.comm)->match, 0, tag));
    }
    no_malloc_from = 32 * sizeof(spec_bin_t);
    no_malloc_to = no_malloc_from + 64;
    int rc = MPI_Irecv(first, LARGE_CASE, MPI_BYTE, 0, 0, w.comm, &request);
    MUST(0 == no_malloc_to); /* it was asked for */
    if (MPI_SUCCESS == rc) {
        rc = MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MUST(MPI_SUCCESS != rc && 0 == held_windows());
    free(first);
    MUST(MPI_SUCCESS == MPI_Irecv(second, LARGE_CASE, MPI_BYTE, 0, 0, w.comm, &request));
    held_go(0); /* RTR */
    MUST(MPI_SUCCESS == MPI_Isend(data, LARGE_CASE, MPI_BYTE, 0, 0, w.comm, &out));
    case_wait(&request, second, LARGE_CASE, 7);
    case_wait(&out, data, LARGE_CASE, 7);
    MUST(0 == held_refused);
    free(second);
    free(data);
    case_end();
}

/* An RTS that says that it has a key, and has none, or a part of one. */
static void key_of_no_bytes(void)
{
    struct {
        mca_pml_spec_rts_hdr_t rts;
        char key[HELD_KEY];
    } packet;
    MPI_Request request;
    int done = 0;
    case_begin(true, MCA_PML_SPEC_SPECULATION_OFF);
    const mca_pml_spec_comm_t *comm = mca_pml_spec_comm_of(w.comm);
    (void) case_peer();
    uint8_t *memory = case_memory(LARGE_CASE, 0);
    MUST(MPI_SUCCESS == MPI_Irecv(memory, LARGE_CASE, MPI_BYTE, 0, 0, w.comm, &request));
    const uint64_t refused = mca_pml_spec.counters.refused;
    for (uint16_t length = 0; length < HELD_KEY; length = (uint16_t) (length + HELD_KEY / 2)) {
        memset(&packet, 0, sizeof(packet));
        packet.rts = (mca_pml_spec_rts_hdr_t){
            .match = {.type = MCA_PML_SPEC_RTS, .epoch = comm->epoch, .ctx = comm->cid},
            .length = LARGE_CASE,
            .s = 1,
            .flags = MCA_PML_SPEC_RTS_FLAT | MCA_PML_SPEC_RTS_KEY,
            .addr = (uint64_t) (uintptr_t) memory,
            .key_len = length};
        held_forge(0, MCA_PML_SPEC_RTS, (const uint8_t *) &packet, sizeof(packet.rts) + length);
    }
    MUST(refused + 2 == mca_pml_spec.counters.refused && 0 == held_count());
    MUST(MPI_SUCCESS == MPI_Cancel(&request));
    MUST(MPI_SUCCESS == MPI_Test(&request, &done, MPI_STATUS_IGNORE) && done);
    free(memory);
    case_end();
}

static int watched; /* requests that the agent counts */

void __wrap_mca_pml_spec_agent_begun(size_t length);
void __wrap_mca_pml_spec_agent_ended(void);

void __wrap_mca_pml_spec_agent_begun(size_t length)
{
    (void) length;
    ++watched;
}

void __wrap_mca_pml_spec_agent_ended(void)
{
    --watched;
}

/* A send that cannot begin has the object of one that was counted. */
static void count_of_none(void)
{
    MPI_Request request;
    uint8_t out[MIDDLE_CASE] = {1}, in[MIDDLE_CASE];
    int done = 0;
    case_begin(false, MCA_PML_SPEC_SPECULATION_OFF);
    const size_t limit = mca_pml_spec.copy_limit;
    mca_pml_spec.copy_limit = MIDDLE_CASE / 2;
    mca_pml_spec.has_agent = true;
    MUST(MPI_SUCCESS == MPI_Isend(out, MIDDLE_CASE, MPI_BYTE, 0, 0, w.comm, &request));
    drain();
    MUST(MPI_SUCCESS == MPI_Recv(in, MIDDLE_CASE, MPI_BYTE, 0, 0, w.comm, MPI_STATUS_IGNORE));
    MUST(MPI_SUCCESS == MPI_Test(&request, &done, MPI_STATUS_IGNORE) && done);
    MUST(0 == watched);
    mca_pml_spec_lost_report(opal_proc_local_get(), "held", NULL);
    opal_progress();
    MUST(MPI_SUCCESS != MPI_Isend(out, MIDDLE_CASE, MPI_BYTE, 0, 0, w.comm, &request));
    MUST(0 == watched);
    mca_pml_spec.has_agent = false;
    mca_pml_spec.copy_limit = limit;
    mca_pml_spec_lost_fini();
    case_end();
}

/* The transport makes a packet from the buffer, and refuses it. */
static void in_place_again(void)
{
    MPI_Request request;
    uint8_t out[MIDDLE_CASE], in[MIDDLE_CASE] = {0};
    memset(out, 5, sizeof(out));
    case_begin(false, MCA_PML_SPEC_SPECULATION_OFF);
    const size_t limit = mca_pml_spec.copy_limit;
    mca_pml_spec.copy_limit = MIDDLE_CASE / 2;
    for (unsigned i = 0; i < HELD_MODULES; ++i) {
        held_module(i)->btl_flags |= MCA_BTL_FLAGS_SEND_INPLACE;
    }
    held_refuse.packets = 1;
    MUST(MPI_SUCCESS == MPI_Isend(out, MIDDLE_CASE, MPI_BYTE, 0, 0, w.comm, &request));
    MUST(0 == held_refuse.packets && 0 == held_count());
    opal_progress();
    case_wait(&request, out, MIDDLE_CASE, 5);
    MUST(MPI_SUCCESS == MPI_Recv(in, MIDDLE_CASE, MPI_BYTE, 0, 0, w.comm, MPI_STATUS_IGNORE));
    MUST(0 == memcmp(in, out, MIDDLE_CASE));
    for (unsigned i = 0; i < HELD_MODULES; ++i) {
        held_module(i)->btl_flags &= ~(uint32_t) MCA_BTL_FLAGS_SEND_INPLACE;
    }
    mca_pml_spec.copy_limit = limit;
    case_end();
}

static void run_cases(void)
{
    late_message();
    early_message();
    lost_before_its_first_use();
    lost_before_the_revoke();
    lost_and_counted();
    credit_of_a_small_one();
    no_memory_to_post();
    key_of_no_bytes();
    count_of_none();
    in_place_again();
}

#endif
