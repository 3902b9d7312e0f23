/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* libFuzzer: the input is a script for a process that sends to itself by pml/spec, over a transport that the script
 * holds in its hands (held_btl.h). MPI calls are made, packets and transfers go in any order, transfers fail, nothing
 * has room. Every message must arrive once, whole, and in the order of MPI.
 *
 * If the script makes the peer a liar - packets changed, forged, delivered twice - there is no right result; but
 * no memory is touched that nobody offered, and once the peer is given up every request ends.
 *
 * The component is built into the program, as is the transport. */
#include "fuzz_script.h"
#include "held_btl.h"

#include "ompi/mca/pml/spec/objects/pml_spec.h"
#include "ompi/mca/pml/spec/services/pml_spec_adapt.h"
#include "ompi/mca/pml/spec/objects/pml_spec_comm.h"
#include "ompi/mca/pml/spec/services/pml_spec_hello.h"
#include "ompi/mca/pml/spec/services/pml_spec_lost.h"
#include "ompi/mca/pml/spec/objects/pml_spec_packet.h"
#include "ompi/mca/pml/spec/objects/pml_spec_request.h"

#include "opal/include/spec/promises.h"

#include <mpi.h>
#include <setjmp.h>

const char *__asan_default_options(void);
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Messages and receives of one script, their longest and those that both ends may move, handles that were seen, steps until all
 * must be quiet. */
enum {
    MANY = 20,
    LONGEST = 9000,
    JOINT = SPEC_CLAIM_LEAST,
    SEEN = 32,
    TAGS = 3,
    STEPS = 20000,
    FORGED = 600
};

/* Eight bytes of every sixteen. */
enum { BLOCK = 8, GAP = 16, FILL = 0xee };

typedef struct message {
    int tag;
    size_t length;
    uint8_t *memory; /* of the user, with its gaps */
    bool gaps;
    MPI_Request request;
    bool done;
} message_t;

typedef struct receive {
    int tag;
    size_t room;
    uint8_t *memory;
    bool gaps;
    MPI_Request request;
    bool done, cancelled, cancels;
    MPI_Status status;
} receive_t;

typedef struct world {
    MPI_Comm comm;
    message_t out[MANY];
    unsigned outs;
    receive_t in[2 * MANY]; /* and as many for what nobody asked for */
    unsigned ins;
    uint64_t handle[SEEN]; /* that packets have carried */
    unsigned handles;
    uint32_t
        requests; /* of earlier scripts with handles: their peer was lost (docs/known-issues.md) */
    uint64_t refused; /* packets, in earlier scripts */
    bool joint;       /* both ends move long messages */
    bool half;        /* only one transport breaks when the peer is given up */
    bool sudden;      /* and what it sent before has not come */
    bool lies;        /* the peer has */
    bool aborted;     /* and the job would have ended */
} world_t;

static world_t w;
static jmp_buf end_of_job;
static MPI_Datatype gapped;

/* ---- the built-in components, and what they would do to the job ---- */

__attribute__((visibility("default")))
const mca_base_component_t *mca_pml_base_static_components[] = {
    &mca_pml_spec_component.pmlm_version, NULL};
__attribute__((visibility("default")))
const mca_base_component_t *mca_btl_base_static_components[2];

__attribute__((visibility("default"), noreturn)) void ompi_rte_abort(int code, char *format, ...)
{
    va_list arguments;
    if (!w.lies) {
        va_start(arguments, format);
        vfprintf(stderr, format, arguments);
        va_end(arguments);
        fprintf(stderr, "\nthe job would have ended (%d)\n", code);
        abort();
    }
    longjmp(end_of_job, 1);
}

/* A lost process is told of each time. */
__attribute__((visibility("default"))) void opal_output(int stream, const char *format, ...)
{
    (void) stream, (void) format;
}

/* ---- memory ---- */

