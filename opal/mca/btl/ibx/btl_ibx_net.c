/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Reads the host's network interfaces, and pairs them with those that another process published. */
#include "btl_ibx_net.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* What the kernel does not know (virtual interfaces) counts as 10 Gb/s. */
#define ASSUMED_MBPS 10000u

/* ns. Before the first answer a round trip is taken to last so long: on this host what a time slice of a scheduler makes
 * of it; in one network, without a router, what the full buffer of a switch's port does (1 MB at 1 Gbit/s: 8 ms).
 * Neither is certain, an emulated network can be around the world: the timeouts double from there, so that 800 ms cost
 * four datagrams more. A datagram that is lost, though, is sent again after three times of that, and not after a second. */
#define TRIP_HOST UINT64_C(2000000)
#define TRIP_LINK UINT64_C(10000000)

bool mca_btl_ibx_names(const char *list, const char *name)
{
    const char *word;
    size_t length;
    while (mca_btl_ibx_next_word(&list, &word, &length)) {
        if (strlen(name) == length && 0 == strncmp(word, name, length)) {
            return true;
        }
    }
    return false;
}

static const uint8_t *bytes_of(const iw_address_t *a)
{
    return AF_INET6 == a->any.sa_family ? a->v6.sin6_addr.s6_addr
                                        : (const uint8_t *) &a->v4.sin_addr;
}

static bool same_network(const uint8_t *a, const uint8_t *b, unsigned prefix)
{
    const unsigned whole = prefix / 8, bits = prefix % 8;
    return 0 == memcmp(a, b, whole) && (0 == bits || (a[whole] ^ b[whole]) >> (8 - bits) == 0);
}

static uint8_t prefix_of(const struct sockaddr *mask)
{
    const uint8_t *b = AF_INET6 == mask->sa_family
                           ? ((const struct sockaddr_in6 *) mask)->sin6_addr.s6_addr
                           : (const uint8_t *) &((const struct sockaddr_in *) mask)->sin_addr;
    const unsigned n = AF_INET6 == mask->sa_family ? 16 : 4;
    uint8_t bits = 0;
    for (unsigned i = 0; i < n; ++i) {
        bits += (uint8_t) __builtin_popcount(b[i]);
    }
    return bits;
}

static uint32_t speed_of(const char *name)
{
    char path[64 + IF_NAMESIZE];
    long mbps = 0;
    snprintf(path, sizeof(path), "/sys/class/net/%s/speed", name);
    FILE *in = fopen(path, "re");
    if (NULL != in) {
        if (1 != fscanf(in, "%ld", &mbps)) {
            mbps = 0;
        }
        fclose(in);
    }
    return mbps > 0 && mbps < 10000000 ? (uint32_t) mbps : ASSUMED_MBPS;
}

/* Does a word of a list mean this interface: its name, or a network that its address is in?
 * -1: the word is neither a name that fits an interface nor a network. */
static int means(const char *word, size_t length, const mca_btl_ibx_interface_t *interface)
{
    char text[64];
    uint8_t network[16];
    if (length >= sizeof(text)) {
        return -1;
    }
    memcpy(text, word, length);
    text[length] = '\0';
    char *slash = strchr(text, '/');
    if (NULL == slash) {
        return 0 == strcmp(text, interface->name);
    }
    *slash = '\0';
    char *end;
    const unsigned long prefix = strtoul(slash + 1, &end, 10);
    const int family = NULL != strchr(text, ':') ? AF_INET6 : AF_INET;
    if ('\0' != *end || end == slash + 1 || prefix > (AF_INET6 == family ? 128 : 32)
        || 1 != inet_pton(family, text, network)) {
        return -1;
    }
    return family == interface->address.any.sa_family
           && same_network(network, bytes_of(&interface->address), (unsigned) prefix);
}

/* Is the interface in the list, as far as that can be understood? */
static bool is_in(const char *list, const mca_btl_ibx_interface_t *interface)
{
    const char *word;
    size_t length;
    bool found = false;
    while (mca_btl_ibx_next_word(&list, &word, &length)) {
        found |= length > 0 && means(word, length, interface) > 0;
    }
    return found;
}

