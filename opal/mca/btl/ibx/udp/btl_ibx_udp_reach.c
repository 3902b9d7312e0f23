/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Asks processes of other hosts over UDP whether they are reached, and tells of those that are not. */
#include "udp/btl_ibx_udp_module.h"

#include "btl_ibx_endpoint.h"
#include "udp/btl_ibx_udp.h"
#include "udp/btl_ibx_udp_agent.h"
#include "udp/btl_ibx_udp_endpoint.h"

#include <poll.h>

#define PAUSE_MS 1 /* the longest sleep: the agent's thread may take what would end it */

static mca_btl_ibx_udp_module_t *module_of(const mca_btl_ibx_udp_endpoint_t *endpoint)
{
    return mca_btl_ibx_udp_of(endpoint->base.module);
}

/* A process of another job, spawned or connected to, may be in its MPI_Init for long, where it does not answer. */
static bool should_answer(const mca_btl_ibx_udp_endpoint_t *endpoint)
{
    return endpoint->is_remote
           && endpoint->base.proc->proc_name.jobid == opal_proc_local_get()->proc_name.jobid;
}

/* Names what is not reached: a host by an interface. */
static void path_name(const mca_btl_ibx_udp_endpoint_t *endpoint, char *text, size_t size)
{
    snprintf(text, size, "path %s %s", endpoint->base.module->interface.name,
             spec_host_of(endpoint->base.proc));
}

/* ---- what is known of hosts ---- */

/* What the module knows of a host, which is one address there. Hosts that there is no memory for share what is known. Only callers
 * of this change it, and Open MPI lets in one at a time. */
static iw_reach_host_t *host_of(mca_btl_ibx_udp_endpoint_t *endpoint)
{
    static iw_reach_host_t others;
    opal_hash_table_t *hosts = &module_of(endpoint)->hosts;
    iw_address_t address = endpoint->address;
    void *known = endpoint->host;
    address.v4.sin_port = 0; /* at the same place in both families */
    if (NULL == known
        && OPAL_SUCCESS
               != opal_hash_table_get_value_ptr(hosts, &address, sizeof(address), &known)) {
        known = calloc(1, sizeof(iw_reach_host_t));
        if (NULL != known
            && OPAL_SUCCESS
                   != opal_hash_table_set_value_ptr(hosts, &address, sizeof(address), known)) {
            free(known);
            known = NULL;
        }
    }
    endpoint->host = NULL == known ? &others : known;
    return endpoint->host;
}

void mca_btl_ibx_udp_reach_open(mca_btl_ibx_udp_module_t *module)
{
    OBJ_CONSTRUCT(&module->hosts, opal_hash_table_t);
    (void) opal_hash_table_init(&module->hosts, 16);
}

void mca_btl_ibx_udp_reach_close(mca_btl_ibx_udp_module_t *module)
{
    void *key, *host, *node;
    size_t size;
    int rc = opal_hash_table_get_first_key_ptr(&module->hosts, &key, &size, &host, &node);
    while (OPAL_SUCCESS == rc) {
        free(host);
        rc = opal_hash_table_get_next_key_ptr(&module->hosts, &key, &size, &host, node, &node);
    }
    OBJ_DESTRUCT(&module->hosts);
}

/* ---- telling ---- */

/* Both ends come to the same, and one of them tells. */
static bool is_mine_to_tell(const mca_btl_ibx_udp_endpoint_t *endpoint)
{
    const int order = strcmp(mca_btl_ibx_host(), spec_host_of(endpoint->base.proc));
    return 0 != order ? order < 0 : spec_name_of(opal_proc_local_get()) < endpoint->base.name;
}

static const char *result(const mca_btl_ibx_udp_endpoint_t *endpoint, iw_contact_t contact)
{
    return IW_CONTACT_LEFT == contact   ? "it has ended the connection"
           : IW_CONTACT_NONE != contact ? "datagrams from there arrive here, but no answer to ours"
           : NULL != endpoint->host && endpoint->host->has_answered
               ? "nothing came from there, but others there do answer"
               : "nothing came from there";
}