static size_t span(size_t length, bool gaps)
{
    return gaps ? length / BLOCK * GAP : length;
}

static uint8_t pattern(unsigned message, size_t i)
{
    return (uint8_t) (message * 29 + i * 7 + (i >> 8) * 3 + 1);
}

static uint8_t *at(uint8_t *memory, bool gaps, size_t i)
{
    return gaps ? memory + i / BLOCK * GAP + i % BLOCK : memory + i;
}

static bool within(uint64_t address, uint64_t size, const uint8_t *memory, size_t span)
{
    const uint64_t base = (uint64_t) (uintptr_t) memory;
    return NULL != memory && address >= base && address - base <= span
           && size <= span - (address - base);
}

/* What a receive with gaps has for as long as it is staged. */
static bool touches_staging(uint64_t address, uint64_t size)
{
    const mca_pml_spec_recv_request_t *recvreq;
    bool found = false;
    for (uint32_t cursor = 0;
         NULL != (recvreq = spec_handle_next(&mca_pml_spec.recv_handles, &cursor));) {
        found |= recvreq->staged
                 && within(address, size, (const uint8_t *) recvreq->flat, recvreq->capacity);
    }
    return found;
}

static bool touches(uint64_t address, uint64_t size, bool write)
{
    bool found = write && touches_staging(address, size);
    for (unsigned i = 0; i < w.outs && !write; ++i) {
        found |= within(address, size, w.out[i].memory, span(w.out[i].length, w.out[i].gaps));
    }
    for (unsigned i = 0; i < w.ins && write; ++i) {
        found |= within(address, size, w.in[i].memory, span(w.in[i].room, w.in[i].gaps));
    }
    return found;
}

/* ---- calls of the application ---- */

/* Small, just around the limits of the transport, or long. */
static size_t length_of(unsigned byte)
{
    const size_t around[] = {0, 1, 256, 496, 512, 700, 1400, 3000};
    const size_t length = byte < 64    ? byte
                          : byte < 128 ? around[byte / 8 % 8] + byte % 8
                          : byte < 192 ? 512 + (byte - 128u) * 32
                                       : 2500 + (byte - 192u) * 100;
    if (w.joint && byte >= 224) {
        return JOINT + (byte - 224u) % 8 * 600;
    }
    return length < LONGEST ? length : LONGEST;
}

static void send_one(script_t *s)
{
    if (MANY == w.outs) {
        return;
    }
    const unsigned how = next(s);
    message_t *m = &w.out[w.outs];
    *m = (message_t){.tag = (int) (how % TAGS), .length = length_of(next(s)), .gaps = how & 0x40};
    if (m->gaps) {
        m->length = m->length / BLOCK * BLOCK;
    }
    m->memory = malloc(span(m->length, m->gaps) + 1);
    memset(m->memory, FILL, span(m->length, m->gaps) + 1);
    for (size_t i = 0; i < m->length; ++i) {
        *at(m->memory, m->gaps, i) = pattern(w.outs, i);
    }
    ++w.outs;
    const int count = (int) (m->gaps ? m->length / BLOCK : m->length);
    MPI_Datatype type = m->gaps ? gapped : MPI_BYTE;
    if (0x80 & how) {
        MUST(MPI_SUCCESS == MPI_Issend(m->memory, count, type, 0, m->tag, w.comm, &m->request));
    } else {
        MUST(MPI_SUCCESS == MPI_Isend(m->memory, count, type, 0, m->tag, w.comm, &m->request));
    }
}

static receive_t *receive_new(int tag, size_t room, bool gaps)
{
    receive_t *r = &w.in[w.ins++];
    *r = (receive_t){.tag = tag,
                     .room = gaps ? room / BLOCK * BLOCK : room,
                     .gaps = gaps,
                     .request = MPI_REQUEST_NULL};
    r->memory = malloc(span(r->room, gaps) + 1);
    memset(r->memory, FILL, span(r->room, gaps) + 1);
    return r;
}

