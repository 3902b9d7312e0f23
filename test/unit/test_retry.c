/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What a transport refused (core/spec_retry.h): each rule, and all interleavings of two and three threads, one of
 * whose passes runs inside a try of another. */
#include "spec_unit.h"

#include "spec_retry.h"

enum { ITEMS = 4, KEYS = 2, ACTORS = 3, STEPS = 64 };

static spec_retry_t retry;
static spec_retry_item_t item[ITEMS];
static const int key[KEYS];

/* ---- the rules, one by one ---- */

static int setup(void **state)
{
    (void) state;
    spec_retry_init(&retry);
    return 0;
}

static int teardown(void **state)
{
    (void) state;
    spec_retry_fini(&retry);
    return 0;
}

static bool is_last_done(spec_retry_queue_t *queue)
{
    spec_retry_done(&retry, queue);
    return 0 == retry.n;
}

static void all_are_counted_until_they_are_done(void **state)
{
    (void) state;
    spec_retry_add(&retry, &item[0], &key[0], false);
    spec_retry_add(&retry, &item[1], &key[1], false);
    assert_int_equal(retry.n, 2);
    const uint64_t pass = spec_retry_pass(&retry);
    spec_retry_item_t *a = spec_retry_take(&retry, pass), *b = spec_retry_take(&retry, pass);
    assert_ptr_equal(a, &item[0]);
    assert_ptr_equal(b, &item[1]);
    assert_null(spec_retry_take(&retry, pass));
    spec_retry_done(&retry, a->queue);
    assert_int_equal(retry.n, 1);
    spec_retry_done(&retry, b->queue);
    assert_int_equal(retry.n, 0);
}

/* The queues are empty, but not all is done: it is still counted. */
static void what_is_in_hand_counts(void **state)
{
    (void) state;
    spec_retry_add(&retry, &item[0], &key[0], false);
    spec_retry_add(&retry, &item[1], &key[0], false);
    const uint64_t outer = spec_retry_pass(&retry);
    assert_ptr_equal(spec_retry_take(&retry, outer), &item[0]);
    const uint64_t inner = spec_retry_pass(&retry);
    spec_retry_item_t *b = spec_retry_take(&retry, inner);
    assert_ptr_equal(b, &item[1]);
    spec_retry_done(&retry, b->queue);
    assert_int_equal(retry.n, 1);
    assert_null(spec_retry_take(&retry, inner));
    assert_true(spec_retry_waits(&retry, &key[0]));
    spec_retry_refused(&retry, &item[0]);
    assert_ptr_equal(spec_retry_take(&retry, spec_retry_pass(&retry)), &item[0]);
    spec_retry_done(&retry, item[0].queue);
    assert_int_equal(retry.n, 0);
    assert_false(spec_retry_waits(&retry, &key[0]));
}

static void a_pass_costs_one_refusal_for_each_queue(void **state)
{
    (void) state;
    enum { MANY = 1000 };
    static spec_retry_item_t many[MANY];
    for (int i = 0; i < MANY; ++i) {
        spec_retry_add(&retry, &many[i], &key[i % KEYS], false);
    }
    for (int round = 0; round < 3; ++round) {
        const uint64_t pass = spec_retry_pass(&retry);
        spec_retry_item_t *i;
        int tries = 0;
        while (NULL != (i = spec_retry_take(&retry, pass))) {
            assert_true(i == &many[0] || i == &many[1]); /* the oldest of its queue, each time */
            spec_retry_refused(&retry, i);
            ++tries;
        }
        assert_int_equal(tries, KEYS);
    }
    /* As soon as there is room everything goes, queue by queue in its order. */
    const uint64_t pass = spec_retry_pass(&retry);
    spec_retry_item_t *i, *last[KEYS] = {NULL};
    int done = 0;
    while (NULL != (i = spec_retry_take(&retry, pass))) {
        const int queue = (int) ((i - many) % KEYS);
        assert_true(NULL == last[queue] || i > last[queue]);
        last[queue] = i;
        spec_retry_done(&retry, i->queue);
        assert_int_equal(retry.n, MANY - ++done);
    }
    assert_int_equal(done, MANY);
}

static void a_refused_item_goes_back_to_its_place(void **state)
{
    (void) state;
    for (int i = 0; i < 3; ++i) {
        spec_retry_add(&retry, &item[i], &key[0], false);
    }
    const uint64_t a = spec_retry_pass(&retry), b = spec_retry_pass(&retry);
    assert_ptr_equal(spec_retry_take(&retry, a), &item[0]);
    assert_ptr_equal(spec_retry_take(&retry, b), &item[1]);
    spec_retry_refused(&retry, &item[1]);
    spec_retry_refused(&retry, &item[0]);
    spec_retry_add(&retry, &item[3], &key[0], false);
    const uint64_t c = spec_retry_pass(&retry);
    for (int i = 0; i < ITEMS; ++i) {
        assert_ptr_equal(spec_retry_take(&retry, c), &item[i]);
    }
    for (int i = 0; i < ITEMS; ++i) {
        spec_retry_done(&retry, item[i].queue);
        assert_int_equal(retry.n, ITEMS - 1 - i);
    }
}

