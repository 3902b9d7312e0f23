/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Which interfaces of two hosts talk to each other (btl_ibx_net.h). The file under test is a part of the component and
 * not of a library, so it is included. */
#include "spec_unit.h"

#include "../../opal/mca/btl/ibx/btl_ibx_net.c"

typedef struct host {
    unsigned n;
    mca_btl_ibx_interface_t interface[MCA_BTL_IBX_INTERFACES];
    mca_btl_ibx_offer_t offer[MCA_BTL_IBX_INTERFACES];
} host_t;

static void add(host_t *h, const char *address, uint8_t prefix)
{
    static const iw_key_t key;
    mca_btl_ibx_interface_t *i = &h->interface[h->n];
    memset(i, 0, sizeof(*i));
    snprintf(i->name, sizeof(i->name), "e%u", h->n);
    i->prefix = prefix;
    if (NULL != strchr(address, ':')) {
        i->address.v6.sin6_family = AF_INET6;
        assert_int_equal(inet_pton(AF_INET6, address, &i->address.v6.sin6_addr), 1);
        i->is_loopback = IN6_IS_ADDR_LOOPBACK(&i->address.v6.sin6_addr);
    } else {
        i->address.v4.sin_family = AF_INET;
        assert_int_equal(inet_pton(AF_INET, address, &i->address.v4.sin_addr), 1);
        i->is_loopback = 0 == strncmp(address, "127.", 4);
    }
    mca_btl_ibx_offer_make(&h->offer[h->n++], i, &i->address, &key);
}

static int pair(const host_t *a, unsigned mine, const host_t *b, bool same_host)
{
    return mca_btl_ibx_pair(a->interface, a->n, mine, b->offer, b->n, same_host);
}

static void pairs_by_network(void **state)
{
    (void) state;
    host_t a = {0}, b = {0};
    add(&a, "10.0.0.1", 24), add(&a, "10.0.1.1", 24), add(&a, "fd00::1", 64);
    add(&b, "fd00::2", 64), add(&b, "10.0.1.2", 24), add(&b, "10.0.0.2", 24);
    assert_int_equal(pair(&a, 0, &b, false), 2);
    assert_int_equal(pair(&a, 1, &b, false), 1);
    assert_int_equal(pair(&a, 2, &b, false), 0);
}

/* What two hosts do not share may lead nowhere; it is used only if they share nothing. */
static void routers_are_the_last_resort(void **state)
{
    (void) state;
    host_t a = {0}, b = {0}, c = {0};
    add(&a, "10.0.0.1", 24), add(&a, "192.168.7.1", 24);
    add(&b, "10.0.0.2", 24), add(&b, "192.168.8.1", 24);
    add(&c, "10.0.9.3", 24), add(&c, "192.168.9.1", 24), add(&c, "fd00::1", 64);
    assert_int_equal(pair(&a, 0, &b, false), 0);
    assert_int_equal(pair(&a, 1, &b, false), -1);
    assert_int_equal(pair(&a, 0, &c, false), 0);
    assert_int_equal(pair(&a, 1, &c, false), 1);
    assert_int_equal(pair(&c, 2, &a, false), -1);
}

/* As software for containers makes them: the same private network on every host. */
static void the_same_address_is_not_the_same_host(void **state)
{
    (void) state;
    host_t a = {0}, b = {0};
    add(&a, "10.0.0.1", 24), add(&a, "172.17.0.1", 16);
    add(&b, "172.17.0.1", 16), add(&b, "10.0.0.2", 24);
    assert_int_equal(pair(&a, 0, &b, false), 1);
    assert_int_equal(pair(&a, 1, &b, false), -1);
    /* Two processes of one host do have the same addresses. */
    assert_int_equal(pair(&a, 0, &a, true), 0);
    assert_int_equal(pair(&a, 1, &a, true), 1);
}

static void loopback_stays_on_the_host(void **state)
{
    (void) state;
    host_t a = {0};
    add(&a, "127.0.0.1", 8);
    assert_int_equal(pair(&a, 0, &a, true), 0);
    assert_int_equal(pair(&a, 0, &a, false), -1);
}

