/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What the verbs transport counts, for people and tools: MPI_T performance variables btl_ibx_verbs_<name>, and a
 * table of each port at the end (btl_ibx_summary). */
#include "btl_ibx_stats.h"
#include "verbs/btl_ibx_verbs_module.h"

/* X(name, where it is, description). c: the port's counters; module. */
#define COUNTS(X)                                                                                  \
    X(connects, c->connected, "connections over adapters that were made")                          \
    X(bulk, c->bulk,                                                                               \
      "second connections to a process over adapters, for large transfers, that were made")        \
    X(asked, c->asked, "connection requests over adapters sent to peers")                          \
    X(accepted, c->accepted, "connection requests of peers over adapters accepted")                \
    X(crossed, c->crossed,                                                                         \
      "connection requests of peers over adapters that crossed one of this process, which stood")  \
    X(rejected, c->rejected, "connection requests of peers over adapters rejected for the moment") \
    X(refused, c->strangers,                                                                       \
      "connection requests and answers over adapters refused: another job or version, or "         \
      "nonsense")                                                                                  \
    X(retried, c->retried,                                                                         \
      "connection requests of this process over adapters that were rejected or failed")            \
    X(timed_out, c->timed_out,                                                                     \
      "connection requests of this process over adapters that got no answer in time")              \
    X(queued, c->queued, "peers whose connection request over adapters waited for others to end")  \
    X(asked_again, c->asked_again,                                                                 \
      "connection requests by datagrams over adapters that were sent again for want of an answer") \
    X(repeated, c->repeated, "first messages of connections over adapters that were sent again")   \
    X(lost, c->lost, "processes that adapters reached and that were lost")                         \
    X(resumed, c->resumed, "connections over adapters that broke in use and were made again")      \
    X(posted_again, c->posted_again,                                                               \
      "messages, puts and gets over adapters that were posted again after their connection broke") \
    X(elsewhere, c->elsewhere,                                                                     \
      "connections over adapters that broke in use and went on by another port")                   \
    X(parts, c->parts,                                                                             \
      "messages of connections over adapters that another port was given to carry")                \
    X(bad_parts, c->bad_parts,                                                                     \
      "messages of connections over adapters that another port brought and that made no sense")    \
    X(bad_messages, c->bad_messages,                                                               \
      "messages over adapters that ended a connection because they made no sense")                 \
    X(stale, c->stale, "completions of adapters for connections that were gone")                   \
    X(sent, c->sent, "messages sent over adapters")                                                \
    X(received, c->received, "messages received over adapters")                                    \
    X(inlined, c->inlined, "messages over adapters that were copied into their work request")      \
    X(written, c->written, "bytes that adapters put into memory of other processes")               \
    X(read, c->read, "bytes that adapters got from memory of other processes")                     \
    X(atomics, c->atomics, "atomic operations done by adapters")                                   \
    X(atomics_asked, module->base.atomics.asked,                                                   \
      "atomic operations over adapters that were asked of others by message")                      \
    X(atomics_done, module->base.atomics.done,                                                     \
      "atomic operations over adapters that this process did for others")                          \
    X(atomics_refused, module->base.atomics.refused,                                               \
      "messages over adapters about atomic operations that were refused")                          \
    X(limit_events, c->starved, "times the receive queue of an adapter ran low")                   \
    X(window_grown, c->grown, "times the receive window of an adapter was doubled")                \
    X(window_shrunk, c->shrunk, "times the receive window of an adapter shrank")                   \
    X(rnr, rnr,                                                                                    \
      "messages over an adapter, of all processes that use it, that found no receive buffer")      \
    X(no_credit, c->no_credit, "times a message over adapters had to wait for credits")            \
    X(no_room, c->no_room, "times something had to wait for room in a queue of an adapter")        \
    X(credit_messages, c->credit_messages, "messages over adapters that only brought credits")     \
    X(datagrams_sent, use.sent, "datagrams sent over adapters")                                    \
    X(datagrams_received, use.received, "datagrams received over adapters")                        \
    X(datagrams_resent, use.resent, "segments sent again by datagrams over adapters")              \
    X(datagrams_starved, use.starved,                                                              \
      "times the receive queue of an adapter for datagrams ran low")                               \
    X(datagrams_errors, use.errors, "datagrams that an adapter could not send or take")            \
    X(datagram_peers, use.peers, "peers over adapters that were talked to by datagrams first")     \
    X(switched, c->switched, "peers over adapters that went from datagrams to a connection")       \
    X(stayed, c->stayed,                                                                           \
      "connections over adapters that could not be had: the peer stayed with datagrams")           \
    X(way_messages, c->way_messages,                                                               \
      "messages over adapters about the change from datagrams to a connection")                    \
    X(full, c->full,                                                                               \
      "connection requests of peers over adapters refused: there were btl_ibx_max_rc connections")
