/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What the UDP transport counts: where each number is, and its meaning. */
#include "udp/btl_ibx_udp.h"
#include "udp/btl_ibx_udp_module.h"

#include "btl_ibx_stats.h"
#include "iwarp/iw_counters.h"

/* X(name, where it is in a module, description) */
#define COUNTS(X)                                                                                  \
    X(receive_calls, port->receive_calls, "system calls that receive")                             \
    X(receive_empty, port->receive_empty, "system calls that receive and found nothing")           \
    X(port_receive_errors, port->receive_errors, "system calls that receive and failed")           \
    X(direct, port->placed, "datagrams whose payload the kernel wrote to where it belongs")        \
    X(direct_missed, port->misplaced,                                                              \
      "system calls that receive and wrote a payload to where it does not belong (copied then)")   \
    X(send_calls, port->send_calls, "system calls that send")                                      \
    X(trains, port->trains, "runs of datagrams that were sent as one (UDP_SEGMENT)")               \
    X(joins, port->joins, "times the kernel was asked to join incoming datagrams (UDP_GRO)")       \
    X(port_busy, port->busy, "times the kernel had no room for a datagram")                        \
    X(port_too_big, port->too_big, "datagrams larger than the interface takes")                    \
    X(port_absences, port->absences, "times the network said that a silent process is not there")  \
    X(port_reports, port->reports,                                                                 \
      "datagrams sent another way: a connected socket told of an error")                           \
    X(port_errors, port->errors, "datagrams that could not be sent, and not for want of room")     \
    X(alternate_out, port->alternate_out, "datagrams that were to go by another transport")        \
    X(alternate_full, port->alternate_full, "datagrams for which another transport had no room")   \
    X(agent_wakeups, iw_agent_takeovers(module->agent), "times the agent's thread took over from the application")             \
    X(idle_returns, module->given_back,                                                            \
      "times that nothing came or went, and buffers of fragments were given back")                 \
    X(single_copies, module->single_copies, "puts and gets that the kernel copied, with a process of this host") \
    X(limit_events, module->window.grown, "times the receive window was doubled")                  \
    X(window_shrunk, module->window.shrunk, "times the receive window shrank")
#define LEVELS(X)                                                                                  \
    X(window_size, module->window.current, "receive buffers for UDP wanted now")                   \
    X(window_most, module->window.most, "most receive buffers for UDP wanted at once")             \
    X(window_bytes, bytes, "bytes of the receive buffers for UDP now")                             \
    X(peers, peers, "processes talked to now")                                                     \
    X(stack_bytes, iw_engine_memory(module->engine), "bytes held by the protocol stack now")

typedef struct numbers {
    iw_counters_t engine;
    COUNTS(MCA_BTL_IBX_FIELD) LEVELS(MCA_BTL_IBX_FIELD)
} numbers_t;
#define NUMBERS (sizeof(numbers_t) / sizeof(uint64_t))
_Static_assert(NUMBERS * sizeof(uint64_t) == sizeof(numbers_t), "an array of numbers");

static numbers_t kept;

static void add_module(uint64_t *number, mca_btl_ibx_udp_module_t *module)
{
    const mca_btl_base_endpoint_t *endpoint;
    if (NULL == module->agent) {
        return;
    }
    mca_btl_ibx_udp_lock(module);
    const iw_port_counters_t *port = iw_port_counters(module->port);
    const uint64_t bytes = ibx_window_bytes(&module->window, module->base.super.btl_max_send_size);
    uint64_t peers = 0;
    OPAL_LIST_FOREACH (endpoint, &module->base.endpoints, mca_btl_base_endpoint_t) {
        peers += NULL != ((const mca_btl_ibx_udp_endpoint_t *) endpoint)->peer;
    }
    numbers_t of = {.engine = *iw_engine_counters(module->engine),
                    COUNTS(MCA_BTL_IBX_VALUE) LEVELS(MCA_BTL_IBX_VALUE)
    };
    mca_btl_ibx_udp_unlock(module);
    for (size_t i = 0; i < NUMBERS; ++i) {
        number[i] += ((const uint64_t *) &of)[i];
    }
}

static void add(uint64_t *number, uint32_t module)
{
    add_module(number, mca_btl_ibx_udp_modules[module]);
}

static const mca_btl_ibx_stat_t table[NUMBERS];
static const mca_btl_ibx_stats_t stats = {table, NUMBERS, (uint64_t *) &kept, &mca_btl_ibx_udp_modules_n, add};
_Static_assert(NUMBERS <= MCA_BTL_IBX_STATS_MOST, "all numbers have room");

static const mca_btl_ibx_stat_t table[] = {
#define OF_ENGINE(name, text)    {#name, text, false, &stats},
#define COUNT(name, where, text) {#name, text, false, &stats},
#define LEVEL(name, where, text) {#name, text, true, &stats},
    IW_COUNTERS(OF_ENGINE) COUNTS(COUNT) LEVELS(LEVEL)
};
_Static_assert(sizeof(table) / sizeof(*table) == NUMBERS, "a row for each number");

void mca_btl_ibx_udp_stats_keep(mca_btl_ibx_udp_module_t *module)
{
    add_module((uint64_t *) &kept, module);
}

void mca_btl_ibx_udp_stats_register(void)
{
    mca_btl_ibx_stats_register(&stats, &mca_btl_ibx_component.super.btl_version);
}

void mca_btl_ibx_udp_stats_print(void)
{
    if (mca_btl_ibx_component.summary) {
        mca_btl_ibx_stats_print(&stats, (const uint64_t *) &kept, "");
    }
}
