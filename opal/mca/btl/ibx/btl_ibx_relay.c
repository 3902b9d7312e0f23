/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See btl_ibx_relay.h. */
#include "btl_ibx_relay.h"

#define VERSION 1

/* Before the bytes. */
typedef struct relay_hdr {
    uint8_t version;
    uint8_t module; /* of the receiver */
    uint8_t reserved[6];
} relay_hdr_t;
_Static_assert(8 == sizeof(relay_hdr_t), "what follows is aligned");

/* Open MPI's tcp calls it unasked. */
static void sent(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *to, mca_btl_base_descriptor_t *des, int status)
{
    (void) btl, (void) to, (void) des, (void) status;
}

int mca_btl_ibx_relay_send(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *to, mca_btl_base_tag_t tag, uint8_t module,
                           const struct iovec *bytes, int pieces)
{
    const relay_hdr_t hdr = {.version = VERSION, .module = module};
    size_t length = sizeof(hdr);
    for (int i = 0; i < pieces; ++i) {
        length += bytes[i].iov_len;
    }
    mca_btl_base_descriptor_t *des =
        btl->btl_alloc(btl, to, MCA_BTL_NO_ORDER, length, MCA_BTL_DES_FLAGS_PRIORITY | MCA_BTL_DES_FLAGS_BTL_OWNERSHIP);
    if (NULL == des) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    char *at = des->des_segments[0].seg_addr.pval;
    memcpy(at, &hdr, sizeof(hdr));
    at += sizeof(hdr);
    for (int i = 0; i < pieces; ++i) {
        memcpy(at, bytes[i].iov_base, bytes[i].iov_len);
        at += bytes[i].iov_len;
    }
    des->des_cbfunc = sent;
    const int rc = btl->btl_send(btl, to, des, tag); /* above 0: it has left already */
    if (rc < 0) {
        btl->btl_free(btl, des);
    }
    return rc < 0 ? OPAL_ERR_UNREACH : OPAL_SUCCESS;
}

size_t mca_btl_ibx_relay_read(const mca_btl_base_segment_t *segment, size_t segments, uint32_t modules, uint8_t *module,
                              const uint8_t **bytes)
{
    relay_hdr_t hdr = {.version = 0};
    if (1 == segments && segment->seg_len > sizeof(hdr)) {
        memcpy(&hdr, segment->seg_addr.pval, sizeof(hdr));
    }
    const bool is_ours = VERSION == hdr.version && hdr.module < modules;
    *module = is_ours ? hdr.module : 0;
    *bytes = (const uint8_t *) segment->seg_addr.pval + sizeof(hdr);
    return is_ours ? segment->seg_len - sizeof(hdr) : 0;
}
