/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Counts of the UDP transport as MPI_T performance variables and as a table at the end. */
#include "udp/btl_ibx_udp_stats.h"

#include "iwarp/iw_counters.h"

#include <stdio.h>
#include <stdlib.h>

/* X(name, where it is in a module, description) */
#define COUNTS(X)                                                                                  \
    X(receive_calls, port->receive_calls, "system calls that receive")                             \
    X(receive_empty, port->receive_empty, "of these, calls that found nothing")                    \
    X(port_receive_errors, port->receive_errors, "of these, calls that failed for another reason") \
    X(placed, port->placed, "datagrams whose payload was received where it belongs")               \
    X(misplaced, port->misplaced, "receiving calls of which one was received elsewhere")           \
    X(send_calls, port->send_calls, "system calls that send")                                      \
    X(trains, port->trains, "runs of datagrams that were sent as one (UDP_SEGMENT)")               \
    X(joins, port->joins, "times the kernel was asked to join incoming datagrams (UDP_GRO)")       \
    X(lent, port->zerocopied, "datagrams whose payload the kernel took by reference")                    \
    X(port_busy, port->busy, "times the kernel had no room for a datagram")                        \
    X(port_too_big, port->too_big, "datagrams larger than the interface takes")                    \
    X(port_absences, port->absences, "times the network said that a silent process is not there")  \
    X(port_reports, port->reports,                                                                 \
      "datagrams sent another way: a connected socket told of an error")                           \
    X(port_errors, port->errors, "datagrams that could not be sent for another reason")            \
    X(agent_wakeups, agent, "times the agent's thread took over from the application")             \
    X(rests, module->given_back,                                                                        \
      "times that nothing came or went, and buffers of fragments were given back")                 \
    X(limit_events, module->window.grown, "times the receive window was doubled")                  \
    X(window_shrunk, module->window.shrunk, "times the receive window shrank")
#define LEVELS(X)                                                                                  \
    X(window_size, module->window.current, "receive buffers wanted now")                           \
    X(window_most, module->window.most, "most receive buffers wanted")                             \
    X(window_bytes, bytes, "bytes of the receive window now")                                      \
    X(peers, peers, "processes talked to now")                                                     \
    X(stack_bytes, iw_engine_memory(module->engine), "bytes held by the protocol stack now")

typedef struct numbers {
    iw_counters_t engine;
#define FIELD(name, where, text) uint64_t name;
    COUNTS(FIELD) LEVELS(FIELD)
#undef FIELD
} numbers_t;
#define NUMBERS (sizeof(numbers_t) / sizeof(uint64_t))
_Static_assert(NUMBERS * sizeof(uint64_t) == sizeof(numbers_t), "an array of numbers");

static const struct {
    const char *name, *text;
    size_t offset;
    bool is_level;
} table[] = {
#define ROW(name, text) {#name, text, offsetof(numbers_t, engine.name), false},
    IW_COUNTERS(ROW)
#undef ROW
#define ROW(name, where, text) {#name, text, offsetof(numbers_t, name), false},
        COUNTS(ROW)
#undef ROW
#define ROW(name, where, text) {#name, text, offsetof(numbers_t, name), true},
            LEVELS(ROW)
#undef ROW
};
#define ROWS (sizeof(table) / sizeof(*table))

static numbers_t kept;

static void add_module(numbers_t *sum, mca_btl_ibx_udp_module_t *module)
{
    const mca_btl_base_endpoint_t *endpoint;
    if (NULL == module->engine || NULL == module->port) {
        return;
    }
    mca_btl_ibx_udp_lock(module);
    const iw_port_counters_t *port = iw_port_counters(module->port);
    const uint64_t agent = NULL == module->agent ? 0 : iw_agent_takeovers(module->agent);
    const uint64_t bytes = ibx_window_bytes(&module->window, module->base.super.btl_max_send_size);
    uint64_t peers = 0;
    OPAL_LIST_FOREACH (endpoint, &module->base.endpoints, mca_btl_base_endpoint_t) {
        peers += NULL != ((const mca_btl_ibx_udp_endpoint_t *) endpoint)->peer;
    }
    numbers_t of = {.engine = *iw_engine_counters(module->engine),
#define VALUE(name, where, text) .name = where,
                    COUNTS(VALUE) LEVELS(VALUE)
#undef VALUE
    };
    mca_btl_ibx_udp_unlock(module);
    for (size_t i = 0; i < NUMBERS; ++i) {
        ((uint64_t *) sum)[i] += ((const uint64_t *) &of)[i];
    }
}

void mca_btl_ibx_udp_stats_keep(mca_btl_ibx_udp_module_t *module)
{
    add_module(&kept, module);
}

static int read_number(const mca_base_pvar_t *pvar, void *value, void *object)
{
    (void) object;
    const size_t row = (uintptr_t) pvar->ctx;
    numbers_t sum = {.peers = 0};
    for (uint32_t i = 0; i < mca_btl_ibx_udp_modules_n; ++i) {
        add_module(&sum, mca_btl_ibx_udp_modules[i]);
    }
    uint64_t number = *(const uint64_t *) ((const char *) &sum + table[row].offset);
    if (!table[row].is_level) {
        number += *(const uint64_t *) ((const char *) &kept + table[row].offset);
    }
    *(unsigned long long *) value = number;
    return OPAL_SUCCESS;
}

void mca_btl_ibx_udp_stats_register(void)
{
    for (size_t i = 0; i < ROWS; ++i) {
        (void) mca_base_component_pvar_register(
            &mca_btl_ibx_component.super.btl_version, table[i].name, table[i].text, OPAL_INFO_LVL_4,
            table[i].is_level ? MCA_BASE_PVAR_CLASS_LEVEL : MCA_BASE_PVAR_CLASS_COUNTER,
            MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL, MCA_BASE_VAR_BIND_NO_OBJECT,
            MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, read_number, NULL, NULL,
            (void *) (uintptr_t) i);
    }
}

void mca_btl_ibx_udp_stats_print(void)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = mca_btl_ibx_component.summary ? open_memstream(&text, &size) : NULL;
    if (NULL == out) {
        return;
    }
    fprintf(out, "btl/ibx: summary of process %u\n", (unsigned) OPAL_PROC_MY_NAME.vpid);
    for (size_t i = 0; i < ROWS; ++i) {
        const uint64_t number = *(const uint64_t *) ((const char *) &kept + table[i].offset);
        if (number > 0) {
            fprintf(out, "  %-20s %16llu  %s\n", table[i].name, (unsigned long long) number,
                    table[i].text);
        }
    }
    fclose(out);
    fputs(text, stderr); /* in one piece: other processes write too */
    free(text);
}
