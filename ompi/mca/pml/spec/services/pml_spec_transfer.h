/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* RDMA: moves a range of a message by put or get, and divides a large message among several transports (BTL modules). */
#ifndef PML_SPEC_TRANSFER_H
#define PML_SPEC_TRANSFER_H

#include "../objects/pml_spec_request.h"

struct mca_pml_spec_transfer;

/* What a transfer is to move. */
typedef struct mca_pml_spec_transfer_args {
    bool is_put;
    bool is_timed;  /* pml_spec_patience.h learns from it how long transfers take */
    bool in_pieces; /* either end is staged: pml_spec_pipe.h */
    mca_bml_base_btl_t *btl;
    char *local;
    uint64_t remote;
    uint64_t offset; /* of the range in the message */
    uint64_t length;
    const void *key; /* of the remote side, key_len bytes; copied */
    uint16_t key_len;
    void *request; /* the send of a put, the receive of a get */
    /* Tell the other side that the data is there: called once, unless the transfer fails. A transport
     * that promises to keep the order (design: completion without the CPU) is given that packet as
     * soon as it has been given the last operation, so that it leaves while both processes compute;
     * else it is sent when the operations are complete. */
    void (*tell)(struct mca_pml_spec_transfer *transfer);
    /* Move the range by copy: called in its place if the transfer cannot be set up, or fails. */
    void (*by_copy)(void *request, uint64_t offset, uint64_t length);
    /* Of a piece of a pipeline (pml_spec_pipe.h), else NULL: it is accounted for, or moved by copy. */
    void (*ended)(void *pipe, uint32_t slot);
    void *pipe;
    uint32_t slot;
    mca_btl_base_registration_handle_t *local_key; /* the pipeline's registration, if it has one */
} mca_pml_spec_transfer_args_t;

/* A transfer moves one range of a message with put or get of one transport, in as many operations
 * as the transport's limits ask for, and accounts for it once. */
typedef struct mca_pml_spec_transfer {
    opal_free_list_item_t super;
    mca_pml_spec_pending_t pending;
    mca_pml_spec_transfer_args_t args; /* but the key, which is below */
    uint64_t issued;
    uint64_t started;      /* ns, or 0: not timed, or done by this processor */
    volatile int32_t refs; /* operations under way, and the issuer */
    volatile int32_t status;
    mca_btl_base_registration_handle_t *local_key; /* its own, or NULL */
    bool told;
    union {
        char bytes[MCA_PML_SPEC_KEY_MAX];
        uint64_t align;
    } remote_key;
} mca_pml_spec_transfer_t;
OBJ_CLASS_DECLARATION(mca_pml_spec_transfer_t);

/* Part of a message for one transport. */
typedef struct mca_pml_spec_stripe {
    mca_bml_base_btl_t *btl;
    uint64_t offset, length;
} mca_pml_spec_stripe_t;

/* Can `btl` put, and have the bytes arrived when a put is complete? libfabric's ofi_rxd, which may be what Open MPI's btl/ofi
 * uses, was seen to complete puts whose last bytes never came; so puts of that BTL are used only if the user wants every
 * receive to speculate. */
bool mca_pml_spec_can_put(const mca_bml_base_btl_t *btl);

/* May `btl` move length bytes between these addresses with put (or get)? has_key: the other side's
 * registration with this transport is known. */
bool mca_pml_spec_can_rdma(const mca_bml_base_btl_t *btl, bool put, uint64_t local, uint64_t remote,
                           uint64_t length, bool has_key);

/* Share length bytes among the candidates by their weight; none gets less than stripe_min unless
 * it is the only one. Returns the number of stripes. */
size_t mca_pml_spec_share(mca_bml_base_btl_t **candidate, size_t candidates, uint64_t length,
                          mca_pml_spec_stripe_t *stripe);

/* Start a transfer. What could not be set up (no memory, registration refused) is moved by copy. */
void mca_pml_spec_transfer_start(const mca_pml_spec_transfer_args_t *args);

/* Registers the local side until it is deregistered, if the transport needs that (else *key is NULL). False: refused. */
bool mca_pml_spec_transfer_register(const mca_pml_spec_transfer_args_t *args,
                                    mca_btl_base_registration_handle_t **key);

/* A put is of a send, a get of a receive: its peer. */
static inline mca_pml_spec_peer_t *
mca_pml_spec_transfer_peer(const mca_pml_spec_transfer_args_t *args)
{
    return args->is_put ? ((const mca_pml_spec_send_request_t *) args->request)->peer
                        : ((const mca_pml_spec_recv_request_t *) args->request)->peer;
}

/* Sends the packet that tells of it, behind its data. That of a piece may wait for the pipeline's next. */
void mca_pml_spec_transfer_told(const mca_pml_spec_transfer_t *transfer, const void *hdr,
                                size_t len);

/* It cannot be: by copy, which is counted. */
void mca_pml_spec_fall_back(const mca_pml_spec_transfer_args_t *args);

#endif
