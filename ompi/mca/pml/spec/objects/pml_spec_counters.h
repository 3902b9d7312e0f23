/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Counters: one list makes the struct, the MPI_T performance variables and their descriptions.
 * All are per process since MPI_Init: counts, and - at the end of the list - marks, of which the job
 * has not the sum but the most. */
#ifndef PML_SPEC_COUNTERS_H
#define PML_SPEC_COUNTERS_H

#include <stdint.h>

/* X(name, description) */
#define MCA_PML_SPEC_COUNTERS(X)                                                                   \
    X(sent_eager, "messages sent with their data at once")                                         \
    X(sent_in_parts, "messages sent unasked that were longer than a packet")                       \
    X(slots, "messages sent at once, in memory that both map (pml_spec_slot_min)")                 \
    X(gathered, "messages that waited for others to leave with (pml_spec_gather)")                 \
    X(sent_rts, "messages announced by RTS (sender first)")                                        \
    X(sent_rtr, "messages written into a buffer offered by an RTR (receiver first)")               \
    X(bytes_eager, "bytes sent with the message header")                                           \
    X(bytes_put, "bytes written by RDMA")                                                          \
    X(bytes_get, "bytes read by RDMA")                                                             \
    X(bytes_copied, "bytes sent in fragments through the transport's buffers")                     \
    X(bytes_control, "bytes of protocol packets that carry no data")                               \
    X(bytes_device, "bytes copied from or to the memory of an accelerator")                        \
    X(staged,                                                                                      \
      "sends and receives of device memory, or with gaps, that went through host memory of one "   \
      "block")                                                                                     \
    X(staged_pieces, "pieces of staged messages that were copied to the buffer when they arrived") \
    X(device_faults, "copies from or to the memory of an accelerator that failed")                 \
    X(joint, "large messages that both ends were to move: the one that waits, or both")            \
    X(cico, "large messages copied through memory that both processes share (pml_spec_cico_min)")  \
    X(cico_calls, "times other processes had this one's thread copy while its program computed")   \
    X(stripes, "puts and gets of messages that were shared among several transports")              \
    X(rtr_sent, "RTRs sent (receives that speculated)")                                            \
    X(rtr_keys, "further keys sent ahead of RTRs, one for each transport more that can put")       \
    X(rtr_arrived, "RTRs that arrived")                                                            \
    X(rtr_used, "RTRs used for a message")                                                         \
    X(rtr_crossed, "RTRs dropped: the message they wanted was under way already")                  \
    X(rtr_mispredicted, "RTRs dropped: the message was small or not fit for RDMA")                 \
    X(rtr_too_short, "RTRs dropped: the message was longer than the receive's buffer")             \
    X(rtr_too_old, "RTRs dropped: too many messages were sent while they travelled")               \
    X(rtr_full, "RTRs dropped: too many were kept for one receiver")                               \
    X(rtr_stale, "RTRs dropped: meant for an earlier communicator with the same id")               \
    X(rtr_revoked, "RTRs dropped: the receiver took them back")                                    \
    X(rtr_abandoned, "RTRs still kept when their communicator was freed")                          \
    X(stops_sent, "times STOP was said (few of a receiver's RTRs were of use)")                    \
    X(stops, "times STOP was heard: an envelope sends no RTRs for now")                            \
    X(resumes, "times an envelope that was stopped began to send RTRs again")                      \
    X(patience_waits, "sends that waited for an RTR, receives for an RTS: the last came too late") \
    X(patience_met, "sends and receives whose RTR or RTS came while they waited for it")           \
    X(patience_us, "microseconds that sends and receives waited for an RTR or RTS")                \
    X(revokes_sent, "REVOKE packets sent (receives that had sent RTRs were cancelled or widened)") \
    X(match_notices, "MATCH notices sent ahead of another message")                                \
    X(early, "messages that arrived before an earlier one, and waited for it")                     \
    X(unexpected, "messages that arrived before their receive")                                    \
    X(rts_unexpected, "messages announced by RTS that arrived before their receive")               \
    X(slabs_mapped, "pieces of memory taken from the system to keep packets in")                   \
    X(slabs_unmapped, "pieces of memory for packets given back to the system")                     \
    X(credits, "CREDIT packets sent: a sender may send more messages unasked")                     \
    X(withheld, "times a sender got no more credit for a while (pml_spec_unexpected_max)")         \
    X(queued, "sends that waited for credit of the receiver, or for its communicator's id")        \
    X(pending, "packets and transfers that had to wait for the transport")                         \
    X(fallbacks, "RDMA transfers that failed and were done by copy")                               \
    X(refused, "packets refused because they made no sense")                                       \
    X(agent_wakes, "times the progress agent woke (pml_spec_progress)")                            \
    X(agent_calls,                                                                                 \
      "times other processes of this host called the progress agent, since they waited")           \
    X(agent_polls, "times the progress agent called progress")                                     \
    X(agent_ended, "nonblocking sends and receives that the progress agent brought to their end")  \
    X(agent_ns, "nanoseconds that the progress agent ran")                                         \
    X(agent_lived_ns, "nanoseconds since the progress agent began")                                \
    X(posted_most, "most receives that were posted and waiting at once in one communicator")       \
    X(unexpected_most,                                                                             \
      "most messages that were unexpected and waiting at once in one communicator")                \
    X(unexpected_bytes_most, "most bytes that unexpected messages took at once")

typedef struct mca_pml_spec_counters {
#define MCA_PML_SPEC_FIELD(name, text) uint64_t name;
    MCA_PML_SPEC_COUNTERS(MCA_PML_SPEC_FIELD)
#undef MCA_PML_SPEC_FIELD
} mca_pml_spec_counters_t;

#endif