static void path_ends(const mca_btl_ibx_udp_endpoint_t *endpoint, char from[96], char to[96])
{
    (void) mca_btl_ibx_address_text(iw_port_address(module_of(endpoint)->port), from, 96);
    (void) mca_btl_ibx_address_text(&endpoint->address, to, 96);
}

static void tell(const mca_btl_ibx_udp_endpoint_t *endpoint, iw_contact_t contact, uint32_t asked)
{
    const char *host = spec_host_of(endpoint->base.proc), *what = result(endpoint, contact);
    const unsigned ms = (unsigned) (asked * IW_ASK_EVERY / 1000000);
    char path[256], from[96], to[96];
    path_ends(endpoint, from, to);
    opal_output_verbose(1, opal_btl_base_framework.framework_output,
                        "btl/ibx: process %s on host %s is left to other transports:",
                        OPAL_NAME_PRINT(endpoint->base.proc->proc_name), host);
    opal_output_verbose(1, opal_btl_base_framework.framework_output, "btl/ibx:   %s to %s: %u datagrams in %u ms,", from, to,
                        asked, ms);
    opal_output_verbose(1, opal_btl_base_framework.framework_output, "btl/ibx:   %s", what);
    path_name(endpoint, path, sizeof(path));
    /* One that has answered is at its end: no fault of the network. */
    if (IW_CONTACT_LEFT != contact && spec_tell_once(path) && is_mine_to_tell(endpoint)) {
        spec_explain_now("help-mpi-btl-ibx.txt", "path blocked", mca_btl_ibx_host(), host, from, to, asked, ms, what);
    }
}

bool mca_btl_ibx_udp_no_answer(const mca_btl_base_endpoint_t *base, uint32_t seconds)
{
    const mca_btl_ibx_udp_endpoint_t *endpoint = (const mca_btl_ibx_udp_endpoint_t *) base;
    mca_btl_ibx_lock(base->module);
    const iw_contact_t contact = NULL == endpoint->peer ? IW_CONTACT_LEFT : iw_peer_contact(endpoint->peer);
    mca_btl_ibx_unlock(base->module);
    const bool has_answered =
        IW_CONTACT_LEFT == contact || IW_CONTACT_HALF == contact || IW_CONTACT_ANSWERED == contact;
    if (has_answered || !should_answer(endpoint)) {
        return false;
    }
    char path[256], from[96], to[96];
    path_name(endpoint, path, sizeof(path));
    if (spec_tell_once(path)) {
        path_ends(endpoint, from, to);
        spec_explain_now("help-mpi-btl-ibx.txt", "no answer", mca_btl_ibx_host(),
                         spec_host_of(base->proc), from, to, seconds, result(endpoint, contact));
    }
    return true;
}

/* ---- asking ---- */

static void refuse(mca_btl_ibx_udp_endpoint_t *endpoint)
{
    endpoint->reach = IW_REACH_NO;
    endpoint->base.is_refused = true;
    endpoint->base.is_dead = true;
    if (NULL != endpoint->peer) {
        iw_peer_refuse(endpoint->peer);
        iw_agent_flush(module_of(endpoint)->agent);
    }
}

static iw_contact_t contact_with(const mca_btl_ibx_udp_endpoint_t *endpoint)
{
    return NULL == endpoint->peer ? IW_CONTACT_NONE : iw_peer_contact(endpoint->peer);
}

/* So many questions in vain are enough. lock is held. */
static uint32_t patience(mca_btl_ibx_udp_endpoint_t *endpoint, iw_contact_t contact)
{
    const mca_btl_ibx_udp_module_t *module = module_of(endpoint);
    return iw_reach_patience(&module->net, host_of(endpoint), contact,
                             mca_btl_ibx_trip(&module->base.interface, &endpoint->address));
}

