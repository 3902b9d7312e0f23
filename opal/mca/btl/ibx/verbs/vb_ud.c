/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See vb_ud.h. */
#include "vb_ud.h"
#include "vb_internal.h"

#include <errno.h>
#include <stdlib.h>

#define RENEWALS 16u /* of a queue pair; one that breaks again and again would keep the thread busy */

bool vb_ud_find(vb_ud_t *ud, vb_port_t *port, char *why, size_t size)
{
    *ud = (vb_ud_t){.port = port};
    if (!vb_address_find(&ud->address, port, why, size)) {
        return false;
    }
    ud->own = (vb_dgram_address_t){.qkey = port->config.datagram.qkey & 0x7fffffffu, .lid = ud->address.lid};
    memcpy(ud->own.gid, ud->address.gid, sizeof(ud->own.gid));
    return true;
}

bool vb_ud_open(vb_ud_t *ud, struct ibv_comp_channel *notices, void *context, uint32_t slot_size, uint32_t receives, char *why,
                size_t size)
{
    vb_port_t *port = ud->port;
    const uint32_t entries = receives + VB_UD_SLOTS;
    const size_t bytes = (size_t) VB_UD_SLOTS * slot_size;
    vb_sendq_init(&ud->sendq, VB_UD_SLOTS);
    ud->slot_size = slot_size;
    ud->cq = ibv_create_cq(port->context, (int) entries, context, notices, 0);
    if (NULL == ud->cq) {
        return vb_fails(why, size, "no completion queue of %u entries: %s", entries, strerror(errno));
    }
    ud->qp = vb_address_datagrams(&ud->address, port, ud->cq, VB_UD_SLOTS, receives, ud->own.qkey);
    if (NULL == ud->qp) {
        return vb_fails(why, size, "no UD queue pair: %s", strerror(errno));
    }
    ud->own.number = ud->qp->qp_num;
    ud->slots = aligned_alloc(64, (bytes + 63) & ~(size_t) 63);
    ud->slots_mr = NULL == ud->slots ? NULL : ibv_reg_mr(port->pd, ud->slots, bytes, IBV_ACCESS_LOCAL_WRITE);
    return NULL != ud->slots_mr || vb_fails(why, size, "%zu bytes for datagrams cannot be registered (ulimit -l?)", bytes);
}

void vb_ud_close(vb_ud_t *ud)
{
    if (NULL != ud->qp) {
        (void) ibv_destroy_qp(ud->qp);
    }
    for (uint32_t i = 0; i < ud->targets; ++i) {
        if (NULL != ud->target[i].ah) {
            (void) ibv_destroy_ah(ud->target[i].ah);
        }
    }
    free(ud->target);
    if (NULL != ud->slots_mr) {
        (void) ibv_dereg_mr(ud->slots_mr);
    }
    free(ud->slots);
    if (NULL != ud->cq) {
        (void) ibv_destroy_cq(ud->cq);
    }
}

/* ---- address handles ---- */

/* Those parted from that nothing names any more. */
static void free_parted(vb_ud_t *ud)
{
    for (uint32_t i = 0; ud->parted > 0 && i < ud->targets; ++i) {
        vb_ud_target_t *target = &ud->target[i];
        if (target->is_parted && (int32_t) (ud->sendq.una - target->until) >= 0) {
            (void) ibv_destroy_ah(target->ah);
            *target = (vb_ud_target_t){.ah = NULL};
            --ud->parted;
        }
    }
}

/* NULL: no memory. */
static vb_ud_target_t *free_target(vb_ud_t *ud)
{
    uint32_t at = 0;
    while (at < ud->targets && NULL != ud->target[at].ah) {
        ++at;
    }
    if (at == ud->targets) {
        const uint32_t room = 0 == at ? 16 : 2 * at;
        vb_ud_target_t *table = realloc(ud->target, room * sizeof(*table));
        if (NULL == table) {
            return NULL;
        }
        memset(table + at, 0, (room - at) * sizeof(*table));
        ud->target = table;
        ud->targets = room;
    }
    return &ud->target[at];
}

