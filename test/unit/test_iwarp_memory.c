/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The memory table (iw_memory.h): only what was granted is reached. */
#include "spec_unit.h"

#include "iw_memory.h"

static uint8_t memory[100];
static int me, other;

static iw_access_t check(const iw_memory_t *m, uint32_t stag, unsigned rights, uint64_t to,
                         uint64_t length)
{
    uint8_t *at = NULL;
    iw_access_t access = iw_memory_check(m, stag, &me, rights, to, length, &at, NULL);
    assert_ptr_equal(at, IW_ACCESS_OK == access ? memory + to : NULL);
    return access;
}

static void bounds(void **state)
{
    (void) state;
    iw_memory_t m;
    iw_memory_init(&m, 1);
    uint32_t s = iw_memory_add(&m, memory, 100, IW_REMOTE_WRITE, NULL, NULL, NULL);
    for (uint64_t to = 0; to <= 102; ++to) {
        for (uint64_t length = 0; length <= 102; ++length) {
            assert_int_equal(check(&m, s, IW_REMOTE_WRITE, to, length),
                             to + length <= 100 ? IW_ACCESS_OK : IW_ACCESS_BOUNDS);
        }
    }
    const uint64_t far[] = {UINT32_MAX, UINT64_C(1) << 32, UINT64_MAX - 100, UINT64_MAX - 1,
                            UINT64_MAX};
    for (size_t i = 0; i < sizeof(far) / sizeof(far[0]); ++i) {
        for (uint64_t length = 0; length < 102; ++length) {
            assert_int_equal(check(&m, s, IW_REMOTE_WRITE, far[i], length), IW_ACCESS_BOUNDS);
        }
        assert_int_equal(check(&m, s, IW_REMOTE_WRITE, 1, far[i]), IW_ACCESS_BOUNDS);
    }
    iw_memory_fini(&m);
}

static void rights(void **state)
{
    (void) state;
    iw_memory_t m;
    iw_memory_init(&m, 2);
    for (unsigned granted = 0; granted < 8; ++granted) {
        uint32_t s = iw_memory_add(&m, memory, 100, granted, NULL, NULL, NULL);
        for (unsigned wanted = 1; wanted < 8; ++wanted) {
            assert_int_equal(check(&m, s, wanted, 0, 1),
                             (granted & wanted) == wanted ? IW_ACCESS_OK : IW_ACCESS_RIGHTS);
        }
        assert_true(iw_memory_remove(&m, s));
    }
    iw_memory_fini(&m);
}

static void a_region_of_one_peer(void **state)
{
    (void) state;
    iw_memory_t m;
    uint8_t *at;
    const iw_region_t *r = NULL;
    iw_memory_init(&m, 3);
    uint32_t s = iw_memory_add(&m, memory, 100, IW_READ_SINK, &me, &other, NULL);
    assert_int_equal(iw_memory_check(&m, s, &other, IW_READ_SINK, 0, 1, &at, NULL), IW_ACCESS_STAG);
    assert_int_equal(iw_memory_check(&m, s, &me, IW_READ_SINK, 0, 1, &at, &r), IW_ACCESS_OK);
    assert_ptr_equal(r->owner, &other);
    iw_memory_fini(&m);
}

static void other_stags_find_nothing(void **state)
{
    (void) state;
    iw_memory_t m;
    iw_memory_init(&m, 4);
    for (unsigned i = 0; i < 2; ++i) {
        assert_int_equal(check(&m, i, IW_REMOTE_READ, 0, 0), IW_ACCESS_STAG); /* an empty table */
    }
    uint32_t s = iw_memory_add(&m, memory, 100, IW_REMOTE_READ, NULL, NULL, NULL);
    assert_true(0 != s);
    for (unsigned bit = 0; bit < 32; ++bit) {
        assert_int_equal(check(&m, s ^ UINT32_C(1) << bit, IW_REMOTE_READ, 0, 1), IW_ACCESS_STAG);
    }
    assert_int_equal(check(&m, 0, IW_REMOTE_READ, 0, 1), IW_ACCESS_STAG);
    assert_int_equal(check(&m, UINT32_MAX, IW_REMOTE_READ, 0, 1), IW_ACCESS_STAG);
    assert_int_equal(check(&m, s, IW_REMOTE_READ, 0, 1), IW_ACCESS_OK);
    iw_memory_fini(&m);
}