static void receive_post(receive_t *r)
{
    MUST(MPI_SUCCESS
         == MPI_Irecv(r->memory, (int) (r->gaps ? r->room / BLOCK : r->room),
                      r->gaps ? gapped : MPI_BYTE, 0, r->tag, w.comm, &r->request));
}

static void receive_one(script_t *s)
{
    if (w.ins >= MANY) {
        return;
    }
    const unsigned how = next(s);
    const int tag = 7 == (how & 7) ? MPI_ANY_TAG : (int) (how % TAGS);
    receive_post(receive_new(tag, length_of(next(s)), how & 0x40));
}

static void probe_one(script_t *s)
{
    const unsigned how = next(s);
    const int tag = 7 == (how & 7) ? MPI_ANY_TAG : (int) (how % TAGS);
    int found;
    MPI_Message message;
    MPI_Status status;
    if ((how & 0x80) || w.ins >= MANY) {
        MUST(MPI_SUCCESS == MPI_Iprobe(0, tag, w.comm, &found, &status));
        return;
    }
    MUST(MPI_SUCCESS == MPI_Improbe(0, tag, w.comm, &found, &message, &status));
    if (found) {
        receive_t *r = receive_new(tag, length_of(next(s)), how & 0x40);
        MUST(MPI_SUCCESS
             == MPI_Imrecv(r->memory, (int) (r->gaps ? r->room / BLOCK : r->room),
                           r->gaps ? gapped : MPI_BYTE, &message, &r->request));
    }
}

static void cancel_one(unsigned which)
{
    receive_t *r = 0 == w.ins ? NULL : &w.in[which % w.ins];
    if (NULL != r && !r->done && !r->cancels) {
        r->cancels = true;
        MUST(MPI_SUCCESS == MPI_Cancel(&r->request));
    }
}

/* The application does what it likes with memory whose request is complete. */
static void give_back(uint8_t **memory)
{
    if (w.lies) {
        free(*memory);
        *memory = NULL;
    }
}

static void test_all(void)
{
    int done;
    for (unsigned i = 0; i < w.outs; ++i) {
        message_t *m = &w.out[i];
        if (!m->done) {
            (void) MPI_Test(&m->request, &done, MPI_STATUS_IGNORE);
            m->done = MPI_REQUEST_NULL == m->request;
            if (m->done) {
                give_back(&m->memory);
            }
        }
    }
    for (unsigned i = 0; i < w.ins; ++i) {
        receive_t *r = &w.in[i];
        if (!r->done) {
            const int rc = MPI_Test(&r->request, &done, &r->status);
            r->done = MPI_REQUEST_NULL == r->request;
            if (r->done) {
                r->status.MPI_ERROR = rc;
                MUST(MPI_SUCCESS == MPI_Test_cancelled(&r->status, &done));
                r->cancelled = done;
                give_back(&r->memory);
            }
        }
    }
}

static bool all_done(void)
{
    bool done = true;
    for (unsigned i = 0; i < w.outs; ++i) {
        done &= w.out[i].done;
    }
    for (unsigned i = 0; i < w.ins; ++i) {
        done &= w.in[i].done;
    }
    return done;
}

/* ---- the peer lies ---- */

/* Where a packet has handles, and a communicator. */
static void note_handles(const uint8_t *data, size_t size)
{
    size_t place[2] = {0, 0};
    switch (data[0]) {
    case MCA_PML_SPEC_RTS:
        place[0] = offsetof(mca_pml_spec_rts_hdr_t, s);
        break;
    case MCA_PML_SPEC_MATCH:
        place[0] = offsetof(mca_pml_spec_match_notice_t, r);
        break;
    case MCA_PML_SPEC_RTR:
    case MCA_PML_SPEC_RTR_RING:
    case MCA_PML_SPEC_RTR_STAGED:
        place[0] = offsetof(mca_pml_spec_rtr_hdr_t, r);
        break;
    case MCA_PML_SPEC_CTS:
        place[0] = offsetof(mca_pml_spec_cts_hdr_t, s);
        place[1] = offsetof(mca_pml_spec_cts_hdr_t, r);
        break;
    default:
        break;
    }
    for (unsigned i = 0; i < 2; ++i) {
        if (0 != place[i] && size >= place[i] + 8) {
            memcpy(&w.handle[w.handles++ % SEEN], data + place[i], 8);
        }
    }
}

