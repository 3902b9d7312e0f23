/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What a port of an adapter can do, and what of it is used. */
#include "vb_internal.h"

#include <errno.h>
#include <stdio.h>

/* ibv_device_attr.vendor_id of Linux's devices in software. */
#define VENDOR_SIW 0x626d74u
#define VENDOR_RXE 0xffffffu

/* NULL: a fenced request leaves when the reads before it are done, and stops nothing else. */
static const char *why_no_fence(uint32_t vendor)
{
    switch (vendor) {
    case VENDOR_SIW: /* two processes that read from each other and fence would wait for ever */
        return "siw answers no read while a fenced request waits for its own";
    case VENDOR_RXE: /* then the queue stands still, without a timer (seen with Linux 6.1) */
        return "rxe, sending a fenced request again, waits for reads that were posted after it";
    default:
        return NULL;
    }
}

const char *vb_fabric_name(vb_fabric_t fabric)
{
    static const char *const names[] = {"InfiniBand", "RoCE", "iWARP"};
    return (unsigned) fabric < 3 ? names[fabric] : "?";
}

int vb_devices(void)
{
    int n = 0;
    struct ibv_device **list = ibv_get_device_list(&n);
    if (NULL != list) {
        ibv_free_device_list(list);
    }
    return NULL == list ? 0 : n;
}

bool vb_has_rdma_cm(void)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    if (NULL != channel) {
        rdma_destroy_event_channel(channel);
    }
    return NULL != channel;
}

bool vb_device_of(const struct sockaddr_in *address, vb_abilities_t *able)
{
    struct sockaddr_in any_port = *address;
    struct rdma_cm_id *id = NULL;
    struct rdma_event_channel *channel = rdma_create_event_channel();
    bool found = false;
    any_port.sin_port = 0;
    memset(able, 0, sizeof(*able));
    if (NULL != channel && 0 == rdma_create_id(channel, &id, NULL, RDMA_PS_TCP)) {
        found = 0 == rdma_bind_addr(id, (struct sockaddr *) &any_port) && NULL != id->verbs;
        if (found) {
            snprintf(able->device, sizeof(able->device), "%s",
                     ibv_get_device_name(id->verbs->device));
            able->port = id->port_num;
        }
        (void) rdma_destroy_id(id);
    }
    if (NULL != channel) {
        rdma_destroy_event_channel(channel);
    }
    return found;
}

bool vb_device_open(vb_port_t *port, char *why, size_t size)
{
    int n = 0;
    const char *name = port->config.device;
    struct ibv_device **list = ibv_get_device_list(&n);
    for (int i = 0; NULL != list && i < n && NULL == port->context; ++i) {
        if (0 == strcmp(ibv_get_device_name(list[i]), name)) {
            port->context = ibv_open_device(list[i]);
        }
    }
    if (NULL != list) {
        ibv_free_device_list(list);
    }
    port->owns_context = NULL != port->context;
    return port->owns_context || vb_fails(why, size, "the device %s cannot be opened: %s", name, strerror(errno));
}

/* The interface that a port of RoCE belongs to, into the entry; InfiniBand has none. */
static void find_interface(struct ibv_context *context, const struct ibv_port_attr *attr, vb_device_port_t *entry)
{
    for (int i = 0; i < attr->gid_tbl_len && i < 256 && '\0' == entry->interface[0]; ++i) {
        struct ibv_gid_entry gid;
        if (0 == ibv_query_gid_ex(context, entry->port, (uint32_t) i, &gid, 0) && 0 != gid.ndev_ifindex
            && NULL == if_indextoname(gid.ndev_ifindex, entry->interface)) {
            entry->interface[0] = '\0';
        }
    }
}

static int list_ports(struct ibv_device *device, vb_device_port_t *found, int most)
{
    int n = 0;
    struct ibv_device_attr attr;
    struct ibv_context *context = ibv_open_device(device);
    const bool is_open = NULL != context && 0 == ibv_query_device(context, &attr);
    for (unsigned port = 1; is_open && port <= attr.phys_port_cnt && n < most; ++port) {
        struct ibv_port_attr state;
        memset(&state, 0, sizeof(state));
        if (0 == ibv_query_port(context, (uint8_t) port, &state) && IBV_PORT_ACTIVE == state.state) {
            vb_device_port_t *entry = &found[n++];
            *entry = (vb_device_port_t){.port = (uint8_t) port,
                                        .is_iwarp = IBV_TRANSPORT_IWARP == device->transport_type};
            snprintf(entry->device, sizeof(entry->device), "%s", ibv_get_device_name(device));
            find_interface(context, &state, entry);
        }
    }
    if (NULL != context) {
        (void) ibv_close_device(context);
    }
    return n;
}

int vb_device_ports(vb_device_port_t *found, int most)
{
    int devices = 0, n = 0;
    struct ibv_device **list = ibv_get_device_list(&devices);
    for (int i = 0; NULL != list && i < devices; ++i) {
        n += list_ports(list[i], &found[n], most - n);
    }
    if (NULL != list) {
        ibv_free_device_list(list);
    }
    return n;
}

uint64_t vb_device_rnr(const vb_abilities_t *able)
{
    static const char *const names[] = {"out_of_buffer", /* mlx5 */
                                        "send_rnr_err"}; /* rxe */
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); ++i) {
        char path[160];
        unsigned long long count = 0;
        snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%u/hw_counters/%s",
                 able->device, able->port, names[i]);
        FILE *in = fopen(path, "r");
        if (NULL != in) {
            const bool is_read = 1 == fscanf(in, "%llu", &count);
            fclose(in);
            return is_read ? count : 0;
        }
    }
    return 0;
}

