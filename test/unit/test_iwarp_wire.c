/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The wire (iw_wire.h, iw_frame.h): the exact octets of every kind of datagram as engines make them,
 * every accessor, and what is refused. Change a number here only together with IW_VERSION. */
#include "spec_unit.h"

#include "iw_frame.h"
#include "iw_link.h"
#include "iw_memory.h"
#include "spec_seq.h"

#define MS UINT64_C(1000000)

/* Spaces in the text are for the reader. */
static size_t from_hex(const char *text, uint8_t *out)
{
    size_t n = 0;
    for (; '\0' != *text; ++text) {
        unsigned byte;
        if (' ' != *text) {
            assert_int_equal(sscanf(text++, "%2x", &byte), 1);
            out[n++] = (uint8_t) byte;
        }
    }
    return n;
}

/* Both ends without tags, and a list of what has to be on the wire. */
typedef struct scene {
    link_t link;
    iw_peer_t *a, *b;
    const char *const *expected; /* "direction hex", up to NULL */
} scene_t;

static void compare(void *context, unsigned from, const uint8_t *data, size_t length)
{
    scene_t *s = context;
    uint8_t bytes[512];
    if (NULL == s->expected) {
        return;
    }
    assert_non_null(*s->expected);
    assert_int_equal((*s->expected)[0] - '0', from);
    size_t n = from_hex(*s->expected + 2, bytes);
    if (n != length || 0 != memcmp(bytes, data, n)) {
        print_error("expected %s\n  found ", *s->expected);
        for (size_t i = 0; i < length; ++i) {
            print_error("%02x", data[i]);
        }
        print_error("\n");
        fail();
    }
    ++s->expected;
}

static void scene_init(scene_t *s)
{
    memset(s, 0, sizeof(*s));
    link_init(&s->link, 2, NULL, 1);
    for (unsigned i = 0; i < 2; ++i) {
        iw_config_t c;
        iw_engine_destroy(s->link.engine[i]);
        link_config(i, &c);
        c.auth = IW_AUTH_OFF;
        s->link.engine[i] = iw_engine_create(&c);
    }
    s->link.tap = compare;
    s->link.tap_context = s;
    s->a = link_peer(&s->link, 0, 1, NULL);
    s->b = link_peer(&s->link, 1, 0, NULL);
}

static void play(scene_t *s, const char *const *expected)
{
    s->expected = expected;
    link_run(&s->link, s->link.now + 10 * MS);
    assert_null(*s->expected);
    s->expected = NULL;
}

/* Head: 21 = version 2, type SEGMENT; flags; floor; connection; number; tag: without protection the generation of the
 * receiver's side, unless there is a hello. */