/* Packets that are held now: what they say may be repeated. */
static void note_all(void)
{
    const unsigned n = held_count();
    for (unsigned k = 0; k < n; ++k) {
        size_t size;
        const uint8_t *data = held_packet(k, &size);
        if (NULL != data && size > 0) {
            note_handles(data, size);
        }
    }
}

static void change_one(script_t *s, unsigned k)
{
    size_t size;
    uint8_t *data = held_packet(k, &size);
    if (NULL != data && size > 0) {
        w.lies = true;
        data[next(s) % size] ^= (uint8_t) (1 + next(s) % 255);
    }
}

/* A header of the type with the right communicator, then what the script says, with handles that were seen put in. */
static void forge_one(script_t *s)
{
    uint8_t data[FORGED];
    const unsigned how = next(s);
    const unsigned which = next(s);
    const uint8_t type =
        which >= 250 ? MCA_PML_SPEC_SLOT
                     : (uint8_t) (MCA_PML_SPEC_EAGER
                                  + which % (MCA_PML_SPEC_RTR_STAGED - MCA_PML_SPEC_EAGER + 1));
    size_t size = next(s);
    size = how & 4 ? size * 2 : size;
    w.lies = true;
    memset(data, 0, sizeof(data));
    for (size_t i = 0; i < size; ++i) {
        data[i] = (uint8_t) next(s);
    }
    if (how & 1) {
        const mca_pml_spec_comm_t *comm = mca_pml_spec_comm_of(w.comm);
        const mca_pml_spec_match_hdr_t hdr = {
            .type = type, .epoch = comm->epoch, .ctx = comm->cid, .src = 0};
        if (MCA_PML_SPEC_CTS == type || MCA_PML_SPEC_FRAG == type || MCA_PML_SPEC_FIN == type) {
            data[0] = type;
        } else {
            memcpy(data, &hdr, 8);
        }
    }
    if ((how & 2) && w.handles > 0) {
        static const size_t place[] = {8, 16, 24, 8}; /* CTS, FRAG and FIN; MATCH, CTS; RTS, RTR */
        const unsigned n = w.handles < SEEN ? w.handles : SEEN;
        memcpy(data + place[how / 8 % 4], &w.handle[next(s) % n], 8);
    }
    if (how & 0x20) {
        const size_t name = MCA_PML_SPEC_SLOT == type ? offsetof(mca_pml_spec_slot_hdr_t, name)
                                                      : offsetof(mca_pml_spec_rtr_hdr_t, name);
        memcpy(data + name, &mca_pml_spec.my_name, 8);
    }
    held_forge(how >> 7, type, data, size);
}

/* ---- the script ---- */

static void step(script_t *s)
{
    const unsigned what = next(s);
    const unsigned k = what >> 4;
    switch (what % 16) {
    case 0:
    case 1:
        send_one(s);
        break;
    case 2:
    case 3:
        receive_one(s);
        break;
    case 4:
    case 5:
    case 6:
        note_all();
        if (held_count() > 0) {
            held_go(k % held_count());
        }
        break;
    case 7:
        for (unsigned i = 0; i < k; ++i) {
            held_go(0);
        }
        break;
    case 8:
        cancel_one(k);
        break;
    case 9:
        probe_one(s);
        break;
    case 10:
        opal_progress();
        test_all();
        break;
    case 11:
        held_refuse.sends = k & 3;
        held_refuse.transfers = k >> 2 & 1;
        held_refuse.registrations = k >> 3 & 1;
        break;
    case 12:
        if (held_count() > 0) {
            (void) held_fail(k % held_count());
        }
        break;
    case 13:
        change_one(s, k);
        break;
    case 14:
        w.lies = true;
        held_twice(k);
        break;
    default:
        forge_one(s);
        break;
    }
}

