/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Asks processes of other hosts over UDP whether they are reached, and tells of those that are not. */
#include "udp/btl_ibx_udp_reach.h"

#include "btl_ibx_endpoint.h"
#include "udp/btl_ibx_udp.h"
#include "udp/btl_ibx_udp_endpoint.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define PAUSE_MS 1 /* the longest sleep: the agent's thread may take what would end it */

/* Could another transport carry messages to another host? */
static bool has_other_transport(void)
{
    static const char *const near[] = {"self", "sm", "vader", "smcuda", "ibx"};
    mca_btl_base_selected_module_t *selected;
    OPAL_LIST_FOREACH (selected, &mca_btl_base_modules_initialized,
                       mca_btl_base_selected_module_t) {
        bool is_near = false;
        for (size_t i = 0; i < sizeof(near) / sizeof(*near); ++i) {
            is_near |=
                0 == strcmp(near[i], selected->btl_component->btl_version.mca_component_name);
        }
        if (!is_near && 0 != (selected->btl_module->btl_flags & MCA_BTL_FLAGS_SEND)) {
            return true;
        }
    }
    return false;
}

static mca_btl_ibx_udp_module_t *module_of(const mca_btl_ibx_udp_endpoint_t *endpoint)
{
    return mca_btl_ibx_udp_of(endpoint->base.module);
}

/* Names what is not reached: a host by an interface. */
static void path_name(const mca_btl_ibx_udp_endpoint_t *endpoint, char *text, size_t size)
{
    snprintf(text, size, "path %s %s", endpoint->base.module->interface.name,
             mca_btl_ibx_host_of(endpoint->base.proc));
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
    const int order = strcmp(mca_btl_ibx_host(), mca_btl_ibx_host_of(endpoint->base.proc));
    return 0 != order ? order < 0
                      : mca_btl_ibx_name_of(opal_proc_local_get()) < endpoint->base.name;
}

static const char *result(const mca_btl_ibx_udp_endpoint_t *endpoint, iw_contact_t contact)
{
    switch (contact) {
    case IW_CONTACT_NONE:
        return endpoint->host->has_answered ? "nothing came from there, but others there do answer" : "nothing came from there";
    case IW_CONTACT_LEFT:
        return "it has ended the connection";
    default:
        return "datagrams from there arrive here, but no answer to ours";
    }
}

static void tell(const mca_btl_ibx_udp_endpoint_t *endpoint, iw_contact_t contact, uint32_t asked)
{
    const char *host = mca_btl_ibx_host_of(endpoint->base.proc), *what = result(endpoint, contact);
    const unsigned ms = (unsigned) (asked * IW_ASK_EVERY / 1000000);
    char path[256], from[96], to[96];
    (void) mca_btl_ibx_address_text(iw_port_address(module_of(endpoint)->port), from, sizeof(from));
    (void) mca_btl_ibx_address_text(&endpoint->address, to, sizeof(to));
    opal_output_verbose(1, opal_btl_base_framework.framework_output,
                        "btl/ibx: process %s on host %s is left to other transports: %u datagrams "
                        "in %u ms from %s to %s, %s",
                        OPAL_NAME_PRINT(endpoint->base.proc->proc_name), host, asked, ms, from, to, what);
    path_name(endpoint, path, sizeof(path));
    /* One that has answered is at its end: no fault of the network. */
    if (IW_CONTACT_LEFT != contact && spec_tell_once(path) && is_mine_to_tell(endpoint)) {
        spec_explain_now("help-mpi-btl-ibx.txt", "path blocked", mca_btl_ibx_host(), host, from, to, asked, ms, what);
    }
}

/* ---- asking ---- */

static void refuse(mca_btl_ibx_udp_endpoint_t *endpoint)
{
    endpoint->reach = IW_REACH_NO;
    endpoint->base.is_refused = true;
    endpoint->base.is_dead = true;
    mca_btl_ibx_udp_part(&endpoint->base);
}

static iw_contact_t contact_with(const mca_btl_ibx_udp_endpoint_t *endpoint)
{
    return NULL == endpoint->peer ? IW_CONTACT_NONE : iw_peer_contact(endpoint->peer);
}

/* A process of another job, spawned or connected to, may be in its MPI_Init for long, where it does not answer. */
static bool is_of_this_job(const mca_btl_ibx_udp_endpoint_t *endpoint)
{
    return endpoint->base.proc->proc_name.jobid == opal_proc_local_get()->proc_name.jobid;
}

/* So many questions in vain are enough. lock is held. */
static uint32_t patience(mca_btl_ibx_udp_endpoint_t *endpoint, iw_contact_t contact)
{
    const mca_btl_ibx_udp_module_t *module = module_of(endpoint);
    return iw_reach_patience(&module->net, host_of(endpoint), contact,
                             iw_port_promise(module->port, &endpoint->address));
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
    if (!endpoint->is_remote || !is_of_this_job(endpoint) || IW_REACH_NONE != endpoint->reach) {
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
            mca_btl_ibx_udp_flush(module_of(endpoint));
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

/* Those that nobody wants to know of yet tell of the others of their hosts. */
static void note_answers(mca_btl_ibx_udp_module_t *module)
{
    for (uint32_t i = 0; i < module->early_n; ++i) {
        note_answer(module->early[i]);
    }
}

/* As soon as it is known where they are, some processes are asked, and nobody waits. What the others published must be here:
 * to fetch it would take longer than what is gained. */
static void begin_early(void)
{
    const uint32_t n = mca_btl_ibx_job_size();
    opal_process_name_t name = OPAL_PROC_MY_NAME;
    const uint32_t me = name.vpid;
    for (unsigned i = 0; n > mca_btl_ibx_local_ranks() && mca_btl_ibx_modex_is_here(); ++i) {
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
        note_answers(module);
    }
}

static void judge_all(mca_btl_ibx_udp_endpoint_t **endpoint, size_t n)
{
    for (size_t i = 0; i < n; ++i) {
        if (IW_REACH_ASKS == endpoint[i]->reach) {
            judge(endpoint[i]);
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
    mca_btl_ibx_udp_endpoint_t **asked =
        0 == most || !has_other_transport() ? NULL : malloc(most * sizeof(*asked));
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
        judge_all(asked, open);
    }
    free(asked);
}
