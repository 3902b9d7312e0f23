/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Large transfers in both directions at once, of lengths that divide badly: every byte at its place
 * when a message is shared among several transports.
 *   --registers 1   they need registration: RTRs must have offered more than one of them */
#include "testlib.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

enum { MESSAGES = 6, ROUNDS = 4 };

static size_t size_of(int round, int i)
{
    static const size_t base[] = {131071, 196609, 524287, 1 << 20, 2097153, 3000001};
    return base[i % MESSAGES] + (size_t) round * 4097;
}

/* Interfaces with an IPv4 address that are up. */
static int interfaces(void)
{
    struct ifaddrs *list, *i;
    int n = 0;
    if (0 != getifaddrs(&list)) {
        return 0;
    }
    for (i = list; NULL != i; i = i->ifa_next) {
        n += NULL != i->ifa_addr && AF_INET == i->ifa_addr->sa_family && (i->ifa_flags & IFF_UP);
    }
    freeifaddrs(list);
    return n;
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "striping", 120);
    const long long stripes = tl_pvar("pml_spec_stripes"), keys = tl_pvar("pml_spec_rtr_keys");
    for (int round = 0; round < ROUNDS; ++round) {
        for (int shift = 1; shift < tl.size; ++shift) {
            int to = (tl.rank + shift) % tl.size, from = (tl.rank + tl.size - shift) % tl.size;
            bool late = round & 1; /* receives after the sends */
            char *in[MESSAGES], *out[MESSAGES];
            MPI_Request request[2 * MESSAGES];
            MPI_Status status[2 * MESSAGES];
            tl_step("round %d, shift %d", round, shift);
            for (int i = 0; i < MESSAGES; ++i) {
                in[i] = tl_buf(size_of(round, i));
                out[i] = tl_buf(size_of(round, i));
                tl_fill(out[i], size_of(round, i), tl_key(130, tl.rank, to, i, (uint64_t) round));
                if (!late) {
                    MPI_Irecv(in[i], (int) size_of(round, i), MPI_BYTE, from, i & 1, MPI_COMM_WORLD,
                              &request[i]);
                }
            }
            MPI_Barrier(tl.ctl);
            for (int i = 0; i < MESSAGES; ++i) {
                MPI_Isend(out[i], (int) size_of(round, i), MPI_BYTE, to, i & 1, MPI_COMM_WORLD,
                          &request[MESSAGES + i]);
            }
            for (int i = 0; late && i < MESSAGES; ++i) {
                MPI_Irecv(in[i], (int) size_of(round, i), MPI_BYTE, from, i & 1, MPI_COMM_WORLD,
                          &request[i]);
            }
            MPI_Waitall(2 * MESSAGES, request, status);
            for (int i = 0; i < MESSAGES; ++i) {
                CHECK_STATUS(status[i], from, i & 1, size_of(round, i));
                VERIFY(in[i], size_of(round, i), tl_key(130, from, tl.rank, i, (uint64_t) round));
                FREE(in[i]);
                FREE(out[i]);
            }
        }
    }
    if (keys >= 0 && tl_option("--registers", 0) > 0 && interfaces() > 1) {
        CHECK(tl_pvar("pml_spec_rtr_keys") > keys, "RTRs offered one transport only");
        CHECK(tl_pvar("pml_spec_stripes") > stripes, "no message was shared among transports");
    }
    return tl_finish();
}
