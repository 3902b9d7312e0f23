/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Parameters of a component as a table: registers them with Open MPI, and ends the job if one has a value that it cannot have.
 *
 * Open MPI reads what it can of a value and drops what follows ("16x" is 16, "-1" of a size is a very large one), and
 * leaves out a component that complains. Here there is one rule for every parameter: a wrong value ends the job in
 * MPI_Init, with a message that names the parameter, the value and what is allowed. A name that no parameter has is
 * told, with the nearest name, and the job goes on: it may be meant for another version.
 *
 * Threads: for the one that registers and opens components. */
#ifndef SPEC_PARAMETERS_H
#define SPEC_PARAMETERS_H

#include "opal_config.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "opal/mca/base/base.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/util/proc.h"

enum { SPEC_PARAMETER_TEXT = 1024 }; /* room for a value, or for what is allowed */

typedef struct spec_parameter {
    const char *name; /* without those of the framework and the component */
    mca_base_var_type_t type;
    int level;                                /* 1 to 9 */
    void *at;                                 /* where the value is kept */
    long long standard;                       /* the default of what is no text */
    const char *text;                         /* the default of a text; NULL: none */
    long long least, most;                    /* of numbers */
    const mca_base_var_enum_value_t *choices; /* of words: ended by one without a string */
    /* Of texts: NULL if this one will do, else what is allowed. */
    const char *(*refuse)(const char *text);
    const char *was; /* the name it had before, which still works; NULL: none */
    const char *help;
} spec_parameter_t;

/* The type of what keeps the value. */
#define SPEC_TYPE_OF(at)                                                                           \
    _Generic(*(at), bool                                                                           \
             : MCA_BASE_VAR_TYPE_BOOL, int                                                         \
             : MCA_BASE_VAR_TYPE_INT, unsigned                                                     \
             : MCA_BASE_VAR_TYPE_UNSIGNED_INT, long                                                \
             : MCA_BASE_VAR_TYPE_LONG, unsigned long                                               \
             : MCA_BASE_VAR_TYPE_SIZE_T, unsigned long long                                        \
             : MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, char *                                        \
             : MCA_BASE_VAR_TYPE_STRING)

/* Entries of a table. Behind what each kind needs: .help, and .was or .refuse. */
#define SPEC_PARAMETER(name_, level_, at_, ...)                                                    \
    {                                                                                              \
        .name = (name_), .type = SPEC_TYPE_OF(at_), .level = (level_), .at = (at_), __VA_ARGS__    \
    }
#define SPEC_NUMBER(name, level, at, standard_, least_, most_, ...)                                \
    SPEC_PARAMETER(name, level, at, .standard = (standard_), .least = (least_), .most = (most_),   \
                   __VA_ARGS__)
#define SPEC_SWITCH(name, level, at, standard_, ...)                                               \
    SPEC_PARAMETER(name, level, at, .standard = (standard_), __VA_ARGS__)
#define SPEC_CHOICE(name, level, at, standard_, choices_, ...)                                     \
    SPEC_PARAMETER(name, level, at, .standard = (standard_), .choices = (choices_), __VA_ARGS__)
#define SPEC_WORDS(name, level, at, text_, ...)                                                    \
    SPEC_PARAMETER(name, level, at, .text = (text_), __VA_ARGS__)

/* A table and its length, for the functions below. */
#define SPEC_PARAMETERS(table) (table), sizeof(table) / sizeof(*(table))

static inline void spec_parameter_name(char name[SPEC_PARAMETER_TEXT],
                                       const mca_base_component_t *component, const char *last)
{
    snprintf(name, SPEC_PARAMETER_TEXT, "%s_%s_%s", component->mca_type_name,
             component->mca_component_name, last);
}

/* ---- what was given ---- */

typedef void (*spec_parameter_each_t)(void *context, const char *name, const char *value);

/* What a line sets that is words of mpirun's command line: "-mca NAME VALUE", any number of times, among others. Only here may
 * quotes enclose a value. */
static inline void spec_parameters_of_words(const char *line, spec_parameter_each_t each, void *context)
{
    static const char *const values[] = {" \"%1023[^\"]\"%n", " '%1023[^']'%n", " %1023s%n"};
    char word[SPEC_PARAMETER_TEXT], value[SPEC_PARAMETER_TEXT];
    int length = 0;
    for (; 1 == sscanf(line, " %1023s%n", word, &length); line += length) {
        if (0 != strcmp(word, "-mca") && 0 != strcmp(word, "--mca")) {
            continue;
        }
        line += length;
        if (1 != sscanf(line, " %1023s%n", word, &length)) {
            return;
        }
        line += length;
        length = 0;
        for (size_t i = 0; 0 == length && i < sizeof(values) / sizeof(*values); ++i) {
            (void) sscanf(line, values[i], value, &length);
        }
        if (0 != length) {
            each(context, word, value);
        }
    }
}