/* Everything goes, until nothing is left to go. */
static void drain(void)
{
    unsigned steps = 0;
    held_refuse = (held_refuse_t){0};
    do {
        while (held_count() > 0) {
            held_go(0);
            MUST(++steps < STEPS);
        }
        for (unsigned i = 0; i < 4; ++i) {
            opal_progress();
        }
        MUST(++steps < STEPS);
    } while (held_count() > 0);
    test_all();
}

/* ---- what must be so at the end ---- */

static bool fits(const receive_t *r, const message_t *m)
{
    return MPI_ANY_TAG == r->tag || r->tag == m->tag;
}

/* The k-th message is in this receive. */
static void check_receive(receive_t *r, unsigned k)
{
    const message_t *m = &w.out[k];
    const size_t here = m->length < r->room ? m->length : r->room;
    int got;
    MUST(0 == r->status.MPI_SOURCE && m->tag == r->status.MPI_TAG);
    MUST(MPI_SUCCESS == MPI_Get_count(&r->status, MPI_BYTE, &got));
    if (m->length > r->room) {
        MUST(MPI_ERR_TRUNCATE == r->status.MPI_ERROR);
    } else {
        MUST(MPI_SUCCESS == r->status.MPI_ERROR && (size_t) got == m->length);
    }
    for (size_t i = 0; i < here; ++i) {
        MUST(pattern(k, i) == *at(r->memory, r->gaps, i));
    }
    for (size_t i = here; i < r->room; ++i) {
        MUST(FILL == *at(r->memory, r->gaps, i));
    }
    for (size_t i = 0; r->gaps && i < span(r->room, true); ++i) {
        MUST(i % GAP < BLOCK || FILL == r->memory[i]);
    }
}

/* The receives, in the order of their posting, have the earliest messages that fit. */
static void check_order(void)
{
    bool taken[MANY] = {false};
    for (unsigned i = 0; i < w.ins; ++i) {
        unsigned k = 0;
        if (w.in[i].cancelled) {
            continue;
        }
        while (k < w.outs && (taken[k] || !fits(&w.in[i], &w.out[k]))) {
            ++k;
        }
        MUST(k < w.outs);
        taken[k] = true;
        check_receive(&w.in[i], k);
    }
    for (unsigned k = 0; k < w.outs; ++k) {
        MUST(taken[k]);
    }
}

/* Who waits for nothing is cancelled; what nobody asked for is asked for. */
static void settle(void)
{
    drain();
    for (unsigned i = 0; i < w.ins; ++i) {
        cancel_one(i);
    }
    drain();
    for (unsigned i = 0; i < MANY; ++i) {
        int found;
        MPI_Message message;
        MPI_Status status;
        MUST(MPI_SUCCESS == MPI_Improbe(0, MPI_ANY_TAG, w.comm, &found, &message, &status));
        if (!found) {
            break;
        }
        const int longest = w.joint ? JOINT + LONGEST : LONGEST;
        receive_t *r = receive_new(MPI_ANY_TAG, (size_t) longest, false);
        MUST(MPI_SUCCESS == MPI_Imrecv(r->memory, longest, MPI_BYTE, &message, &r->request));
        drain();
    }
    drain();
}

static uint32_t requests_with_handles(void)
{
    const spec_handle_table_t *const table[] = {&mca_pml_spec.send_handles,
                                                &mca_pml_spec.recv_handles};
    uint32_t n = 0;
    for (unsigned i = 0; i < 2; ++i) {
        for (uint32_t cursor = 0; NULL != spec_handle_next(table[i], &cursor); ++n) {}
    }
    return n;
}

