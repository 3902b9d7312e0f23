/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See held_btl.h. */
#include "held_btl.h"

#include "fuzz_script.h"

#include "opal/include/spec/promises.h"

#include <string.h>

enum { THINGS = 4096, WINDOWS = 512, EAGER = 512, FRAGMENT = 700, OPERATION = 3000 };

struct mca_btl_base_endpoint_t {
    unsigned module;
};

/* What a peer is given: a number and a secret, as an STag or an rkey. */
typedef struct window {
    uint32_t place;
    uint32_t number; /* 0: nothing is registered here */
    uint64_t base, size;
    uint32_t rights;
    uint32_t spare;
} window_t;

_Static_assert(sizeof(window_t) == HELD_KEY, "a window is its own key");

typedef struct frag {
    mca_btl_base_descriptor_t base;
    mca_btl_base_segment_t segment;
} frag_t;

OBJ_CLASS_DECLARATION(frag_t);
OBJ_CLASS_INSTANCE(frag_t, mca_btl_base_descriptor_t, NULL, NULL);

typedef struct thing {
    enum { PACKET, PUT, GET } what;
    unsigned module;
    bool on_lane;
    /* PACKET */
    uint8_t tag;
    uint8_t *data;
    size_t size;  /* of a transfer, too */
    frag_t *frag; /* to be completed when it is delivered, or NULL */
    /* PUT, GET */
    char *local;
    uint64_t remote;
    bool has_key;
    window_t key;
    const window_t *local_key;
    mca_btl_base_rdma_completion_fn_t done;
    void *context, *cbdata;
} thing_t;

held_refuse_t held_refuse;
unsigned held_refused;
bool (*held_touches)(uint64_t, uint64_t, bool);

static held_config_t config;
static thing_t *thing[THINGS];
static unsigned things;
static window_t window[WINDOWS];
static uint32_t number;
static struct mca_btl_base_endpoint_t endpoint[HELD_MODULES] = {{0}, {1}};
static mca_btl_ibx_public_t module[HELD_MODULES];
static mca_btl_base_component_t component;

static unsigned module_of(const mca_btl_base_module_t *btl)
{
    return btl == &module[1].super;
}

/* True, as many times as the script wants. */
static bool is_refused(unsigned *times)
{
    return *times > 0 && (*times)--;
}

static thing_t *hold(thing_t t)
{
    MUST(things < THINGS);
    thing_t *copy = malloc(sizeof(*copy));
    MUST(NULL != copy);
    *copy = t;
    thing[things++] = copy;
    return copy;
}

/* ---- packets ---- */

static frag_t *frag_new(size_t size, uint32_t flags)
{
    frag_t *f = OBJ_NEW(frag_t);
    f->base.des_segments = &f->segment;
    f->base.des_segment_count = 1;
    f->base.des_flags = flags;
    f->base.des_cbfunc = NULL;
    f->base.order = MCA_BTL_NO_ORDER;
    f->segment.seg_addr.pval = malloc(size);
    f->segment.seg_len = size;
    return f;
}

static int frag_free(mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *des)
{
    (void) btl;
    free(((frag_t *) des)->segment.seg_addr.pval);
    OBJ_RELEASE(des);
    return OPAL_SUCCESS;
}

static mca_btl_base_descriptor_t *held_alloc(mca_btl_base_module_t *btl,
                                             struct mca_btl_base_endpoint_t *ep, uint8_t order,
                                             size_t size, uint32_t flags)
{
    (void) ep;
    if (size > btl->btl_max_send_size || is_refused(&held_refuse.sends)) {
        return NULL;
    }
    frag_t *f = frag_new(size, flags);
    f->base.order = order;
    return &f->base;
}

static mca_btl_base_descriptor_t *held_prepare(mca_btl_base_module_t *btl,
                                               struct mca_btl_base_endpoint_t *ep,
                                               opal_convertor_t *convertor, uint8_t order,
                                               size_t reserve, size_t *size, uint32_t flags)
{
    size_t length = btl->btl_max_send_size - reserve;
    uint32_t n = 1;
    (void) ep;
    length = *size < length ? *size : length;
    if (is_refused(&held_refuse.sends)) {
        return NULL;
    }
    frag_t *f = frag_new(reserve + length, flags);
    struct iovec iov = {(char *) f->segment.seg_addr.pval + reserve, length};
    MUST(0 <= opal_convertor_pack(convertor, &iov, &n, &length));
    f->segment.seg_len = reserve + length;
    f->base.order = order;
    *size = length;
    return &f->base;
}

static void complete(mca_btl_base_module_t *btl, frag_t *f, int status)
{
    const bool ours = 0 != (f->base.des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP);
    f->base.des_cbfunc(btl, &endpoint[module_of(btl)], &f->base, status);
    if (ours) {
        frag_free(btl, &f->base);
    }
}