uint32_t vb_ud_meet(vb_ud_t *ud, const vb_dgram_address_t *there)
{
    struct ibv_ah_attr attr;
    errno = ENETUNREACH;
    vb_ud_target_t *target =
        vb_address_route(&ud->address, ud->port, there->lid, there->gid, &attr) ? free_target(ud) : NULL;
    struct ibv_ah *ah = NULL == target ? NULL : ibv_create_ah(ud->port->pd, &attr);
    if (NULL == ah) {
        return 0;
    }
    *target = (vb_ud_target_t){.ah = ah, .number = there->number, .qkey = there->qkey};
    return 1 + (uint32_t) (target - ud->target);
}

/* NULL: there is none of this number. */
static vb_ud_target_t *target_of(const vb_ud_t *ud, uint32_t number)
{
    vb_ud_target_t *target = 0 == number || number > ud->targets ? NULL : &ud->target[number - 1];
    return NULL == target || NULL == target->ah || target->is_parted ? NULL : target;
}

void vb_ud_part(vb_ud_t *ud, uint32_t number)
{
    vb_ud_target_t *target = target_of(ud, number);
    if (NULL != target) {
        target->is_parted = true;
        target->until = ud->sendq.nxt;
        ++ud->parted;
        free_parted(ud);
    }
}

/* ---- sending ---- */

char *vb_ud_slot(vb_ud_t *ud)
{
    return vb_sendq_has_room(&ud->sendq, 1, 0) ? ud->slots + (size_t) (ud->sendq.nxt % VB_UD_SLOTS) * ud->slot_size : NULL;
}

bool vb_ud_send(vb_ud_t *ud, uint32_t number, uint32_t length, bool is_signalled)
{
    const vb_ud_target_t *target = target_of(ud, number);
    if (NULL == target) {
        return true; /* lost on the way, as datagrams are */
    }
    struct ibv_sge sge = {.addr = (uintptr_t) vb_ud_slot(ud), .length = length, .lkey = ud->slots_mr->lkey};
    struct ibv_send_wr wr = {
        .wr_id = vb_wr_id(false, ud->renewals, ud->sendq.nxt),
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = IBV_WR_SEND,
        .send_flags = is_signalled ? IBV_SEND_SIGNALED : 0,
        .wr.ud = {.ah = target->ah, .remote_qpn = target->number, .remote_qkey = target->qkey}};
    struct ibv_send_wr *bad;
    if (0 != ibv_post_send(ud->qp, &wr, &bad)) {
        return false;
    }
    (void) vb_sendq_post(&ud->sendq, is_signalled);
    return true;
}

/* A local error stops the send queue: go on with it, what was in it is lost. */
bool vb_ud_sent(vb_ud_t *ud, const struct ibv_wc *wc)
{
    const uint32_t number = vb_wr_number(wc->wr_id);
    const bool is_good = IBV_WC_SUCCESS == wc->status;
    if (vb_wr_generation(wc->wr_id) != ud->renewals) {
        return is_good; /* of before a renewal */
    }
    if (!is_good) {
        struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS};
        (void) ibv_modify_qp(ud->qp, &rts, IBV_QP_STATE);
    }
    if (vb_sendq_is_outstanding(&ud->sendq, number)) {
        ud->sendq.una = number + 1;
    }
    free_parted(ud);
    return is_good;
}

bool vb_ud_renew(vb_ud_t *ud)
{
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
    if (ud->renewals >= RENEWALS || 0 != ibv_modify_qp(ud->qp, &reset, IBV_QP_STATE)
        || !vb_address_ready(&ud->address, ud->port, ud->qp, ud->own.qkey)) {
        return false;
    }
    ++ud->renewals;
    ud->sendq.una = ud->sendq.nxt;
    ud->sendq.silent = 0;
    free_parted(ud);
    return true;
}