static void finish_honest(void)
{
    settle();
    MUST(all_done());
    MUST(0 == held_refused);
    MUST(w.refused == mca_pml_spec.counters.refused);
    MUST(requests_with_handles() == w.requests);
    MUST(0 == held_windows());
    check_order();
}

/* The connection breaks, and everybody is told. Where the job would have ended it is not known who still holds what. */
static void finish_liar(void)
{
    static volatile unsigned ends;
    ends = 0;
    (void) setjmp(end_of_job);
    if (1 == ++ends && !w.aborted && !w.sudden) {
        drain();
        for (unsigned i = 0; i < w.ins; ++i) {
            cancel_one(i);
        }
        drain();
    }
    w.aborted |= ends > 1;
    if (ends < MANY && !all_done()) {
        mca_pml_spec_lost_report(opal_proc_local_get(), "held", NULL);
        opal_progress();
        test_all();
        held_break(w.half ? 1 : HELD_MODULES);
        drain();
        MUST(w.aborted || all_done());
    }
    held_break(HELD_MODULES);
}

/* Packets that a liar addressed to communicators to come. */
static void forget_parked(void)
{
    for (unsigned c = 0; c < sizeof(mca_pml_spec.cids) / sizeof(*mca_pml_spec.cids); ++c) {
        for (unsigned i = 0; NULL != mca_pml_spec.cids[c] && i < MCA_PML_SPEC_CID_CHUNK; ++i) {
            spec_node_t *n, *parked = &mca_pml_spec.cids[c][i].parked;
            while (NULL != parked->next && NULL != (n = spec_list_pop(parked))) {
                mca_pml_spec_frag_free(SPEC_ENTRY(n, mca_pml_spec_frag_t, item.node));
            }
        }
    }
    mca_pml_spec_hellos_fini();
}

/* Of this script, and not of one that ended in the middle. */
static bool is_kept(const mca_pml_base_request_t *base, int32_t life)
{
    return base->req_comm == w.comm && 0 != (life & SPEC_LIFE_LOST);
}

/* Requests that the program has back and that wait for the lost peer, for ever (docs/known-issues.md). No transport has
 * them any more. */
static void forget_waiting(void)
{
    mca_pml_spec_send_request_t *sendreq;
    mca_pml_spec_recv_request_t *recvreq;
    for (uint32_t cursor = 0;
         NULL != (sendreq = spec_handle_next(&mca_pml_spec.send_handles, &cursor));) {
        if (is_kept(&sendreq->req_send.req_base, sendreq->life)) {
            mca_pml_spec_send_done(sendreq);
        }
    }
    for (uint32_t cursor = 0;
         NULL != (recvreq = spec_handle_next(&mca_pml_spec.recv_handles, &cursor));) {
        spec_node_t *n;
        if (!is_kept(&recvreq->req_recv.req_base, recvreq->life)) {
            continue;
        }
        while (NULL != (n = spec_list_pop(&recvreq->early))) {
            mca_pml_spec_frag_free(SPEC_ENTRY(n, mca_pml_spec_frag_t, item.node));
        }
        recvreq->early_bytes = 0;
        mca_pml_spec_recv_done(recvreq);
    }
}

/* What is registered for requests of a script that ended in the middle is gone with the windows of that script. */
static void forget_keys(void)
{
    mca_pml_spec_recv_request_t *recvreq;
    for (uint32_t cursor = 0;
         NULL != (recvreq = spec_handle_next(&mca_pml_spec.recv_handles, &cursor));) {
        recvreq->keys = 0;
    }
}

