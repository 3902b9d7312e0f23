/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Keeps what a connection that broke had not been told to be there, and posts it to the next (vb_sent.h has the rules). */
#include "vb_internal.h"

#include <stdlib.h>
#include <string.h>

static char *copy_of(const vb_link_t *link, uint32_t number)
{
    return link->copies + (size_t) (number % link->sendq.depth) * link->inline_max;
}

void vb_link_note(vb_link_t *link, uint32_t number, const struct ibv_send_wr *wr, unsigned flags)
{
    vb_request_t *request = &link->requests[number % link->sendq.depth];
    request->flags = (uint8_t) flags;
    request->pieces = (uint8_t) wr->num_sge;
    request->remote = wr->wr.rdma.remote_addr;
    request->rkey = wr->wr.rdma.rkey;
    if (!(flags & VB_INLINE)) {
        memcpy(request->piece, wr->sg_list, (size_t) wr->num_sge * sizeof(*wr->sg_list));
        return;
    }
    /* Its memory is used again at once. */
    char *to = copy_of(link, number);
    uint32_t size = 0;
    for (int i = 0; i < wr->num_sge; ++i) {
        memcpy(to + size, (const void *) (uintptr_t) wr->sg_list[i].addr, wr->sg_list[i].length);
        size += wr->sg_list[i].length;
    }
    request->pieces = 1;
    request->piece[0] = (struct ibv_sge){.addr = (uintptr_t) to, .length = size};
}

/* ---- keeping ---- */

/* Room for as many as a send queue has; a link's successor has no more than it had, since nothing new is posted before all
 * that was kept is. NULL: out of memory. */
static vb_kept_t *kept_new(const vb_link_t *link, const vb_kept_t *before)
{
    const uint32_t stride =
        NULL == before || before->stride < link->inline_max ? link->inline_max : before->stride;
    const size_t requests = sizeof(vb_kept_t) + link->sendq.depth * sizeof(vb_request_t);
    vb_kept_t *kept = malloc(requests + (size_t) link->sendq.depth * stride);
    if (NULL != kept) {
        *kept = (vb_kept_t){.stride = stride};
        kept->copies = (char *) kept + requests;
    }
    return kept;
}

static void keep(vb_kept_t *kept, const vb_request_t *request)
{
    vb_request_t *to = &kept->request[kept->n];
    *to = *request;
    if (request->flags & VB_INLINE) {
        char *copy = kept->copies + (size_t) kept->n * kept->stride;
        memcpy(copy, (const void *) (uintptr_t) request->piece[0].addr, request->piece[0].length);
        to->piece[0].addr = (uintptr_t) copy;
    }
    ++kept->n;
}

static bool has_atomics(const vb_link_t *link)
{
    bool has = false;
    for (uint32_t i = link->sendq.una; i != link->sendq.nxt; ++i) {
        const vb_request_t *request = &link->requests[i % link->sendq.depth];
        has |= !request->is_done && VB_SENT_ATOMIC == request->sent.kind;
    }
    return has;
}

bool vb_link_keep(vb_link_t *link)
{
    vb_peer_t *peer = link->peer;
    vb_kept_t *before = peer->kept;
    if (NULL == link->requests || 0 == vb_sendq_outstanding(&link->sendq)) {
        return true; /* what was kept before is as it was */
    }
    vb_kept_t *kept = has_atomics(link) ? NULL : kept_new(link, before);
    if (NULL == kept) {
        return vb_peer_why(peer, "its connection broke with %s under way",
                           has_atomics(link) ? "atomic operations"
                                             : "more than there is memory to keep");
    }
    for (uint32_t i = link->sendq.una; i != link->sendq.nxt; ++i) {
        vb_request_t *request = &link->requests[i % link->sendq.depth];
        if (!request->is_done && VB_SENT_CONTROL != request->sent.kind) {
            keep(kept, request);
        }
        request->user = NULL; /* whoever waits hears of it by the next link */
    }
    for (uint32_t i = NULL == before ? 0 : before->next; NULL != before && i < before->n; ++i) {
        if (!before->request[i].is_done) {
            keep(kept, &before->request[i]);
        }
    }
    free(before);
    peer->kept = kept;
    return true;
}

/* ---- the next connection ---- */

static void done(vb_peer_t *peer, vb_request_t *request, vb_status_t status)
{
    vb_port_t *port = peer->port;
    void *user = request->user;
    request->user = NULL;
    request->is_done = true;
    if (NULL != user) {
        port->config.done(port->config.context, peer, user, status);
    }
}

static bool is_unknown(const vb_request_t *request)
{
    return !request->is_done && VB_SENT_MESSAGE == request->sent.kind;
}

/* Those kept that were not posted again; these completed, or are the link's. */
static uint32_t first_kept(const vb_kept_t *kept)
{
    return NULL == kept ? 0 : kept->next;
}

/* Messages that were kept, and have no answer. */
static uint32_t unknown_kept(const vb_kept_t *kept)
{
    uint32_t unknown = 0;
    for (uint32_t i = first_kept(kept); NULL != kept && i < kept->n; ++i) {
        unknown += is_unknown(&kept->request[i]);
    }
    return unknown;
}

bool vb_peer_had_received(const vb_peer_t *peer, uint16_t received)
{
    const vb_link_t *link = peer->link;
    uint32_t unknown = unknown_kept(peer->kept);
    for (uint32_t i = NULL == link ? 0 : link->sendq.una; NULL != link && i != link->sendq.nxt; ++i) {
        unknown += is_unknown(&link->requests[i % link->sendq.depth]);
    }
    return (int16_t) (uint16_t) (received - (peer->messages_sent - unknown)) < 0;
}

bool vb_peer_has_received(vb_peer_t *peer, uint16_t received)
{
    vb_kept_t *kept = peer->kept;
    const uint32_t first = first_kept(kept);
    if (!vb_sent_is_possible(received, peer->messages_sent, unknown_kept(kept))) {
        return false;
    }
    for (uint32_t i = first; NULL != kept && i < kept->n; ++i) {
        vb_request_t *request = &kept->request[i];
        if (!request->is_done && vb_sent_has_arrived(request->sent, received)) {
            done(peer, request, VB_OK);
        }
    }
    return true;
}

static void free_kept(vb_peer_t *peer)
{
    free(peer->kept);
    peer->kept = NULL;
}

bool vb_link_post_again(vb_link_t *link)
{
    vb_peer_t *peer = link->peer;
    vb_kept_t *kept = peer->kept;
    if (NULL == kept) {
        return true;
    }
    if (VB_OPEN != peer->conn.state || peer->is_cut) {
        return false;
    }
    for (; kept->next < kept->n; ++kept->next) {
        const vb_request_t *request = &kept->request[kept->next];
        if (!request->is_done) {
            const vb_status_t status = vb_post_kept(link, request);
            if (VB_FAULT == status) {
                link->is_final = true;
                vb_peer_cut(peer);
                return vb_peer_why(peer, "the adapter does not take again what it took before");
            }
            if (VB_OK != status) {
                return false;
            }
            ++peer->port->counters.posted_again;
        }
    }
    free_kept(peer);
    return true;
}

void vb_peer_fail_kept(vb_peer_t *peer, vb_status_t status)
{
    vb_kept_t *kept = peer->kept;
    for (uint32_t i = first_kept(kept); NULL != kept && i < kept->n; ++i) {
        if (!kept->request[i].is_done) {
            done(peer, &kept->request[i], status);
        }
    }
    free_kept(peer);
}
