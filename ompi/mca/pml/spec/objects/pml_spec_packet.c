/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Copies of packets that must wait, and the refusal of packets that make no sense. */
#include "pml_spec_packet.h"

#include "pml_spec_explain.h"
#include "pml_spec_slabs.h"

#include "opal/include/spec/class.h"

SPEC_CLASS(mca_pml_spec_frag_t, opal_free_list_item_t, NULL, NULL);
SPEC_CLASS(mca_pml_spec_rtr_t, opal_free_list_item_t, NULL, NULL);

mca_pml_spec_frag_t *mca_pml_spec_frag_keep_for(const mca_pml_spec_packet_t *packet, size_t size)
{
    mca_pml_spec_frag_t *frag = (mca_pml_spec_frag_t *) mca_pml_spec_get(&mca_pml_spec.frags);
    void *data = NULL == frag                  ? NULL
                 : size <= sizeof(frag->space) ? frag->space
                                               : mca_pml_spec_slabs_take(size);
    if (OPAL_UNLIKELY(NULL == data)) {
        mca_pml_spec_no_memory("a message that no receive has asked for", size);
    }
    frag->btl = packet->btl;
    frag->seg.seg_addr.pval = data;
    frag->seg.seg_len = size;
    frag->in_parts = false;
    mca_pml_spec_packet_copy(packet, 0, data, packet->size);
    return frag;
}

void mca_pml_spec_frag_free(mca_pml_spec_frag_t *frag)
{
    if (frag->seg.seg_addr.pval != frag->space) {
        mca_pml_spec_slabs_put(frag->seg.seg_addr.pval, frag->seg.seg_len);
    }
    mca_pml_spec_put_back(&mca_pml_spec.frags, &frag->super);
}

void mca_pml_spec_refuse(const char *what, const char *why)
{
    static bool told;
    mca_pml_spec_refuse_late(what, why);
    if (!__atomic_exchange_n(&told, true, __ATOMIC_RELAXED)) {
        mca_pml_spec_explain("packet refused", spec_host_of(&ompi_proc_local()->super), what, why);
    }
}

void mca_pml_spec_refuse_late(const char *what, const char *why)
{
    MCA_PML_SPEC_COUNT(refused);
    MCA_PML_SPEC_VERBOSE(10, "refused %s: %s", what, why);
}
