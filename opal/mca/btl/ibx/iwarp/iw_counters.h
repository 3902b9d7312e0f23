/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The counters of the protocol engine: one list makes the struct, and the names and meanings for those that show it. */
#ifndef IW_COUNTERS_H
#define IW_COUNTERS_H

#include <stdint.h>

/* X(name, meaning). refused_*: datagrams that changed nothing. */
#define IW_COUNTERS(X)                                                                             \
    X(packets_out, "datagrams handed out to be sent")                                              \
    X(bytes_out, "bytes of the datagrams handed out to be sent")                                    \
    X(packets_in, "datagrams received, whatever became of them")                                   \
    X(bytes_in, "bytes of the datagrams received")                                                 \
    X(segments_out, "DDP segments sent for the first time")                                        \
    X(segments_resent, "DDP segments sent again")                                                  \
    X(segments_in, "DDP segments accepted")                                                        \
    X(segments_early, "DDP segments accepted ahead of one that was missing")                       \
    X(segments_twice, "DDP segments that had arrived before under another packet number")          \
    X(acks_out, "acknowledgements sent")                                                           \
    X(acks_alone, "acknowledgements sent in datagrams of their own")                               \
    X(acks_in, "acknowledgements accepted")                                                        \
    X(marked_in, "datagrams accepted that the network marked as it was congested (ECN)")           \
    X(marked_out, "datagrams of which peers say that the network marked them")                     \
    X(lost_by_number, "packets declared lost because later ones arrived")                          \
    X(lost_by_time, "packets declared lost because they took too long")                            \
    X(lost_spurious, "packets declared lost, or sent again, that had arrived")                     \
    X(probe_timeouts, "times nothing was heard for a probe timeout")                               \
    X(probes_out, "path probes and keep-alives sent")                                              \
    X(rnr_out, "segments refused for want of a receive buffer")                                    \
    X(rnr_in, "segments that a peer refused for want of a receive buffer")                         \
    X(messages_out, "messages given to be sent")                                                   \
    X(messages_in, "messages delivered to receive buffers")                                        \
    X(reads_in, "RDMA Read Requests served")                                                       \
    X(atomics_in, "atomic operations done for peers")                                              \
    X(peers_down, "connections that ended with an error (not by a goodbye)")                       \
    X(peers_silent, "times a peer was silent for btl_ibx_iwarp_peer_timeout (a sixth of it if it had " \
                    "never answered) and was not given up")                                        \
    X(failovers, "times datagrams to a peer left the network for another transport")                 \
    X(alternate_in, "datagrams that came by another transport, whatever became of them")            \
    X(unsent, "datagrams that were made and then not sent")                                        \
    X(refused_length,                                                                              \
      "datagrams refused because they are shorter or longer than any is, or than they say")        \
    X(refused_version,                                                                             \
      "datagrams refused because of another version, or a type or flag that is not known")         \
    X(refused_connection, "datagrams refused because they name a connection that does not exist")  \
    X(refused_tag,                                                                                 \
      "datagrams refused because their tag is wrong: forged, damaged, or of another connection")   \
    X(refused_unknown,                                                                             \
      "first datagrams refused because they come from a process that is not of the job")           \
    X(refused_stale,                                                                               \
      "datagrams refused because they are of a connection or a process that is gone")              \
    X(refused_twice, "datagrams refused because their packet number has been received before")     \
    X(refused_far,                                                                                 \
      "datagrams refused because their packet or segment number lies beyond the window")           \
    X(refused_ack,                                                                                 \
      "datagrams refused because they acknowledge what was never sent, or are malformed")          \
    X(refused_header, "datagrams refused because their DDP or RDMAP header is not valid")          \
    X(refused_access,                                                                              \
      "datagrams refused because they read or write memory that was not granted to their sender")  \
    X(refused_memory, "datagrams refused because there was no memory to keep them")                \
    X(refused_down, "datagrams refused because their connection has ended")

typedef struct iw_counters {
#define IW_X(name, meaning) uint64_t name;
    IW_COUNTERS(IW_X)
#undef IW_X
} iw_counters_t;

#endif
