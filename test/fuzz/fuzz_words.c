/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* libFuzzer: what comes as text - parameters, hints of MPI_Alloc_mem, the file of a profile - and the addresses that a peer
 * publishes. The first byte says which. What is taken makes sense; what is refused has changed nothing. */
#include "freq_hints.h"
#include "fuzz_script.h"
#include "iw_fault.h"
#include "opal/mca/btl/ibx/btl_ibx_net.h"
#include "spec_profile.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RANKS = 5, MILLION = 1000000 };

static void a_stop(void *context, const spec_profile_stop_t *stop)
{
    unsigned *stops = context;
    MUST(stop->receiver < RANKS && stop->sender < RANKS);
    ++*stops;
}

/* Read once to check it and once more to use it, as the component does. */
static void profile(const char *text)
{
    unsigned line = 0, stops = 0;
    const char *wrong = spec_profile_read(text, RANKS, &line, NULL, NULL);
    if (NULL == wrong) {
        MUST(NULL == spec_profile_read(text, RANKS, &line, a_stop, &stops));
        MUST(stops <= strlen(text) / 10);
    } else {
        MUST(line > 0 && line <= strlen(text) + 1);
    }
}

static void faults(const char *text)
{
    iw_fault_rates_t rates = {.drop = 7}, before = rates;
    if (!iw_fault_parse(&rates, text)) {
        MUST(0 == memcmp(&rates, &before, sizeof(rates)));
        return;
    }
    MUST(rates.drop <= MILLION && rates.duplicate <= MILLION && rates.reorder <= MILLION);
    MUST(rates.delay <= MILLION && rates.corrupt <= MILLION && rates.truncate <= MILLION);
    iw_fault_t f;
    iw_fault_init(&f, &rates, 7);
    for (unsigned i = 0; i < 4; ++i) {
        const iw_fate_t fate = iw_fault_decide(&f, 100);
        MUST(fate.length <= 100 && (!fate.corrupt || fate.flip < 8 * 100));
    }
}

static void hints(const char *text)
{
    freq_hints_t h;
    size_t alignment = 0;
    if (freq_hints_parse(&h, text, "freq") && h.must_be_aligned) {
        MUST(h.alignment <= FREQ_ALIGNMENT_MAX && 0 == (h.alignment & (h.alignment - 1)));
    }
    (void) freq_hints_is_true(text, strlen(text));
    if (freq_hints_alignment(text, strlen(text), &alignment)) {
        MUST(alignment <= FREQ_ALIGNMENT_MAX && 0 == (alignment & (alignment - 1)));
    }
}

/* Two lists, with a line's end between. */
static void interfaces(char *text)
{
    mca_btl_ibx_interface_t found[MCA_BTL_IBX_INTERFACES];
    char *exclude = strchr(text, '\n');
    if (NULL != exclude) {
        *exclude++ = '\0';
    }
    (void) mca_btl_ibx_refuse_list(text);
    const int n = mca_btl_ibx_interfaces(found, text, exclude);
    MUST(n >= 0 && n <= MCA_BTL_IBX_INTERFACES);
}

/* What a peer says of itself, to a process with two interfaces. */
static void offers(const uint8_t *data, size_t size)
{
    mca_btl_ibx_interface_t mine[2] = {{.name = "a", .prefix = 24}, {.name = "b", .prefix = 64}};
    mca_btl_ibx_offer_t offer[MCA_BTL_IBX_INTERFACES];
    const unsigned count = (unsigned) (size / sizeof(offer[0]));
    const unsigned n = count < MCA_BTL_IBX_INTERFACES ? count : MCA_BTL_IBX_INTERFACES;
    memcpy(offer, data, n * sizeof(offer[0]));
    mine[0].address.v4.sin_family = AF_INET;
    mine[0].address.v4.sin_addr.s_addr = htonl(0xc0000201);
    mine[1].address.v6.sin6_family = AF_INET6;
    mine[1].address.v6.sin6_addr.s6_addr[0] = 0xfd;
    for (unsigned i = 0; i < 4; ++i) {
        const int pair = mca_btl_ibx_pair(mine, 2, i & 1, offer, n, i & 2);
        MUST(pair >= -1 && pair < (int) n);
    }
    for (unsigned i = 0; i < n; ++i) {
        iw_address_t address;
        memset(&address, 0, sizeof(address));
        mca_btl_ibx_offer_address(&offer[i], &address);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (0 == size) {
        return 0;
    }
    char *text = malloc(size); /* no byte behind its end */
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    switch (0xff == data[0] ? 4
                            : data[0] % 4) { /* asking the system for its interfaces takes long */
    case 0:
        profile(text);
        break;
    case 1:
        faults(text);
        break;
    case 2:
        hints(text);
        break;
    case 3:
        offers(data + 1, size - 1);
        break;
    default:
        interfaces(text);
        break;
    }
    free(text);
    return 0;
}
