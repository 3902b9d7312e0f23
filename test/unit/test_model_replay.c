/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Keeps the core and its SPIN model (test/model) together: what is proved of the model is worth
 * nothing if the core decides otherwise.
 *
 * SPIN simulates the model at random and tells each step in a line: what happens, and after a colon
 * or in the lines that follow what is decided. Here the core gets the same events and tells its own
 * decisions in the same words - which receive a message goes to, what an RTR says (number, E, k),
 * what becomes of it, S of REVOKED, when a cancel is done. Both texts must be the same.
 *
 * SPEC_SEED=n SPEC_TRACES=n: each trace has the seed n, n+1, ... */
#include "spec_unit.h"

#include "spec_recv.h"

/* The sender's side with a ring as short as the model's. */
#define SPEC_RING 4u
#include "spec_send.c"

#include <time.h>
#include <unistd.h>

#ifndef MODEL_DIR
#    define MODEL_DIR "../model"
#endif

#define MESSAGES 8
#define RECEIVES 8
#define TAGS     2
/* Patterns of receives, after the exact ones (rendezvous.pml). */
#define ANY     TAGS       /* (any source, any tag) */
#define ANY_TAG (TAGS + 1) /* (the sender, any tag) */
#define ANY_SRC (TAGS + 2) /* (any source, tag) is ANY_SRC + tag */
/* Of those that may send RTRs. */
#define KINDS (TAGS + 2)
/* Source of the messages of the model, and of those of another sender. */
#define SENDER  0
#define ANOTHER 1

static const char *const parameters[] = {
    "-DREORDER",
    "-DREORDER -DCANCEL",
    "-DREORDER -DCANCEL -DPATIENT",
    "-DREORDER -DWILDCARDS=1 -DADAPT -DPATIENT",
    "-DREORDER -DWILDCARDS=2 -DCANCEL -DSYNC",
    "-DCANCEL -DADAPT -DSYNC -DPATIENT",
    "-DPATIENT",
    "-DWILDCARDS=2 -DCANCEL",
    /* An RTR is used rarely between being withdrawn and revoked. */
    "-DREORDER -DCANCEL -DCLAIMS -DPATIENT",
    "-DREORDER -DCANCEL -DCLAIMS -DPATIENT -DWILDCARDS=1",
    "-DREORDER -DCANCEL -DCLAIMS -DPATIENT -DADAPT",
    "-DREORDER -DCANCEL -DCLAIMS -DPATIENT -DSYNC",
    "-DWILDCARDS=1 -DCANCEL -DCLAIMS -DADAPT",
    "-DREORDER -DWILDCARDS=2 -DANYTAG -DCANCEL -DPATIENT",
    "-DREORDER -DWILDCARDS=2 -DANYTAG -DCANCEL -DCLAIMS -DSYNC",
};
#define PARAMETERS (sizeof(parameters) / sizeof(parameters[0]))

/* Sizes of messages (SMALL, LARGE, HUGE, BY_RTS) and of buffers in the model, in bytes. */
static const uint64_t length_of[] = {5, 10, 20, 5};

typedef struct message {
    spec_item_t item;
    spec_unexp_t unexp;
    int32_t tag;
    int written; /* the receive whose RTR it uses, or -1 */
} message_t;

typedef struct receive {
    spec_posted_t posted;
    spec_ctl_t rtr;
    uint64_t word;
} receive_t;

typedef struct revocation {
    spec_revoke_t *under_way;
    spec_ctl_t packet;
    uint32_t no, s;
} revocation_t;

typedef struct world {
    spec_send_t send;
    spec_match_t match;
    spec_recv_t recv;
    message_t message[MESSAGES];
    receive_t receive[RECEIVES];
    revocation_t revocation[KINDS];
    int messages, receives;
    bool words;      /* offers can be withdrawn */
    char said[1024]; /* what the core decided at the latest event */
} world_t;

