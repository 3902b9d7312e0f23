/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Endpoints, one for each other process: made when it is first wanted or speaks, found by name, ended. For both transports. */
#include "btl_ibx_endpoint.h"

#include "btl_ibx_fragment.h"

#include "opal/include/spec/class.h"

static void endpoint_construct(mca_btl_base_endpoint_t *endpoint)
{
    endpoint->atomics = MCA_BTL_IBX_ATOMICS_BY_MESSAGES;
}

SPEC_CLASS(mca_btl_ibx_endpoint_t, opal_list_item_t, endpoint_construct, NULL);

/* Held by the one thread that asks for what processes published. Of two threads that ask for the same process at once PMIx
 * (5.0.7 and others, _getnb_cbfunc) may forget one, which then waits for ever. */
static opal_mutex_t asks = OPAL_MUTEX_STATIC_INIT;

static mca_btl_base_endpoint_t *find(mca_btl_ibx_module_t *module, uint64_t name)
{
    void *endpoint = NULL;
    mca_btl_ibx_lock(module);
    (void) opal_hash_table_get_value_uint64(&module->by_name, name, &endpoint);
    mca_btl_ibx_unlock(module);
    return endpoint;
}

mca_btl_base_endpoint_t *mca_btl_ibx_endpoint_of(mca_btl_ibx_module_t *module, opal_proc_t *proc)
{
    const uint64_t name = spec_name_of(proc);
    const bool is_self = proc == opal_proc_local_get();
    mca_btl_base_endpoint_t *endpoint = find(module, name);
    if (NULL != endpoint) {
        return endpoint;
    }
    opal_mutex_lock(&asks);
    endpoint = find(module, name); /* another thread may have been faster */
    if (NULL == endpoint && NULL != (endpoint = module->transport->endpoint_new(module, proc, is_self))) {
        endpoint->module = module;
        endpoint->proc = proc;
        endpoint->name = name;
        endpoint->is_self = is_self;
        mca_btl_ibx_lock(module);
        if (OPAL_SUCCESS == opal_hash_table_set_value_uint64(&module->by_name, name, endpoint)) {
            opal_list_append(&module->endpoints, &endpoint->super);
        } else {
            OBJ_RELEASE(endpoint);
            endpoint = NULL;
        }
        mca_btl_ibx_unlock(module);
    }
    opal_mutex_unlock(&asks);
    return endpoint;
}

/* The PML may have switched Open MPI's threads on since btl_init (pml_spec_progress): before it adds this process itself, when no
 * other thread calls yet. */
static void heed_threads(mca_btl_ibx_module_t *module)
{
    if (opal_using_threads() && !module->told.locks) {
        mca_btl_ibx_component.locked = true;
        module->told.locks = true;
    }
}

int mca_btl_ibx_add_procs(mca_btl_base_module_t *btl, size_t n, opal_proc_t **procs,
                          mca_btl_base_endpoint_t **endpoints, opal_bitmap_t *reachable)
{
    mca_btl_ibx_module_t *module = (mca_btl_ibx_module_t *) btl;
    heed_threads(module);
    if (NULL != module->transport->reach) {
        module->transport->reach(n, procs);
    }
    for (size_t i = 0; i < n; ++i) {
        mca_btl_base_endpoint_t *endpoint = mca_btl_ibx_endpoint_of(module, procs[i]);
        endpoints[i] = NULL == endpoint || endpoint->is_refused ? NULL : endpoint;
        if (NULL != endpoints[i]) {
            mca_btl_ibx_lock(module);
            endpoint->is_given = true;
            mca_btl_ibx_unlock(module);
            const int rc = NULL == reachable ? OPAL_SUCCESS : opal_bitmap_set_bit(reachable, (int) i);
            if (OPAL_SUCCESS != rc) {
                return rc;
            }
        }
    }
    return OPAL_SUCCESS;
}

/* Nothing goes to the endpoint any more. lock is held. */
static void part(mca_btl_base_endpoint_t *endpoint)
{
    endpoint->is_dead = true;
    endpoint->module->transport->part(endpoint);
}