/* Is it an interface of this host, or an RDMA device or a port of one ("rxe0:1")? */
static bool exists(const char *name)
{
    char path[96];
    snprintf(path, sizeof(path), "/sys/class/infiniband/%.*s", (int) strcspn(name, ":"), name);
    return 0 != if_nametoindex(name) || 0 == access(path, F_OK);
}

const char *mca_btl_ibx_refuse_list(const char *list)
{
    static char text[192];
    static const mca_btl_ibx_interface_t none;
    const char *word;
    size_t length;
    if ('\0' != *list && '\0' == list[strspn(list, ", ")]) {
        return "interfaces, RDMA devices or networks, at least one (eth0,rxe0:1,192.0.2.0/24)";
    }
    while (mca_btl_ibx_next_word(&list, &word, &length)) {
        char one[64];
        snprintf(one, sizeof(one), "%.*s", (int) length, word);
        const bool is_fine = 0 == length || (NULL != strchr(one, '/') ? means(word, length, &none) >= 0 : exists(one));
        if (!is_fine) {
            snprintf(text, sizeof(text),
                     "interfaces and RDMA devices of this host, networks (eth0,rxe0:1,192.0.2.0/24);\n"
                     "             not %s",
                     one);
            return text;
        }
    }
    return NULL;
}

static bool describe(const struct ifaddrs *i, mca_btl_ibx_interface_t *interface)
{
    if (NULL == i->ifa_addr || NULL == i->ifa_netmask || !(i->ifa_flags & IFF_UP)
        || !(i->ifa_flags & IFF_RUNNING)) {
        return false;
    }
    const bool six = AF_INET6 == i->ifa_addr->sa_family;
    if (!six && AF_INET != i->ifa_addr->sa_family) {
        return false;
    }
    memset(interface, 0, sizeof(*interface));
    memcpy(&interface->address, i->ifa_addr,
           six ? sizeof(interface->address.v6) : sizeof(interface->address.v4));
    if (six && IN6_IS_ADDR_LINKLOCAL(&interface->address.v6.sin6_addr)) {
        return false; /* means something else on every host */
    }
    snprintf(interface->name, sizeof(interface->name), "%s", i->ifa_name);
    interface->prefix = prefix_of(i->ifa_netmask);
    interface->is_loopback = 0 != (i->ifa_flags & IFF_LOOPBACK);
    interface->mbps = speed_of(i->ifa_name);
    return true;
}

bool mca_btl_ibx_is_among(const mca_btl_ibx_interface_t *found, int n, const char *name)
{
    for (int i = 0; i < n; ++i) {
        if (0 == strcmp(found[i].name, name)) {
            return true;
        }
    }
    return false;
}

int mca_btl_ibx_interfaces(mca_btl_ibx_interface_t *found, const char *include, const char *exclude)
{
    struct ifaddrs *all;
    const bool chosen = mca_btl_ibx_is_given(include);
    int n = 0;
    if (0 != getifaddrs(&all)) {
        return 0;
    }
    /* IPv4 before IPv6, real interfaces before loopback. */
    for (int round = 0; round < 4; ++round) {
        const int family = round % 2 ? AF_INET6 : AF_INET;
        const bool loopback = round >= 2;
        if (loopback && !chosen && n > 0) {
            break;
        }
        for (const struct ifaddrs *i = all; NULL != i && n < MCA_BTL_IBX_INTERFACES; i = i->ifa_next) {
            mca_btl_ibx_interface_t one;
            if (!describe(i, &one) || family != one.address.any.sa_family
                || loopback != one.is_loopback) {
                continue;
            }
            if (chosen == is_in(chosen ? include : exclude, &one) && !mca_btl_ibx_is_among(found, n, one.name)) {
                found[n++] = one;
            }
        }
    }
    freeifaddrs(all);
    return n;
}

void mca_btl_ibx_offer_make(mca_btl_ibx_offer_t *offer, const mca_btl_ibx_interface_t *interface,
                            const iw_address_t *bound, const iw_key_t *key)
{
    const bool six = AF_INET6 == bound->any.sa_family;
    const uint16_t port = six ? bound->v6.sin6_port : bound->v4.sin_port;
    memset(offer, 0, sizeof(*offer));
    offer->family = six ? 6 : 4;
    offer->prefix = interface->prefix;
    memcpy(offer->port, &port, sizeof(port));
    memcpy(offer->address, bytes_of(bound), six ? 16 : 4);
    offer->is_loopback = interface->is_loopback;
    memcpy(offer->key, key->b, sizeof(offer->key));
}

