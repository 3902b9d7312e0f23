/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A UD queue pair of a port, for its mailbox (vb_ud_cm.c) or the datagrams of the hybrid mode (vb_dgram.c), which take what it
 * receives: where it is, its send slots, the address handles of others, and its renewal when it breaks.
 *
 * Threads: as the port. Memory: the slots, whatever the number of others; each of these costs an address handle. */
#ifndef VB_UD_H
#define VB_UD_H

#include "vb_address.h"
#include "vb_sendq.h"

#define VB_UD_GRH   40u /* in front of what arrives (InfiniBand specification, 11.4.1.2) */
#define VB_UD_SLOTS 64u /* datagrams being sent */

/* An address handle may go only when no work request that names it is outstanding: one that was parted
 * from is kept until then. */
typedef struct vb_ud_target {
    struct ibv_ah *ah; /* NULL: free */
    uint32_t number, qkey;
    bool is_parted;
    uint32_t until; /* then: not before this work request and all earlier ones are done */
} vb_ud_target_t;

typedef struct vb_ud {
    vb_port_t *port;
    vb_address_t address;
    vb_dgram_address_t own;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    vb_sendq_t sendq;
    char *slots;
    uint32_t slot_size;
    struct ibv_mr *slots_mr;
    vb_ud_target_t *target;
    uint32_t targets, parted;
    uint32_t renewals; /* of the queue pair, so far; in the numbers of its work requests */
} vb_ud_t;

/* Where the port is: address, own, but for the number. False: why says what is missing. */
bool vb_ud_find(vb_ud_t *ud, vb_port_t *port, char *why, size_t size);
/* After that. context: of the completion queue (struct ibv_cq); receives: of the queue pair. False: why says what is missing, and it
 * is to be closed. */
bool vb_ud_open(vb_ud_t *ud, struct ibv_comp_channel *notices, void *context, uint32_t slot_size, uint32_t receives, char *why,
                size_t size);
/* Then the memory of what it received may go. Also one that is all zero. */
void vb_ud_close(vb_ud_t *ud);

/* Lets it send to there. Returns a number to name that by; 0: no way leads there, or there is no memory (errno). */
uint32_t vb_ud_meet(vb_ud_t *ud, const vb_dgram_address_t *there);
/* Not any more; what is being sent still goes out. */
void vb_ud_part(vb_ud_t *ud, uint32_t target);

/* Where the next datagram is to be put; NULL: none may be sent now. */
char *vb_ud_slot(vb_ud_t *ud);
/* So many bytes of that. False: not now. */
bool vb_ud_send(vb_ud_t *ud, uint32_t target, uint32_t length, bool is_signalled);
/* A completion of it. False: it is an error. */
bool vb_ud_sent(vb_ud_t *ud, const struct ibv_wc *wc);

/* The queue pair broke, and has given back what was posted: it begins anew, with the number that others know. What was being sent is
 * lost. False: it cannot, or did so too often. */
bool vb_ud_renew(vb_ud_t *ud);

#endif
