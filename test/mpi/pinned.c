/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* mpool/freq beside a transport that registers memory through a registration cache (btl_pinned.c):
 * what is allocated is registered before it is sent, once; the table of buffer usage measures the
 * transport and forgets buffers whose memory goes away. pinned.pl runs it.
 *
 * --limit 1   the transport registers nothing (btl_pinned_limit is 1)
 * --uses N    mpool_freq_fixed_uses is N */
#include "ompi_config.h"

#include "find_btl.h"
#include "testlib.h"

#include "opal/include/spec/promises.h"

#include <pthread.h>
#include <sys/mman.h>

static mca_btl_base_module_t *btl;

static long long pins(void)
{
    return tl_pvar("btl_pinned_pins");
}

/* As a send of it does. */
static bool send_from(void *base, size_t size)
{
    mca_btl_base_registration_handle_t *handle =
        btl->btl_register_mem(btl, MCA_BTL_ENDPOINT_ANY, base, size, MCA_BTL_REG_FLAG_REMOTE_READ);
    if (NULL == handle) {
        return false;
    }
    btl->btl_deregister_mem(btl, handle);
    return true;
}

static MPI_Info with_hints(const char *hints)
{
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpool_hints", hints);
    return info;
}

/* ---- allocated memory ---- */

static void registered_once(void)
{
    MPI_Info info = with_hints("mpool=freq");
    tl_rng_t rng = {1};
    char *block[50];
    tl_step("blocks of the pool");
    const long long before = pins();
    for (size_t i = 0; i < TL_N(block); ++i) {
        MPI_Alloc_mem(10000, info, &block[i]);
    }
    CHECK(pins() - before == 1, "%lld pins for the pool", pins() - before);
    for (int round = 0; round < 10000; ++round) {
        const size_t offset = tl_below(&rng, 10000);
        CHECK(send_from(block[tl_below(&rng, TL_N(block))] + offset,
                        1 + tl_below(&rng, 10000 - offset)),
              "not registered");
    }
    CHECK(pins() - before == 1, "%lld pins after sending", pins() - before);
    for (size_t i = 0; i < TL_N(block); ++i) {
        MPI_Free_mem(block[i]);
    }
    for (int i = 0; i < 100; ++i) {
        MPI_Alloc_mem(10000, info, &block[0]);
        MPI_Free_mem(block[0]);
    }
    CHECK(pins() - before == 1, "%lld pins after allocating and freeing", pins() - before);

    tl_step("a segment of its own");
    char *large;
    MPI_Alloc_mem(5 << 20, info, &large);
    for (int round = 0; round < 1000; ++round) {
        const size_t offset = tl_below(&rng, 5 << 20);
        CHECK(send_from(large + offset, 1 + tl_below(&rng, (5 << 20) - offset)), "not registered");
    }
    CHECK(pins() - before == 2, "%lld pins", pins() - before);
    MPI_Free_mem(large);

    tl_step("memory from malloc, for comparison");
    char *plain = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(send_from(plain, 1 << 20), "not registered");
    CHECK(pins() - before == 3, "%lld pins", pins() - before);
    munmap(plain, 1 << 20);
    MPI_Info_free(&info);
}

static void not_registered(void)
{
    void *memory = NULL;
    MPI_Info info = with_hints("mpool=freq");
    tl_step("memory that cannot be registered");
    CHECK_CLASS(MPI_Alloc_mem(10000, info, &memory), MPI_SUCCESS);
    memset(memory, 1, 10000);
    MPI_Free_mem(memory);
    CHECK_CLASS(MPI_Alloc_mem(5 << 20, info, &memory), MPI_SUCCESS);
    memset(memory, 1, 5 << 20);
    MPI_Free_mem(memory);
    MPI_Info_free(&info);
    /* Open MPI 4.1 falls back on malloc; pinned.pl checks whether that was told. */
    info = with_hints("must_be_shared");
    CHECK_CLASS(MPI_Alloc_mem(10000, info, &memory), MPI_SUCCESS);
    memset(memory, 1, 10000);
    MPI_Free_mem(memory);
    MPI_Info_free(&info);
    CHECK(0 == pins(), "%lld pins", pins());
    CHECK(tl_pvar("mpool_freq_registrations_failed") > 0, "no failure was counted");
}

/* ---- the table ---- */

static int table_register(void *context, void *base, size_t size, void **registration)
{
    (void) context;
    *registration =
        btl->btl_register_mem(btl, MCA_BTL_ENDPOINT_ANY, base, size, MCA_BTL_REG_FLAG_REMOTE_READ);
    return NULL == *registration ? OPAL_ERR_OUT_OF_RESOURCE : OPAL_SUCCESS;
}

static void table_deregister(void *context, void *registration)
{
    (void) context;
    btl->btl_deregister_mem(btl, registration);
}