/* Not worth a question? Perhaps another process of this host has asked there in vain. lock is not held. */
static bool is_in_vain(mca_btl_ibx_udp_endpoint_t *endpoint)
{
    mca_btl_ibx_module_t *module = endpoint->base.module;
    char path[256];
    iw_reach_host_t host = *host_of(endpoint);
    path_name(endpoint, path, sizeof(path));
    host.is_given_up |= spec_is_told(path);
    mca_btl_ibx_lock(module);
    const bool in_vain = iw_reach_in_vain(&module_of(endpoint)->net, &host, contact_with(endpoint));
    mca_btl_ibx_unlock(module);
    return in_vain;
}

/* From now on it is asked; that somebody wants to know comes later, or never. Only callers of this change the verdict. */
static void begin(mca_btl_ibx_udp_endpoint_t *endpoint)
{
    mca_btl_ibx_module_t *module = endpoint->base.module;
    if (!should_answer(endpoint) || IW_REACH_NONE != endpoint->reach) {
        return;
    }
    const bool in_vain = is_in_vain(endpoint);
    mca_btl_ibx_lock(module);
    iw_peer_t *peer = in_vain ? NULL : mca_btl_ibx_udp_peer(&endpoint->base);
    if (in_vain) {
        refuse(endpoint);
    } else if (!endpoint->base.is_dead) {
        endpoint->reach = IW_REACH_ASKS;
        if (NULL != peer) {
            iw_peer_ask(peer, patience(endpoint, IW_CONTACT_NONE) + 1);
            iw_agent_flush(module_of(endpoint)->agent);
        }
    }
    mca_btl_ibx_unlock(module);
}

/* Is it decided now? While it is not it is asked on. Without memory for a peer it is not reached. lock is not held. */
static void judge(mca_btl_ibx_udp_endpoint_t *endpoint)
{
    mca_btl_ibx_module_t *module = endpoint->base.module;
    mca_btl_ibx_lock(module);
    iw_peer_t *peer = endpoint->peer;
    const iw_contact_t contact = NULL == peer ? IW_CONTACT_LEFT : iw_peer_contact(peer);
    const uint32_t asked = NULL == peer ? 0 : iw_peer_asked(peer),
                   most = patience(endpoint, contact);
    endpoint->reach = iw_reach_judge(contact, asked, most);
    if (IW_REACH_YES == endpoint->reach) {
        iw_reach_answered(&module_of(endpoint)->net, host_of(endpoint), asked);
    } else if (IW_REACH_NO == endpoint->reach) {
        refuse(endpoint);
        if (IW_CONTACT_LEFT != contact) {
            iw_reach_given_up(&module_of(endpoint)->net, host_of(endpoint));
        }
    } else {
        iw_peer_ask(peer, most + 1);
    }
    mca_btl_ibx_unlock(module);
    if (IW_REACH_NO == endpoint->reach) {
        tell(endpoint, contact, asked);
    }
}

/* If it has answered that is decided at once. */
static void note_answer(mca_btl_ibx_udp_endpoint_t *endpoint)
{
    mca_btl_ibx_lock(endpoint->base.module);
    const bool has_answered = IW_REACH_ASKS == endpoint->reach && IW_CONTACT_ANSWERED == contact_with(endpoint);
    mca_btl_ibx_unlock(endpoint->base.module);
    if (has_answered) {
        judge(endpoint);
    }
}

/* As soon as it is known where they are, some processes are asked, and nobody waits. What the others published must be here:
 * to fetch it would take longer than what is gained. */
