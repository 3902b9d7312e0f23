/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Asks processes of other hosts over UDP whether they are reached, and tells of those that are not. */
#include "udp/btl_ibx_udp_reach.h"

#include "btl_ibx_endpoint.h"
#include "udp/btl_ibx_udp.h"
#include "udp/btl_ibx_udp_endpoint.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define MS       UINT64_C(1000000)
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

/* ---- telling ---- */

/* Both ends come to the same, and one of them tells. */
static bool is_mine_to_tell(const mca_btl_ibx_udp_endpoint_t *endpoint)
{
    const int order = strcmp(mca_btl_ibx_host(), mca_btl_ibx_host_of(endpoint->base.proc));
    return 0 != order ? order < 0
                      : mca_btl_ibx_name_of(opal_proc_local_get()) < endpoint->base.name;
}

static void tell(const mca_btl_ibx_udp_endpoint_t *endpoint, bool is_heard, uint64_t now)
{
    const char *host = mca_btl_ibx_host_of(endpoint->base.proc);
    const char *what = is_heard ? "datagrams from there arrive here, but no answer to ours"
                                : "nothing came from there";
    const unsigned ms = (unsigned) ((now - endpoint->reach.began) / MS);
    char path[256], from[96], to[96];
    (void) mca_btl_ibx_address_text(iw_port_address(module_of(endpoint)->port), from, sizeof(from));
    (void) mca_btl_ibx_address_text(&endpoint->address, to, sizeof(to));
    opal_output_verbose(1, opal_btl_base_framework.framework_output,
                        "btl/ibx: process %s on host %s is left to other transports: %u datagrams "
                        "in %u ms from %s to %s, %s",
                        OPAL_NAME_PRINT(endpoint->base.proc->proc_name), host,
                        endpoint->reach.asked, ms, from, to, what);
    path_name(endpoint, path, sizeof(path));
    if (spec_tell_once(path) && is_mine_to_tell(endpoint)) {
        spec_explain_now("help-mpi-btl-ibx.txt", "path blocked", mca_btl_ibx_host(), host, from, to,
                         endpoint->reach.asked, ms, what);
    }
}

/* ---- asking ---- */

static void refuse(mca_btl_ibx_udp_endpoint_t *endpoint)
{
    endpoint->reach.verdict = IW_REACH_NO;
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

/* True: it is to be asked. One of a host that was asked in vain, and has not spoken itself, is not. */
static bool begins(mca_btl_ibx_udp_endpoint_t *endpoint)
{
    char path[256];
    mca_btl_ibx_module_t *module = endpoint->base.module;
    if (!endpoint->is_remote || !is_of_this_job(endpoint) || IW_REACH_NONE != endpoint->reach.verdict) {
        return false; /* only callers of this change that, and Open MPI lets in one at a time */
    }
    path_name(endpoint, path, sizeof(path));
    const bool is_known = spec_is_told(path);
    mca_btl_ibx_lock(module);
    const bool is_new = !endpoint->base.is_dead;
    const bool in_vain = is_new && is_known && IW_CONTACT_NONE == contact_with(endpoint);
    if (in_vain) {
        refuse(endpoint);
    } else if (is_new) {
        iw_reach_begin(&endpoint->reach, iw_port_now());
    }
    mca_btl_ibx_unlock(module);
    return is_new && !in_vain;
}

/* True: it is not decided. */
static bool goes_on(mca_btl_ibx_udp_endpoint_t *endpoint)
{
    mca_btl_ibx_module_t *module = endpoint->base.module;
    mca_btl_ibx_lock(module);
    const bool is_ended = NULL == mca_btl_ibx_udp_peer(&endpoint->base);
    const iw_contact_t contact = is_ended ? IW_CONTACT_ENDED : contact_with(endpoint);
    const uint64_t now = iw_port_now();
    if (iw_reach_step(&endpoint->reach, now, contact)) {
        iw_peer_ask(endpoint->peer);
        mca_btl_ibx_udp_flush(module_of(endpoint));
    }
    const iw_reach_verdict_t verdict = (iw_reach_verdict_t) endpoint->reach.verdict;
    if (IW_REACH_NO == verdict) {
        refuse(endpoint);
    }
    mca_btl_ibx_unlock(module);
    if (IW_REACH_NO == verdict) {
        tell(endpoint, IW_CONTACT_HEARD == contact, now);
    }
    return IW_REACH_ASKS == verdict;
}

/* What came goes to the engines, and no further. */
static void take_in(void)
{
    struct pollfd fd[MCA_BTL_IBX_INTERFACES];
    (void) poll(fd, (nfds_t) mca_btl_ibx_udp_sockets(fd), PAUSE_MS);
    for (uint32_t i = 0; i < mca_btl_ibx_udp_modules_n; ++i) {
        mca_btl_ibx_udp_module_t *module = mca_btl_ibx_udp_modules[i];
        mca_btl_ibx_udp_lock(module);
        (void) iw_port_progress(module->port, module->engine);
        mca_btl_ibx_udp_unlock(module);
        mca_btl_ibx_meet_strangers(&module->base);
    }
}

void mca_btl_ibx_udp_reach(size_t n, opal_proc_t **procs)
{
    const size_t most = n * mca_btl_ibx_udp_modules_n;
    mca_btl_ibx_udp_endpoint_t **asked =
        0 == most || !has_other_transport() ? NULL : malloc(most * sizeof(*asked));
    size_t open = 0;
    for (size_t i = 0; NULL != asked && i < most; ++i) {
        mca_btl_ibx_udp_module_t *module = mca_btl_ibx_udp_modules[i / n];
        mca_btl_base_endpoint_t *endpoint = mca_btl_ibx_endpoint_of(&module->base, procs[i % n]);
        if (NULL != endpoint && begins((mca_btl_ibx_udp_endpoint_t *) endpoint)) {
            asked[open++] = (mca_btl_ibx_udp_endpoint_t *) endpoint;
        }
    }
    while (open > 0) {
        size_t left = 0;
        for (size_t i = 0; i < open; ++i) {
            if (goes_on(asked[i])) {
                asked[left++] = asked[i];
            }
        }
        open = left;
        if (open > 0) {
            take_in();
        }
    }
    free(asked);
}
