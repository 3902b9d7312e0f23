/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Two processes tell each other their numbers of a communicator that has no common number. */
#include "pml_spec_hello.h"

#include "../objects/pml_spec_explain.h"
#include "../objects/pml_spec_packet.h"
#include "../objects/pml_spec_upward.h"
#include "pml_spec_control.h"

/* A HELLO that came before its communicator. */
typedef struct early {
    spec_node_t node;
    mca_pml_spec_hello_hdr_t hdr;
} early_t;

void mca_pml_spec_hello_say(mca_pml_spec_peer_t *peer, bool is_answer)
{
    const mca_pml_spec_comm_t *comm = peer->comm;
    mca_bml_base_endpoint_t *endpoint = mca_pml_spec_endpoint(peer);
    if (NULL == endpoint) {
        return; /* told */
    }
    const mca_pml_spec_hello_hdr_t hdr = {.type = MCA_PML_SPEC_HELLO,
                                          .is_answer = is_answer,
                                          .ctx = comm->cid,
                                          .src = comm->my_rank,
                                          .name = {comm->name[0], comm->name[1]}};
    mca_pml_spec_control_send(endpoint, NULL, &hdr, sizeof(hdr));
}

void mca_pml_spec_hello_learn(mca_pml_spec_peer_t *peer, uint16_t ctx)
{
    mca_pml_spec_lock(&peer->send_lock);
    const bool news = !peer->ctx_known;
    if (news) {
        peer->ctx = ctx;
        __atomic_store_n(&peer->ctx_known, true, __ATOMIC_RELEASE);
    }
    mca_pml_spec_unlock(&peer->send_lock);
    if (news) {
        mca_pml_spec_upward.turns(peer);
    }
}

static bool is_named(const mca_pml_spec_comm_t *comm, const mca_pml_spec_hello_hdr_t *hdr)
{
    return NULL != comm && !comm->is_global && comm->name[0] == hdr->name[0]
           && comm->name[1] == hdr->name[1];
}

/* The communicator that a HELLO names, to be put back; NULL: not here (yet). The caller holds the module's lock, under
 * which none is taken away. */
static mca_pml_spec_comm_t *find(const mca_pml_spec_hello_hdr_t *hdr)
{
    for (unsigned c = 0; c < sizeof(mca_pml_spec.cids) / sizeof(*mca_pml_spec.cids); ++c) {
        const mca_pml_spec_cid_slot_t *chunk = mca_pml_spec.cids[c];
        for (unsigned i = 0; NULL != chunk && i < MCA_PML_SPEC_CID_CHUNK; ++i) {
            if (is_named(chunk[i].comm, hdr)) {
                mca_pml_spec_comm_retain(chunk[i].comm);
                return chunk[i].comm;
            }
        }
    }
    return NULL;
}

static void hello(mca_pml_spec_comm_t *comm, const mca_pml_spec_hello_hdr_t *hdr)
{
    mca_pml_spec_peer_t *peer =
        (uint32_t) hdr->src < comm->size ? mca_pml_spec_peer(comm, hdr->src) : NULL;
    if (NULL == peer) {
        mca_pml_spec_refuse("HELLO", "its source is not in the communicator");
        return;
    }
    if (!hdr->is_answer) {
        mca_pml_spec_lock(&peer->send_lock);
        peer->greeted = true; /* the answer tells as much as a question of ours */
        mca_pml_spec_unlock(&peer->send_lock);
        mca_pml_spec_hello_say(peer, true);
    }
    mca_pml_spec_hello_learn(peer, hdr->ctx);
}

MCA_PML_SPEC_PACKET(hello, "HELLO", mca_pml_spec_hello_hdr_t)
{
    const mca_pml_spec_hello_hdr_t *hdr = mca_pml_spec_packet_hdr(packet);
    early_t *early = malloc(sizeof(*early));
    mca_pml_spec_lock(&mca_pml_spec.lock);
    mca_pml_spec_comm_t *comm = find(hdr);
    if (NULL == comm && NULL != early) {
        early->hdr = *hdr;
        spec_list_append(&mca_pml_spec.early_hellos, &early->node);
    }
    mca_pml_spec_unlock(&mca_pml_spec.lock);
    if (NULL != comm) {
        free(early);
        hello(comm, hdr);
        mca_pml_spec_comm_put(comm);
    } else if (NULL == early) {
        mca_pml_spec_no_memory("the first packet of a process in a communicator that is not made yet",
                               sizeof(*early));
    }
}

void mca_pml_spec_hellos_again(mca_pml_spec_comm_t *comm)
{
    for (;;) {
        early_t *early = NULL;
        mca_pml_spec_lock(&mca_pml_spec.lock);
        SPEC_LIST_EACH (n, &mca_pml_spec.early_hellos) {
            if (is_named(comm, &SPEC_ENTRY(n, early_t, node)->hdr)) {
                early = SPEC_ENTRY(n, early_t, node);
                spec_list_remove(n);
                break;
            }
        }
        mca_pml_spec_unlock(&mca_pml_spec.lock);
        if (NULL == early) {
            return;
        }
        hello(comm, &early->hdr);
        free(early);
    }
}

void mca_pml_spec_hellos_fini(void)
{
    spec_node_t *n;
    while (NULL != (n = spec_list_pop(&mca_pml_spec.early_hellos))) {
        free(SPEC_ENTRY(n, early_t, node));
    }
}