static void a_stale_stag_misses(void **state)
{
    (void) state;
    iw_memory_t m;
    iw_memory_init(&m, 5);
    uint32_t last = 0, same = 0;
    for (int i = 0; i < 20000; ++i) {
        uint32_t s = iw_memory_add(&m, memory, 100, IW_REMOTE_READ, NULL, NULL, NULL);
        assert_true(s != last && 0 != s);
        assert_int_equal(0 == last ? IW_ACCESS_STAG : check(&m, last, IW_REMOTE_READ, 0, 1),
                         IW_ACCESS_STAG);
        same += s == last + 1; /* not predictable */
        assert_true(iw_memory_remove(&m, s));
        assert_false(iw_memory_remove(&m, s));
        last = s;
    }
    assert_true(same < 100);
    assert_int_equal(m.chunks, 1);
    assert_int_equal(m.in_use, 0);
    iw_memory_fini(&m);
}

static void a_guarded_name_is_there_while_it_is_used(void **state)
{
    (void) state;
    iw_memory_t m;
    iw_uses_t uses;
    iw_uses_init(&uses, 0);
    iw_memory_init(&m, 7);
    uint32_t s = iw_memory_add(&m, memory, 100, IW_REMOTE_READ, NULL, NULL, &uses);
    assert_int_equal(check(&m, s, IW_REMOTE_READ, 0, 1), IW_ACCESS_STAG);
    iw_use_begins(&uses);
    iw_use_begins(&uses);
    iw_use_ends(&uses);
    assert_int_equal(check(&m, s, IW_REMOTE_READ, 0, 1), IW_ACCESS_OK);
    assert_int_equal(iw_memory_ended(&m, s), 1);
    iw_use_ends(&uses);
    assert_int_equal(iw_memory_ended(&m, s), 2);
    assert_int_equal(check(&m, s, IW_REMOTE_READ, 0, 1), IW_ACCESS_STAG);
    assert_true(iw_memory_remove(&m, s));
    assert_int_equal(iw_memory_ended(&m, s), 0);
    /* The guard does not stay with the place. */
    s = iw_memory_add(&m, memory, 100, IW_REMOTE_READ, NULL, NULL, NULL);
    assert_int_equal(check(&m, s, IW_REMOTE_READ, 0, 1), IW_ACCESS_OK);
    iw_memory_fini(&m);
}

static void many_regions(void **state)
{
    (void) state;
    enum { MANY = 10000 };
    iw_memory_t m;
    uint32_t *s = must_alloc(MANY * sizeof(*s));
    uint8_t *target = must_alloc(MANY), *at;
    iw_memory_init(&m, 6);
    for (int i = 0; i < MANY; ++i) {
        s[i] = iw_memory_add(&m, target + i, 1, IW_REMOTE_WRITE, NULL, NULL, NULL);
    }
    for (int i = 0; i < MANY; i += 2) {
        assert_true(iw_memory_remove(&m, s[i]));
    }
    for (int i = 0; i < MANY; ++i) {
        iw_access_t access = iw_memory_check(&m, s[i], NULL, IW_REMOTE_WRITE, 0, 1, &at, NULL);
        assert_int_equal(access, i % 2 ? IW_ACCESS_OK : IW_ACCESS_STAG);
        assert_true(0 == i % 2 || at == target + i);
    }
    iw_memory_fini(&m);
    free(s);
    free(target);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds),
        cmocka_unit_test(rights),
        cmocka_unit_test(a_region_of_one_peer),
        cmocka_unit_test(other_stags_find_nothing),
        cmocka_unit_test(a_stale_stag_misses),
        cmocka_unit_test(a_guarded_name_is_there_while_it_is_used),
        cmocka_unit_test(many_regions),
    };
    return cmocka_run_group_tests_name("iw_memory", tests, NULL, NULL);
}
