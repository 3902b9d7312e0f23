/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Network interfaces: which to use, what to tell the others, which of theirs to talk to.
 *
 * Plain C, no Open MPI. Threads: none. */
#ifndef BTL_IBX_NET_H
#define BTL_IBX_NET_H

#include "iwarp/iw_engine.h"

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MCA_BTL_IBX_INTERFACES 16

typedef struct mca_btl_ibx_interface {
    char name[IF_NAMESIZE];
    iw_address_t address; /* without a port */
    uint8_t prefix;       /* bits of the network */
    bool is_loopback;
    uint32_t mbps; /* megabits per second, as the kernel knows, or an assumption */
} mca_btl_ibx_interface_t;

/* What a process tells of one interface. In network byte order where it matters. */
typedef struct mca_btl_ibx_offer {
    uint8_t family; /* 4 or 6 */
    uint8_t prefix;
    uint8_t port[2];
    uint8_t address[16];
    uint8_t is_loopback;
    uint8_t reserved[3];
    uint8_t key[16];
} mca_btl_ibx_offer_t;
_Static_assert(sizeof(mca_btl_ibx_offer_t) == 40, "an offer has no holes");

#define MCA_BTL_IBX_MODEX_VERSION 2

typedef struct mca_btl_ibx_modex {
    uint8_t version;
    uint8_t count;
    uint8_t auth; /* iw_auth_mode_t: must be the same everywhere */
    uint8_t reserved;
    uint32_t pid;    /* these two for processes of the same host: of this one, */
    uint64_t key_at; /* and where the key of its first offer lies */
    mca_btl_ibx_offer_t offer[MCA_BTL_IBX_INTERFACES];
} mca_btl_ibx_modex_t;

static inline size_t mca_btl_ibx_modex_size(unsigned count)
{
    return offsetof(mca_btl_ibx_modex_t, offer) + count * sizeof(mca_btl_ibx_offer_t);
}

/* Is there a list? */
static inline bool mca_btl_ibx_is_given(const char *list)
{
    return NULL != list && '\0' != *list;
}

/* The words of a list, which commas separate: *word is the next one, of `length` bytes, and *left what is behind it. *left is the
 * list at first, or NULL. False: there are no more. */
static inline bool mca_btl_ibx_next_word(const char **left, const char **word, size_t *length)
{
    if (!mca_btl_ibx_is_given(*left)) {
        return false;
    }
    *word = *left;
    *length = strcspn(*word, ",");
    *left += *length + (',' == (*word)[*length]);
    return true;
}

/* Is this one of the words? */
bool mca_btl_ibx_names(const char *list, const char *name);

/* NULL if this host has all that the list names, and its networks can be understood; else what is wrong. */
const char *mca_btl_ibx_refuse_list(const char *list);

/* The interfaces that are up and wanted: include (if not empty) or all but exclude, both lists of
 * names and networks (eth0,192.0.2.0/24,fd00::/8). Loopback only if included, or if nothing else is
 * left. One address for each interface and family; an interface with IPv4 and IPv6 counts with
 * IPv4 unless `include` names the IPv6 network. Returns how many, at most MCA_BTL_IBX_INTERFACES. */
int mca_btl_ibx_interfaces(mca_btl_ibx_interface_t *found, const char *include,
                           const char *exclude);

/* Is one of this name among them? */
bool mca_btl_ibx_is_among(const mca_btl_ibx_interface_t *found, int n, const char *name);

void mca_btl_ibx_offer_make(mca_btl_ibx_offer_t *offer, const mca_btl_ibx_interface_t *interface,
                            const iw_address_t *bound, const iw_key_t *key);

/* Which of the peer's count interfaces does my interface (number mine of all) talk to? Both sides
 * come to the same pairs. -1: none can be reached. */
int mca_btl_ibx_pair(const mca_btl_ibx_interface_t *all, unsigned n, unsigned mine,
                     const mca_btl_ibx_offer_t *offer, unsigned count, bool same_host);

/* Does the kernel know a way between these addresses? */
bool mca_btl_ibx_has_route(const iw_address_t *from, const iw_address_t *to);

/* For iw_peer_expect: the round trip to an address as the interface's network promises it, ns. Another process of this
 * host, and another host of that network, is near; of any other nothing is known: 0. */
uint64_t mca_btl_ibx_trip(const mca_btl_ibx_interface_t *mine, const iw_address_t *to);

void mca_btl_ibx_offer_address(const mca_btl_ibx_offer_t *offer, iw_address_t *address);

/* The address as text, for people. Returns text. */
const char *mca_btl_ibx_address_text(const iw_address_t *address, char *text, size_t size);

#endif