static void what_goes_first_is_tried_before_others(void **state)
{
    (void) state;
    spec_retry_add(&retry, &item[2], &key[0], false);
    spec_retry_add(&retry, &item[1], &key[0], true);
    spec_retry_add(&retry, &item[3], &key[0], false);
    const uint64_t a = spec_retry_pass(&retry), b = spec_retry_pass(&retry);
    assert_ptr_equal(spec_retry_take(&retry, a), &item[1]);
    assert_ptr_equal(spec_retry_take(&retry, b), &item[2]);
    spec_retry_refused(&retry, &item[2]);
    spec_retry_add(&retry, &item[0], &key[0], true);
    spec_retry_refused(&retry, &item[1]); /* between both */
    const uint64_t c = spec_retry_pass(&retry);
    for (int i = 0; i < ITEMS; ++i) {
        assert_ptr_equal(spec_retry_take(&retry, c), &item[i]);
    }
    for (int i = 0; i < ITEMS; ++i) {
        spec_retry_done(&retry, item[i].queue);
        assert_int_equal(retry.n, ITEMS - 1 - i);
    }
}

/* A pass that has taken long ends, though more of its queue could go. The other queues have their turn before that. */
static void a_pass_that_leaves_a_queue_is_followed_by_the_others(void **state)
{
    (void) state;
    spec_retry_add(&retry, &item[0], &key[0], false);
    spec_retry_add(&retry, &item[1], &key[0], false);
    spec_retry_add(&retry, &item[2], &key[1], false);
    const uint64_t pass = spec_retry_pass(&retry);
    assert_ptr_equal(spec_retry_take(&retry, pass), &item[0]);
    spec_retry_leave(&retry, item[0].queue);
    assert_false(is_last_done(item[0].queue));
    const uint64_t next = spec_retry_pass(&retry);
    assert_ptr_equal(spec_retry_take(&retry, next), &item[2]);
    assert_ptr_equal(spec_retry_take(&retry, next), &item[1]);
    spec_retry_leave(&retry, item[1].queue); /* nothing is left in it */
    assert_false(is_last_done(item[1].queue));
    assert_null(spec_retry_take(&retry, spec_retry_pass(&retry)));
    spec_retry_leave(&retry, item[2].queue); /* nor in that */
    spec_retry_add(&retry, &item[3], &key[0], false);
    assert_ptr_equal(spec_retry_take(&retry, spec_retry_pass(&retry)), &item[3]);
    assert_false(is_last_done(item[2].queue));
    assert_true(is_last_done(item[3].queue));
}

/* What a try adds is for the next pass: else a transport that refuses new work all the time would be one pass's end. */
static void what_comes_during_a_pass_is_for_the_next(void **state)
{
    (void) state;
    spec_retry_add(&retry, &item[0], &key[0], false);
    const uint64_t pass = spec_retry_pass(&retry);
    spec_retry_item_t *a = spec_retry_take(&retry, pass);
    spec_retry_add(&retry, &item[1], &key[1], false);
    assert_false(is_last_done(a->queue));
    assert_null(spec_retry_take(&retry, pass));
    assert_ptr_equal(spec_retry_take(&retry, spec_retry_pass(&retry)), &item[1]);
    assert_true(is_last_done(item[1].queue));
}

static void an_item_may_be_added_again_from_its_own_try(void **state)
{
    (void) state;
    spec_retry_add(&retry, &item[0], &key[0], false);
    const uint64_t pass = spec_retry_pass(&retry);
    spec_retry_item_t *a = spec_retry_take(&retry, pass);
    spec_retry_queue_t *queue = a->queue;
    spec_retry_add(&retry, &item[0], &key[1], false);
    assert_false(is_last_done(queue));
    assert_true(spec_retry_waits(&retry, &key[1]));
    assert_ptr_equal(spec_retry_take(&retry, spec_retry_pass(&retry)), &item[0]);
    spec_retry_done(&retry, item[0].queue);
    assert_int_equal(retry.n, 0);
    assert_false(spec_retry_waits(&retry, &key[1]));
}

static void many_resources(void **state)
{
    (void) state;
    enum { MANY = 5000 };
    static spec_retry_item_t many[MANY];
    static char resource[MANY];
    for (int round = 0; round < 2; ++round) { /* the second with queues used before */
        for (int i = 0; i < MANY; ++i) {
            spec_retry_add(&retry, &many[i], &resource[i], false);
            assert_int_equal(retry.n, i + 1);
        }
        for (int i = 0; i < MANY; ++i) {
            assert_true(spec_retry_waits(&retry, &resource[i]));
            assert_ptr_equal(spec_retry_take(&retry, UINT64_MAX), &many[i]);
            assert_int_equal(is_last_done(many[i].queue), i == MANY - 1);
            assert_false(spec_retry_waits(&retry, &resource[i]));
        }
    }
}