uint32_t vb_mbps(unsigned width_code, unsigned speed_code)
{
    static const struct {
        unsigned code, value;
    } widths[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}},
      speeds[] = {{1, 2500},   {2, 5000},   {4, 10000},  {8, 10000},
                  {16, 14000}, {32, 25000}, {64, 50000}, {128, 100000}, {256, 200000}};
    unsigned width = 1, speed = 2500;
    for (size_t i = 0; i < sizeof(widths) / sizeof(*widths); ++i) {
        width = widths[i].code == width_code ? widths[i].value : width;
    }
    for (size_t i = 0; i < sizeof(speeds) / sizeof(*speeds); ++i) {
        speed = speeds[i].code == speed_code ? speeds[i].value : speed;
    }
    return width * speed;
}

/* XDR does not fit into the old field. */
static unsigned speed_of(const struct ibv_port_attr *attr)
{
#ifdef SPEC_HAS_SPEED_EX
    return 0 != attr->active_speed_ex ? attr->active_speed_ex : attr->active_speed;
#else
    return attr->active_speed;
#endif
}

int vb_port_relaxed(const vb_port_t *port, int access)
{
    return port->config.relaxed ? access | IBV_ACCESS_RELAXED_ORDERING : access;
}

static void choose_queue(vb_port_t *port, const struct ibv_device_attr *device)
{
    vb_abilities_t *able = &port->able;
    able->shared_queue_why = NULL;
    if (VB_OFF == port->config.shared_queue) {
        able->shared_queue_why = "switched off";
    } else if (VB_IWARP == able->fabric) {
        able->shared_queue_why = "on iWARP a message that finds no buffer ends the connection, so "
                                 "each has its own and credits";
    } else if (0 == device->max_srq || device->max_srq_wr < 16) {
        able->shared_queue_why = "the device has none";
    }
    able->shared_queue = NULL == able->shared_queue_why;
}

/* Depths of queues, as the device has them. False: they are too short. */
static bool choose_depths(vb_port_t *port, const struct ibv_device_attr *device)
{
    vb_config_t *config = &port->config;
    vb_abilities_t *able = &port->able;
    port->initiator_depth = (uint8_t) vb_least(16, (uint32_t) device->max_qp_init_rd_atom);
    port->responder_resources = (uint8_t) vb_least(16, (uint32_t) device->max_qp_rd_atom);
    port->send_depth = vb_least(config->send_depth, (uint32_t) device->max_qp_wr);
    port->link_spare = able->shared_queue ? 0 : VB_CONTROL_MAX;
    port->link_receives = able->shared_queue ? 0
                                             : vb_least(config->link_window_max + port->link_spare,
                                                     (uint32_t) device->max_qp_wr);
    config->window_max = vb_least(config->window_max, able->shared_queue ? (uint32_t) device->max_srq_wr
                                                                      : port->link_receives - port->link_spare);
    config->window_initial = vb_least(config->window_initial, config->window_max);
    able->queue_depth = port->send_depth;
    const uint32_t wanted =
        config->entries + (able->shared_queue ? config->window_max : config->entries);
    port->entries.limit = vb_least(wanted, (uint32_t) device->max_cqe);
    return port->send_depth >= 4 && config->window_initial >= 1 && port->entries.limit >= 64;
}

bool vb_port_examine(vb_port_t *port, uint8_t number, char *why, size_t size)
{
    struct ibv_device_attr device;
    struct ibv_port_attr attr;
    vb_abilities_t *able = &port->able;
    memset(&attr, 0, sizeof(attr));
    int rc = ibv_query_device(port->context, &device);
    if (0 == rc) {
        rc = ibv_query_port(port->context, number, &attr);
    }
    snprintf(able->device, sizeof(able->device), "%s", ibv_get_device_name(port->context->device));
    able->port = number;
    if (0 != rc) {
        return vb_fails(why, size, "it cannot be asked what it can do: %s", strerror(rc));
    }
    able->fabric = IBV_TRANSPORT_IWARP == port->context->device->transport_type ? VB_IWARP
                   : IBV_LINK_LAYER_ETHERNET == attr.link_layer                 ? VB_ROCE
                                                                                : VB_INFINIBAND;
    if (device.max_sge < 2) {
        return vb_fails(why, size, "a work request takes %d piece of memory, and 2 are needed",
                 device.max_sge);
    }
    choose_queue(port, &device);
    able->atomics = IBV_ATOMIC_NONE != device.atomic_cap && VB_IWARP != able->fabric;
    able->atomics_coherent = IBV_ATOMIC_GLOB == device.atomic_cap;
    able->atomics_why = able->atomics ? NULL : "the device has none";
    able->software = VENDOR_SIW == device.vendor_id || VENDOR_RXE == device.vendor_id;
    able->fences_why = why_no_fence(device.vendor_id);
    able->fences = NULL == able->fences_why;
    able->inline_max = port->config.inline_max;
    able->message_max = 0 != attr.max_msg_sz ? vb_least(attr.max_msg_sz, UINT32_C(1) << 30) : UINT32_C(1) << 30;
    able->mbps = vb_mbps(attr.active_width, speed_of(&attr));

    return choose_depths(port, &device)
           || vb_fails(why, size, "its queues are too short: %d work requests, %d completions", device.max_qp_wr,
                       device.max_cqe);
}