void mca_btl_ibx_offer_address(const mca_btl_ibx_offer_t *offer, iw_address_t *address)
{
    memset(address, 0, sizeof(*address));
    if (6 == offer->family) {
        address->v6.sin6_family = AF_INET6;
        memcpy(&address->v6.sin6_addr, offer->address, 16);
        memcpy(&address->v6.sin6_port, offer->port, 2);
    } else {
        address->v4.sin_family = AF_INET;
        memcpy(&address->v4.sin_addr, offer->address, 4);
        memcpy(&address->v4.sin_port, offer->port, 2);
    }
}

/* How well do they go together: 0 not at all, 1 through a router, 2 on one network. An address that
 * another host has as well is private to each of them (software for containers makes such). */
static int score(const mca_btl_ibx_interface_t *mine, const mca_btl_ibx_offer_t *theirs,
                 bool same_host)
{
    const bool six = AF_INET6 == mine->address.any.sa_family;
    if ((6 == theirs->family) != six || (theirs->family != 4 && theirs->family != 6)
        || theirs->prefix > (six ? 128 : 32)) {
        return 0;
    }
    if (mine->is_loopback || theirs->is_loopback) {
        return same_host && mine->is_loopback == (0 != theirs->is_loopback) ? 2 : 0;
    }
    if (!same_host && 0 == memcmp(bytes_of(&mine->address), theirs->address, six ? 16 : 4)) {
        return 0;
    }
    return mine->prefix == theirs->prefix
                   && same_network(bytes_of(&mine->address), theirs->address, mine->prefix)
               ? 2
               : 1;
}

int mca_btl_ibx_pair(const mca_btl_ibx_interface_t *all, unsigned n, unsigned mine,
                     const mca_btl_ibx_offer_t *offer, unsigned count, bool same_host)
{
    bool my_taken[MCA_BTL_IBX_INTERFACES] = {false}, their_taken[MCA_BTL_IBX_INTERFACES] = {false};
    bool found = false;
    /* In the order of the interfaces; an interface is in one pair. Where hosts share a network, what
     * they do not share may lead nowhere, so routers are for hosts that share none. */
    for (int want = 2; want > 0 && !found; --want) {
        for (unsigned i = 0; i < n; ++i) {
            for (unsigned j = 0; j < count && !my_taken[i]; ++j) {
                if (!their_taken[j] && want == score(&all[i], &offer[j], same_host)) {
                    my_taken[i] = their_taken[j] = found = true;
                    if (i == mine) {
                        return (int) j;
                    }
                }
            }
        }
    }
    return -1;
}

bool mca_btl_ibx_has_route(const iw_address_t *from, const iw_address_t *to)
{
    iw_address_t local = *from;
    local.v4.sin_port = 0; /* at the same place in both families */
    const int s = socket(from->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (s < 0) {
        return true; /* not known; opening the module's own socket will tell what is wrong */
    }
    /* To connect a UDP socket is to look up the route; nothing is sent. */
    const bool yes = 0 == bind(s, &local.any, iw_address_length(&local))
                     && 0 == connect(s, &to->any, iw_address_length(to));
    close(s);
    return yes;
}

uint64_t mca_btl_ibx_trip(const mca_btl_ibx_interface_t *mine, const iw_address_t *to)
{
    const bool six = AF_INET6 == mine->address.any.sa_family;
    const uint8_t *here = bytes_of(&mine->address), *there = bytes_of(to);
    if (to->any.sa_family != mine->address.any.sa_family) {
        return 0;
    }
    return 0 == memcmp(here, there, six ? 16 : 4)          ? TRIP_HOST
           : same_network(here, there, mine->prefix) ? TRIP_LINK
                                                     : 0;
}

const char *mca_btl_ibx_address_text(const iw_address_t *a, char *text, size_t size)
{
    char host[INET6_ADDRSTRLEN] = "?";
    const bool six = AF_INET6 == a->any.sa_family;
    inet_ntop(a->any.sa_family, bytes_of(a), host, sizeof(host));
    snprintf(text, size, six ? "[%s]:%u" : "%s:%u", host,
             (unsigned) ntohs(six ? a->v6.sin6_port : a->v4.sin_port));
    return text;
}