/* ---- all interleavings ----
 *
 * Actors are threads. Each step of one is what it does under the lock, or one try; between steps the others may
 * do theirs. A schedule is the list of who makes the next step; all of them are run, each from the beginning. */

typedef enum { SENDS, POLLS } kind_t;

typedef struct actor {
    kind_t kind;
    int left;         /* messages to be sent, or polls to be made */
    bool inner;       /* this one's tries contain a pass of their own, which tries once */
    bool hurries;     /* and its passes end with the first item that goes */
    int state;        /* 0: between; then as below */
    uint64_t pass[2]; /* outer, inner */
    spec_retry_item_t *in_hand[2];
    bool refused[2];
} actor_t;

static actor_t actor[ACTORS];
static int actors, next_item, room, delivered[ITEMS];
static unsigned outstanding;

static bool transport_takes(spec_retry_item_t *i)
{
    if (0 == room) {
        return false;
    }
    --room;
    ++delivered[i - item];
    return true;
}

static void add(spec_retry_item_t *i)
{
    spec_retry_add(&retry, i, &key[(i - item) % KEYS], (i - item) % 3 > 1);
    assert_int_equal(retry.n, ++outstanding);
}

static void settle(actor_t *a, int depth)
{
    if (a->refused[depth]) {
        spec_retry_refused(&retry, a->in_hand[depth]);
        return;
    }
    if (a->hurries) {
        spec_retry_leave(&retry, a->in_hand[depth]->queue);
    }
    spec_retry_done(&retry, a->in_hand[depth]->queue);
    assert_int_equal(retry.n, --outstanding);
}

/* One step. False: the actor has nothing to do any more. */
static bool step(actor_t *a)
{
    enum { BETWEEN, REFUSED, IN_PASS, TRYING, NESTED, NESTED_TRY, NESTED_END, SETTLE };
    switch (a->state) {
    case BETWEEN:
        if (0 == a->left) {
            return false;
        }
        --a->left;
        if (SENDS == a->kind) {
            a->in_hand[0] = &item[next_item++];
            a->state = transport_takes(a->in_hand[0]) ? BETWEEN : REFUSED;
        } else if (retry.n > 0) { /* opal_progress calls us */
            a->pass[0] = spec_retry_pass(&retry);
            a->state = IN_PASS;
        }
        return true;
    case REFUSED:
        add(a->in_hand[0]);
        a->state = BETWEEN;
        return true;
    case IN_PASS:
        a->in_hand[0] = spec_retry_take(&retry, a->pass[0]);
        a->state = NULL == a->in_hand[0] ? BETWEEN : TRYING;
        return true;
    case TRYING:
        a->refused[0] = !transport_takes(a->in_hand[0]);
        a->state = a->inner && retry.n > 0 ? NESTED : SETTLE;
        return true;
    case NESTED: /* the try completes something, whose callback waits for progress */
        a->pass[1] = spec_retry_pass(&retry);
        a->in_hand[1] = spec_retry_take(&retry, a->pass[1]);
        a->state = NULL == a->in_hand[1] ? SETTLE : NESTED_TRY;
        return true;
    case NESTED_TRY:
        a->refused[1] = !transport_takes(a->in_hand[1]);
        a->state = NESTED_END;
        return true;
    case NESTED_END:
        settle(a, 1);
        a->in_hand[1] = NULL;
        a->state = SETTLE;
        return true;
    default:
        settle(a, 0);
        a->in_hand[0] = NULL;
        a->state = a->hurries && !a->refused[0] ? BETWEEN : IN_PASS;
        return true;
    }
}

static void check_counted(void)
{
    bool any = false;
    for (int i = 0; i < actors; ++i) {
        any |= NULL != actor[i].in_hand[0] && SENDS != actor[i].kind;
    }
    if (!spec_list_is_empty(&retry.queues) || any) {
        assert_true(retry.n > 0);
    }
}

typedef struct setting {
    int actors, room, waiting; /* waiting: messages that were refused before */
    actor_t actor[ACTORS];
} setting_t;

static void begin(const setting_t *s)
{
    spec_retry_init(&retry);
    actors = s->actors;
    room = s->room;
    next_item = 0;
    outstanding = 0;
    memset(delivered, 0, sizeof(delivered));
    memset(item, 0, sizeof(item));
    memcpy(actor, s->actor, sizeof(actor));
    while (next_item < s->waiting) {
        add(&item[next_item++]);
    }
}