/* What a line of a file of parameters sets: "name = value", where quotes are a part of the value, or words. */
static inline void spec_parameters_of_line(const char *line, spec_parameter_each_t each, void *context)
{
    char name[SPEC_PARAMETER_TEXT], value[SPEC_PARAMETER_TEXT];
    int from = 0, to = 0;
    if ('-' == line[strspn(line, " \t")]) {
        spec_parameters_of_words(line, each, context);
    } else if (1 == sscanf(line, " %1023[^ \t=#\n] = %n%*[^\n]%n", name, &from, &to) && 0 != from) {
        to = to < from ? from : to;
        while (to > from && isspace((unsigned char) line[to - 1])) {
            --to;
        }
        snprintf(value, sizeof(value), "%.*s", to - from, line + from);
        each(context, name, value);
    }
}

static inline void spec_parameters_of_file(const char *path, spec_parameter_each_t each,
                                           void *context)
{
    char line[2 * SPEC_PARAMETER_TEXT];
    FILE *in = fopen(path, "re");
    while (NULL != in && NULL != fgets(line, sizeof(line), in)) {
        spec_parameters_of_line(line, each, context);
    }
    if (NULL != in) {
        fclose(in);
    }
}

/* Those of the files that a parameter of Open MPI's lists, the last file first: the first one counts. */
static inline void spec_parameters_of_files(const char *parameter, spec_parameter_each_t each,
                                            void *context)
{
    int index;
    const char *const *list = NULL;
    if (OPAL_SUCCESS != mca_base_var_find_by_name(parameter, &index)
        || OPAL_SUCCESS != mca_base_var_get_value(index, &list, NULL, NULL) || NULL == list
        || NULL == *list) {
        return;
    }
    char *files = strdup(*list);
    for (char *end = NULL == files ? NULL : files + strlen(files); end > files;) {
        char *path = end;
        while (path > files && NULL == strchr(":,", path[-1])) {
            --path;
        }
        spec_parameters_of_file(path, each, context);
        end = path > files ? path - 1 : files;
        *end = '\0';
    }
    free(files);
}

/* Every parameter in the files that Open MPI reads and in the environment, where mpirun puts those of its command line; the
 * files of its option --tune are read by each process of 4.1. The last one of a name counts. */
static inline void spec_parameters_given(spec_parameter_each_t each, void *context)
{
    extern char **environ;
    spec_parameters_of_files("mca_base_param_files", each, context);
    spec_parameters_of_files("mca_base_envar_file_prefix", each, context);
    for (char **e = environ; NULL != *e; ++e) {
        char name[SPEC_PARAMETER_TEXT];
        const char *end = strchr(*e, '=');
        if (0 == strncmp(*e, "OMPI_MCA_", 9) && NULL != end) {
            snprintf(name, sizeof(name), "%.*s", (int) (end - *e - 9), *e + 9);
            each(context, name, end + 1);
        }
    }
    spec_parameters_of_files("mca_base_override_param_file", each, context);
}

/* ---- values ---- */

/* A whole number, and K, M or G behind it if wanted; SIZE_MAX, as Open MPI shows it, is the largest. False: it is something
 * else. */
static inline bool spec_parameter_number(const char *text, long long *value)
{
    static const char units[] = "kmg", all[] = "18446744073709551615";
    char *end;
    errno = 0;
    if (0 == strcmp(text, all)) {
        *value = LLONG_MAX;
        return true;
    }
    *value = strtoll(text, &end, 0);
    if (end == text || 0 != errno) {
        return false;
    }
    const char *unit = '\0' == *end ? NULL : strchr(units, tolower((unsigned char) *end));
    if (NULL != unit) {
        ++end;
        if (__builtin_mul_overflow(*value, 1LL << 10 * (unit - units + 1), value)) {
            return false;
        }
    }
    return '\0' == *end;
}

static inline bool spec_parameter_is_choice(const spec_parameter_t *p, const char *text,
                                            char allowed[SPEC_PARAMETER_TEXT])
{
    long long number;
    const bool is_number = spec_parameter_number(text, &number);
    size_t n = 0;
    for (const mca_base_var_enum_value_t *c = p->choices; NULL != c->string; ++c) {
        if (0 == strcmp(text, c->string) || (is_number && number == c->value)) {
            return true;
        }
        n += (size_t) snprintf(allowed + n, SPEC_PARAMETER_TEXT - n, "%s%s", 0 == n ? "" : ", ",
                               c->string);
    }
    return false;
}