static const mca_mpool_freq_service_t *freq;
static mca_mpool_freq_table_t *table;
static freq_gate_t gate;
static uint32_t after;

/* As transports ask. */
static bool is_frequent(const void *buffer, size_t size)
{
    mca_mpool_freq_note_t *note;
    if (!freq_gate_passes(&gate, buffer) && freq->is_frequent(table, buffer, size, &note)) {
        return true;
    }
    freq_gate_copied(&gate, size);
    return false;
}

static char *map(void *at)
{
    return mmap(at, 1 << 20, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | (NULL == at ? 0 : MAP_FIXED), -1, 0);
}

/* With a fixed count it is frequent from the next use on; with a measured one not before, since what it saves
 * must pay for it first (freq_table.h). */
static void uses(const char *buffer, bool already)
{
    const bool fixed = 0 != tl_option("--uses", 0);
    for (uint32_t use = 1; use <= after + 10; ++use) {
        const bool expected = already || use > after;
        const bool frequent = is_frequent(buffer, 8192);
        CHECK(frequent == expected || (!fixed && !frequent), "use %u of %u", use, after);
    }
}

static void *use_in_thread(void *number)
{
    char *area = map(NULL);
    for (int round = 0; round < 20; ++round) {
        for (int i = 0; i < 20000; ++i) {
            (void) is_frequent(area + (i % 37) * 8192, 8192);
            (void) is_frequent((char *) number + 8192 * (i % 5), 4096);
        }
        munmap(area, 1 << 20);
        area = map(NULL);
    }
    munmap(area, 1 << 20);
    return NULL;
}

static void buffer_usage(void)
{
    mca_mpool_freq_transport_t transport = {
        .name = "test pinned", .register_mem = table_register, .deregister_mem = table_deregister};
    tl_step("opening a table");
    freq = mca_mpool_freq_service();
    if (!CHECK(NULL != freq, "there is no service")) {
        return;
    }
    CHECK(NULL == freq->open(&transport), "a table without a gate");
    transport.gate = &gate;
    table = freq->open(&transport);
    if (!CHECK(NULL != table, "there is no table")) {
        return;
    }
    uint32_t n;
    freq->counts(table, 64, &n, &after);
    CHECK(0 == n && 0 == after, "below 128 bytes: n %u, after %u", n, after);
    freq->counts(table, 8192, &n, &after);
    CHECK((n > 0) == (after > 0) && after <= n, "8192 bytes: n %u, after %u", n, after);
    CHECK(0 == tl_option("--uses", 0) || after == tl_option("--uses", 0), "after %u uses", after);
    /* By what was measured it may be never. */
    if (after > 0) {
        tl_step("uses of a buffer");
        char *area = map(NULL);
        uses(area, false);
        uses(area, true);
        CHECK(0 == tl_option("--uses", 0) || tl_pvar("mpool_freq_copies_avoided") > 0,
              "no copy was avoided");
        tl_step("a registration that was lost");
        CHECK(0 == tl_option("--uses", 0) || freq->may_renew(table, 8192), "it may not be made anew");
        tl_step("a buffer that was refused");
        freq->refused(table, area, 8192);
        uses(area, false);
        munmap(area, 1 << 20);
    }
    tl_step("uses in threads");
    pthread_t id[4];
    char *shared = map(NULL);
    for (size_t i = 0; i < TL_N(id); ++i) {
        CHECK(0 == pthread_create(&id[i], NULL, use_in_thread, shared), "no thread");
    }
    for (size_t i = 0; i < TL_N(id); ++i) {
        pthread_join(id[i], NULL);
    }
    munmap(shared, 1 << 20);
    freq->close(table);
    const long long copies = (long long) gate.copies;
    memset(&gate, 0xff, sizeof(gate)); /* it is the transport's again */
    CHECK(copies > 0 && copies == tl_pvar("mpool_freq_sent_copies"),
          "the copies went with the gate");
    CHECK(0 == after || tl_pvar("mpool_freq_table_added") > 0, "the counts went with the table");
}

int main(int argc, char **argv)
{
    (void) tl_start_thread(&argc, &argv, "pinned", 60, MPI_THREAD_MULTIPLE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    (void) pins();
    (void) tl_pvar("mpool_freq_registrations_failed");
    (void) tl_pvar("mpool_freq_copies_avoided");
    (void) tl_pvar("mpool_freq_table_added");
    (void) tl_pvar("mpool_freq_sent_copies");
    btl = find_btl("pinned");
    if (CHECK(NULL != btl, "there is no BTL of the name pinned")) {
        if (tl_option("--limit", 0)) {
            not_registered();
        } else {
            registered_once();
            buffer_usage();
        }
    }
    return tl_finish();
}