static void golden_bytes(void **state)
{
    (void) state;
    scene_t s;
    scene_init(&s);
    _Alignas(8) uint8_t memory[64] = "abcdefgh";
    uint8_t sink[8], buffer[8][16];
    uint32_t stag =
        iw_register(s.link.engine[1], memory, sizeof(memory), IW_REMOTE_READ | IW_REMOTE_WRITE, NULL);
    assert_int_equal(stag, 0x966);
    iw_post_receive(s.link.engine[1], buffer[0], 16, NULL);
    struct iovec piece = {"hi", 2};

    iw_post_send(s.a, &piece, 1, IW_INLINE, NULL);
    play(
        &s,
        (const char *const[]){
            /* head with HELLO; hello of 100: generation 3e9, answers none, connection, 9000
                  * bytes, version 2, 16 reads; ssn 0, 20 bytes: untagged last, Send, queue 0, msn 1 */
            "0 21010000 00000000 0000000000000001 0000000000000000"
            "  0000000000000064 00000000000003e9 0000000000000000 c6700000 2328 02 10"
            "  00000000 0014 41 43 00000000 00000000 00000001 00000000 6869",
            /* CONTROL with HELLO and ACK: largest 1, next ssn 1, window, no delay, 1 range: 0, 1 */
            "1 23030000 c6700000 0000000000000001 0000000000000000"
            "  0000000000000065 00000000000003e9 00000000000003e9 80100000 2328 02 10"
            "  00000001 00000001 00100000 0000 0001 0000 0001",
            NULL});

    iw_post_write(s.a, &piece, 1, stag, 8, 0, NULL);
    play(&s,
         (const char *const[]){/* NOW; ssn 1, 16 bytes: tagged last, RDMA Write, STag, offset 8 */
                               "0 21080000 80100000 0000000000000002 00000000000003e9"
                               "  00000001 0010 c1 40 00000966 0000000000000008 6869",
                               "1 23020000 c6700000 0000000000000002 00000000000003e9"
                               "  00000002 00000002 00100000 0000 0001 0000 0001",
                               NULL});
    assert_memory_equal(memory + 8, "hi", 2);

    iw_post_read(s.a, sink, 4, stag, 2, 0, NULL);
    play(&s,
         (const char *const[]){
             /* ssn 2, 46 bytes: untagged last, RDMA Read Request, queue 1, msn 1; sink STag and
                  * offset, length 4, source STag and offset 2 */
             "0 21000000 80100000 0000000000000003 00000000000003e9"
             "  00000002 002e 41 41 00000000 00000001 00000001 00000000"
             "  0000011e 0000000000000000 00000004 00000966 0000000000000002",
             /* with the ACK: ssn 0 of this direction, 18 bytes: tagged last, RDMA Read Response */
             "1 21020000 c6700000 0000000000000003 00000000000003e9"
             "  00000003 00000003 00100000 0000 0001 0000 0001"
             "  00000000 0012 c1 42 0000011e 0000000000000000 63646566",
             /* 100 us later */
             "0 23020000 80100000 0000000000000004 00000000000003e9"
             "  00000003 00000001 00100000 0064 0001 0000 0001",
             NULL});
    assert_memory_equal(sink, "cdef", 4);

    uint64_t before = 0;
    iw_post_atomic(s.a, IW_ATOMIC_CSWAP, false, stag, 16, 7, 0, &before, 0, NULL);
    play(&s,
         (const char *const[]){
             /* ssn 3, 54 bytes: untagged last, Atomic Request, queue 1, msn 2; 64 bits, compare and swap, number 2, STag,
                  * offset 16, 7 is stored where 0 is */
             "0 21000000 80100000 0000000000000005 00000000000003e9"
             "  00000003 0036 41 4a 00000000 00000001 00000002 00000000"
             "  0000 00 02 00000002 00000966 0000000000000010 0000000000000007 0000000000000000",
             /* with the ACK: 30 bytes: untagged last, Atomic Response, queue 3, msn 1; number 2, the word was 0 */
             "1 21020000 c6700000 0000000000000004 00000000000003e9"
             "  00000005 00000004 00100000 0000 0001 0000 0001"
             "  00000001 001e 41 4b 00000000 00000003 00000001 00000000"
             "  00000002 0000000000000000",
             "0 23020000 80100000 0000000000000006 00000000000003e9"
             "  00000004 00000002 00100000 0064 0001 0000 0001",
             NULL});
    assert_int_equal(memory[16], 7);

    /* No receive buffer is left: ACK and RNR. */
    s.link.cut[1] = true;
    iw_post_send(s.a, &piece, 1, IW_INLINE, NULL);
    s.expected =
        (const char *const[]){"0 21000000 80100000 0000000000000007 00000000000003e9"
                              "  00000004 0014 41 43 00000000 00000000 00000002 00000000 6869",
                              NULL};
    s.link.cut[1] = false;
    link_drain(&s.link);
    s.expected = NULL;
    link_run(&s.link, s.link.now + 6000);
    s.expected = (const char *const[]){"1 23060000 c6700000 0000000000000005 00000000000003e9"
                                       "  00000006 00000004 00100000 26a1 0001 0000 0001 00000007",
                                       NULL};
    link_drain(&s.link);
    s.expected = NULL;
    iw_post_receive(s.link.engine[1], buffer[2], 16, NULL);
    link_run(&s.link, s.link.now + 10 * MS);
    assert_memory_equal(buffer[2], "hi", 2);
    link_fini(&s.link);
}

