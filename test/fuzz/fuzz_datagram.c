/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* libFuzzer: any bytes as a datagram, to the parser alone and to an engine with each kind of
 * protection. Nothing is read outside the datagram, and without the key nothing changes. */
#include "fuzz_script.h"
#include "iw_frame.h"
#include "iw_link.h"
#include "iw_memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse(const uint8_t *data, size_t size)
{
    iw_frame_t f;
    iw_ddp_t d;
    if (IW_FRAME_OK != iw_frame_check(data, size, &f)) {
        return;
    }
    MUST(f.body + f.body_length == data + size);
    MUST(NULL == f.range || (const uint8_t *) (f.range + f.ack->ranges) <= data + size);
    if (IW_TERM_NONE == iw_ddp_check(f.body, f.body_length, &d)) {
        MUST(d.payload >= f.body && d.payload + d.length == f.body + f.body_length);
    }
}

static void feed(const uint8_t *data, size_t size, iw_auth_mode_t auth)
{
    static uint8_t memory[256], buffer[256];
    iw_config_t c;
    link_config(0, &c);
    c.auth = auth;
    iw_key_make(&c.key); /* another one each time: the fuzzer sees what its tag is compared with */
    iw_engine_t *e = iw_engine_create(&c);
    iw_address_t a;
    iw_key_t key;
    iw_completion_t done;
    iw_packet_t out;
    link_address(1, &a);
    link_key(1, &key);
    MUST(NULL != e && NULL != iw_peer_add(e, 101, &a, &key, NULL));
    memset(memory, 0, sizeof(memory));
    (void) iw_register(e, memory, sizeof(memory), IW_REMOTE_READ | IW_REMOTE_WRITE, NULL);
    (void) iw_post_receive(e, buffer, sizeof(buffer), NULL);
    iw_engine_input(e, 1000, data, size);
    iw_engine_input(e, 2000, data, size);
    if (IW_AUTH_TAG == auth) {
        const iw_counters_t *count = iw_engine_counters(e);
        MUST(0 == count->segments_in + count->messages_in + count->acks_in);
        MUST(2
             == count->refused_length + count->refused_version + count->refused_connection
                    + count->refused_tag);
        MUST(!iw_engine_has_output(e) && 0 == iw_engine_poll(e, &done, 1));
        MUST(1 == iw_receives_free(e));
    }
    for (int i = 0; i < 4 && iw_engine_has_output(e); ++i) {
        (void) iw_engine_output(e, 3000, &out, 1);
    }
    iw_engine_timers(e, UINT64_C(100000000000));
    iw_engine_destroy(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    parse(data, size);
    feed(data, size, IW_AUTH_TAG);
    feed(data, size, IW_AUTH_OFF);
    return 0;
}
