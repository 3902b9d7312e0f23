/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See fake_verbs.h. Queue pairs without a connection: datagrams, which are lost, doubled and late on demand. */
#include "fake_objects.h"

#include <net/if.h>

/* ---- datagrams ---- */

typedef struct {
    struct ibv_ah ah;
    bool is_global;
} ah_t;

typedef struct {
    item_t super;
    uint32_t from, to, qkey;
    uint16_t pkey_index;
    bool is_global;
    struct ibv_context *context; /* of who sent it */
    unsigned passes; /* until so many others have overtaken it */
    size_t size;
    char data[];
} datagram_t;

static queue_t held_back;
static uint64_t dice;

void fake_datagrams_reset(void)
{
    dice = 0;
}

static unsigned percent(void)
{
    dice = dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407) + fake.seed;
    return (unsigned) (dice >> 33) % 100;
}

static void arrive(const datagram_t *d)
{
    qp_t *qp = fake_qp_of(d->to, IBV_QPT_UD);
    if (NULL == qp || qp->is_broken || IBV_QPS_INIT == qp->state || IBV_QPS_RESET == qp->state) {
        return;
    }
    const unsigned partition = 0 == fake.partition ? 0 : FAKE_PARTITION;
    if (partition != d->pkey_index || partition != qp->pkey_index || (fake.needs_grh && !d->is_global)
        || (fake.subnets && d->context != qp->qp.context)) {
        ++fake.astray;
        return;
    }
    if (d->qkey != qp->qkey) {
        ++fake.refused;
        return;
    }
    receive_t *r = fake_take_receive(qp);
    if (NULL == r) {
        ++fake.unheard;
        return;
    }
    const bool fits =
        d->size + 40 <= r->sge.length
        && fake_is_allowed(r->sge.lkey, r->sge.addr, d->size + 40, IBV_ACCESS_LOCAL_WRITE);
    if (fits) {
        memset((void *) (uintptr_t) r->sge.addr, 0xee, 40);
        memcpy((void *) (uintptr_t) (r->sge.addr + 40), d->data, d->size);
        guard(&r->sge, d->size + 40);
    }
    fake_complete(qp->qp.recv_cq, r->wr_id, qp->qp.qp_num,
                  fits ? IBV_WC_SUCCESS : IBV_WC_LOC_LEN_ERR, d->size + 40);
    free(r);
}

/* Those that enough others have passed. */
static void release_held(void)
{
    for (unsigned n = held_back.n; n > 0; --n) {
        datagram_t *d = take(&held_back);
        if (0 == d->passes || 0 == --d->passes) {
            arrive(d);
            free(d);
        } else {
            put(&held_back, &d->super);
        }
    }
}

int fake_post_datagrams(qp_t *qp, struct ibv_send_wr *wr)
{
    if (IBV_QPS_RTS != qp->state) {
        return EINVAL;
    }
    for (; NULL != wr; wr = wr->next) {
        sending_t *s = fake_gather(wr);
        ++fake.datagrams;
        if (NULL == s) {
            fake_complete(qp->qp.send_cq, wr->wr_id, qp->qp.qp_num, IBV_WC_LOC_PROT_ERR, 0);
            return 0;
        }
        if (s->size > 128u << fake.mtu) {
            ++fake.too_long;
        } else if (!qp->is_broken && percent() >= fake.lost) {
            datagram_t *d = malloc(sizeof(*d) + s->size);
            *d = (datagram_t){.from = qp->qp.qp_num,
                              .to = wr->wr.ud.remote_qpn,
                              .qkey = wr->wr.ud.remote_qkey,
                              .pkey_index = qp->pkey_index,
                              /* a forger of the fuzzers has no address handle */
                              .is_global = NULL != wr->wr.ud.ah && ((ah_t *) wr->wr.ud.ah)->is_global,
                              .context = qp->qp.context,
                              .size = s->size};
            memcpy(d->data, s->data, s->size);
            for (unsigned copies = percent() < fake.twice ? 2 : 1; copies > 0; --copies) {
                release_held();
                if (percent() >= fake.late) {
                    arrive(d);
                } else {
                    datagram_t *later = malloc(sizeof(*d) + s->size);
                    memcpy(later, d, sizeof(*d) + s->size);
                    later->passes = 1 + percent() % 8;
                    put(&held_back, &later->super);
                }
            }
            free(d);
        }
        if (s->is_signalled) {
            fake_complete(qp->qp.send_cq, s->wr_id, qp->qp.qp_num, IBV_WC_SUCCESS, s->size);
        }
        free(s);
    }
    return 0;
}

