/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Eager messages of some KiB between processes of a host, whose data lies in memory of the sender that the receiver maps, too
 * (core/spec_slots.h): the packet, a SLOT, says where. Nothing of it is given back by packets, and the sender is done with the message
 * when it is sent.
 *
 * A receiver may not reach that memory (another user, a container with processes of its own). So the first such message to a process
 * goes another way, and the process is asked. It is for the processes of a job, which stay as long as this one.
 *
 * Threads: any, but for the last function. */
#ifndef PML_SPEC_SLOTS_H
#define PML_SPEC_SLOTS_H

#include "../core/spec_costs.h"
#include "../core/spec_slots.h"
#include "../objects/pml_spec_comm.h"
#include "../objects/pml_spec_endpoint.h"
#include "../objects/pml_spec_packet.h"

typedef struct mca_pml_spec_slots_of mca_pml_spec_slots_of_t;

/* Another process of this one's job and host. Kept until the end. */
struct mca_pml_spec_slots_of {
    mca_pml_spec_slots_of_t *next;
    uint64_t name;
    struct mca_pml_spec_share_of *there; /* its slots, where it has asked */
    uint32_t reaches;                    /* it does those of this process */
    uint32_t is_asked;
};

/* After a packet that the transport refused, whose data was copied in vain, so many messages go without: it has no room before the
 * receiver comes. */
#define MCA_PML_SPEC_SLOTS_WAIT 32

/* Slow path of the next: asks the process, once. */
const mca_pml_spec_slots_of_t *mca_pml_spec_slots_ask(mca_pml_spec_peer_t *peer);

/* May a message from one block, of so many bytes, go to the peer so? */
static inline bool mca_pml_spec_slots_serve(mca_pml_spec_peer_t *peer, size_t length)
{
    if (!peer->one_queue || length < mca_pml_spec.slot_min || length > SPEC_COSTS_IN_PARTS) {
        return false;
    }
    if (OPAL_UNLIKELY(MCA_PML_SPEC_GLANCE(peer->slots_wait) > 0)) {
        (void) mca_pml_spec_add32(&peer->slots_wait, -1);
        return false;
    }
    const mca_pml_spec_slots_of_t *of = MCA_PML_SPEC_SEEN(peer->slots);
    of = OPAL_LIKELY(NULL != of) ? of : mca_pml_spec_slots_ask(peer);
    return MCA_PML_SPEC_SEEN(of->reaches);
}

/* Sends an eager message so. False: there is no room, and nothing was done. */
bool mca_pml_spec_slots_send(mca_pml_spec_peer_t *peer, const void *data, size_t length,
                             int32_t tag, uint32_t seq);

/* A SLOT arrived that is no message. */
void mca_pml_spec_slots_told(const mca_pml_spec_slot_hdr_t *hdr);

/* Data of a message in another process's slots. */
typedef struct mca_pml_spec_slot {
    const void *data;
    spec_slots_word_t *word; /* of its piece */
} mca_pml_spec_slot_t;

/* Finds what a SLOT names; false: it is refused. The caller takes the data out, and has spec_slots_give set the word back. The header
 * must be a copy: its sender can change what is in the packet. That it names its own slots, and not another process's, is believed, as is
 * what an answer says: whoever can send through shared memory can write there what it likes. */
bool mca_pml_spec_slots_find(const mca_pml_spec_slot_hdr_t *hdr, mca_pml_spec_slot_t *slot);

void mca_pml_spec_slots_fini(void);

#endif
