/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See show_help.h. */
#include "show_help.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opal/constants.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/mca/pmix/pmix-internal.h"
#include "opal/util/output.h"

static const char line[] =
    "--------------------------------------------------------------------------\n";

static const char *text_of(const char *topic)
{
    for (const spec_help_text_t *t = spec_help_texts; NULL != t->topic; ++t) {
        if (0 == strcmp(t->topic, topic)) {
            return t->text;
        }
    }
    return "(This message has no text.)\n";
}

char *spec_show_help_vstring(const char *file, const char *topic, int with_lines, va_list args)
{
    const char *lines = with_lines ? line : "";
    char *body = NULL, *whole = NULL;
    (void) file;
    if (vasprintf(&body, text_of(topic), args) < 0) {
        return NULL;
    }
    if (asprintf(&whole, "%s%s%s", lines, body, lines) < 0) {
        whole = NULL;
    }
    free(body);
    return whole;
}

/* Does the user want equal messages counted instead of repeated? */
static bool is_aggregated(void)
{
    const bool *value = NULL;
    const int index = mca_base_var_find("opal", NULL, "base", "help_aggregate");
    return index < 0 || OPAL_SUCCESS != mca_base_var_get_value(index, &value, NULL, NULL)
           || NULL == value || *value;
}

/* A message on its way to the launcher. */
typedef struct message_t {
    char *text;
    pmix_info_t *log;
    pmix_info_t *how;
    size_t how_count;
} message_t;

static void free_message(message_t *m)
{
    PMIX_INFO_FREE(m->log, 1);
    if (NULL != m->how) {
        PMIX_INFO_FREE(m->how, m->how_count);
    }
    free(m->text);
    free(m);
}

static void logged(pmix_status_t status, void *message)
{
    message_t *m = message;
    if (PMIX_SUCCESS != status && PMIX_OPERATION_SUCCEEDED != status) {
        fputs(m->text, stderr);
    }
    free_message(m);
}

/* Takes the text. */
static void deliver(const char *file, const char *topic, char *text)
{
    message_t *m = calloc(1, sizeof(*m));
    if (NULL == m) {
        fputs(text, stderr);
        free(text);
        return;
    }
    m->text = text;
    PMIX_INFO_CREATE(m->log, 1);
    PMIX_INFO_LOAD(m->log, PMIX_LOG_STDERR, text, PMIX_STRING);
#ifdef PMIX_LOG_AGG
    bool yes = true;
    if (is_aggregated()) {
        m->how_count = 3;
        PMIX_INFO_CREATE(m->how, m->how_count);
        PMIX_INFO_LOAD(&m->how[0], PMIX_LOG_AGG, &yes, PMIX_BOOL);
        PMIX_INFO_LOAD(&m->how[1], PMIX_LOG_KEY, file, PMIX_STRING);
        PMIX_INFO_LOAD(&m->how[2], PMIX_LOG_VAL, topic, PMIX_STRING);
    }
#endif
    const pmix_status_t status = PMIx_Log_nb(m->log, 1, m->how, m->how_count, logged, m);
    if (PMIX_SUCCESS != status) { /* then nobody calls back */
        logged(status, m);
    }
}

int spec_show_vhelp(const char *file, const char *topic, int with_lines, va_list args)
{
    char *text = spec_show_help_vstring(file, topic, with_lines, args);
    if (NULL == text) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    deliver(file, topic, text);
    return OPAL_SUCCESS;
}

int spec_show_help(const char *file, const char *topic, int with_lines, ...)
{
    va_list args;
    va_start(args, with_lines);
    const int rc = spec_show_vhelp(file, topic, with_lines, args);
    va_end(args);
    return rc;
}
