/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* LID, GID and partition of a port; ways to others; queue pairs without rdma_cm. */
#include "vb_address.h"
#include "vb_internal.h"

#include <errno.h>

/* How well a GID of RoCE is suited: 0 not at all. Of a port with an IPv4 address it is that (annex A17 maps it); else a
 * global one, by which networks can be told apart, before that of the link. */
static unsigned suits(const vb_port_t *port, const struct ibv_gid_entry *entry)
{
    struct in6_addr gid;
    memcpy(&gid, entry->gid.raw, sizeof(gid));
    if (IBV_GID_TYPE_ROCE_V2 != entry->gid_type) {
        return 0;
    }
    if (AF_INET == port->config.address.sin_family) {
        return IN6_IS_ADDR_V4MAPPED(&gid)
               && 0 == memcmp(gid.s6_addr + 12, &port->config.address.sin_addr, 4);
    }
    return IN6_IS_ADDR_UNSPECIFIED(&gid) || IN6_IS_ADDR_V4MAPPED(&gid) ? 0
           : IN6_IS_ADDR_LINKLOCAL(&gid)                               ? 1
                                                                       : 2;
}

/* InfiniBand has one at 0. */
static bool find_gid(vb_address_t *address, const vb_port_t *port, const struct ibv_port_attr *attr)
{
    unsigned best = 0;
    for (int i = 0; i < attr->gid_tbl_len && i < 256; ++i) {
        struct ibv_gid_entry entry;
        if (0 != ibv_query_gid_ex(port->context, port->able.port, (uint32_t) i, &entry, 0)) {
            continue;
        }
        const unsigned how = VB_INFINIBAND == port->able.fabric ? 1 : suits(port, &entry);
        if (how > best) {
            best = how;
            memcpy(address->gid, entry.gid.raw, sizeof(address->gid));
            address->gid_index = (uint8_t) i;
        }
    }
    return best > 0;
}

/* The partition of the port's address, which is that of the connections: an interface may be in another one than the
 * first of the port's table, which is for a port without an address. False: the port is not in it. */
static bool find_partition(vb_address_t *address, const vb_port_t *port,
                           const struct ibv_port_attr *attr)
{
    enum { IS_FULL_MEMBER = 0x8000 };
    const uint16_t wanted =
        NULL == port->listener ? 0 : ntohs(port->listener->route.addr.addr.ibaddr.pkey);
    if (VB_INFINIBAND != port->able.fabric || 0 == wanted) { /* elsewhere there is only one */
        return true;
    }
    bool found = false;
    for (int i = 0; i < attr->pkey_tbl_len; ++i) {
        uint16_t key = 0;
        if (0 != ibv_query_pkey(port->context, port->able.port, i, &key)
            || 0 != ((ntohs(key) ^ wanted) & ~IS_FULL_MEMBER)) {
            continue;
        }
        /* Limited members do not hear each other. */
        if (!found || ntohs(key) & IS_FULL_MEMBER) {
            address->pkey_index = (uint16_t) i;
            found = true;
        }
    }
    return found;
}

bool vb_address_find(vb_address_t *address, const vb_port_t *port, char *why, size_t size)
{
    struct ibv_port_attr attr;
    memset(&attr, 0, sizeof(attr));
    *address = (vb_address_t){.mtu = 0};
    if (0 != ibv_query_port(port->context, port->able.port, &attr)) {
        return vb_fails(why, size, "its port does not say what it can");
    }
    address->lid = attr.lid;
    address->needs_grh = 0 != (attr.flags & IBV_QPF_GRH_REQUIRED);
    address->mtu = (uint8_t) attr.active_mtu;
    return (find_gid(address, port, &attr)
            || vb_fails(why, size, "it has no GID of its %s",
                        AF_INET == port->config.address.sin_family ? "IPv4 address"
                                                                   : "own for RoCE v2"))
           && (find_partition(address, port, &attr)
               || vb_fails(why, size, "the partition of its address is not in its P_Key table"));
}

/* A LID is one of its subnet; which one leads to a router, only the subnet's manager knows, which connections ask. */
static bool is_in_my_subnet(const vb_address_t *address, uint16_t lid, const uint8_t *gid)
{
    enum { PREFIX = 8, UNICAST = 0xc000 }; /* LIDs from there on are of groups (4.1.3) */
    return 0 == memcmp(address->gid, gid, PREFIX) && lid > 0 && lid < UNICAST;
}

