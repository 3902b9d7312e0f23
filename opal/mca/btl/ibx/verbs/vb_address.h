/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Where a port is in its fabric, and the way from there to another port, without rdma_cm: for UD queue pairs, and for
 * connections that are made by datagrams.
 *
 * InfiniBand: by LID within a subnet (specification, 7.7), with a global header if the port wants one. RoCE: by GID (annex
 * A17). Threads: as the port. */
#ifndef VB_ADDRESS_H
#define VB_ADDRESS_H

#include "vb_port.h"
#include "vb_wire.h"

/* Where a process takes datagrams; published. Numbers in host order. */
typedef struct vb_dgram_address {
    uint32_t number; /* of the queue pair; 0: none */
    uint32_t qkey;
    uint16_t lid; /* 0: by gid alone */
    uint8_t gid[16];
} vb_dgram_address_t;

typedef struct vb_address {
    uint8_t gid[16];
    uint8_t gid_index;
    uint16_t pkey_index; /* partition */
    uint16_t lid;
    bool needs_grh; /* InfiniBand: the port wants it of all packets */
    uint8_t mtu;    /* active: 1 is 256 bytes, 5 is 4096 */
} vb_address_t;

/* False: why says what is missing. */
bool vb_address_find(vb_address_t *address, const vb_port_t *port, char *why, size_t size);

/* The way to another port. False: there is none known: another subnet, whose routers only the subnet's manager knows, or
 * an address that cannot be. */
bool vb_address_route(const vb_address_t *address, const vb_port_t *port, uint16_t lid,
                      const uint8_t *gid, struct ibv_ah_attr *attr);

/* A UD queue pair for both completion and receive of cq, ready to send and receive. NULL: errno. The highest bit of
 * qkey is clear (set, it would mean another thing: InfiniBand specification, 10.2.5). */
struct ibv_qp *vb_address_datagrams(const vb_address_t *address, vb_port_t *port, struct ibv_cq *cq,
                                    uint32_t sends, uint32_t receives, uint32_t qkey);

/* A UD queue pair that was made so, from its reset state to ready again. False: errno. */
bool vb_address_ready(const vb_address_t *address, const vb_port_t *port, struct ibv_qp *qp,
                      uint32_t qkey);

/* A queue pair of a connection that rdma_cm does not make, in its first state; receives may be posted to it. NULL: errno. */
struct ibv_qp *vb_address_pair(const vb_address_t *address, const vb_port_t *port, struct ibv_qp_init_attr *attr);

/* The link's queue pair, which was made so, is connected to the one there; psn: of the first packet from here. False: why is set. */
bool vb_link_connect(vb_link_t *link, const vb_address_t *address, uint32_t psn, const vb_cm_message_t *there);
/* And takes no more; and goes. Also if there is none. */
void vb_link_fail_pair(vb_link_t *link);
void vb_link_destroy_pair(vb_link_t *link);

static inline uint32_t vb_address_mtu(const vb_address_t *address)
{
    return 0 < address->mtu ? 128u << address->mtu : 0;
}

#endif