static inline bool spec_parameter_is_switch(const char *text, char allowed[SPEC_PARAMETER_TEXT])
{
    static const char *const words[] = {"0", "f", "false", "disabled", "no",  "n",
                                        "1", "t", "true",  "enabled",  "yes", "y"};
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); ++i) {
        if (0 == strcasecmp(text, words[i])) {
            return true;
        }
    }
    snprintf(allowed, SPEC_PARAMETER_TEXT, "0 or 1 (also: no, yes, false, true)");
    return false;
}

/* Can it have this value? If not, allowed is what it can have. */
static inline bool spec_parameter_takes(const spec_parameter_t *p, const char *text,
                                        char allowed[SPEC_PARAMETER_TEXT])
{
    if (NULL != p->choices) {
        return spec_parameter_is_choice(p, text, allowed);
    }
    if (MCA_BASE_VAR_TYPE_BOOL == p->type) {
        return spec_parameter_is_switch(text, allowed);
    }
    if (MCA_BASE_VAR_TYPE_STRING == p->type) {
        /* To be empty is as good as not to be given only where that means none. */
        const bool is_none = NULL == p->refuse || ('\0' == *text && NULL == p->text);
        const char *other = is_none ? NULL : p->refuse(text);
        snprintf(allowed, SPEC_PARAMETER_TEXT, "%s", NULL == other ? "" : other);
        return NULL == other;
    }
    long long value;
    snprintf(allowed, SPEC_PARAMETER_TEXT,
             "a whole number from %lld to %lld, which K, M or G may follow", p->least, p->most);
    return spec_parameter_number(text, &value) && value >= p->least && value <= p->most;
}

/* ---- which of a table were given ---- */

typedef struct spec_parameter_search {
    char prefix[SPEC_PARAMETER_TEXT];
    const spec_parameter_t *table;
    size_t n;
    char **given; /* for each of the table, or NULL */
} spec_parameter_search_t;

static inline void spec_parameter_note(void *context, const char *name, const char *value)
{
    const spec_parameter_search_t *s = context;
    const size_t length = strlen(s->prefix);
    for (size_t i = 0; i < s->n && 0 == strncmp(name, s->prefix, length); ++i) {
        const spec_parameter_t *p = &s->table[i];
        if (0 == strcmp(name + length, p->name)
            || (NULL != p->was && 0 == strcmp(name + length, p->was))) {
            free(s->given[i]);
            s->given[i] = strdup(value);
        }
    }
}

/* The values that were given to the parameters of a table, NULL for those that were not. NULL: out of memory. */
static inline char **spec_parameters_find(const mca_base_component_t *component,
                                          const spec_parameter_t *table, size_t n)
{
    spec_parameter_search_t s = {.table = table, .n = n, .given = calloc(n, sizeof(char *))};
    spec_parameter_name(s.prefix, component, "");
    if (NULL != s.given) {
        spec_parameters_given(spec_parameter_note, &s);
    }
    return s.given;
}

static inline void spec_parameters_release(char **given, size_t n)
{
    for (size_t i = 0; NULL != given && i < n; ++i) {
        free(given[i]);
    }
    free(given);
}

/* ---- registering ---- */

static inline void spec_parameter_reset(const spec_parameter_t *p)
{
    switch (p->type) {
    case MCA_BASE_VAR_TYPE_BOOL:
        *(bool *) p->at = 0 != p->standard;
        break;
    case MCA_BASE_VAR_TYPE_INT:
    case MCA_BASE_VAR_TYPE_UNSIGNED_INT:
        *(int *) p->at = (int) p->standard;
        break;
    case MCA_BASE_VAR_TYPE_STRING:
        *(const char **) p->at = p->text;
        break;
    default: /* as long as a long, all of them */
        *(long *) p->at = (long) p->standard;
        break;
    }
}

/* All of a table, with their defaults first. A word that Open MPI would complain of too is left to spec_parameters_check. */
static inline void spec_parameters_register(const mca_base_component_t *component,
                                            const spec_parameter_t *table, size_t n)
{
    char name[SPEC_PARAMETER_TEXT], allowed[SPEC_PARAMETER_TEXT];
    char **given = spec_parameters_find(component, table, n);
    for (const spec_parameter_t *p = table; p < table + n; ++p) {
        const char *word = NULL == given ? NULL : given[p - table];
        mca_base_var_enum_t *values = NULL;
        spec_parameter_reset(p);
        if (NULL != word && (NULL != p->choices || MCA_BASE_VAR_TYPE_BOOL == p->type)
            && !spec_parameter_takes(p, word, allowed)) {
            continue;
        }
        spec_parameter_name(name, component, p->name);
        if (NULL != p->choices
            && OPAL_SUCCESS != mca_base_var_enum_create(name, p->choices, &values)) {
            continue;
        }
        const int index = mca_base_component_var_register(
            component, p->name, p->help, p->type, values, 0, 0,
            (mca_base_var_info_lvl_t) (p->level - 1), MCA_BASE_VAR_SCOPE_READONLY, p->at);
        if (NULL != values) {
            OBJ_RELEASE(values);
        }
        if (index >= 0 && NULL != p->was) {
            (void) mca_base_var_register_synonym(
                index, component->mca_project_name, component->mca_type_name,
                component->mca_component_name, p->was, MCA_BASE_VAR_SYN_FLAG_DEPRECATED);
        }
    }
    spec_parameters_release(given, n);
}

