/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Draws the faults of a test from rates and a seed: loss, duplicates, reordering, delay, damage. */
#include "iw_fault.h"

#include "iw_random.h"

#include <stdlib.h>
#include <string.h>

#define MILLION 1000000u

void iw_fault_init(iw_fault_t *f, const iw_fault_rates_t *rates, uint64_t seed)
{
    *f = (iw_fault_t){.rates = *rates, .random = seed};
}

bool iw_fault_active(const iw_fault_t *f)
{
    const iw_fault_rates_t *r = &f->rates;
    return 0 != (r->drop | r->duplicate | r->reorder | r->delay | r->corrupt | r->truncate);
}

static uint64_t draw(iw_fault_t *f)
{
    return iw_random_next(&f->random);
}

static bool happens(iw_fault_t *f, uint32_t rate, uint64_t *count)
{
    if (0 == rate || draw(f) % MILLION >= rate) {
        return false;
    }
    ++*count;
    return true;
}

iw_fate_t iw_fault_decide(iw_fault_t *f, size_t length)
{
    iw_fate_t fate = {.length = length};
    if (happens(f, f->rates.drop, &f->dropped)) {
        fate.drop = true;
        return fate;
    }
    fate.twice = happens(f, f->rates.duplicate, &f->duplicated);
    if (happens(f, f->rates.truncate, &f->truncated) && length > 0) {
        fate.length = draw(f) % length;
    }
    if (fate.length > 0 && happens(f, f->rates.corrupt, &f->corrupted)) {
        fate.corrupt = true;
        fate.flip = draw(f) % (fate.length * 8);
    }
    uint64_t longest = 0 == f->rates.delay_ns ? 1000000 : f->rates.delay_ns;
    if (happens(f, f->rates.delay, &f->delayed)) {
        fate.delay_ns = 1 + draw(f) % longest;
    } else if (happens(f, f->rates.reorder, &f->reordered)) {
        fate.delay_ns = 1 + draw(f) % (1 + longest / 16);
    }
    return fate;
}

static bool parse_rate(const char *text, char **end, uint32_t *rate)
{
    double share = strtod(text, end);
    if (*end == text || !(share >= 0.0 && share <= 1.0)) {
        return false;
    }
    *rate = (uint32_t) (share * MILLION + 0.5);
    return true;
}

static bool parse_time(const char *text, char **end, uint64_t *ns)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    double value = strtod(text, end);
    if (*end == text || !(value >= 0.0 && value <= 1e6)) {
        return false;
    }
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); ++i) {
        size_t n = strlen(units[i].name);
        if (0 == strncmp(*end, units[i].name, n)) {
            *end += n;
            *ns = (uint64_t) (value * units[i].ns);
            return true;
        }
    }
    return false;
}

bool iw_fault_parse(iw_fault_rates_t *rates, const char *text)
{
    iw_fault_rates_t r = {0};
    const struct {
        const char *name;
        uint32_t *rate;
    } words[] = {{"drop=", &r.drop},   {"duplicate=", &r.duplicate}, {"reorder=", &r.reorder},
                 {"delay=", &r.delay}, {"corrupt=", &r.corrupt},     {"truncate=", &r.truncate}};
    while ('\0' != *text) {
        uint32_t *rate = NULL;
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); ++i) {
            size_t n = strlen(words[i].name);
            if (0 == strncmp(text, words[i].name, n)) {
                rate = words[i].rate;
                text += n;
                break;
            }
        }
        char *end;
        if (NULL == rate || !parse_rate(text, &end, rate)) {
            return false;
        }
        if (':' == *end && (rate != &r.delay || !parse_time(end + 1, &end, &r.delay_ns))) {
            return false;
        }
        if (',' == *end) {
            ++end;
        } else if ('\0' != *end) {
            return false;
        }
        text = end;
    }
    *rates = r;
    return true;
}