#define LEVELS(X)                                                                                  \
    X(connections, vb_port_links(module->port), "connections over adapters now")                   \
    X(connections_most, use.connections_most,                                                      \
      "most connections over adapters at once, where they have datagrams")                         \
    X(datagrams_window, use.window, "receive buffers of adapters for datagrams wanted now")        \
    X(datagrams_bytes, use.memory,                                                                 \
      "bytes that adapters hold for datagrams now, besides receive buffers")                       \
    X(window_size, vb_port_wanted(module->port), "receive buffers of adapters wanted now")         \
    X(window_bytes, c->registered, "bytes of receive buffers that adapters hold now")              \
    X(window_bytes_most, c->registered_most,                                                       \
      "most bytes of receive buffers that adapters held at once")

typedef struct numbers {
    COUNTS(MCA_BTL_IBX_FIELD) LEVELS(MCA_BTL_IBX_FIELD)
} numbers_t;
#define NUMBERS (sizeof(numbers_t) / sizeof(uint64_t))

static numbers_t kept; /* of modules that are gone */

static void add_module(uint64_t *number, const mca_btl_ibx_verbs_module_t *module)
{
    const uint64_t rnr = vb_device_rnr(vb_port_abilities(module->port)) - module->rnr_before;
    vb_datagram_use_t use = {.sent = 0};
    vb_port_lock(module->port);
    (void) vb_port_datagram_use(module->port, &use);
    const vb_counters_t *c = vb_port_counters(module->port);
    const numbers_t of = {
        COUNTS(MCA_BTL_IBX_VALUE) LEVELS(MCA_BTL_IBX_VALUE)
    };
    vb_port_unlock(module->port);
    for (size_t i = 0; i < NUMBERS; ++i) {
        number[i] += ((const uint64_t *) &of)[i];
    }
}

static void add(uint64_t *number, uint32_t module)
{
    add_module(number, mca_btl_ibx_verbs_modules[module]);
}

static const mca_btl_ibx_stat_t table[NUMBERS];
static const mca_btl_ibx_stats_t stats = {table, NUMBERS, (uint64_t *) &kept, &mca_btl_ibx_verbs_modules_n, add};
_Static_assert(NUMBERS <= MCA_BTL_IBX_STATS_MOST, "all numbers have room");

static const mca_btl_ibx_stat_t table[] = {
#define COUNT(name, where, text) {"verbs_" #name, text, false, &stats},
#define LEVEL(name, where, text) {"verbs_" #name, text, true, &stats},
    COUNTS(COUNT) LEVELS(LEVEL)
};
_Static_assert(sizeof(table) / sizeof(*table) == NUMBERS, "a row for each number");

void mca_btl_ibx_verbs_stats_register(const mca_base_component_t *version)
{
    mca_btl_ibx_stats_register(&stats, version);
}

void mca_btl_ibx_verbs_stats_keep(const mca_btl_ibx_verbs_module_t *module)
{
    const vb_abilities_t *able = vb_port_abilities(module->port);
    numbers_t of = {.sent = 0};
    char title[128];
    add_module((uint64_t *) &of, module);
    add_module((uint64_t *) &kept, module);
    if (mca_btl_ibx_component.summary) {
        snprintf(title, sizeof(title), ", %s port %u (%s)", able->device, able->port, vb_fabric_name(able->fabric));
        mca_btl_ibx_stats_print(&stats, (const uint64_t *) &of, title);
    }
}
