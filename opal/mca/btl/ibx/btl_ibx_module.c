/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Modules and their transfers, as far as both transports have the same; puts and gets of a process to itself. */
#include "btl_ibx_module.h"

#include "opal/include/spec/class.h"
#include "opal/include/spec/parameters.h"

SPEC_CLASS(mca_btl_ibx_job_t, opal_free_list_item_t, NULL, NULL);

void mca_btl_ibx_module_construct(mca_btl_ibx_module_t *module, const mca_btl_ibx_transport_t *transport, uint32_t index,
                                  const mca_btl_ibx_interface_t *interface)
{
    module->transport = transport;
    module->index = index;
    module->interface = *interface;
    OBJ_CONSTRUCT(&module->endpoints, opal_list_t);
    OBJ_CONSTRUCT(&module->gone, opal_list_t);
    OBJ_CONSTRUCT(&module->ended, opal_list_t);
    OBJ_CONSTRUCT(&module->asking, opal_list_t);
    OBJ_CONSTRUCT(&module->jobs, opal_free_list_t);
    OBJ_CONSTRUCT(&module->by_name, opal_hash_table_t);
    opal_hash_table_init(&module->by_name, 64);
    ibx_told_init(&module->told, mca_btl_ibx_component.locked);
}

int mca_btl_ibx_module_jobs(mca_btl_ibx_module_t *module, size_t size, opal_class_t *class)
{
    return opal_free_list_init(&module->jobs, size, opal_cache_line_size, class, 0, opal_cache_line_size, 0, -1, 32, NULL, 0,
                               NULL, NULL, NULL);
}

void mca_btl_ibx_module_destruct(mca_btl_ibx_module_t *module)
{
    for (uint32_t i = 0; i < module->strangers_n; ++i) {
        free(module->strangers[i].data);
    }
    OBJ_DESTRUCT(&module->jobs);
    OPAL_LIST_DESTRUCT(&module->endpoints);
    OPAL_LIST_DESTRUCT(&module->gone);
    OBJ_DESTRUCT(&module->by_name);
    OBJ_DESTRUCT(&module->ended);
    OBJ_DESTRUCT(&module->asking);
    ibx_told_fini(&module->told);
    free(module);
}

int mca_btl_ibx_register_error(mca_btl_base_module_t *btl, mca_btl_base_module_error_cb_fn_t callback)
{
    ((mca_btl_ibx_module_t *) btl)->error = callback;
    return OPAL_SUCCESS;
}

bool mca_btl_ibx_has_others(const char *list, uint32_t flags)
{
    const mca_btl_base_selected_module_t *selected;
    OPAL_LIST_FOREACH (selected, &mca_btl_base_modules_initialized, mca_btl_base_selected_module_t) {
        if (!mca_btl_ibx_names(list, selected->btl_component->btl_version.mca_component_name)
            && (0 == flags || 0 != (selected->btl_module->btl_flags & flags))) {
            return true;
        }
    }
    return false;
}

void mca_btl_ibx_open_cache(mca_btl_ibx_module_t *module, mca_rcache_base_resources_t *resources)
{
    static const char *const automatic[] = {"lazy", "grdma"};
    const char *wanted = mca_btl_ibx_component.rcache;
    const bool any = NULL == wanted || 0 == strcmp(wanted, "auto");
    module->rcache = NULL;
    if (!any && 0 == strcmp(wanted, "none")) {
        return;
    }
    for (size_t i = 0; NULL == module->rcache && i < (any ? 2u : 1u); ++i) {
        module->rcache = mca_rcache_base_module_create(any ? automatic[i] : wanted, module, resources);
    }
    if (NULL == module->rcache && !any) {
        spec_parameter_refuse(&mca_btl_ibx_component.super.btl_version, "rcache", wanted, MCA_BTL_IBX_CACHES);
    }
}

uint32_t mca_btl_ibx_promises_of_cache(const mca_rcache_base_module_t *rcache)
{
    const char *name = NULL == rcache ? "" : rcache->rcache_component->rcache_version.mca_component_name;
    return 0 == strcmp("lazy", name) ? MCA_BTL_IBX_PINS : 0;
}

mca_btl_base_registration_handle_t *mca_btl_ibx_register(mca_btl_ibx_module_t *module, void *base, size_t size,
                                                         int32_t access, uint32_t flags, uint32_t kind)
{
    mca_rcache_base_registration_t *found = NULL;
    const int rc = module->rcache->rcache_register(module->rcache, base, size, kind, access, &found);
    if (OPAL_UNLIKELY(OPAL_SUCCESS != rc || NULL == found)) {
        return NULL;
    }
    mca_btl_ibx_reg_t *reg = (mca_btl_ibx_reg_t *) found;
    if (0 != (flags & MCA_BTL_IBX_REG_PIN)) {
        return &reg->pinned;
    }
    iw_use_begins(&reg->uses);
    return &reg->handle;
}