/* If a's interface i talks to b's j, then b's j talks to a's i, whatever they have. */
static void both_sides_agree(void **state)
{
    (void) state;
    rng_t rng = {7};
    unsigned paired = 0;
    for (int round = 0; round < 20000; ++round) {
        host_t h[2] = {{0}, {0}};
        for (int side = 0; side < 2; ++side) {
            for (uint32_t n = 1 + rng_below(&rng, 5); n > 0; --n) {
                char text[64];
                if (rng_percent(&rng, 30)) {
                    snprintf(text, sizeof(text), "fd00:%u::%u", rng_below(&rng, 3), 1 + rng_below(&rng, 4));
                    add(&h[side], text, 64);
                } else {
                    snprintf(text, sizeof(text), "10.0.%u.%u", rng_below(&rng, 3), 1 + rng_below(&rng, 4));
                    add(&h[side], text, 24);
                }
            }
        }
        for (int side = 0; side < 2; ++side) {
            for (unsigned i = 0; i < h[side].n; ++i) {
                const int j = pair(&h[side], i, &h[!side], false);
                if (j >= 0) {
                    ++paired;
                    assert_int_equal(pair(&h[!side], (unsigned) j, &h[side], false), i);
                }
            }
        }
    }
    assert_true(paired > 20000);
}

static void lists_name_interfaces_and_networks(void **state)
{
    (void) state;
    host_t h = {0};
    add(&h, "10.1.2.3", 24), add(&h, "fd00::1", 64);
    assert_int_equal(is_in("e0", &h.interface[0]), 1);
    assert_int_equal(is_in("e1", &h.interface[0]), 0);
    assert_int_equal(is_in("x,10.0.0.0/8", &h.interface[0]), 1);
    assert_int_equal(is_in("10.1.3.0/24", &h.interface[0]), 0);
    assert_int_equal(is_in("10.1.3.0/23", &h.interface[0]), 1);
    assert_int_equal(is_in("fd00::/8", &h.interface[1]), 1);
    assert_int_equal(is_in("0.0.0.0/0", &h.interface[1]), 0);
    assert_null(mca_btl_ibx_refuse_list("lo,,10.0.0.0/8,fd00::/8"));
    assert_null(mca_btl_ibx_refuse_list(""));
    assert_non_null(mca_btl_ibx_refuse_list(","));
    for (size_t i = 0; i < 5; ++i) {
        const char *bad[] = {"10.0.0.0/33", "10.0.0/8", "fd00::/129", "lo,/8", "lo,none0"};
        assert_false(is_in(bad[i], &h.interface[1]) || NULL == mca_btl_ibx_refuse_list(bad[i]));
    }
}

static void a_route_is_known_or_not(void **state)
{
    (void) state;
    host_t h = {0};
    add(&h, "127.0.0.1", 8), add(&h, "127.0.0.2", 8), add(&h, "192.0.2.1", 24);
    assert_true(mca_btl_ibx_has_route(&h.interface[0].address, &h.interface[1].address));
    /* An address that is not ours (RFC 5737) cannot be left from. */
    assert_false(mca_btl_ibx_has_route(&h.interface[2].address, &h.interface[1].address));
}

/* Near is this host, and the network of the interface. */
static void a_network_promises_a_round_trip(void **state)
{
    (void) state;
    host_t h = {0};
    add(&h, "10.0.3.1", 22), add(&h, "10.0.1.9", 22), add(&h, "10.0.4.1", 22);
    add(&h, "fd00::1", 64), add(&h, "fd00::2", 64), add(&h, "fd00:0:0:1::2", 64);
    const mca_btl_ibx_interface_t *four = &h.interface[0], *six = &h.interface[3];
    assert_int_equal(mca_btl_ibx_trip(four, &four[0].address), TRIP_HOST);
    assert_int_equal(mca_btl_ibx_trip(four, &four[1].address), TRIP_LINK);
    assert_int_equal(mca_btl_ibx_trip(four, &four[2].address), 0);
    assert_int_equal(mca_btl_ibx_trip(six, &six[0].address), TRIP_HOST);
    assert_int_equal(mca_btl_ibx_trip(six, &six[1].address), TRIP_LINK);
    assert_int_equal(mca_btl_ibx_trip(six, &six[2].address), 0);
    assert_int_equal(mca_btl_ibx_trip(six, &four[0].address), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_by_network),
        cmocka_unit_test(routers_are_the_last_resort),
        cmocka_unit_test(the_same_address_is_not_the_same_host),
        cmocka_unit_test(loopback_stays_on_the_host),
        cmocka_unit_test(both_sides_agree),
        cmocka_unit_test(lists_name_interfaces_and_networks),
        cmocka_unit_test(a_route_is_known_or_not),
        cmocka_unit_test(a_network_promises_a_round_trip),
    };
    return cmocka_run_group_tests_name("ibx_net", tests, NULL, NULL);
}