static void forget(void)
{
    if (w.aborted) {
        forget_keys();
    }
    if (w.lies) {
        forget_parked();
    }
    if (w.lies && !w.aborted) {
        forget_waiting();
    }
    mca_pml_spec_lost_fini();
    for (unsigned i = 0; i < w.outs && !w.aborted; ++i) {
        free(w.out[i].memory);
    }
    for (unsigned i = 0; i < w.ins && !w.aborted; ++i) {
        free(w.in[i].memory);
    }
    MUST(MPI_SUCCESS == MPI_Comm_free(&w.comm));
}

/* What the two modules can do, as the BML knows it; rdma: so many of them move memory. */
static void set_ways(unsigned first, unsigned second, size_t rdma)
{
    static const uint32_t can[] = {MCA_BTL_FLAGS_PUT | MCA_BTL_FLAGS_GET, 0, MCA_BTL_FLAGS_PUT,
                                   MCA_BTL_FLAGS_GET};
    mca_bml_base_endpoint_t *endpoint = mca_bml_base_get_endpoint(ompi_proc_local());
    mca_bml_base_btl_array_t *array[] = {&endpoint->btl_rdma, &endpoint->btl_send,
                                         &endpoint->btl_eager};
    endpoint->btl_rdma.arr_size = HELD_MODULES;
    endpoint->btl_flags_or = MCA_BTL_FLAGS_SEND | can[first] | can[second];
    for (unsigned a = 0; a < 3; ++a) {
        for (size_t i = 0; i < array[a]->arr_size; ++i) {
            mca_bml_base_btl_t *b = &array[a]->bml_btls[i];
            b->btl_flags = MCA_BTL_FLAGS_SEND | can[b->btl == held_module(0) ? first : second];
        }
    }
    endpoint->btl_rdma.arr_size = rdma;
}

/* Open MPI leaves much lying. */
__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

/* A clock was asked for in a communicator that is freed before the answer comes: the next one of its number asked
 * nothing, and nobody is accused. (A script would have to be long to come here.) */
