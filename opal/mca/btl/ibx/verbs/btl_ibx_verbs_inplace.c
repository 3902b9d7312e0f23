/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Decides for each small payload whether the adapter reads it in place, from a copy, or out of the work request. */
#include "verbs/btl_ibx_verbs_inplace.h"

/* Without mpool/freq, whose table else decides: eager data of this many bytes is sent from the user's memory if registrations
 * are kept (mpi_leave_pinned). */
enum { LEAST = 2048 };

/* With it: puts and gets up to this size need no memory that is registered before: they are copied, or done in place where
 * the buffer is used frequently. */
enum { RDMA_MOST = 8192 };

/* NULL: refused. */
static mca_btl_ibx_verbs_reg_t *find(mca_btl_ibx_verbs_module_t *module, void *data, size_t length,
                                     int32_t access)
{
    mca_rcache_base_registration_t *reg = NULL;
    const int rc = module->base.rcache->rcache_register(module->base.rcache, data, length, 0, access, &reg);
    return OPAL_SUCCESS == rc ? (mca_btl_ibx_verbs_reg_t *) reg : NULL;
}

/* ---- the table ---- */

static int register_once(void *context, void *base, size_t size, void **registration)
{
    *registration = find(context, base, size, 0);
    return NULL == *registration ? OPAL_ERR_OUT_OF_RESOURCE : OPAL_SUCCESS;
}

static void deregister_once(void *context, void *registration)
{
    mca_btl_ibx_verbs_module_t *module = context;
    (void) module->base.rcache->rcache_deregister(module->base.rcache, registration);
}

static bool again_once(void *context, void *registration, void *base, size_t size)
{
    mca_btl_ibx_verbs_module_t *module = context;
    const bool found = module->lazy->again(module->base.rcache, registration, base, size, 0);
    if (found) {
        deregister_once(context, registration);
    }
    return found;
}

void mca_btl_ibx_verbs_inplace_open(mca_btl_ibx_verbs_module_t *module)
{
    char name[64];
    module->freq = 1 == opal_leave_pinned ? mca_mpool_freq_service() : NULL;
    if (NULL == module->freq) {
        return;
    }
    module->lazy = mca_rcache_lazy_service(module->base.rcache);
    snprintf(name, sizeof(name), "ibx verbs %.48s", vb_port_abilities(module->port)->device);
    const mca_mpool_freq_transport_t transport = {.name = name,
                                                  .register_mem = register_once,
                                                  .deregister_mem = deregister_once,
                                                  .again = NULL == module->lazy ? NULL : again_once,
                                                  .gate = &module->gate,
                                                  .context = module};
    module->table = module->freq->open(&transport);
    if (NULL == module->table) {
        return;
    }
    module->traffic = module->freq->traffic(module->table);
    module->base.public.in_place_min = (uint32_t) module->freq->least(module->table);
    /* Nothing to be gained where the table never says so: then the caller's buffers serve. */
    if (0 != module->base.public.in_place_min) {
        const size_t most = RDMA_MOST, room = module->base.super.btl_max_send_size;
        module->base.super.btl_put_local_registration_threshold = most < room ? most : room;
        module->base.super.btl_get_local_registration_threshold = most < room ? most : room;
    }
}

void mca_btl_ibx_verbs_inplace_close(mca_btl_ibx_verbs_module_t *module)
{
    if (NULL != module->table) {
        module->freq->close(module->table);
        module->table = NULL;
    }
}

/* ---- messages ---- */

/* By the note of the table, if the cache can tell that what is noted still serves. */
static mca_btl_ibx_verbs_reg_t *find_noted(mca_btl_ibx_verbs_module_t *module, void *data,
                                           size_t length, int32_t access,
                                           mca_mpool_freq_note_t *note)
{
    void *noted = NULL == module->lazy ? NULL : atomic_load_explicit(note, memory_order_acquire);
    if (NULL != noted) {
        if (OPAL_LIKELY(module->lazy->again(module->base.rcache, noted, data, length, access))) {
            mca_mpool_freq_add(&module->traffic->notes_used, 1);
            return noted;
        }
        if (!module->freq->may_renew(module->table, length)) {
            return NULL;
        }
    }
    const uint64_t before = spec_now();
    mca_btl_ibx_verbs_reg_t *reg = find(module, data, length, access);
    if (OPAL_LIKELY(NULL != reg)) {
        module->freq->registered(module->table, length, spec_now() - before);
        atomic_store_explicit(note, reg, memory_order_release);
    } else {
        module->freq->refused(module->table, data, length);
    }
    return reg;
}