static void golden_bytes_of_the_end(void **state)
{
    (void) state;
    scene_t s;
    scene_init(&s);
    uint8_t memory[64] = "", buffer[16];
    uint32_t stag = iw_register(s.link.engine[1], memory, sizeof(memory), IW_REMOTE_WRITE, NULL);
    struct iovec piece = {"hi", 2};
    iw_post_receive(s.link.engine[1], buffer, 16, NULL);
    iw_post_send(s.a, &piece, 1, IW_INLINE, NULL);
    link_run(&s.link, s.link.now + 10 * MS);
    iw_post_write(s.a, &piece, 1, stag, 63, 0, NULL);
    play(&s,
         (const char *const[]){
             "0 21080000 80100000 0000000000000002 00000000000003e9"
             "  00000001 0010 c1 40 00000966 000000000000003f 6869",
             /* TERMINATE, 26 bytes: untagged last, Terminate, queue 2, msn 1; layer RDMAP, remote
                  * protection, base or bounds; of ssn 1 */
             "1 25000000 c6700000 0000000000000002 00000000000003e9"
             "  001a 41 47 00000000 00000002 00000001 00000000 01 01 0000 00000001",
             NULL});
    iw_peer_remove(s.a);
    iw_peer_remove(s.b);
    s.a = link_peer(&s.link, 0, 1, NULL);
    s.b = link_peer(&s.link, 1, 0, NULL);
    iw_post_write(s.a, &piece, 1, stag, 8, 0, NULL);
    link_run(&s.link, s.link.now + 10 * MS);
    iw_peer_remove(s.a);
    s.a = NULL;
    play(&s, (const char *const[]){/* CLOSE with ACK: of the datagram of 9989 us ago */
                                   "0 26020000 e0100001 0000000000000002 00000000000003ea"
                                   "  00000001 00000000 00100000 2705 0001 0000 0001",
                                   NULL});
    link_fini(&s.link);
}

static void accessors_round_trip(void **state)
{
    (void) state;
    static const uint64_t values[] = {0,
                                      1,
                                      0x80,
                                      0xff,
                                      0x7fff,
                                      0x8000,
                                      0xffff,
                                      0x55555555,
                                      0xaaaaaaaa,
                                      0x7fffffff,
                                      0x80000000,
                                      0xffffffff,
                                      UINT64_C(0x5555555555555555),
                                      UINT64_C(0x0123456789abcdef),
                                      UINT64_MAX};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); ++i) {
        assert_int_equal(iw_get16(iw_be16((uint16_t) values[i])), (uint16_t) values[i]);
        assert_int_equal(iw_get32(iw_be32((uint32_t) values[i])), (uint32_t) values[i]);
        assert_true(iw_get64(iw_be64(values[i])) == values[i]);
    }
    assert_int_equal(iw_be64(UINT64_C(0x0123456789abcdef)).b[0], 0x01);
    assert_int_equal(iw_be32(0x01234567).b[3], 0x67);
    assert_int_equal(iw_be16(0x0123).b[1], 0x23);
}

/* A datagram with all blocks. */
static size_t with_everything(uint8_t *data)
{
    return from_hex("2107 0000 00000000 0000000000000007 0000000000000000"
                    "0000000000000064 00000000000003e9 0000000000000000 00000005 2328 02 10"
                    "00000009 00000001 00100000 0000 0002 0000 0001 0001 0002 00000003"
                    "00000004 0014 41 43 00000000 00000000 00000001 00000000 6869",
                    data);
}

static void frames_are_taken_apart(void **state)
{
    (void) state;
    uint8_t data[256];
    iw_frame_t f;
    iw_ddp_t d;
    size_t length = with_everything(data);
    assert_int_equal(iw_frame_check(data, length, &f), IW_FRAME_OK);
    assert_int_equal(f.pn, 7);
    assert_int_equal(f.floor, 7);
    assert_int_equal(f.ssn, 4);
    assert_int_equal(iw_get32(f.hello->conn), 5);
    assert_int_equal(f.ack->ranges, 2);
    assert_int_equal(iw_get16(f.range[1].run), 2);
    assert_int_equal(iw_get32(f.rnr->refused), 3);
    assert_int_equal(iw_ddp_check(f.body, f.body_length, &d), IW_TERM_NONE);
    assert_int_equal(d.opcode, IW_OP_SEND);
    assert_int_equal(d.length, 2);
    assert_memory_equal(d.payload, "hi", 2);
}

static void every_other_length_is_refused(void **state)
{
    (void) state;
    uint8_t data[256];
    iw_frame_t f;
    size_t length = with_everything(data);
    for (size_t n = 0; n < length; ++n) {
        /* Exactly so long that reading beyond it is seen. */
        uint8_t *copy = must_alloc(n + 1);
        memcpy(copy, data, n);
        assert_int_equal(iw_frame_check(copy, n, &f), IW_FRAME_LENGTH);
        free(copy);
    }
    assert_int_equal(iw_frame_check(data, length + 1, &f), IW_FRAME_LENGTH);
    assert_int_equal(iw_frame_check(data, IW_DATAGRAM_MAX + 1, &f), IW_FRAME_LENGTH);
    data[24 + 32 + 14] = 0; /* no range, and more than there may be */
    data[24 + 32 + 15] = 0;
    assert_int_equal(iw_frame_check(data, length, &f), IW_FRAME_LENGTH);
    data[24 + 32 + 15] = IW_RANGES_MAX + 1;
    assert_int_equal(iw_frame_check(data, length, &f), IW_FRAME_LENGTH);
}

