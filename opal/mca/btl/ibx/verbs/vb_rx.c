/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Posts, takes and returns the receive buffers of one queue, within its adaptive window. */
#include "vb_internal.h"

#define NONE  UINT32_MAX
#define CHAIN 32 /* work requests posted at a time */
#define PAGE  4096u

/* Buffers are numbered by slab and index, so that a number finds its slab without a search. */
#define SLAB_SHIFT 20
static vb_slab_t *slab_of(vb_rx_t *rx, uint32_t buffer)
{
    vb_slab_t *slab = &rx->slab[buffer >> SLAB_SHIFT];
    return buffer >> SLAB_SHIFT < VB_SLABS && NULL != slab->memory
                   && (buffer & ((1u << SLAB_SHIFT) - 1)) < slab->n
               ? slab
               : NULL;
}

static char *memory_of(const vb_rx_t *rx, const vb_slab_t *slab, uint32_t buffer)
{
    return slab->memory + (size_t) (buffer - slab->first) * rx->size;
}

void vb_rx_init(vb_rx_t *rx, vb_port_t *port, const uint32_t *drains, uint32_t generation,
                uint32_t spare, uint32_t limit, uint32_t initial, uint32_t max, uint64_t now)
{
    *rx = (vb_rx_t){.port = port,
                    .drains = drains,
                    .generation = generation,
                    .spare = spare,
                    .size = port->config.buffer_size,
                    .pool = &port->entries};
    max = max + spare < limit ? max : limit - spare;
    ibx_window_init(&rx->window, initial < max ? initial : max, max, port->config.window_quiet_ns,
                    now);
}

static bool slab_new(vb_rx_t *rx, uint32_t n)
{
    uint32_t index = 0;
    while (index < VB_SLABS && NULL != rx->slab[index].memory) {
        ++index;
    }
    if (VB_SLABS == index) {
        return false;
    }
    const size_t bytes = ((size_t) n * rx->size + PAGE - 1) & ~(size_t) (PAGE - 1);
    vb_slab_t slab = {.n = n, .idle = n, .first = index << SLAB_SHIFT, .free = index << SLAB_SHIFT};
    slab.memory = aligned_alloc(PAGE, bytes);
    slab.next = malloc(n * sizeof(*slab.next));
    slab.mr = NULL == slab.memory || NULL == slab.next
                  ? NULL
                  : ibv_reg_mr(rx->port->pd, slab.memory, bytes, vb_port_relaxed(rx->port, IBV_ACCESS_LOCAL_WRITE));
    if (NULL == slab.mr) {
        free(slab.memory);
        free(slab.next);
        return false;
    }
    for (uint32_t i = 0; i < n; ++i) {
        slab.next[i] = i + 1 < n ? slab.first + i + 1 : NONE;
    }
    rx->slab[index] = slab;
    rx->lowest = index < rx->lowest ? index : rx->lowest;
    rx->buffers += n;
    vb_port_registered(rx->port, bytes);
    return true;
}

static void slab_free(vb_rx_t *rx, vb_slab_t *slab)
{
    rx->port->counters.registered -= slab->mr->length;
    (void) ibv_dereg_mr(slab->mr);
    free(slab->memory);
    free(slab->next);
    rx->buffers -= slab->n;
    *slab = (vb_slab_t){.memory = NULL};
}

void vb_rx_destroy(vb_rx_t *rx)
{
    for (uint32_t i = 0; i < VB_SLABS; ++i) {
        if (NULL != rx->slab[i].memory) {
            slab_free(rx, &rx->slab[i]);
        }
    }
    vb_entries_give(rx->pool, rx->entries);
    rx->entries = rx->posted = 0;
}

/* An idle buffer, of the oldest slab that has one; NONE. */
static uint32_t idle_buffer(vb_rx_t *rx)
{
    for (; rx->lowest < VB_SLABS; ++rx->lowest) {
        vb_slab_t *slab = &rx->slab[rx->lowest];
        if (NULL != slab->memory && slab->idle > 0) {
            const uint32_t buffer = slab->free;
            slab->free = slab->next[buffer - slab->first];
            slab->idle -= 1;
            return buffer;
        }
    }
    return NONE;
}

static void make_idle(vb_rx_t *rx, vb_slab_t *slab, uint32_t buffer)
{
    const uint32_t index = buffer >> SLAB_SHIFT;
    rx->lowest = index < rx->lowest ? index : rx->lowest;
    slab->next[buffer - slab->first] = slab->free;
    slab->free = buffer;
    slab->idle += 1;
}

/* Posts a chain; those not posted are idle again. Returns how many are. */
static uint32_t post(vb_rx_t *rx, struct ibv_recv_wr *wr, uint32_t n)
{
    struct ibv_recv_wr *bad = NULL;
    const int rc =
        NULL != rx->srq ? ibv_post_srq_recv(rx->srq, wr, &bad) : ibv_post_recv(rx->qp, wr, &bad);
    const uint32_t good = 0 == rc || NULL == bad ? (0 == rc ? n : 0) : (uint32_t) (bad - wr);
    for (uint32_t i = good; i < n; ++i) {
        const uint32_t buffer = vb_wr_number(wr[i].wr_id);
        make_idle(rx, slab_of(rx, buffer), buffer);
    }
    return good;
}

static void arm(vb_rx_t *rx)
{
    struct ibv_srq_attr attr = {.srq_limit = ibx_window_limit(&rx->window)};
    /* Armed below the limit it would fire at once. */
    if (NULL != rx->srq && !rx->is_armed && attr.srq_limit > 0 && rx->posted >= attr.srq_limit) {
        rx->is_armed = 0 == ibv_modify_srq(rx->srq, &attr, IBV_SRQ_LIMIT);
    }
}

