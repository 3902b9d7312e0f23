/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Reads and writes the text of a profile: where speculation did not pay in the last run of a program. */
#include "spec_profile.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

size_t spec_profile_begin(char *text, uint32_t ranks)
{
    return (size_t) snprintf(text, 4 * SPEC_PROFILE_LINE,
                             "pml/spec profile %d\n"
                             "ranks %" PRIu32 "\n"
                             "# what did not profit from speculation:\n"
                             "# receiver sender communicator.epoch receiver's-rank sender's-rank "
                             "tag\n",
                             SPEC_PROFILE_VERSION, ranks);
}

size_t spec_profile_stop(char *text, const spec_profile_stop_t *s)
{
    return (size_t) snprintf(text, SPEC_PROFILE_LINE,
                             "stop %" PRIu32 " %" PRIu32 " %" PRIu32 ".%" PRIu32 " %" PRId32
                             " %" PRId32 " %" PRId32 "\n",
                             s->receiver, s->sender, s->cid, s->epoch, s->receiver_rank,
                             s->sender_rank, s->tag);
}

size_t spec_profile_end(char *text, size_t stops)
{
    return (size_t) snprintf(text, SPEC_PROFILE_LINE, "end %zu\n", stops);
}

/* Copy the next line without its end; advance *text. Its length, or -1: no more, or too long. */
static int next_line(const char **text, char *line)
{
    const char *end = strchr(*text, '\n');
    size_t length = NULL == end ? 0 : (size_t) (end - *text);
    if (NULL == end || length >= SPEC_PROFILE_LINE) {
        return -1;
    }
    memcpy(line, *text, length);
    line[length] = '\0';
    *text = end + 1;
    return (int) length;
}

/* Does the line match the format with all its n numbers, and nothing behind them? */
#define MATCHES(line, format, n, ...)                                                              \
    (end = -1, (n) == sscanf(line, format "%n", __VA_ARGS__, &end) && end >= 0 && '\0' == line[end])

static int is_in_range(const spec_profile_stop_t *s, uint32_t ranks)
{
    return s->receiver < ranks && s->sender < ranks && s->cid <= 0xffff && s->epoch <= 0xff
           && s->receiver_rank >= 0 && s->sender_rank >= 0
           && (uint32_t) s->receiver_rank < ranks && (uint32_t) s->sender_rank < ranks;
}

const char *spec_profile_read(const char *text, uint32_t ranks, unsigned *number,
                              void (*each)(void *context, const spec_profile_stop_t *stop),
                              void *context)
{
    char line[SPEC_PROFILE_LINE];
    size_t stops = 0, said;
    int version, end;
    uint32_t size;

    *number = 1;
    if (next_line(&text, line) < 0 || !MATCHES(line, "pml/spec profile %d", 1, &version)) {
        return "it is not a profile of pml/spec";
    }
    if (SPEC_PROFILE_VERSION != version) {
        return "it was written by another version of pml/spec";
    }
    ++*number;
    if (next_line(&text, line) < 0 || !MATCHES(line, "ranks %" SCNu32, 1, &size)) {
        return "the number of ranks is missing";
    }
    if (size != ranks) {
        return "it was written by a job of another size";
    }
    for (;;) {
        spec_profile_stop_t s;
        ++*number;
        if (next_line(&text, line) < 0) {
            return "the end is missing (was it cut off?)";
        }
        if ('#' == line[0]) {
            continue;
        }
        if (MATCHES(line, "end %zu", 1, &said)) {
            return said != stops ? "the number of lines is not what its end says"
                   : '\0' != *text ? "something follows its end"
                                   : NULL;
        }
        if (!MATCHES(line,
                     "stop %" SCNu32 " %" SCNu32 " %" SCNu32 ".%" SCNu32 " %" SCNd32 " %" SCNd32
                     " %" SCNd32,
                     7, &s.receiver, &s.sender, &s.cid, &s.epoch, &s.receiver_rank, &s.sender_rank,
                     &s.tag)) {
            return "a line cannot be understood";
        }
        if (!is_in_range(&s, ranks)) {
            return "a number is out of range";
        }
        ++stops;
        if (NULL != each) {
            each(context, &s);
        }
    }
}