/* Everybody is done; the transport has room and progress is called: nothing may be left. */
static void finish(void)
{
    room = ITEMS;
    actor_t last = {.kind = POLLS, .left = 1};
    while (step(&last)) {}
    assert_int_equal(retry.n, 0);
    for (int i = 0; i < ITEMS; ++i) {
        assert_int_equal(delivered[i], i < next_item);
    }
    spec_retry_fini(&retry);
}

/* Runs every schedule, by depth first search over the choices made. Returns how many there are. */
static uint64_t all_schedules(const setting_t *s)
{
    int choice[STEPS] = {0}, depth;
    uint64_t n = 0;
    do {
        begin(s);
        int can[STEPS];
        for (depth = 0;; ++depth) {
            int alive = 0;
            for (int i = 0; i < actors; ++i) {
                alive += actor[i].left > 0 || 0 != actor[i].state;
            }
            if (0 == alive) {
                break;
            }
            assert_true(depth < STEPS);
            can[depth] = alive;
            int pick = choice[depth];
            for (int i = 0; i < actors; ++i) {
                if ((actor[i].left > 0 || 0 != actor[i].state) && 0 == pick--) {
                    (void) step(&actor[i]);
                    break;
                }
            }
            check_counted();
        }
        finish();
        ++n;
        while (depth > 0 && choice[depth - 1] + 1 == can[depth - 1]) {
            choice[--depth] = 0;
        }
        if (depth > 0) {
            ++choice[depth - 1];
        }
    } while (depth > 0);
    return n;
}

/* The fault that this module was made for: one thread has all in hand, another finds nothing. */
static void two_threads_poll(void **state)
{
    (void) state;
    for (int room_at_first = 0; room_at_first < 3; ++room_at_first) {
        const setting_t s = {.actors = 2,
                             .room = room_at_first,
                             .waiting = 2,
                             .actor = {{.kind = POLLS, .left = 2}, {.kind = POLLS, .left = 2}}};
        assert_true(all_schedules(&s) > 500);
    }
}

static void three_threads_poll_and_send(void **state)
{
    (void) state;
    for (int room_at_first = 0; room_at_first < 2; ++room_at_first) {
        const setting_t s = {.actors = 3,
                             .room = room_at_first,
                             .waiting = 1,
                             .actor = {{.kind = SENDS, .left = 1},
                                       {.kind = POLLS, .left = 1},
                                       {.kind = POLLS, .left = 1}}};
        assert_true(all_schedules(&s) > 500);
    }
}

static void a_pass_inside_a_try(void **state)
{
    (void) state;
    for (int room_at_first = 0; room_at_first < 3; ++room_at_first) {
        const setting_t s = {
            .actors = 2,
            .room = room_at_first,
            .waiting = 2,
            .actor = {{.kind = POLLS, .left = 1, .inner = true}, {.kind = SENDS, .left = 2}}};
        assert_true(all_schedules(&s) > 100);
    }
}

static void a_pass_inside_a_try_beside_another_thread(void **state)
{
    (void) state;
    for (int room_at_first = 0; room_at_first < 2; ++room_at_first) {
        const setting_t s = {.actors = 2,
                             .room = room_at_first,
                             .waiting = 3,
                             .actor = {{.kind = POLLS, .left = 1, .inner = true},
                                       {.kind = POLLS, .left = 1, .inner = true}}};
        assert_true(all_schedules(&s) > 2000);
    }
}

static void passes_that_end_early(void **state)
{
    (void) state;
    for (int room_at_first = 0; room_at_first < 4; ++room_at_first) {
        const setting_t s = {.actors = 2,
                             .room = room_at_first,
                             .waiting = 3,
                             .actor = {{.kind = POLLS, .left = 2, .inner = true, .hurries = true},
                                       {.kind = POLLS, .left = 1, .hurries = true}}};
        assert_true(all_schedules(&s) > 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_are_counted_until_they_are_done, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_in_hand_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(a_pass_costs_one_refusal_for_each_queue, setup, teardown),
        cmocka_unit_test_setup_teardown(a_refused_item_goes_back_to_its_place, setup, teardown),
        cmocka_unit_test_setup_teardown(what_goes_first_is_tried_before_others, setup, teardown),
        cmocka_unit_test_setup_teardown(a_pass_that_leaves_a_queue_is_followed_by_the_others, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_comes_during_a_pass_is_for_the_next, setup, teardown),
        cmocka_unit_test_setup_teardown(an_item_may_be_added_again_from_its_own_try, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(many_resources, setup, teardown),
        cmocka_unit_test(passes_that_end_early),
        cmocka_unit_test(two_threads_poll),
        cmocka_unit_test(three_threads_poll_and_send),
        cmocka_unit_test(a_pass_inside_a_try),
        cmocka_unit_test(a_pass_inside_a_try_beside_another_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
