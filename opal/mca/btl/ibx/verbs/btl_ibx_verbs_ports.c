/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Which ports of the host's adapters are used: those that are up, and that btl_ibx_if_include and its like name. */
#include "verbs/btl_ibx_verbs_module.h"

/* Does the list name this device ("rxe0") or port ("rxe0:1")? */
static bool names_device(const char *list, const vb_abilities_t *able)
{
    char port[IBV_SYSFS_NAME_MAX + 8];
    snprintf(port, sizeof(port), "%s:%u", able->device, able->port);
    return mca_btl_ibx_names(list, able->device) || mca_btl_ibx_names(list, port);
}

/* Is the interface named by the lists, as far as they name interfaces and networks? */
static bool is_listed(const char *include, const char *exclude,
                      const mca_btl_ibx_interface_t *interface)
{
    mca_btl_ibx_interface_t found[MCA_BTL_IBX_INTERFACES];
    return mca_btl_ibx_is_among(found, mca_btl_ibx_interfaces(found, include, exclude), interface->name);
}

static bool is_wanted(const mca_btl_ibx_interface_t *interface, const vb_abilities_t *able)
{
    const mca_btl_ibx_component_t *c = &mca_btl_ibx_component;
    if (mca_btl_ibx_is_given(c->if_include)) {
        return names_device(c->if_include, able) || is_listed(c->if_include, NULL, interface);
    }
    return !names_device(c->if_exclude, able) && is_listed(NULL, c->if_exclude, interface);
}

/* ---- opening ---- */

/* What becomes of the host's ports. */
typedef struct opening {
    mca_btl_ibx_verbs_opener_t open;
    void *context;
    bool has_cm; /* rdma_cm can be used; else no address is of a port */
    vb_abilities_t seen[MCA_BTL_IBX_INTERFACES]; /* ports that have an address: device and number */
    unsigned n;
} opening_t;

static void open_addresses(opening_t *opening)
{
    mca_btl_ibx_interface_t all[MCA_BTL_IBX_INTERFACES];
    const int n = opening->has_cm ? mca_btl_ibx_interfaces(all, NULL, NULL) : 0;
    for (int i = 0; i < n; ++i) {
        vb_abilities_t *able = &opening->seen[opening->n];
        if (AF_INET != all[i].address.any.sa_family || all[i].is_loopback
            || !vb_device_of(&all[i].address.v4, able)) {
            continue;
        }
        ++opening->n;
        if (is_wanted(&all[i], able)) {
            opening->open(opening->context, &all[i], able);
        }
    }
}

static bool has_address(const opening_t *opening, const vb_device_port_t *port)
{
    for (unsigned i = 0; i < opening->n; ++i) {
        if (port->port == opening->seen[i].port && 0 == strcmp(port->device, opening->seen[i].device)) {
            return true;
        }
    }
    return false;
}

/* Lists name a port without an address by device, or by its interface. */
static bool is_named(const char *list, const vb_device_port_t *port, const vb_abilities_t *able)
{
    return names_device(list, able) || ('\0' != port->interface[0] && mca_btl_ibx_names(list, port->interface));
}

/* As an interface whose address is the GID, once the port is open. */
static void open_without_address(opening_t *opening, const vb_device_port_t *port)
{
    const mca_btl_ibx_component_t *c = &mca_btl_ibx_component;
    vb_abilities_t able = {.port = port->port};
    snprintf(able.device, sizeof(able.device), "%s", port->device);
    const bool is_included = mca_btl_ibx_is_given(c->if_include);
    if (is_included ? !is_named(c->if_include, port, &able) : is_named(c->if_exclude, port, &able)) {
        return;
    }
    const bool is_auto = VB_CONNECT_AUTO == mca_btl_ibx_verbs_params.connect;
    const char *why_no_cm = opening->has_cm ? "it has no IPv4 address"
                                            : "rdma_cm cannot be used (is the module rdma_ucm loaded?)";
    if (VB_CONNECT_CM == mca_btl_ibx_verbs_params.connect || port->is_iwarp) {
        if (0 == mca_btl_ibx_verbs_modules_n) {
            mca_btl_ibx_explain("adapter not used", "", port->device, (int) port->port, why_no_cm,
                                port->is_iwarp ? "iWARP adapters are connected by nothing else"
                                               : "btl_ibx_connect is cm");
        }
        return;
    }
    if (is_auto && !is_included && opening->n > 0) {
        return; /* what has an address is used as before; it may lead to a network of its own */
    }
    mca_btl_ibx_interface_t interface = {.address.v6.sin6_family = AF_INET6};
    const char *name = '\0' != port->interface[0] ? port->interface : port->device;
    snprintf(interface.name, sizeof(interface.name), "%.*s", (int) sizeof(interface.name) - 1, name);
    opening->open(opening->context, &interface, &able);
}

bool mca_btl_ibx_verbs_each_port(mca_btl_ibx_verbs_opener_t open, void *context)
{
    vb_device_port_t port[MCA_BTL_IBX_INTERFACES];
    /* Without any device the libraries would complain on standard error. */
    if (0 != access("/sys/class/infiniband", X_OK) || vb_devices() <= 0) {
        return false;
    }
    opening_t opening = {.open = open, .context = context, .has_cm = vb_has_rdma_cm()};
    open_addresses(&opening);
    const int n = vb_device_ports(port, MCA_BTL_IBX_INTERFACES);
    for (int i = 0; i < n && mca_btl_ibx_verbs_modules_n < MCA_BTL_IBX_INTERFACES; ++i) {
        if (!has_address(&opening, &port[i])) {
            open_without_address(&opening, &port[i]);
        }
    }
    return true;
}