/* ---- telling ---- */

/* A parameter cannot have this value: ends the job. `allowed`: what it can have. The first process of the job tells it.
 * The others are ended by that, on other hosts after some seconds; where only they have it they tell it themselves. */
__attribute__((noreturn)) static inline void
spec_parameter_refuse(const mca_base_component_t *component, const char *last, const char *value,
                      const char *allowed)
{
    char host[256] = "unknown";
    (void) gethostname(host, sizeof(host) - 1);
    if (0 != OPAL_PROC_MY_NAME.vpid) {
        sleep(0 == opal_process_info.my_local_rank ? 10 : 15);
    }
    fprintf(stderr,
            "--------------------------------------------------------------------------\n"
            "A parameter of the component \"%s\" (%s) has a value that it cannot have.\n"
            "MPI_Init ends the job.\n\n"
            "  Parameter: %s_%s_%s\n"
            "  Value:     %s\n"
            "  Allowed:   %s\n"
            "  Host:      %s\n\n"
            "  \"ompi_info --param %s %s --level 9\" explains each parameter.\n"
            "--------------------------------------------------------------------------\n",
            component->mca_component_name, component->mca_type_name, component->mca_type_name,
            component->mca_component_name, last, value, allowed, host, component->mca_type_name,
            component->mca_component_name);
    _exit(1);
}

/* ---- checking ---- */

/* Letters to be changed, left out or put in to make one of the other. */
static inline unsigned spec_parameter_distance(const char *a, const char *b)
{
    unsigned row[128];
    const size_t n = strnlen(b, 127);
    for (size_t j = 0; j <= n; ++j) {
        row[j] = (unsigned) j;
    }
    for (; '\0' != *a; ++a) {
        unsigned corner = row[0]++;
        for (size_t j = 1; j <= n; ++j) {
            const unsigned same = corner + (*a != b[j - 1]);
            const unsigned one = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            corner = row[j];
            row[j] = same < one ? same : one;
        }
    }
    return row[n];
}

/* Tells of a name that begins as all of the component do, and is none. The job goes on. */
static inline void spec_parameter_check_name(void *context, const char *name, const char *value)
{
    const char *prefix = context;
    const mca_base_var_t *var;
    int index;
    if (0 != strncmp(name, prefix, strlen(prefix))
        || OPAL_SUCCESS == mca_base_var_find_by_name(name, &index)) {
        return;
    }
    const char *nearest = NULL;
    unsigned least = UINT_MAX;
    for (int i = 0; i < mca_base_var_get_count(); ++i) {
        if (OPAL_SUCCESS == mca_base_var_get(i, &var)
            && 0 == strncmp(var->mbv_full_name, prefix, strlen(prefix))
            && spec_parameter_distance(name, var->mbv_full_name) < least) {
            nearest = var->mbv_full_name;
            least = spec_parameter_distance(name, nearest);
        }
    }
    fprintf(stderr,
            "--------------------------------------------------------------------------\n"
            "There is no parameter of this name in this version. The job goes on\n"
            "without it.\n\n"
            "  Name:    %s\n"
            "  Value:   %s\n"
            "  Nearest: %s\n"
            "--------------------------------------------------------------------------\n",
            name, value, NULL == nearest ? "" : nearest);
}

/* As the component is opened, which ompi_info does not: ends the job if a parameter has a value that it cannot have. */
static inline void spec_parameters_check(const mca_base_component_t *component,
                                         const spec_parameter_t *table, size_t n)
{
    char allowed[SPEC_PARAMETER_TEXT];
    char **given = spec_parameters_find(component, table, n);
    for (size_t i = 0; NULL != given && i < n; ++i) {
        if (NULL != given[i] && !spec_parameter_takes(&table[i], given[i], allowed)) {
            spec_parameter_refuse(component, table[i].name, given[i], allowed);
        }
    }
    spec_parameters_release(given, n);
}

/* Once for all tables of a component. The first process of the job tells. */
static inline void spec_parameters_check_names(const mca_base_component_t *component)
{
    char prefix[SPEC_PARAMETER_TEXT];
    spec_parameter_name(prefix, component, "");
    if (0 == OPAL_PROC_MY_NAME.vpid) {
        spec_parameters_given(spec_parameter_check_name, prefix);
    }
}

#endif