static void answer_too_late(void)
{
    MPI_Comm comm;
    const uint64_t refused = mca_pml_spec.counters.refused;
    mca_pml_spec.speculation = MCA_PML_SPEC_SPECULATION_AUTO;
    held_configure(&(held_config_t){0});
    MUST(MPI_SUCCESS == MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    const uint16_t cid = mca_pml_spec_comm_of(comm)->cid;
    mca_pml_spec_adapt_stop(mca_pml_spec_peer(mca_pml_spec_comm_of(comm), 0), 1);
    MUST(1 == held_count()); /* PING */
    held_go(0);
    MUST(1 == held_count()); /* PONG */
    MUST(MPI_SUCCESS == MPI_Comm_free(&comm));
    MUST(MPI_SUCCESS == MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MUST(cid == mca_pml_spec_comm_of(comm)->cid);
    held_go(0);
    MUST(0 == held_count());
    MUST(refused == mca_pml_spec.counters.refused);
    MUST(MPI_SUCCESS == MPI_Comm_free(&comm));
}

/* A peer says that it has written into a receive that offered nothing, and moves the rest together with it: there is no word by
 * which they could share it. */
static void match_without_an_offer(void)
{
    mca_pml_spec.speculation = MCA_PML_SPEC_SPECULATION_OFF;
    held_configure(&(held_config_t){0});
    memset(&w, 0, sizeof(w));
    w.lies = w.joint = true;
    set_ways(0, 1, 1);
    MUST(MPI_SUCCESS == MPI_Comm_dup(MPI_COMM_WORLD, &w.comm));
    const mca_pml_spec_comm_t *comm = mca_pml_spec_comm_of(w.comm);
    mca_pml_spec_peer(mca_pml_spec_comm_of(w.comm), 0)->is_self = false;
    receive_post(receive_new(0, JOINT, false));
    const mca_pml_spec_match_notice_t match = {
        .match = {.type = MCA_PML_SPEC_MATCH, .epoch = comm->epoch, .ctx = comm->cid},
        .length = JOINT,
        .s = 1,
        .addr = (uint64_t) (uintptr_t) &w};
    if (0 == setjmp(end_of_job)) {
        held_forge(0, MCA_PML_SPEC_MATCH, (const uint8_t *) &match, sizeof(match));
    } else {
        w.aborted = true;
    }
    MUST(w.aborted); /* the processes disagree */
    finish_liar();
    forget();
}

#include "held_cases.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const char *const setting[] = {
        "OMPI_MCA_pml=spec",
        "OMPI_MCA_btl=ibx",
        "OMPI_MCA_memory=^patcher",
        "OMPI_MCA_opal_signal=", /* they are the fuzzer's */
        "OMPI_MCA_ess_singleton_isolated=1",
        "OMPI_MCA_pml_spec_stripe_min=2000",
        "OMPI_MCA_pml_spec_copy_limit=1024",
        "OMPI_MCA_pml_spec_unexpected_max=20000",
        "OMPI_MCA_pml_spec_patience_max=0",
        "OMPI_ALLOW_RUN_AS_ROOT=1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
    };
    (void) argc, (void) argv;
    for (size_t i = 0; i < sizeof(setting) / sizeof(setting[0]); ++i) {
        (void) putenv((char *) (uintptr_t) setting[i]);
    }
    mca_btl_base_static_components[0] = held_component();
    held_touches = touches;
    if (MPI_SUCCESS != MPI_Init(NULL, NULL)) {
        return 1;
    }
    MUST(mca_pml_spec.enabled);
    MUST(MPI_SUCCESS == MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MPI_Datatype block;
    MUST(MPI_SUCCESS == MPI_Type_contiguous(BLOCK, MPI_BYTE, &block));
    MUST(MPI_SUCCESS == MPI_Type_create_resized(block, 0, GAP, &gapped));
    MUST(MPI_SUCCESS == MPI_Type_commit(&gapped));
    answer_too_late();
    match_without_an_offer();
    run_cases();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int speculation[] = {MCA_PML_SPEC_SPECULATION_ON, MCA_PML_SPEC_SPECULATION_OFF,
                                      MCA_PML_SPEC_SPECULATION_AUTO, MCA_PML_SPEC_SPECULATION_ON};
    script_t s = {data, size};
    const unsigned how = next(&s), ways = next(&s);
    held_configure(
        &(held_config_t){.registers = how & 1,
                         .completes_later = how & 2,
                         .promises = how >> 2 & (MCA_BTL_IBX_ORDERED | MCA_BTL_IBX_FENCED)});
    mca_pml_spec.speculation = speculation[how >> 4 & 3];
    memset(&w, 0, sizeof(w));
    w.joint = ways >> 6 & 1;
    set_ways(ways & 3, ways >> 2 & 3, w.joint ? 1 : HELD_MODULES);
    w.requests = requests_with_handles();
    w.refused = mca_pml_spec.counters.refused;
    w.half = how >> 7;
    w.sudden = ways >> 4 & 1;
    MUST(MPI_SUCCESS == MPI_Comm_dup(MPI_COMM_WORLD, &w.comm));
    /* As if it were another process: what it sends unasked costs credit. */
    mca_pml_spec_peer_t *peer = mca_pml_spec_peer(mca_pml_spec_comm_of(w.comm), 0);
    peer->is_self = how >> 6 & 1;
    if (ways >> 5 & 1) { /* as if so much had been sent before that little credit is left */
        const uint32_t few = 4 * SPEC_FLOW_MESSAGE;
        peer->flow_out.spent = peer->flow_in.arrived = peer->flow_out.told - SPEC_FLOW_STEP - few;
        peer->flow_in.due = peer->flow_in.arrived + few;
    }
    if (0 == setjmp(end_of_job)) {
        while (s.left > 0) {
            step(&s);
        }
    } else {
        w.aborted = true;
    }
    if (w.lies) {
        finish_liar();
    } else {
        finish_honest();
    }
    forget();
    return 0;
}