static uint8_t *copy_of(const void *a, size_t m, const void *b, size_t n)
{
    uint8_t *data = malloc(m + n);
    MUST(NULL != data);
    if (m > 0) {
        memcpy(data, a, m);
    }
    if (n > 0) {
        memcpy(data + m, b, n);
    }
    return data;
}

static int held_send(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *ep,
                     mca_btl_base_descriptor_t *des, mca_btl_base_tag_t tag)
{
    frag_t *f = (frag_t *) des;
    (void) ep;
    if (is_refused(&held_refuse.sends) || is_refused(&held_refuse.packets)) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    const bool later = config.completes_later;
    hold((thing_t){.what = PACKET,
                   .module = module_of(btl),
                   .on_lane = MCA_BTL_IBX_ORDER == des->order,
                   .tag = tag,
                   .size = f->segment.seg_len,
                   .data = copy_of(f->segment.seg_addr.pval, f->segment.seg_len, NULL, 0),
                   .frag = later ? f : NULL});
    if (later) {
        des->des_flags |= MCA_BTL_DES_SEND_ALWAYS_CALLBACK;
        return OPAL_SUCCESS;
    }
    if (des->des_flags & MCA_BTL_DES_SEND_ALWAYS_CALLBACK) {
        complete(btl, f, OPAL_SUCCESS);
    } else if (des->des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP) {
        frag_free(btl, des);
    }
    return 1;
}

static int held_sendi(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *ep,
                      opal_convertor_t *convertor, void *header, size_t header_size,
                      size_t payload_size, uint8_t order, uint32_t flags, mca_btl_base_tag_t tag,
                      mca_btl_base_descriptor_t **descriptor)
{
    char payload[FRAGMENT];
    uint32_t n = 1;
    struct iovec iov = {payload, payload_size};
    (void) ep, (void) flags;
    if (NULL != descriptor) {
        *descriptor = NULL;
    }
    if (header_size + payload_size > btl->btl_max_send_size || is_refused(&held_refuse.sends)) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    if (payload_size > 0) {
        MUST(0 <= opal_convertor_pack(convertor, &iov, &n, &payload_size));
    }
    hold((thing_t){.what = PACKET,
                   .module = module_of(btl),
                   .on_lane = MCA_BTL_IBX_ORDER == order,
                   .tag = tag,
                   .size = header_size + payload_size,
                   .data = copy_of(header, header_size, payload, payload_size)});
    return OPAL_SUCCESS;
}

/* ---- windows and transfers ---- */

static mca_btl_base_registration_handle_t *held_register(mca_btl_base_module_t *btl,
                                                         struct mca_btl_base_endpoint_t *ep,
                                                         void *base, size_t size, uint32_t flags)
{
    (void) btl, (void) ep;
    if (is_refused(&held_refuse.registrations)) {
        return NULL;
    }
    for (uint32_t i = 0; i < WINDOWS; ++i) {
        if (0 == window[i].number) {
            window[i] = (window_t){.place = i,
                                   .number = ++number | 1u << 31,
                                   .base = (uint64_t) (uintptr_t) base,
                                   .size = size,
                                   .rights = flags};
            return (mca_btl_base_registration_handle_t *) &window[i];
        }
    }
    return NULL;
}

static int held_deregister(mca_btl_base_module_t *btl, mca_btl_base_registration_handle_t *handle)
{
    window_t *w = (window_t *) handle;
    (void) btl;
    MUST(w >= window && w < window + WINDOWS && 0 != w->number);
    w->number = 0;
    return OPAL_SUCCESS;
}

unsigned held_windows(void)
{
    unsigned n = 0;
    for (uint32_t i = 0; i < WINDOWS; ++i) {
        n += 0 != window[i].number;
    }
    return n;
}

static bool covers(const window_t *w, uint64_t address, uint64_t size)
{
    return 0 != w->number && address >= w->base && address - w->base <= w->size
           && size <= w->size - (address - w->base);
}

/* The peer's side. */
static bool may_touch(const thing_t *t)
{
    const bool write = PUT == t->what;
    if (!config.registers) {
        return held_touches(t->remote, t->size, write);
    }
    const window_t *w = t->has_key && t->key.place < WINDOWS ? &window[t->key.place] : NULL;
    return NULL != w && w->number == t->key.number && covers(w, t->remote, t->size)
           && 0
                  != (w->rights
                      & (write ? MCA_BTL_REG_FLAG_REMOTE_WRITE : MCA_BTL_REG_FLAG_REMOTE_READ));
}