mca_btl_ibx_verbs_reg_t *mca_btl_ibx_verbs_inplace_asked(mca_btl_ibx_verbs_module_t *module,
                                                       void *data, size_t length, int32_t access)
{
    mca_mpool_freq_note_t *note;
    if (module->freq->is_frequent(module->table, data, length, &note)) {
        mca_btl_ibx_verbs_reg_t *reg = find_noted(module, data, length, access, note);
        if (OPAL_LIKELY(NULL != reg)) {
            mca_mpool_freq_add(&module->traffic->in_place, 1);
            mca_mpool_freq_add(&module->traffic->bytes_in_place, length);
            return reg;
        }
    }
    return NULL;
}

mca_btl_ibx_verbs_reg_t *mca_btl_ibx_verbs_inplace_any(mca_btl_ibx_verbs_module_t *module, void *data,
                                                     size_t length, int32_t access)
{
    return length >= LEAST && 1 == opal_leave_pinned ? find(module, data, length, access) : NULL;
}

/* ---- puts and gets ---- */

bool mca_btl_ibx_verbs_inplace_job(mca_btl_ibx_verbs_module_t *module, mca_btl_ibx_verbs_job_t *job)
{
    const bool puts = MCA_BTL_IBX_PUT == job->base.type;
    const mca_btl_ibx_verbs_endpoint_t *endpoint =
        (mca_btl_ibx_verbs_endpoint_t *) job->base.endpoint;
    /* By which of them it goes is found later. */
    const vb_peer_t *peer = endpoint->peer,
                    *bulk = __atomic_load_n(&endpoint->bulk_peer, __ATOMIC_RELAXED);
    if (puts && NULL != peer && job->base.length <= vb_inline_put_max(peer)
        && (NULL == bulk || job->base.length <= vb_inline_put_max(bulk))) {
        job->is_inline = true;
        return true;
    }
    job->in_place = mca_btl_ibx_verbs_inplace(
        module, job->base.local, job->base.length,
        mca_btl_ibx_verbs_access(module, puts ? 0 : MCA_RCACHE_ACCESS_LOCAL_WRITE), &job->gate);
    if (NULL != job->in_place) {
        job->lkey = job->in_place->mr->lkey;
        return true;
    }
    if (OPAL_UNLIKELY(job->base.length > module->base.super.btl_max_send_size)) {
        return false;
    }
    opal_free_list_item_t *item = mca_btl_ibx_item_get(&module->frags);
    if (OPAL_UNLIKELY(NULL == item)) {
        return false;
    }
    job->bounce = item;
    job->user = job->base.local;
    job->base.local = item->ptr;
    job->lkey = ((mca_btl_ibx_verbs_reg_t *) item->registration)->mr->lkey;
    if (puts) {
        const uint64_t start = freq_gate_copy_starts(job->gate);
        memcpy(job->base.local, job->user, job->base.length);
        freq_gate_copy_ends(job->gate, start, job->base.length);
    }
    return true;
}

void mca_btl_ibx_verbs_inplace_end(mca_btl_ibx_module_t *module, mca_btl_ibx_job_t *base)
{
    mca_btl_ibx_verbs_job_t *job = (mca_btl_ibx_verbs_job_t *) base;
    if (NULL != job->bounce) {
        if (MCA_BTL_IBX_GET == job->base.type && OPAL_SUCCESS == job->base.status) {
            const uint64_t start = freq_gate_copy_starts(job->gate);
            memcpy(job->user, job->base.local, job->base.length);
            freq_gate_copy_ends(job->gate, start, job->base.length);
        }
        job->base.local = job->user;
        mca_btl_ibx_item_return(&mca_btl_ibx_verbs_of(module)->frags, job->bounce);
        job->bounce = NULL;
    }
    if (NULL != job->in_place) {
        (void) module->rcache->rcache_deregister(module->rcache, &job->in_place->super.base);
        job->in_place = NULL;
    }
}