static void prepare(const vb_rx_t *rx, uint32_t buffer, struct ibv_recv_wr *wr, struct ibv_sge *sge)
{
    const vb_slab_t *slab = &rx->slab[buffer >> SLAB_SHIFT];
    *sge = (struct ibv_sge){.addr = (uintptr_t) memory_of(rx, slab, buffer),
                            .length = rx->size,
                            .lkey = slab->mr->lkey};
    *wr = (struct ibv_recv_wr){
        .wr_id = vb_wr_id(true, rx->generation, buffer), .sg_list = sge, .num_sge = 1};
}

/* How many the next slab has, where so many buffers are held. */
static uint32_t new_buffers(const vb_rx_t *rx, uint32_t held)
{
    enum { LEAST = 8, PART = 16 };
    const uint32_t want = rx->window.current + rx->spare,
                   part = want / PART < LEAST ? LEAST : want / PART;
    const uint32_t lacking = want > held ? want - held : 1;
    return lacking < part + LEAST ? lacking : part;
}

uint32_t vb_rx_fill(vb_rx_t *rx)
{
    struct ibv_recv_wr wr[CHAIN];
    struct ibv_sge sge[CHAIN];
    const uint32_t want = rx->window.current + rx->spare;
    uint32_t posted = 0;
    while (rx->posted + rx->taken < want) {
        uint32_t n = 0;
        while (n < CHAIN && rx->posted + rx->taken + n < want) {
            if (rx->entries < rx->posted + rx->taken + n + 1) {
                /* An entry stays with the queue until it shrinks: taking and giving for each message
                 * would only cost time. */
                if (!vb_entries_take(rx->pool, 1)) {
                    break;
                }
                ++rx->entries;
            }
            uint32_t buffer = idle_buffer(rx);
            if (NONE == buffer
                && (!slab_new(rx, new_buffers(rx, rx->posted + n + rx->taken))
                    || NONE == (buffer = idle_buffer(rx)))) {
                break;
            }
            prepare(rx, buffer, &wr[n], &sge[n]);
            if (n > 0) {
                wr[n - 1].next = &wr[n];
            }
            ++n;
        }
        const uint32_t good = n > 0 ? post(rx, wr, n) : 0;
        rx->posted += good;
        posted += good;
        if (good < n || 0 == n) {
            break;
        }
    }
    arm(rx);
    const uint32_t again = posted < rx->missing ? posted : rx->missing;
    rx->missing -= again;
    return posted - again;
}

void *vb_rx_take(vb_rx_t *rx, uint32_t buffer)
{
    const vb_slab_t *slab = slab_of(rx, buffer);
    if (NULL == slab || 0 == rx->posted) {
        return NULL;
    }
    if (rx->drain != *rx->drains) {
        rx->drain = *rx->drains;
        rx->taken_then = rx->taken;
        rx->since = 0;
    }
    rx->since += 1;
    if (rx->since + rx->taken_then > rx->most) {
        rx->most = rx->since + rx->taken_then;
    }
    rx->posted -= 1;
    rx->taken += 1;
    return memory_of(rx, slab, buffer);
}

/* Gives back the newest slabs, which are emptied first, as far as all of their buffers are idle and the
 * others are enough. */
static void trim(vb_rx_t *rx)
{
    const uint32_t want = rx->window.current + rx->spare;
    for (uint32_t i = VB_SLABS; i-- > 0;) {
        vb_slab_t *slab = &rx->slab[i];
        if (NULL == slab->memory) {
            continue;
        }
        if (slab->idle < slab->n || rx->buffers - slab->n < want) {
            return;
        }
        slab_free(rx, slab);
    }
}

void vb_rx_return(vb_rx_t *rx, uint32_t buffer)
{
    vb_slab_t *slab = slab_of(rx, buffer);
    if (NULL == slab) {
        return;
    }
    rx->taken -= 1;
    make_idle(rx, slab, buffer);
    if (slab->idle == slab->n) {
        trim(rx);
    }
}

void vb_rx_repost(vb_rx_t *rx, uint32_t buffer)
{
    struct ibv_recv_wr wr;
    struct ibv_sge sge;
    if (NULL != slab_of(rx, buffer)) {
        rx->taken -= 1;
        prepare(rx, buffer, &wr, &sge);
        const uint32_t good = post(rx, &wr, 1);
        rx->posted += good;
        rx->missing += 1 - good;
    }
}

void vb_rx_starved(vb_rx_t *rx, uint64_t now)
{
    const uint64_t grown = rx->window.grown;
    rx->is_armed = false;
    (void) ibx_window_limit_reached(&rx->window, now);
    rx->port->counters.grown += rx->window.grown - grown;
}

void vb_rx_check(vb_rx_t *rx, uint64_t now)
{
    const uint32_t limit = ibx_window_limit(&rx->window);
    const uint64_t shrunk = rx->window.shrunk;
    const uint32_t window = rx->window.current, lowest = window > rx->most ? window - rx->most : 0;
    (void) ibx_window_check(&rx->window, lowest < vb_rx_free(rx) ? lowest : vb_rx_free(rx), now);
    rx->most = rx->taken;
    if (ibx_window_limit(&rx->window) == limit && rx->window.shrunk == shrunk) {
        return;
    }
    rx->port->counters.shrunk += rx->window.shrunk - shrunk;
    trim(rx);
    rx->is_armed = false; /* with the new limit */
    arm(rx);
    const uint32_t want = rx->window.current + rx->spare;
    const uint32_t held = rx->posted + rx->taken;
    const uint32_t keep = held > want ? held : want;
    if (rx->entries > keep) {
        vb_entries_give(rx->pool, rx->entries - keep);
        rx->entries = keep;
    }
}
