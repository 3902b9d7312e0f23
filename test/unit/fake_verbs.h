/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* RDMA adapters that are not there: the functions of libibverbs and librdmacm that btl/ibx uses, for unit tests.
 * Linked in their place.
 *
 * Node n (1 to FAKE_NODES) is an adapter fake<n> with one port and the address 10.0.0.n; all are in this
 * process. Several ports may be of one node. Work requests are done when they are posted, with memcpy;
 * events wait until they are fetched. What goes wrong is chosen in `fake`, and what must not happen is
 * counted there. Time is the caller's: it matters only if messages that found no buffer are repeated by the
 * receiver's timer (is_timed). */
#ifndef FAKE_VERBS_H
#define FAKE_VERBS_H

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>

#ifndef FAKE_NODES
#    define FAKE_NODES 4
#endif

typedef struct fake {
    /* What the adapters are. */
    bool is_iwarp, is_infiniband;
    bool has_srq, has_atomics;
    bool is_coherent; /* these are atomic with the processor's */
    int max_inline, max_wr, max_cqe, max_sge;
    enum ibv_mtu mtu; /* of datagrams */
    /* What goes wrong. */
    int registrations_left; /* ibv_reg_mr fails after so many; -1: never */
    int queue_pairs_left;   /* likewise */
    int no_dmabufs;         /* ibv_reg_dmabuf_mr: this errno, whatever it gets; 0: adapters take them */
    bool no_address, no_route,
        no_connect; /* rdma_resolve_addr and so on answer with an error event */
    bool any_address; /* all are of node 1 */
    bool silent;    /* requests to connect are lost */
    bool no_cq, no_listen, no_channel, no_notices;
    bool no_queue_pairs; /* RC, but through rdma_cm */
    bool no_rdma_cm;     /* its device is not there */
    bool
        torn_writes; /* only the last bytes of a write are there at once, the rest at fake_finish_writes or
                       * before the next message of that queue pair */
    int modifies_left;          /* as registrations_left, of ibv_modify_qp */
    bool no_addresses;          /* no port has an IPv4 address: its GIDs are fe80::n */
    bool has_ipv6;              /* and, then, 2001:0:..:n */
    bool is_down;               /* all ports */
    bool no_open;               /* of devices, without rdma_cm */
    bool no_ways;               /* no GID leads anywhere */
    bool no_gid;                /* the GID table is empty */
    uint16_t partition;         /* InfiniBand: P_Key of all addresses; 0: that is not told */
    bool no_partition;          /* which the port is not in */
    bool needs_grh;             /* InfiniBand: of all datagrams */
    bool subnets;               /* InfiniBand: each node is in its own, with a router for connections only */
    bool no_datagrams;          /* there are no UD queue pairs */
    unsigned lost, twice, late; /* datagrams of a hundred that are; `late` is overtaken by some */
    unsigned seed;              /* of these */
    bool
        late_reads; /* are done at fake_finish_reads, though what was posted behind them is done before (as siw) */
    /* The first messages of each queue pair, so many, stay unheard until another comes (siw overlooks what comes while its
     * accept goes on). */
    unsigned deaf;
    /* For benchmarks, not with datagrams: the processor does not move data, but for the first 64 bytes
     * of a message, and looks up no keys. */
    bool hands_off;
    bool reuses_numbers; /* of queue pairs that are gone, at once */
    /* A queue pair of a shared queue that breaks has taken a buffer out of it, which is flushed at fake_finish_last; only then
     * the adapter says that it was the last. */
    bool takes_ahead;
    bool no_last; /* that is never said */
    int requests_left; /* so many requests of connections go well, the next breaks its connection; -1: none does */
    bool is_unheard;   /* that one is done, but its sender does not hear of it */
    bool is_timed; /* messages that found no buffer wait for fake_repeat, not for the next buffer */
    uint64_t now;  /* nanoseconds, then */
    /* What happened. */
    unsigned rnr;       /* times that a message found no buffer */
    unsigned limits;    /* events of a shared queue's limit */
    unsigned torn;      /* iWARP: messages that found none; the stream is gone */
    unsigned overflows; /* of completion or work queues */
    unsigned leaked;    /* buffers that a queue pair had taken out of a shared queue when it went */
    unsigned not_acknowledged; /* notices of completion queues that were destroyed */
    unsigned fences;    /* work requests with IBV_SEND_FENCE */
    uint32_t vendor;    /* ibv_device_attr.vendor_id */
    unsigned signalled, posted, inlined;
    unsigned last_private;   /* bytes of private data */
    unsigned memory_regions; /* registered now */
    unsigned queue_pairs, ids;
    unsigned datagrams, unheard; /* sent; that found no buffer */
    unsigned refused;            /* with a wrong Q_Key */
    unsigned astray;             /* in another partition or subnet, or without a header that the port wants */
    unsigned too_long;           /* for the MTU */
    unsigned address_handles;
    unsigned opened; /* devices that were opened without rdma_cm */
    uint8_t reads_answered, reads_asked, rnr_retry; /* of the last connection that was made without rdma_cm */
    enum ibv_mtu path_mtu;
    uint8_t service_level, traffic_class; /* of the last of them; or of the last connection that was asked for */
    unsigned queue_bytes; /* of the queues of all queue pairs, as an adapter would have them */
} fake_t;

extern fake_t fake;

/* RoCE adapters with all abilities; nothing goes wrong. */
void fake_reset(void);

struct sockaddr_in fake_address(unsigned node, unsigned port);

/* The process at this end of every connection of the node dies: its peers are told, its ports close. */
void fake_kill(unsigned node);

/* Every connection of the node ends with a completion error of the work requests posted from now on. */
void fake_break(unsigned node);

/* See takes_ahead. */
void fake_finish_last(void);

/* See late_reads, torn_writes. */
void fake_finish_reads(void);
void fake_finish_writes(void);

/* With is_timed: repeats the messages whose time has come; when that is for the first of those that wait
 * (UINT64_MAX: none does); does one of the node's? */
void fake_repeat(void);
uint64_t fake_next_repeat(void);
bool fake_is_waiting(unsigned node);

/* How long a sender waits for this code of the RNR timer: nanoseconds. */
uint64_t fake_rnr_ns(uint8_t code);

/* An event of the adapter. */
void fake_device_fatal(unsigned node);

/* No datagram goes from or to the node any more. */
void fake_mute(unsigned node);

/* Its queue pairs of datagrams are in the error state. */
void fake_break_datagrams(unsigned node);

#endif
