/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* When a fragment, or a job, is told of and free again, for both transports; messages of a process to itself. */
#include "btl_ibx_fragment.h"

#include "btl_ibx_endpoint.h"

#include "opal/include/spec/class.h"

static void frag_construct(mca_btl_ibx_frag_t *frag)
{
    frag->base.des_segments = frag->segment;
}

SPEC_CLASS(mca_btl_ibx_frag_t, mca_btl_base_descriptor_t, frag_construct, NULL);

int mca_btl_ibx_frag_free(mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *des)
{
    mca_btl_ibx_module_t *module = (mca_btl_ibx_module_t *) btl;
    mca_btl_ibx_frag_t *frag = (mca_btl_ibx_frag_t *) des;
    mca_btl_ibx_lock(module);
    const bool now = 0 == frag->users;
    frag->is_freed = true;
    mca_btl_ibx_unlock(module);
    if (now) {
        module->transport->frag_return(module, frag);
    }
    return OPAL_SUCCESS;
}

void mca_btl_ibx_frag_release(mca_btl_ibx_module_t *module, mca_btl_ibx_frag_t *frag)
{
    mca_btl_ibx_lock(module);
    const bool give_back = 0 == --frag->users;
    mca_btl_ibx_unlock(module);
    if (give_back) {
        module->transport->frag_return(module, frag);
    }
}

void mca_btl_ibx_frag_end(mca_btl_ibx_module_t *module, mca_btl_ibx_frag_t *frag)
{
    const bool tell = !frag->is_complete && NULL != frag->base.des_cbfunc;
    if (mca_btl_ibx_is_ours(&frag->base)) {
        if (tell) {
            frag->base.des_cbfunc(&module->super, frag->endpoint, &frag->base, frag->status);
        }
        mca_btl_ibx_frag_release(module, frag);
        return;
    }
    mca_btl_ibx_lock(module);
    --frag->users;
    const bool is_freed = frag->is_freed;
    mca_btl_ibx_unlock(module);
    if (is_freed) {
        module->transport->frag_return(module, frag);
    } else if (tell) {
        frag->base.des_cbfunc(&module->super, frag->endpoint, &frag->base, frag->status);
    }
}

int mca_btl_ibx_frag_to_self(mca_btl_ibx_module_t *module, mca_btl_ibx_frag_t *frag, mca_btl_base_tag_t tag)
{
    const mca_btl_base_segment_t *segment = frag->base.des_segments, *end = segment + frag->base.des_segment_count;
    size_t size = 0;
    for (const mca_btl_base_segment_t *s = segment; s < end; ++s) {
        size += s->seg_len;
    }
    char *copy = malloc(size + 1), *to = copy;
    if (NULL == copy) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    for (; segment < end; ++segment) {
        memcpy(to, segment->seg_addr.pval, segment->seg_len);
        to += segment->seg_len;
    }
    frag->users = 1;
    mca_btl_ibx_dispatch(&module->super, frag->endpoint, tag, copy, size);
    free(copy);
    mca_btl_ibx_frag_end(module, frag);
    return OPAL_SUCCESS;
}

/* One that waited does so no more. */
static void end_waiting(mca_btl_ibx_module_t *module, opal_list_t *waiting, opal_list_item_t *item, int rc)
{
    opal_list_remove_item(waiting, item);
    if (mca_btl_ibx_is_job(item)) {
        mca_btl_ibx_job_part_ended((mca_btl_ibx_job_t *) item, rc);
    } else if (OPAL_SUCCESS != rc) {
        ((mca_btl_ibx_frag_t *) item)->status = rc;
        opal_list_append(&module->ended, item);
    }
}

void mca_btl_ibx_post_waiting(mca_btl_ibx_module_t *module, opal_list_t *waiting)
{
    const mca_btl_ibx_transport_t *transport = module->transport;
    while (!opal_list_is_empty(waiting)) {
        opal_list_item_t *item = opal_list_get_first(waiting);
        const int rc = !mca_btl_ibx_is_job(item) ? transport->frag_post((mca_btl_ibx_frag_t *) item)
                       : transport->job_issue((mca_btl_ibx_job_t *) item) ? OPAL_SUCCESS
                                                                          : OPAL_ERR_RESOURCE_BUSY;
        if (OPAL_ERR_RESOURCE_BUSY == rc) {
            return;
        }
        end_waiting(module, waiting, item, rc);
    }
}

void mca_btl_ibx_drop_waiting(mca_btl_ibx_module_t *module, opal_list_t *waiting, const mca_btl_base_endpoint_t *endpoint)
{
    opal_list_item_t *item, *next;
    OPAL_LIST_FOREACH_SAFE (item, next, waiting, opal_list_item_t) {
        const mca_btl_base_endpoint_t *of = mca_btl_ibx_is_job(item) ? ((mca_btl_ibx_job_t *) item)->endpoint
                                                                     : ((mca_btl_ibx_frag_t *) item)->endpoint;
        if (of == endpoint) {
            end_waiting(module, waiting, item, OPAL_ERR_UNREACH);
        }
    }
}

void mca_btl_ibx_tell_ended(mca_btl_ibx_module_t *module)
{
    opal_list_item_t *item;
    while (NULL != (item = opal_list_remove_first(&module->ended))) {
        mca_btl_ibx_unlock(module);
        if (mca_btl_ibx_is_job(item)) {
            mca_btl_ibx_job_end(module, (mca_btl_ibx_job_t *) item);
        } else {
            mca_btl_ibx_frag_end(module, (mca_btl_ibx_frag_t *) item);
        }
        mca_btl_ibx_lock(module);
    }
}