bool vb_address_route(const vb_address_t *address, const vb_port_t *port, uint16_t lid,
                      const uint8_t *gid, struct ibv_ah_attr *attr)
{
    const bool is_infiniband = VB_INFINIBAND == port->able.fabric;
    if (is_infiniband && !is_in_my_subnet(address, lid, gid)) {
        return false;
    }
    *attr = (struct ibv_ah_attr){
        .dlid = lid, .sl = port->config.service_level, .port_num = port->able.port};
    if (!is_infiniband || address->needs_grh) {
        attr->is_global = 1;
        attr->grh.sgid_index = address->gid_index;
        attr->grh.hop_limit = 64;
        attr->grh.traffic_class = port->config.traffic_class;
        memcpy(attr->grh.dgid.raw, gid, sizeof(attr->grh.dgid.raw));
    }
    return true;
}

bool vb_address_ready(const vb_address_t *address, const vb_port_t *port, struct ibv_qp *qp,
                      uint32_t qkey)
{
    struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT,
                               .pkey_index = address->pkey_index,
                               .port_num = port->able.port,
                               .qkey = qkey};
    struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR};
    struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS};
    return 0
               == ibv_modify_qp(qp, &init,
                                IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)
           && 0 == ibv_modify_qp(qp, &rtr, IBV_QP_STATE)
           && 0 == ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

struct ibv_qp *vb_address_datagrams(const vb_address_t *address, vb_port_t *port, struct ibv_cq *cq,
                                    uint32_t sends, uint32_t receives, uint32_t qkey)
{
    struct ibv_qp_init_attr attr = {
        .qp_context = port,
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {.max_send_wr = sends,
                .max_recv_wr = receives,
                .max_send_sge = 1,
                .max_recv_sge = 1},
        .qp_type = IBV_QPT_UD,
    };
    struct ibv_qp *qp = ibv_create_qp(port->pd, &attr);
    if (NULL != qp && !vb_address_ready(address, port, qp, qkey)) {
        const int error = errno;
        (void) ibv_destroy_qp(qp);
        errno = error;
        return NULL;
    }
    return qp;
}

struct ibv_qp *vb_address_pair(const vb_address_t *address, const vb_port_t *port, struct ibv_qp_init_attr *attr)
{
    struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT,
                               .pkey_index = address->pkey_index,
                               .port_num = port->able.port,
                               .qp_access_flags =
                                   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE
                                   | (port->able.atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0)};
    struct ibv_qp *qp = ibv_create_qp(port->pd, attr);
    if (NULL == qp) {
        return NULL;
    }
    const int rc = ibv_modify_qp(
        qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    if (0 != rc) {
        (void) ibv_destroy_qp(qp);
        errno = rc;
        return NULL;
    }
    return qp;
}

/* InfiniBand specification, 10.3.1 and table 91. Returns 0, or an error of errno.h. */
static int connect_pair(const vb_address_t *address, const vb_port_t *port, struct ibv_qp *qp, uint32_t psn,
                       const vb_cm_message_t *there, const struct ibv_ah_attr *way)
{
    const vb_config_t *config = &port->config;
    struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
                              .path_mtu = (enum ibv_mtu) vb_least(address->mtu, there->mtu),
                              .dest_qp_num = there->pair,
                              .rq_psn = there->psn,
                              .ah_attr = *way,
                              .max_dest_rd_atomic =
                                  (uint8_t) vb_least(port->responder_resources, there->depth),
                              .min_rnr_timer = config->rnr_timer};
    struct ibv_qp_attr rts = {
        .qp_state = IBV_QPS_RTS,
        .sq_psn = psn,
        .timeout =
            0 == config->ack_timeout ? VB_ACK_TIMEOUT : config->ack_timeout, /* 0: for ever */
        .retry_cnt = config->retries,
        .rnr_retry = 7, /* for ever */
        .max_rd_atomic = (uint8_t) vb_least(port->initiator_depth, there->resources)};
    const int rc = ibv_modify_qp(qp, &rtr,
                                 IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN
                                     | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    return 0 != rc ? rc
                   : ibv_modify_qp(qp, &rts,
                                   IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT
                                       | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

bool vb_link_connect(vb_link_t *link, const vb_address_t *address, uint32_t psn, const vb_cm_message_t *there)
{
    vb_port_t *port = link->peer->port;
    struct ibv_ah_attr way;
    if (!vb_address_route(address, port, there->lid, there->gid, &way)) {
        ++port->counters.strangers;
        return vb_peer_why(link->peer, "it says that it is where no way leads to");
    }
    link->was_connected = true;
    const int rc = connect_pair(address, port, link->qp, psn, there, &way);
    return 0 == rc || vb_peer_why(link->peer, "the queue pair cannot be connected: %s", strerror(rc));
}

void vb_link_fail_pair(vb_link_t *link)
{
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
    if (NULL != link->qp) {
        (void) ibv_modify_qp(link->qp, &error, IBV_QP_STATE);
    }
}

void vb_link_destroy_pair(vb_link_t *link)
{
    if (NULL != link->qp) {
        (void) ibv_destroy_qp(link->qp);
    }
}
