/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The component btl/ibx, which moves bytes between processes of an MPI job for Open MPI: its parameters, and the name of
 * registered memory that peers are told. */
#ifndef BTL_IBX_H
#define BTL_IBX_H

#include "btl_ibx_compat.h"

#include "opal/include/spec/explain.h"

/* Names registered memory to a peer: 16 bytes that travel with the PML's packets. */
struct mca_btl_base_registration_handle_t {
    uint64_t base; /* address of the first byte, which has offset 0 */
    uint32_t stag;
    uint32_t datagrams; /* verbs: name of the memory for peers that come by datagrams; 0: none */
};
#define MCA_BTL_IBX_HANDLE_SIZE sizeof(struct mca_btl_base_registration_handle_t)

/* Tells a topic of the help texts, with this host's name and what follows, once on this host for all that it is `about`. */
#define mca_btl_ibx_explain(topic, about, ...)                                                     \
    spec_explain("help-mpi-btl-ibx.txt", topic, about, mca_btl_ibx_host(), ##__VA_ARGS__)

/* Tells that there is no memory for `what` (a noun), of `bytes` bytes or more (0: not known), for an interface. */
#define mca_btl_ibx_no_memory(interface, what, bytes)                                              \
    do {                                                                                           \
        char ibx_size[48] = "not known";                                                           \
        if ((bytes) > 0) {                                                                         \
            snprintf(ibx_size, sizeof(ibx_size), "%zu bytes or more", (size_t) (bytes));           \
        }                                                                                          \
        mca_btl_ibx_explain("out of memory", what, interface, what, ibx_size);                     \
    } while (0)

/* What btl_ibx_rcache can be, for whoever gave it something else. */
#define MCA_BTL_IBX_CACHES "auto, none, or what \"ompi_info | grep rcache\" shows"

typedef struct mca_btl_ibx_component {
    mca_btl_base_component_3_0_0_t super;
    /* parameters */
    char *transport;
    char *if_include, *if_exclude;
    char *window;
    int auth;
    int async;
    size_t peer_timeout_ms;
    size_t silent_timeout_ms;
    int window_initial, window_max;
    size_t window_quiet_ms;
    size_t socket_buffer;
    int port_min, port_range;
    int dscp;
    bool ecn;
    bool segment;
    char *rcache; /* name of the component, auto or none */
    bool direct;
    bool single_copy;
    bool failover;
    char *fault_register;
    unsigned long long fault_seed;
    bool summary;
    bool always; /* in jobs that do not ask for it, too */
    int sleep_after; /* microseconds; -1: by the adapters */
    /* state */
    bool is_asked;  /* this job wants it */
    bool locked;    /* several threads */
    uint32_t polls; /* atomic; calls of progress; one that another thread undoes does not matter */
} mca_btl_ibx_component_t;

extern mca_btl_ibx_component_t mca_btl_ibx_component;

#endif