int mca_btl_ibx_del_procs(mca_btl_base_module_t *btl, size_t n, opal_proc_t **procs,
                          mca_btl_base_endpoint_t **endpoints)
{
    mca_btl_ibx_module_t *module = (mca_btl_ibx_module_t *) btl;
    (void) endpoints;
    for (size_t i = 0; i < n; ++i) {
        void *known = NULL;
        const uint64_t name = spec_name_of(procs[i]);
        mca_btl_ibx_lock(module);
        if (OPAL_SUCCESS == opal_hash_table_get_value_uint64(&module->by_name, name, &known)) {
            mca_btl_base_endpoint_t *endpoint = known;
            opal_hash_table_remove_value_uint64(&module->by_name, name);
            opal_list_remove_item(&module->endpoints, &endpoint->super);
            part(endpoint);
            opal_list_append(&module->gone, &endpoint->super);
            mca_btl_ibx_tell_ended(module);
        }
        mca_btl_ibx_unlock(module);
        if (NULL != known && NULL != module->transport->parted) {
            module->transport->parted(known);
        }
    }
    return OPAL_SUCCESS;
}

/* ---- processes that speak first ---- */

void mca_btl_ibx_stranger(mca_btl_ibx_module_t *module, uint64_t name, const uint8_t *data, size_t length)
{
    const uint32_t n = module->strangers_n;
    for (uint32_t i = 0; i < n; ++i) {
        if (module->strangers[i].name == name) {
            return;
        }
    }
    uint8_t *copy = n < MCA_BTL_IBX_STRANGERS && NULL != data ? malloc(length) : NULL;
    if (MCA_BTL_IBX_STRANGERS == n || (NULL != data && NULL == copy)) {
        return;
    }
    if (NULL != data) {
        memcpy(copy, data, length);
    }
    module->strangers[n].name = name;
    module->strangers[n].data = copy;
    module->strangers[n].length = length;
    __atomic_store_n(&module->strangers_n, n + 1, __ATOMIC_RELEASE);
}

void mca_btl_ibx_look_up_strangers(mca_btl_ibx_module_t *module)
{
    while (0 != __atomic_load_n(&module->strangers_n, __ATOMIC_ACQUIRE)) {
        mca_btl_ibx_lock(module);
        const uint32_t n = module->strangers_n;
        if (0 == n) { /* another thread was faster */
            mca_btl_ibx_unlock(module);
            return;
        }
        const uint64_t name = module->strangers[n - 1].name;
        const size_t length = module->strangers[n - 1].length;
        uint8_t *data = module->strangers[n - 1].data;
        __atomic_store_n(&module->strangers_n, n - 1, __ATOMIC_RELAXED);
        mca_btl_ibx_unlock(module);

        opal_proc_t *proc = module->is_ending ? NULL : opal_proc_for_name(mca_btl_ibx_name(name));
        mca_btl_base_endpoint_t *endpoint = NULL == proc ? NULL : mca_btl_ibx_endpoint_of(module, proc);
        if (NULL != endpoint && !endpoint->is_self) {
            mca_btl_ibx_lock(module);
            module->transport->meet(endpoint, data, length);
            mca_btl_ibx_unlock(module);
        }
        free(data);
    }
}

/* ---- processes that are lost ---- */

void mca_btl_ibx_report_lost(const mca_btl_base_endpoint_t *endpoint, const char *why)
{
    mca_btl_ibx_module_t *module = endpoint->module;
    char where[96], *info = NULL;
    module->transport->describe(endpoint, where, sizeof(where));
    if (0 > asprintf(&info, "%s: %s", where, why)) {
        info = NULL;
    }
    SPEC_TELL(1, opal_btl_base_framework.framework_output, "btl/ibx: the process on host %s is lost (%s)",
                        spec_host_of(endpoint->proc), NULL == info ? why : info);
    if (NULL != module->error) {
        module->error(&module->super, MCA_BTL_ERROR_FLAGS_NONFATAL, endpoint->proc, info);
    }
    free(info);
}

void mca_btl_ibx_give_up(mca_btl_base_endpoint_t *endpoint, const char *why)
{
    mca_btl_ibx_module_t *module = endpoint->module;
    mca_btl_ibx_lock(module);
    const bool was_dead = endpoint->is_dead;
    part(endpoint);
    mca_btl_ibx_tell_ended(module);
    mca_btl_ibx_unlock(module);
    if (!was_dead) {
        mca_btl_ibx_report_lost(endpoint, why);
    }
}