void fake_mute(unsigned node)
{
    for (qp_t *qp = fake_qps; NULL != qp; qp = qp->next) {
        qp->is_broken |= IBV_QPT_UD == qp->qp.qp_type && qp->qp.context == &fake_nodes[node].context;
    }
}

void fake_break_datagrams(unsigned node)
{
    for (qp_t *qp = fake_qps; NULL != qp; qp = qp->next) {
        if (IBV_QPT_UD == qp->qp.qp_type && qp->qp.context == &fake_nodes[node].context) {
            fake_break_pair(qp);
        }
    }
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    const bool is_ud = IBV_QPT_UD == attr->qp_type;
    if (is_ud ? fake.no_datagrams : fake.no_queue_pairs) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    if (!is_ud) {
        if ((int) attr->cap.max_inline_data > fake.max_inline || 0 == fake.queue_pairs_left) {
            errno = 0 == fake.queue_pairs_left ? ENOMEM : EINVAL;
            return NULL;
        }
        fake.queue_pairs_left -= fake.queue_pairs_left > 0;
    }
    return &fake_qp_new(pd, attr, attr->qp_type, ++fake_next_number)->qp;
}
int ibv_destroy_qp(struct ibv_qp *gone)
{
    fake_qp_free((qp_t *) gone);
    for (const qp_t *qp = fake_qps; NULL != qp; qp = qp->next) {
        if (IBV_QPT_UD == qp->qp.qp_type) {
            return 0;
        }
    }
    clear(&held_back);
    return 0;
}
struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    if (fake.no_ways || (!fake.is_infiniband && !attr->is_global)) { /* RoCE routes by GID alone */
        errno = EINVAL;
        return NULL;
    }
    ah_t *ah = calloc(1, sizeof(*ah));
    ah->ah.pd = pd;
    ah->is_global = attr->is_global;
    ++fake.address_handles;
    fake.service_level = attr->sl;
    fake.traffic_class = attr->is_global ? attr->grh.traffic_class : 0;
    return &ah->ah;
}
int ibv_destroy_ah(struct ibv_ah *ah)
{
    free(ah);
    --fake.address_handles;
    return 0;
}
/* 0 is RoCE v1 and 1 v2 of another address, 2 is that of the node. */
int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
                      struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
    const uint32_t n = (uint32_t) ((node_t *) context - fake_nodes);
    (void) port, (void) flags, (void) size;
    memset(entry, 0, sizeof(*entry));
    if (fake.no_gid || index > 2) {
        return ENODATA;
    }
    entry->ndev_ifindex = if_nametoindex("lo");
    entry->gid_type = index > 0 ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1;
    if (fake.is_infiniband) {
        entry->gid_type = IBV_GID_TYPE_IB;
    }
    if (fake.no_addresses) { /* of the link, and perhaps a global one */
        entry->gid.raw[0] = 2 == index ? 0x20 : 0xfe;
        entry->gid.raw[1] = 2 == index ? 0x01 : 0x80;
        entry->gid.raw[7] = fake.subnets ? (uint8_t) n : 0;
        entry->gid.raw[15] = (uint8_t) n;
        return 2 == index && !fake.has_ipv6 ? ENODATA : 0;
    }
    const uint32_t address = htonl(0x0a000000u + (2 == index ? n : 99));
    entry->gid.raw[10] = entry->gid.raw[11] = 0xff;
    memcpy(entry->gid.raw + 12, &address, 4);
    entry->gid.raw[7] = fake.subnets ? (uint8_t) n : 0;
    return 0;
}