static void begin_early(void)
{
    const uint32_t n = mca_btl_ibx_job_size();
    opal_process_name_t name = OPAL_PROC_MY_NAME;
    const uint32_t me = name.vpid;
    for (unsigned i = 0; n > spec_local_ranks() && mca_btl_ibx_modex_is_here(); ++i) {
        name.vpid = iw_reach_partner(me, n, i);
        opal_proc_t *proc = UINT32_MAX == name.vpid ? NULL : opal_proc_for_name(name);
        if (NULL == proc) {
            return;
        }
        for (uint32_t m = 0;
             m < mca_btl_ibx_udp_modules_n && !OPAL_PROC_ON_LOCAL_NODE(proc->proc_flags); ++m) {
            mca_btl_ibx_udp_module_t *module = mca_btl_ibx_udp_modules[m];
            mca_btl_base_endpoint_t *endpoint = mca_btl_ibx_endpoint_of(&module->base, proc);
            if (NULL != endpoint && module->early_n < MCA_BTL_IBX_UDP_EARLY) {
                module->early[module->early_n++] = (mca_btl_ibx_udp_endpoint_t *) endpoint;
                begin((mca_btl_ibx_udp_endpoint_t *) endpoint);
            }
        }
    }
}

/* What came, or comes in a moment, goes to the engines, and no further. */
static void take_in(void)
{
    struct pollfd fd[MCA_BTL_IBX_INTERFACES];
    (void) poll(fd, (nfds_t) mca_btl_ibx_udp_sockets(fd), PAUSE_MS);
    for (uint32_t i = 0; i < mca_btl_ibx_udp_modules_n; ++i) {
        mca_btl_ibx_udp_module_t *module = mca_btl_ibx_udp_modules[i];
        mca_btl_ibx_udp_lock(module);
        (void) iw_port_drain(module->port, module->engine);
        mca_btl_ibx_udp_unlock(module);
        mca_btl_ibx_meet_strangers(&module->base);
        /* Those that nobody wants to know of yet tell of the others of their hosts. */
        for (uint32_t early = 0; early < module->early_n; ++early) {
            note_answer(module->early[early]);
        }
    }
}

/* Returns how many of these are not decided, which come first then. */
static size_t open_of(mca_btl_ibx_udp_endpoint_t **endpoint, size_t n)
{
    size_t left = 0;
    for (size_t i = 0; i < n; ++i) {
        if (IW_REACH_ASKS == endpoint[i]->reach) {
            endpoint[left++] = endpoint[i];
        }
    }
    return left;
}

void mca_btl_ibx_udp_reach(size_t n, opal_proc_t **procs)
{
    const size_t most = n * mca_btl_ibx_udp_modules_n;
    mca_btl_ibx_udp_agent_end_in_time();
    mca_btl_ibx_udp_failover_open();
    mca_btl_ibx_udp_endpoint_t **asked =
        0 == most || !mca_btl_ibx_has_others(MCA_BTL_IBX_UDP_NEAR, MCA_BTL_FLAGS_SEND) ? NULL : malloc(most * sizeof(*asked));
    size_t open = 0;
    if (NULL == asked) {
        return;
    }
    if (!mca_btl_ibx_udp_modules[0]->has_begun) {
        mca_btl_ibx_udp_modules[0]->has_begun = true;
        begin_early();
    }
    for (size_t i = 0; i < most; ++i) {
        mca_btl_ibx_udp_module_t *module = mca_btl_ibx_udp_modules[i / n];
        mca_btl_base_endpoint_t *endpoint = mca_btl_ibx_endpoint_of(&module->base, procs[i % n]);
        if (NULL != endpoint) {
            asked[open] = (mca_btl_ibx_udp_endpoint_t *) endpoint;
            begin(asked[open]);
            note_answer(asked[open++]);
        }
    }
    while ((open = open_of(asked, open)) > 0) {
        take_in(); /* before anybody is judged: what came may wait since long */
        for (size_t i = 0; i < open; ++i) {
            if (IW_REACH_ASKS == asked[i]->reach) {
                judge(asked[i]);
            }
        }
    }
    free(asked);
}