static void say(world_t *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(world_t *w, const char *format, ...)
{
    size_t n = strlen(w->said);
    va_list args;
    va_start(args, format);
    vsnprintf(w->said + n, sizeof(w->said) - n, format, args);
    va_end(args);
}

static int32_t tag_of(int pattern)
{
    return ANY == pattern || ANY_TAG == pattern ? SPEC_ANY
           : pattern >= ANY_SRC                 ? pattern - ANY_SRC
                                                : pattern;
}

static int kind_of(int32_t tag)
{
    return SPEC_ANY == tag ? ANY_TAG : tag;
}

static int32_t source_of(int pattern)
{
    return ANY == pattern || pattern >= ANY_SRC ? SPEC_ANY : SENDER;
}

static int index_of(const world_t *w, const spec_posted_t *p)
{
    return (int) (SPEC_ENTRY(p, receive_t, posted) - w->receive);
}

static int receive_of_rtr(const world_t *w, const spec_ctl_t *rtr)
{
    return (int) (SPEC_ENTRY(rtr, receive_t, rtr) - w->receive);
}

static const char *name_of(spec_rtr_fate_t fate)
{
    static const char *const name[SPEC_RTR_FATES] = {
        [SPEC_RTR_KEPT] = "kept",
        [SPEC_RTR_USED] = "used",
        [SPEC_RTR_CROSSED] = "crossed",
        [SPEC_RTR_TOO_OLD] = "too_old",
        [SPEC_RTR_MISPREDICTED] = "mispredicted",
        [SPEC_RTR_TOO_SHORT] = "too_short",
        [SPEC_RTR_FULL] = "full",
        [SPEC_RTR_REVOKED] = "revoked",
        [SPEC_RTR_REFUSED] = "refused",
    };
    return fate < SPEC_RTR_FATES ? name[fate] : "none";
}

/* ---- the events; each tells what the core made of it ---- */

static void send(world_t *w, int tag, int size)
{
    message_t *msg = &w->message[w->messages++];
    spec_ctl_t *rtr = NULL;
    spec_rtr_fate_t fate = SPEC_RTR_FATES;
    msg->tag = tag;
    msg->item.no =
        spec_send_issue(&w->send, tag, length_of[size], 1 == size || 2 == size, &rtr, &fate);
    const int r = NULL == rtr ? -1 : receive_of_rtr(w, rtr);
    fate = SPEC_RTR_USED == fate ? spec_send_take(rtr) : fate;
    msg->written = SPEC_RTR_USED == fate ? r : -1;
    say(w, "send %d %d : %u %s %d\n", tag, size, msg->item.no, name_of(fate), r);
}

static void post(world_t *w, int pattern, int size, bool may_speculate)
{
    receive_t *r = &w->receive[w->receives++];
    spec_offer_t offer;
    r->posted.src = source_of(pattern);
    r->posted.tag = tag_of(pattern);
    say(w, "post %d %d : ", pattern, size);
    spec_unexp_t *u = spec_match_find_unexp(&w->match, r->posted.src, r->posted.tag);
    if (NULL != u) {
        spec_match_remove_unexp(&w->match, u);
        say(w, "takes %d\n", (int) (SPEC_ENTRY(u, message_t, unexp) - w->message));
        return;
    }
    assert_int_equal(0, spec_match_post(&w->match, &r->posted));
    if (!may_speculate) {
        say(w, "posted quiet\n");
    } else if (!spec_recv_speculate(&w->recv, &w->match, &r->posted, &offer)) {
        say(w, "posted silent\n");
    } else {
        if (w->words) {
            r->posted.claim = (spec_claim_t){.at = &r->word, .no = (uint32_t) w->receives};
            spec_claim_offer(&r->posted.claim);
        }
        r->rtr = (spec_ctl_t){.item = {.no = offer.no},
                              .claim = r->posted.claim,
                              .tag = r->posted.tag,
                              .e = offer.e,
                              .k = offer.k,
                              .length = length_of[size]};
        say(w, "posted offer %u %u %u\n", offer.no, offer.e, offer.k);
    }
}

static void cancel(world_t *w, int r)
{
    spec_posted_t *p = &w->receive[r].posted;
    spec_revoke_t *fresh = must_alloc(sizeof(*fresh));
    spec_cancel_t outcome =
        spec_recv_cancel(SPEC_ANY == p->src ? NULL : &w->recv, &w->match, p, fresh);
    say(w, "cancel %d : ", r);
    if (!spec_cancel_asks(outcome)) {
        free(fresh);
        say(w, "%s\n",
            SPEC_CANCEL_DONE == outcome   ? "done"
            : SPEC_CANCEL_WAIT == outcome ? "wait"
                                          : "too late");
        return;
    }
    w->revocation[kind_of(p->tag)] = (revocation_t){
        .under_way = fresh,
        .packet = {.item = {.no = fresh->no}, .is_revoke = true, .tag = p->tag},
        .no = fresh->no,
    };
    say(w, "%sask %u\n", spec_cancel_is_done(outcome) ? "done " : "", fresh->no);
}

static void control_turn(world_t *w, spec_ctl_t *ctl)
{
    if (!ctl->is_revoke) {
        const int r = receive_of_rtr(w, ctl);
        say(w, "rtr %d %s\n", r, name_of(spec_send_admit(&w->send, ctl)));
        return;
    }
    spec_node_t dropped;
    int n = 0;
    spec_list_init(&dropped);
    revocation_t *revocation = &w->revocation[kind_of(ctl->tag)];
    revocation->s = spec_send_revoke(&w->send, ctl->tag, &dropped);
    while (NULL != spec_list_pop(&dropped)) {
        ++n;
    }
    say(w, "revoke %d : %u %d\n", kind_of(ctl->tag), revocation->s, n);
}

static void control(world_t *w, int packet)
{
    spec_ctl_t *ctl =
        packet < RECEIVES ? &w->receive[packet].rtr : &w->revocation[packet - RECEIVES].packet;
    say(w, "control %d\n", packet);
    if (NULL == w->send.ledger) {
        assert_int_equal(0, spec_send_open_ledger(&w->send));
    }
    spec_stream_t *stream = spec_send_ctl(&w->send);
    assert_true(spec_stream_keep(stream, &ctl->item));
    spec_item_t *item;
    while (NULL != (item = spec_stream_take(stream))) {
        control_turn(w, SPEC_ENTRY(item, spec_ctl_t, item));
    }
}

/* The order in which exchanges of several tags end does not matter: told by tag, as the model does. */
static void finish_revokes(world_t *w)
{
    spec_node_t gone[KINDS], one, *n;
    bool is_done[KINDS] = {false};
    spec_revoke_t *revoke;
    spec_list_init(&one);
    while (NULL != (revoke = spec_recv_revoke_done(&w->recv, &w->match, &one))) {
        const int kind = kind_of(revoke->bin->tag);
        assert_ptr_equal(w->revocation[kind].under_way, revoke);
        w->revocation[kind].under_way = NULL;
        free(revoke);
        is_done[kind] = true;
        spec_list_init(&gone[kind]);
        while (NULL != (n = spec_list_pop(&one))) {
            spec_list_append(&gone[kind], n);
        }
    }
    for (int kind = 0; kind < KINDS; ++kind) {
        if (is_done[kind]) {
            say(w, "revoke_done %d\n", kind);
            while (NULL != (n = spec_list_pop(&gone[kind]))) {
                say(w, "cancelled %d\n", index_of(w, SPEC_ENTRY(n, spec_posted_t, node)));
            }
        }
    }
}

static void process(world_t *w, message_t *msg)
{
    const int m = (int) (msg - w->message);
    spec_posted_t *p = spec_match_find_posted(&w->match, SENDER, msg->tag);
    while (NULL != p && msg->written < 0 && spec_recv_yields(p)) {
        spec_match_remove_posted(&w->match, p);
        say(w, "yields %d\n", index_of(w, p));
        p = spec_match_find_posted(&w->match, SENDER, msg->tag);
    }
    if (NULL == p) {
        msg->unexp.src = SENDER;
        msg->unexp.tag = msg->tag;
        assert_int_equal(0, spec_match_add_unexp(&w->match, &msg->unexp));
        say(w, "unexpected %d\n", m);
        return;
    }
    spec_match_remove_posted(&w->match, p);
    say(w, "matched %d %d\n", m, index_of(w, p));
    if (msg->written >= 0 && msg->written != index_of(w, p)) {
        say(w, "but it was written to receive %d\n", msg->written);
    }
}

static void message(world_t *w, int m)
{
    message_t *msg = &w->message[m];
    say(w, "message %d\n", m);
    if (msg->item.no == w->recv.msgs.nxt) {
        ++w->recv.msgs.nxt;
        process(w, msg);
    } else {
        assert_true(spec_stream_keep(&w->recv.msgs, &msg->item));
    }
    spec_item_t *item;
    while (NULL != (item = spec_stream_take(&w->recv.msgs))) {
        process(w, SPEC_ENTRY(item, message_t, item));
    }
    finish_revokes(w);
}

static void revoked(world_t *w, int kind)
{
    const revocation_t *r = &w->revocation[kind];
    say(w, "revoked %d\n", kind);
    if (!spec_recv_revoked(&w->recv, r->no, tag_of(kind), r->s)) {
        say(w, "refused\n");
    }
    finish_revokes(w);
}

/* A message of another sender. */
static void elsewhere(world_t *w, int tag)
{
    spec_posted_t *p = spec_match_find_posted(&w->match, ANOTHER, tag);
    if (NULL != p) {
        spec_match_remove_posted(&w->match, p);
    }
    say(w, "elsewhere %d : %d\n", tag, NULL == p ? -1 : index_of(w, p));
}

/* Gives the event of this line to the core. False: the line is none, or one that only the data is
 * concerned with. */
static bool act(world_t *w, const char *line)
{
    int a, b, after;
    w->said[0] = '\0';
    if (2 == sscanf(line, "send %d %d :", &a, &b) && w->messages < MESSAGES) {
        send(w, a, b);
    } else if (2 == sscanf(line, "post %d %d : %n", &a, &b, &after) && w->receives < RECEIVES) {
        post(w, a, b, 0 != strncmp(line + after, "posted quiet", 12));
    } else if (1 == sscanf(line, "cancel %d :", &a)) {
        cancel(w, a);
    } else if (1 == sscanf(line, "control %d", &a)) {
        control(w, a);
    } else if (1 == sscanf(line, "message %d", &a)) {
        message(w, a);
    } else if (1 == sscanf(line, "revoked %d", &a)) {
        revoked(w, a);
    } else if (1 == sscanf(line, "elsewhere %d :", &a)) {
        elsewhere(w, a);
    } else {
        return false;
    }
    return true;
}

/* ---- traces ---- */

/* What a trace should have had to be worth while; each is searched in the lines. */
static const char *const cases[] = {
    "used",      "crossed", "mispredicted", "too_short",  "too_old",   "kept",
    "offer",     "silent",  "quiet",        "takes",      "matched",   "unexpected",
    ": ask",     ": wait",  ": done",       "revoke ",    "cancelled", "revoke_done",
    "elsewhere", "resume",  "yields",       ": done ask", " revoked ",
};
#define CASES (sizeof(cases) / sizeof(cases[0]))
static uint64_t met[CASES], decisions;

static void count_cases(const char *line)
{
    for (size_t i = 0; i < CASES; ++i) {
        met[i] += NULL != strstr(line, cases[i]);
    }
}

/* Replays what `in` tells. NULL, or what is wrong. */
static const char *replay(FILE *in, bool words)
{
    static char wrong[2048];
    char line[256];
    world_t *w = must_alloc(sizeof(*w));
    const char *expected = w->said;
    spec_node_t left;
    bool is_whole = false;
    wrong[0] = '\0';
    w->words = words;
    spec_recv_init(&w->recv);
    assert_int_equal(0, spec_match_init(&w->match));
    for (unsigned number = 1; '\0' == wrong[0] && NULL != fgets(line, sizeof(line), in); ++number) {
        if (0 == strcmp(line, "timeout\n")) { /* as SPIN calls it when nothing is left to do */
            is_whole = true;
            break;
        }
        if (NULL != strstr(line, "rror")) {
            snprintf(wrong, sizeof(wrong), "SPIN says: %s", line);
            break;
        }
        count_cases(line);
        if (0 == strncmp(line, "put ", 4) || 0 == strncmp(line, "fin ", 4)
            || 0 == strncmp(line, "fetched ", 8) || 0 == strncmp(line, "resume ", 7)) {
            continue; /* nothing for the core to decide */
        }
        /* An event, unless the core has more to say about the last one. */
        if ('\0' == *expected && act(w, line)) {
            expected = w->said;
        }
        const size_t length = strcspn(expected, "\n") + 1;
        if ('\0' == *expected || 0 != strncmp(line, expected, length) || '\0' != line[length]) {
            snprintf(wrong, sizeof(wrong), "line %u\n  model: %s  core:  %.*s", number, line,
                     '\0' == *expected ? 0 : (int) length, expected);
        } else {
            expected += length;
            ++decisions;
        }
    }
    if ('\0' == wrong[0] && '\0' != *expected) {
        snprintf(wrong, sizeof(wrong), "the core goes on:\n%s", expected);
    }
    if ('\0' == wrong[0] && !is_whole) {
        snprintf(wrong, sizeof(wrong), "the trace has no end");
    }
    for (int i = 0; i < KINDS; ++i) {
        free(w->revocation[i].under_way);
    }
    spec_list_init(&left);
    spec_send_close_ledger(&w->send, &left);
    spec_stream_drain(&w->recv.msgs, &left);
    spec_match_fini(&w->match);
    free(w);
    return '\0' == wrong[0] ? NULL : wrong;
}

static unsigned first_seed, traces = 520, replayed;
static const unsigned seconds_at_most = 60;

static void the_core_does_as_the_model(void **state)
{
    (void) state;
    char dir[] = "/tmp/test_model_replay.XXXXXX", command[1024];
    const time_t begun = time(NULL);
    if (0 != system("spin -V >/dev/null 2>&1")) {
        print_message("SKIP: spin is not installed (Debian package spin)\n");
        skip();
    }
    /* SPIN leaves files where it runs. */
    assert_non_null(mkdtemp(dir));
    for (unsigned i = 0; i < traces; ++i) {
        const char *parameter = parameters[i % PARAMETERS];
        if (time(NULL) - begun > (time_t) seconds_at_most) {
            print_message("# %u traces in %u seconds, no more are made\n", i, seconds_at_most);
            break;
        }
        snprintf(command, sizeof(command),
                 "cd %s && exec spin -B -T -n%u -DTRACE -DNMSG=%d -DNRECV=%d -DTAGS=%d -DRING=%u "
                 "-DSIZES %s " MODEL_DIR "/rendezvous.pml 2>&1",
                 dir, first_seed + i, MESSAGES, RECEIVES, TAGS, SPEC_RING, parameter);
        FILE *in = popen(command, "r");
        assert_non_null(in);
        const char *wrong = replay(in, NULL != strstr(parameter, "-DCLAIMS"));
        while (EOF != fgetc(in)) {}
        const int status = pclose(in);
        if (NULL != wrong) {
            fail_msg("%s\nseed %u, %s", wrong, first_seed + i, parameter);
        }
        assert_int_equal(0, status);
        ++replayed;
    }
    assert_int_equal(0, rmdir(dir));
}

/* Traces in which nothing happens would prove nothing. */
static void the_traces_have_all_cases(void **state)
{
    (void) state;
    if (replayed < 300) {
        print_message("SKIP: %u traces were replayed, fewer than the 300 that have all cases\n", replayed);
        skip();
    }
    for (size_t i = 0; i < CASES; ++i) {
        if (0 == met[i]) {
            fail_msg("no trace has the case '%s'", cases[i]);
        }
    }
}

static int report(void **state)
{
    (void) state;
    printf("# %llu decisions compared:", (unsigned long long) decisions);
    for (size_t i = 0; i < CASES; ++i) {
        printf(" %s %llu%s", cases[i], (unsigned long long) met[i], i + 1 < CASES ? "," : "\n");
    }
    fflush(stdout);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_core_does_as_the_model),
        cmocka_unit_test(the_traces_have_all_cases),
    };
    const char *seed = getenv("SPEC_SEED"), *count = getenv("SPEC_TRACES");
    first_seed = NULL == seed ? (unsigned) time(NULL) % 1000000 * 1000 + 1
                              : (unsigned) strtoul(seed, NULL, 0);
    traces = NULL == count ? traces : (unsigned) strtoul(count, NULL, 0);
    printf("# SPEC_SEED=%u SPEC_TRACES=%u\n", first_seed, traces);
    fflush(stdout);
    return cmocka_run_group_tests_name("spec_model_replay", tests, NULL, report);
}