static int transfer(mca_btl_base_module_t *btl, int what, void *local, uint64_t remote,
                    mca_btl_base_registration_handle_t *local_key,
                    const mca_btl_base_registration_handle_t *key, size_t size, int order,
                    mca_btl_base_rdma_completion_fn_t done, void *context, void *cbdata)
{
    if (is_refused(&held_refuse.transfers)) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    MUST(size > 0 && size <= OPERATION);
    MUST(NULL != key || !config.registers); /* no transport with registrations checks that */
    thing_t *t = hold((thing_t){.what = what,
                                .module = module_of(btl),
                                .on_lane = MCA_BTL_IBX_ORDER == order,
                                .size = size,
                                .local = local,
                                .remote = remote,
                                .has_key = NULL != key,
                                .local_key = (const window_t *) local_key,
                                .done = done,
                                .context = context,
                                .cbdata = cbdata});
    if (NULL != key) {
        memcpy(&t->key, key, sizeof(t->key));
    }
    return OPAL_SUCCESS;
}

static int held_put(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *ep, void *local,
                    uint64_t remote, mca_btl_base_registration_handle_t *local_key,
                    mca_btl_base_registration_handle_t *key, size_t size, int flags, int order,
                    mca_btl_base_rdma_completion_fn_t done, void *context, void *cbdata)
{
    (void) ep, (void) flags;
    return transfer(btl, PUT, local, remote, local_key, key, size, order, done, context, cbdata);
}

static int held_get(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *ep, void *local,
                    uint64_t remote, mca_btl_base_registration_handle_t *local_key,
                    mca_btl_base_registration_handle_t *key, size_t size, int flags, int order,
                    mca_btl_base_rdma_completion_fn_t done, void *context, void *cbdata)
{
    (void) ep, (void) flags;
    return transfer(btl, GET, local, remote, local_key, key, size, order, done, context, cbdata);
}

/* ---- the script's ---- */

/* Is the i-th held back by what was given to its module before? */
static bool waits(unsigned i)
{
    const thing_t *t = thing[i];
    const uint32_t promises = module[t->module].promises;
    for (unsigned k = 0; PACKET == t->what && k < i; ++k) {
        const thing_t *before = thing[k];
        if (before->module == t->module
            && ((PUT == before->what && (promises & MCA_BTL_IBX_ORDERED))
                || (GET == before->what && t->on_lane && (promises & MCA_BTL_IBX_FENCED)))) {
            return true;
        }
    }
    return false;
}

/* The place of the k-th that may go; `things` if there is none. */
static unsigned place_of(unsigned k)
{
    for (unsigned i = 0; i < things; ++i) {
        if (!waits(i) && 0 == k--) {
            return i;
        }
    }
    return things;
}

unsigned held_count(void)
{
    unsigned n = 0;
    for (unsigned i = 0; i < things; ++i) {
        n += !waits(i);
    }
    return n;
}

static thing_t *take(unsigned place)
{
    thing_t *t = thing[place];
    memmove(thing + place, thing + place + 1, (--things - place) * sizeof(thing[0]));
    return t;
}

static void deliver(unsigned m, uint8_t tag, uint8_t *data, size_t size)
{
    mca_btl_ibx_dispatch(&module[m].super, &endpoint[m], tag, data, size);
}

/* Once it is out of the list. */
static void end(thing_t *t, int status)
{
    mca_btl_base_module_t *btl = &module[t->module].super;
    if (PACKET == t->what) {
        if (OPAL_SUCCESS == status) {
            deliver(t->module, t->tag, t->data, t->size);
        }
        if (NULL != t->frag) {
            complete(btl, t->frag, status);
        }
        free(t->data);
        free(t);
        return;
    }
    if (OPAL_SUCCESS == status) {
        if (config.registers) {
            MUST(NULL != t->local_key
                 && covers(t->local_key, (uint64_t) (uintptr_t) t->local, t->size));
        }
        if (!may_touch(t)) {
            ++held_refused;
            status = OPAL_ERROR;
        } else if (PUT == t->what) {
            memmove((void *) (uintptr_t) t->remote, t->local, t->size);
        } else {
            memmove(t->local, (const void *) (uintptr_t) t->remote, t->size);
        }
    }
    t->done(btl, &endpoint[t->module], t->local,
            (mca_btl_base_registration_handle_t *) (uintptr_t) t->local_key, t->context, t->cbdata,
            status);
    free(t);
}

void held_go(unsigned k)
{
    const unsigned place = place_of(k);
    if (place < things) {
        end(take(place), OPAL_SUCCESS);
    }
}

bool held_fail(unsigned k)
{
    const unsigned place = place_of(k);
    if (place == things || PACKET == thing[place]->what
        || 0 != module[thing[place]->module].promises) {
        return false;
    }
    end(take(place), OPAL_ERROR);
    return true;
}

