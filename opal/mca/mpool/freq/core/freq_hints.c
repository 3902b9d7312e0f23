/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See freq_hints.h: parses the words of MPI_Alloc_mem's info key mpool_hints. */
#include "freq_hints.h"

#include <string.h>
#include <strings.h>

static bool is_space(char c)
{
    return ' ' == c || '\t' == c;
}

static void strip(const char **text, size_t *length)
{
    while (*length > 0 && is_space(**text)) {
        ++*text;
        --*length;
    }
    while (*length > 0 && is_space((*text)[*length - 1])) {
        --*length;
    }
}

static bool is_word(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && 0 == strncasecmp(text, word, length);
}

bool freq_hints_is_true(const char *value, size_t length)
{
    strip(&value, &length);
    return !is_word(value, length, "0") && !is_word(value, length, "false")
           && !is_word(value, length, "no");
}

bool freq_hints_alignment(const char *value, size_t length, size_t *alignment)
{
    size_t n = 0, digits = 0;
    strip(&value, &length);
    for (; digits < length && value[digits] >= '0' && value[digits] <= '9'; ++digits) {
        n = 10 * n + (size_t) (value[digits] - '0');
        if (n > FREQ_ALIGNMENT_MAX) {
            return false;
        }
    }
    if (digits > 0 && digits + 1 == length) {
        static const char units[] = "KMG";
        const char *unit = memchr(units, value[digits] & ~0x20, 3);
        if (NULL == unit) {
            return false;
        }
        n <<= 10 * (unit - units + 1);
    } else if (0 == digits || digits != length) {
        return false;
    }
    if (n > FREQ_ALIGNMENT_MAX || 0 != (n & (n - 1))) {
        return false;
    }
    *alignment = n;
    return true;
}

static bool parse_word(freq_hints_t *hints, const char *word, size_t length, const char *name)
{
    strip(&word, &length);
    const char *equals = memchr(word, '=', length);
    size_t key = NULL == equals ? length : (size_t) (equals - word);
    const char *value = NULL == equals ? word + length : equals + 1;
    size_t value_length = length - (size_t) (value - word);
    const char *key_text = word;
    strip(&key_text, &key);
    strip(&value, &value_length);
    if (is_word(word, key, "mpool")) {
        const bool is_this = is_word(value, value_length, name);
        hints->is_named |= is_this;
        hints->is_other |= !is_this;
    } else if (is_word(word, key, "must_be_shared")) {
        hints->must_be_shared = freq_hints_is_true(value, value_length);
    } else if (is_word(word, key, "must_be_aligned")) {
        hints->must_be_aligned = true;
        return freq_hints_alignment(value, value_length, &hints->alignment);
    } else if (length > 0) {
        hints->has_unknown = true;
    }
    return true;
}

bool freq_hints_parse(freq_hints_t *hints, const char *text, const char *name)
{
    *hints = (freq_hints_t){.is_named = false};
    while (NULL != text && '\0' != *text) {
        const size_t length = strcspn(text, ",");
        if (!parse_word(hints, text, length, name)) {
            return false;
        }
        text += length + (',' == text[length]);
    }
    return true;
}