int mca_btl_ibx_deregister_mem(mca_btl_base_module_t *btl, mca_btl_base_registration_handle_t *handle)
{
    mca_btl_ibx_module_t *module = (mca_btl_ibx_module_t *) btl;
    /* Not by the key: that of memory without rights for others is 0 on some devices (rxe). */
    const bool is_pinned = 0 == handle->base;
    mca_btl_ibx_reg_t *reg =
        is_pinned ? (mca_btl_ibx_reg_t *) ((char *) handle - offsetof(mca_btl_ibx_reg_t, pinned)) : mca_btl_ibx_reg_of(handle);
    if (!is_pinned) {
        iw_use_ends(&reg->uses);
    }
    if (!is_pinned && reg->is_reached) {
        /* From now on nobody touches this part of the memory for a peer; once locked, nobody is at it. Also where others are in
         * use: the program may give this one back. */
        mca_btl_ibx_lock(module);
        mca_btl_ibx_unlock(module);
    }
    (void) module->rcache->rcache_deregister(module->rcache, &reg->base);
    return OPAL_SUCCESS;
}

/* ---- jobs ---- */

mca_btl_ibx_job_t *mca_btl_ibx_job_new(mca_btl_ibx_module_t *module, uint8_t type, mca_btl_base_endpoint_t *endpoint,
                                       void *local, uint64_t length, mca_btl_base_registration_handle_t *local_handle,
                                       mca_btl_base_rdma_completion_fn_t callback, void *context, void *cbdata)
{
    mca_btl_ibx_job_t *job = (mca_btl_ibx_job_t *) mca_btl_ibx_item_get(&module->jobs);
    if (OPAL_LIKELY(NULL != job)) {
        job->type = type;
        job->endpoint = endpoint;
        job->local = local;
        job->length = length;
        job->issued = 0;
        job->parts = 1;
        job->status = OPAL_SUCCESS;
        job->more = false;
        job->callback = callback;
        job->local_handle = local_handle;
        job->context = context;
        job->cbdata = cbdata;
    }
    return job;
}

void mca_btl_ibx_job_end(mca_btl_ibx_module_t *module, mca_btl_ibx_job_t *job)
{
    if (NULL != module->transport->job_ends) {
        module->transport->job_ends(module, job);
    }
    if (NULL != job->callback) {
        job->callback(&module->super, job->endpoint, job->local, job->local_handle, job->context, job->cbdata, job->status);
    }
    mca_btl_ibx_item_return(&module->jobs, &job->super);
}

bool mca_btl_ibx_job_issue(mca_btl_ibx_job_t *job, uint64_t most, int (*post)(mca_btl_ibx_job_t *job, uint32_t n))
{
    while (job->issued < job->length && OPAL_SUCCESS == job->status) {
        const uint64_t left = job->length - job->issued;
        const uint32_t n = (uint32_t) (left < most ? left : most);
        const int rc = post(job, n);
        if (OPAL_ERR_RESOURCE_BUSY == rc) {
            return false;
        }
        if (OPAL_UNLIKELY(OPAL_SUCCESS != rc)) {
            job->status = rc;
            break;
        }
        ++job->parts;
        job->issued += n;
    }
    return true;
}

void mca_btl_ibx_job_part_ended(mca_btl_ibx_job_t *job, int status)
{
    if (mca_btl_ibx_job_part_done(job, status)) {
        opal_list_append(&job->endpoint->module->ended, (opal_list_item_t *) job);
    }
}

/* ---- put and get ---- */

/* To ourselves: it is done, and ends. */
static void copy_to_self(mca_btl_ibx_module_t *module, mca_btl_ibx_job_t *job)
{
    void *there = (void *) (uintptr_t) job->remote;
    const bool puts = MCA_BTL_IBX_PUT == job->type;
    memmove(puts ? there : job->local, puts ? job->local : there, job->length);
    mca_btl_ibx_job_end(module, job);
}

static int transfer(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint, uint8_t type,
                    void *local, uint64_t remote, mca_btl_base_registration_handle_t *local_handle,
                    const mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                    int order, mca_btl_base_rdma_completion_fn_t callback, void *context,
                    void *cbdata)
{
    mca_btl_ibx_module_t *module = (mca_btl_ibx_module_t *) btl;
    mca_btl_ibx_job_t *job =
        mca_btl_ibx_job_new(module, type, endpoint, local, size, local_handle, callback, context, cbdata);
    if (OPAL_UNLIKELY(NULL == job)) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    job->remote = remote;
    job->more = flags & MCA_BTL_IBX_MORE;
    if (OPAL_UNLIKELY(endpoint->is_self)) {
        copy_to_self(module, job);
        return OPAL_SUCCESS;
    }
    const int rc = module->transport->job_starts(module, job, remote_handle, order);
    if (OPAL_UNLIKELY(OPAL_SUCCESS != rc)) {
        mca_btl_ibx_item_return(&module->jobs, &job->super);
    }
    return rc;
}

int mca_btl_ibx_put(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint, void *local, uint64_t remote,
                    mca_btl_base_registration_handle_t *local_handle, mca_btl_base_registration_handle_t *remote_handle,
                    size_t size, int flags, int order, mca_btl_base_rdma_completion_fn_t callback, void *context,
                    void *cbdata)
{
    return transfer(btl, endpoint, MCA_BTL_IBX_PUT, local, remote, local_handle, remote_handle,
                    size, flags, order, callback, context, cbdata);
}

int mca_btl_ibx_get(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint, void *local, uint64_t remote,
                    mca_btl_base_registration_handle_t *local_handle, mca_btl_base_registration_handle_t *remote_handle,
                    size_t size, int flags, int order, mca_btl_base_rdma_completion_fn_t callback, void *context,
                    void *cbdata)
{
    return transfer(btl, endpoint, MCA_BTL_IBX_GET, local, remote, local_handle, remote_handle,
                    size, flags, order, callback, context, cbdata);
}