void held_break(unsigned modules)
{
    for (unsigned i = 0; i < things;) {
        if (thing[i]->module < modules || PACKET != thing[i]->what) {
            end(take(i), OPAL_ERR_UNREACH);
            i = 0; /* there may be others now */
        } else {
            ++i;
        }
    }
}

uint8_t *held_packet(unsigned k, size_t *size)
{
    const unsigned place = place_of(k);
    if (place == things || PACKET != thing[place]->what) {
        return NULL;
    }
    *size = thing[place]->size;
    return thing[place]->data;
}

void held_forge(unsigned m, uint8_t tag, const uint8_t *data, size_t size)
{
    uint8_t *copy = copy_of(data, size, NULL, 0); /* nothing behind it */
    deliver(m, tag, copy, size);
    free(copy);
}

void held_twice(unsigned k)
{
    size_t size;
    const uint8_t *data = held_packet(k, &size);
    if (NULL != data) {
        const thing_t *t = thing[place_of(k)];
        held_forge(t->module, t->tag, data, size);
    }
}

void held_configure(const held_config_t *c)
{
    MUST(0 == things);
    config = *c;
    held_refuse = (held_refuse_t){0};
    held_refused = 0;
    memset(window, 0, sizeof(window));
    module[0].promises = c->promises;
    for (unsigned i = 0; i < HELD_MODULES; ++i) {
        module[i].super.btl_register_mem = c->registers ? held_register : NULL;
        module[i].super.btl_deregister_mem = c->registers ? held_deregister : NULL;
        module[i].super.btl_registration_handle_size = c->registers ? HELD_KEY : 0;
    }
}

/* ---- the component ---- */

static int add_procs(mca_btl_base_module_t *btl, size_t n, opal_proc_t **procs,
                     struct mca_btl_base_endpoint_t **endpoints, opal_bitmap_t *reachable)
{
    for (size_t i = 0; i < n; ++i) {
        if (opal_proc_local_get() == procs[i]) {
            endpoints[i] = &endpoint[module_of(btl)];
            opal_bitmap_set_bit(reachable, (int) i);
        }
    }
    return OPAL_SUCCESS;
}

static int del_procs(mca_btl_base_module_t *btl, size_t n, opal_proc_t **procs,
                     struct mca_btl_base_endpoint_t **endpoints)
{
    (void) btl, (void) n, (void) procs, (void) endpoints;
    return OPAL_SUCCESS;
}

static int finalize(mca_btl_base_module_t *btl)
{
    (void) btl;
    return OPAL_SUCCESS;
}

static mca_btl_base_module_t **init(int *n, bool progress_threads, bool mpi_threads)
{
    mca_btl_base_module_t **list = calloc(HELD_MODULES, sizeof(mca_btl_base_module_t *));
    (void) progress_threads, (void) mpi_threads;
    for (unsigned i = 0; i < HELD_MODULES; ++i) {
        module[i] = (mca_btl_ibx_public_t){
            .super = {.btl_component = &component,
                      .btl_eager_limit = EAGER,
                      .btl_rndv_eager_limit = EAGER,
                      .btl_max_send_size = FRAGMENT,
                      .btl_exclusivity = MCA_BTL_EXCLUSIVITY_HIGH,
                      .btl_latency = 1,
                      .btl_bandwidth = 1000,
                      .btl_flags = MCA_BTL_FLAGS_SEND | MCA_BTL_FLAGS_RDMA,
                      .btl_put_limit = OPERATION,
                      .btl_get_limit = OPERATION,
                      .btl_add_procs = add_procs,
                      .btl_del_procs = del_procs,
                      .btl_finalize = finalize,
                      .btl_alloc = held_alloc,
                      .btl_free = frag_free,
                      .btl_prepare_src = held_prepare,
                      .btl_send = held_send,
                      .btl_sendi = held_sendi,
                      .btl_put = held_put,
                      .btl_get = held_get,
                      .btl_dump = mca_btl_base_dump,
                      MCA_BTL_IBX_MODULE_EXTRAS},
            .magic = MCA_BTL_IBX_MAGIC,
            .version = MCA_BTL_IBX_VERSION,
        };
        list[i] = &module[i].super;
    }
    *n = HELD_MODULES;
    return list;
}

/* Named as the one whose promises are believed. */
static mca_btl_base_component_t component = {
    .btl_version = {MCA_BTL_DEFAULT_VERSION("ibx")},
    .btl_data = {MCA_BASE_METADATA_PARAM_CHECKPOINT},
    .btl_init = init,
};

const mca_base_component_t *held_component(void)
{
    return &component.btl_version;
}

mca_btl_base_module_t *held_module(unsigned i)
{
    return &module[i].super;
}
