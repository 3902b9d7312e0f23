/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Rings of a port (vb_ring.h): which peers get one, and messages that arrive in them. */
#include "vb_internal.h"
#include "vb_hybrid.h"

#include <stdlib.h>
#include <string.h>

#define PAGE 4096u

/* The memory, cleared: number 0 is never due. False: not now. */
static bool open_ring(vb_link_t *link)
{
    vb_port_t *port = link->peer->port;
    const size_t size = (size_t) port->config.ring_slots * port->config.ring_slot;
    const size_t bytes = (size + PAGE - 1) & ~(size_t) (PAGE - 1);
    char *memory = aligned_alloc(PAGE, bytes);
    if (NULL == memory) {
        return false;
    }
    memset(memory, 0, bytes);
    link->ring_mr =
        ibv_reg_mr(port->pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (NULL == link->ring_mr) {
        free(memory);
        return false;
    }
    vb_ring_open(&link->ring_in, memory, port->config.ring_slots, port->config.ring_slot);
    link->next_ring = port->rings;
    port->rings = link;
    ++port->rings_n;
    ++port->counters.rings;
    port->counters.registered += bytes;
    if (port->counters.registered > port->counters.registered_most) {
        port->counters.registered_most = port->counters.registered;
    }
    link->owes_grant = true;
    return true;
}

void vb_link_short(vb_link_t *link, uint32_t length)
{
    const vb_port_t *port = link->peer->port;
    if (link->owes_grant) {
        link->owes_grant = !vb_post_control(link, VB_GRANT);
    }
    if (vb_ring_is_due(&link->ring_in)) { /* there was no room for it before */
        (void) vb_post_control(link, VB_CREDIT);
    }
    if (NULL != link->ring_in.memory || vb_ring_space(length) > port->config.ring_slot
        || ++link->shorts < port->config.ring_after || port->rings_n >= port->config.ring_peers
        || VB_OPEN != link->peer->conn.state) {
        return;
    }
    link->shorts = 0; /* if it fails: not at once again */
    if (open_ring(link)) {
        link->owes_grant = !vb_post_control(link, VB_GRANT);
    }
}

int vb_link_take_ring(vb_link_t *link, vb_received_t *received, int max)
{
    vb_port_t *port = link->peer->port;
    int messages = 0;
    uint32_t length, number;
    const vb_hdr_t *wire;
    while (messages < max && !link->is_distrusted
           && NULL
                  != (wire = vb_ring_take(&link->ring_in, link->arrived, &length, &number,
                                          &port->counters.ring_torn))) {
        vb_hdr_t hdr;
        memcpy(&hdr, wire, sizeof(hdr));
        if (VB_MESSAGE != hdr.type || !vb_hybrid_has_left(link->peer)
            || hdr.written != (uint8_t) (number - 1) || !vb_ring_freed(&link->ring_out, hdr.freed)
            || !vb_credit_got(&link->credit, le16toh(hdr.credits), le16toh(hdr.seen), false)) {
            vb_link_break_off(link, "it wrote something that is no message of this version");
            break;
        }
        ++port->counters.received;
        ++port->counters.ring_received;
        ++link->delivering;
        received[messages++] = (vb_received_t){.peer = link->peer,
                                               .data = (void *) (uintptr_t) (wire + 1),
                                               .length = length - (uint32_t) sizeof(hdr),
                                               .tag = hdr.tag,
                                               .link = link,
                                               .in_ring = true,
                                               .buffer = number};
    }
    return messages;
}

void vb_link_return_ring(vb_link_t *link, uint32_t number)
{
    (void) vb_ring_return(&link->ring_in, number);
    if (vb_ring_is_due(&link->ring_in) && VB_OPEN == link->peer->conn.state) {
        (void) vb_post_control(link, VB_CREDIT);
    }
}

void vb_link_close_ring(vb_link_t *link)
{
    vb_port_t *port = link->peer->port;
    if (NULL == link->ring_in.memory) {
        return;
    }
    for (vb_link_t **at = &port->rings; NULL != *at; at = &(*at)->next_ring) {
        if (*at == link) {
            *at = link->next_ring;
            break;
        }
    }
    --port->rings_n;
}