static void versions_types_and_flags(void **state)
{
    (void) state;
    iw_frame_t f;
    for (unsigned first = 0; first < 256; ++first) {
        for (unsigned flags = 0; flags < 256; ++flags) {
            uint8_t data[24] = {(uint8_t) first, (uint8_t) flags};
            bool known = IW_VERSION == first >> 4 && (IW_SEGMENT == (first & 15) || (first & 15) >= IW_CONTROL)
                         && (first & 15) <= IW_CLOSE && 0 == (flags & ~0x1fu)
                         && !((flags & IW_F_RNR) && !(flags & IW_F_ACK));
            iw_frame_verdict_t verdict = iw_frame_check(data, sizeof(data), &f);
            assert_int_equal(IW_FRAME_VERSION != verdict, known);
        }
    }
}

/* Every control byte there can be, in both forms. */
static void ddp_headers(void **state)
{
    (void) state;
    for (unsigned ddp = 0; ddp < 256; ++ddp) {
        for (unsigned rdmap = 0; rdmap < 256; ++rdmap) {
            for (unsigned qn = 0; qn < 4; ++qn) {
                uint8_t body[64] = {(uint8_t) ddp, (uint8_t) rdmap};
                iw_ddp_t d;
                body[9] = (uint8_t) qn;
                unsigned opcode = rdmap & 15;
                bool version = 0x01 == (ddp & 0x3f) && 0x40 == (rdmap & 0xf0), tagged = ddp & 0x80;
                bool last = ddp & 0x40;
                size_t length = tagged                         ? 20
                                : opcode == IW_OP_READ_REQUEST ? 18 + 28
                                : opcode == IW_OP_ATOMIC_REQUEST  ? 18 + 36
                                : opcode == IW_OP_ATOMIC_RESPONSE ? 18 + 12
                                : opcode == IW_OP_TERMINATE    ? 18 + 8
                                                               : 20;
                bool good =
                    version
                    && (tagged ? 0 == opcode || 2 == opcode
                               : (3 == opcode && 0 == qn) || (1 == opcode && 1 == qn && last)
                                     || (7 == opcode && 2 == qn) || (10 == opcode && 1 == qn && last)
                                     || (11 == opcode && 3 == qn && last));
                assert_int_equal(IW_TERM_NONE == iw_ddp_check(body, length, &d), good);
                assert_true(IW_TERM_NONE != iw_ddp_check(body, tagged ? 13 : 17, &d));
            }
        }
    }
}

static void packet_numbers_are_expanded(void **state)
{
    (void) state;
    static const uint64_t near[] = {
        0, 1, 0xffffffff, UINT64_C(0x100000000), UINT64_C(0x1fffffff0), UINT64_C(0xfffffffffff0)};
    for (size_t i = 0; i < sizeof(near) / sizeof(near[0]); ++i) {
        for (int64_t d = -100; d <= 100; ++d) {
            uint64_t pn = near[i] + (uint64_t) d;
            assert_true(iw_pn_expand(near[i], (uint32_t) pn) == pn);
        }
    }
}

static void serial_numbers(void **state)
{
    (void) state;
    static const uint32_t at[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff};
    for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); ++i) {
        for (uint32_t d = 1; d < 1000; ++d) {
            assert_true(spec_seq_before(at[i], at[i] + d));
            assert_false(spec_seq_before(at[i] + d, at[i]));
            assert_int_equal(spec_seq_diff(at[i] + d, at[i]), d);
        }
        assert_false(spec_seq_before(at[i], at[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_bytes),
        cmocka_unit_test(golden_bytes_of_the_end),
        cmocka_unit_test(accessors_round_trip),
        cmocka_unit_test(frames_are_taken_apart),
        cmocka_unit_test(every_other_length_is_refused),
        cmocka_unit_test(versions_types_and_flags),
        cmocka_unit_test(ddp_headers),
        cmocka_unit_test(packet_numbers_are_expanded),
        cmocka_unit_test(serial_numbers),
    };
    return cmocka_run_group_tests_name("iw_wire", tests, NULL, NULL);
}
