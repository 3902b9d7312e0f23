/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Derived types on both sides, from zero elements to many fragments: the receiver must get exactly
 * the bytes that MPI_Pack would take from the sender's memory, put where MPI_Unpack would put them,
 * and nothing in the gaps. Every pair of types with equal signature, both orders of arrival. */
#include "testlib.h"

/* Each type here is made of ints, `ints` of them per element, so that all can meet all. */
enum { CONTIGUOUS, VECTOR, INDEXED, STRUCTURE, RESIZED, SUBARRAY, NESTED, NEGATIVE, KINDS };
static const char *kind_name[] = {"contiguous", "vector",   "indexed", "struct",
                                  "resized",    "subarray", "nested",  "negative lb"};
enum { INTS = 24 }; /* per element of every type */

static MPI_Datatype make(int kind)
{
    MPI_Datatype type, inner, old;
    switch (kind) {
    case CONTIGUOUS:
        MPI_Type_contiguous(INTS, MPI_INT, &type);
        break;
    case VECTOR:
        MPI_Type_vector(INTS / 3, 3, 5, MPI_INT, &type);
        break;
    case INDEXED: {
        int length[] = {1, 7, 0, 10, 6}, at[] = {30, 2, 50, 12, 40}; /* not in the order of memory */
        MPI_Type_indexed(5, length, at, MPI_INT, &type);
        break;
    }
    case STRUCTURE: {
        int length[] = {4, 5, 15};
        MPI_Aint at[] = {0, 20, 60};
        MPI_Datatype of[] = {MPI_INT, MPI_INT, MPI_INT};
        MPI_Type_create_struct(3, length, at, of, &type);
        break;
    }
    case RESIZED:
        MPI_Type_contiguous(INTS, MPI_INT, &old);
        MPI_Type_create_resized(old, 0, INTS * sizeof(int) + 52, &type);
        MPI_Type_free(&old);
        break;
    case SUBARRAY: {
        int sizes[] = {6, 5, 7}, part[] = {4, 2, 3}, from[] = {1, 2, 3};
        MPI_Type_create_subarray(3, sizes, part, from, MPI_ORDER_C, MPI_INT, &type);
        break;
    }
    case NESTED:
        MPI_Type_vector(2, 2, 3, MPI_INT, &inner);
        MPI_Type_create_hvector(INTS / 4, 1, 36, inner, &type);
        MPI_Type_free(&inner);
        break;
    default: {
        int length[] = {8, 16};
        MPI_Aint at[] = {-40, 16};
        MPI_Type_create_hindexed(2, length, at, MPI_INT, &old);
        MPI_Type_create_resized(old, -48, 144, &type);
        MPI_Type_free(&old);
    }
    }
    MPI_Type_commit(&type);
    return type;
}

/* Memory for `count` elements: *origin is what MPI calls get. */
static char *memory_for(MPI_Datatype type, int count, size_t *bytes, char **origin)
{
    MPI_Aint lb, extent, true_lb, true_extent;
    MPI_Type_get_extent(type, &lb, &extent);
    MPI_Type_get_true_extent(type, &true_lb, &true_extent);
    *bytes = count > 0 ? (size_t) (extent * (count - 1) + true_extent) : 0;
    char *base = tl_buf(*bytes);
    *origin = base - true_lb;
    return base;
}

static void meet(int from, int into, int count, int order, int src, int dst)
{
    if (tl.rank != src && tl.rank != dst) {
        return;
    }
    tl_step("%d elements, %s to %s, order %d, from %d to %d", count, kind_name[from], kind_name[into],
            order, src, dst);
    size_t packed = (size_t) count * INTS * sizeof(int), bytes;
    char *content = tl_buf(packed), *origin, *base, *expected_origin;
    tl_fill(content, packed, tl_key(90, src, dst, from * 10 + into, (uint64_t) count));
    MPI_Datatype type = make(tl.rank == src ? from : into);
    MPI_Request request;
    MPI_Status status;
    int position = 0;
    base = memory_for(type, count, &bytes, &origin);
    if (tl.rank == src) {
        MPI_Unpack(content, (int) packed, &position, origin, count, type, MPI_COMM_SELF);
        if (0 == order) {
            tl_hear(dst);
        }
        if (2 == order) {
            MPI_Issend(origin, count, type, dst, 1, MPI_COMM_WORLD, &request);
        } else {
            MPI_Isend(origin, count, type, dst, 1, MPI_COMM_WORLD, &request);
        }
        if (0 != order) {
            tl_tell(dst);
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        char *expected = memory_for(type, count, &bytes, &expected_origin);
        MPI_Unpack(content, (int) packed, &position, expected_origin, count, type, MPI_COMM_SELF);
        if (0 != order) {
            tl_hear(src);
        }
        MPI_Irecv(origin, count, type, src, 1, MPI_COMM_WORLD, &request);
        if (0 == order) {
            tl_tell(src);
        }
        MPI_Wait(&request, &status);
        int n = -1, elements = -1;
        MPI_Get_count(&status, type, &n);
        MPI_Get_elements(&status, type, &elements);
        CHECK(n == count && elements == count * INTS, "expected count %d elements %d, got %d and %d",
              count, count * INTS, n, elements);
        if (0 != memcmp(base, expected, bytes)) {
            size_t at = 0;
            while (base[at] == expected[at]) {
                ++at;
            }
            CHECK(base[at] == expected[at], "byte %zu of %zu: expected 0x%02x, got 0x%02x", at, bytes,
                  (unsigned char) expected[at], (unsigned char) base[at]);
        }
        FREE(expected);
    }
    MPI_Type_free(&type);
    FREE(base);
    FREE(content);
}

/* Fewer elements than there is room for: the rest stays, the count says how many came. */
static void partial(int src, int dst)
{
    enum { SENT = 3 * INTS + 5, ROOM = 10 };
    tl_step("part of an element, from %d to %d", src, dst);
    int out[SENT];
    for (int i = 0; i < SENT; ++i) {
        out[i] = i + 1000;
    }
    if (tl.rank == src) {
        MPI_Send(out, SENT, MPI_INT, dst, 2, MPI_COMM_WORLD);
    } else if (tl.rank == dst) {
        MPI_Datatype type = make(VECTOR);
        MPI_Status status;
        size_t bytes;
        char *origin, *base = memory_for(type, ROOM, &bytes, &origin);
        int n, elements;
        MPI_Recv(origin, ROOM, type, src, 2, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, type, &n);
        MPI_Get_elements(&status, type, &elements);
        CHECK(MPI_UNDEFINED == n && SENT == elements, "count %d, elements %d", n, elements);
        int at = 0, position = 0, in[SENT];
        char packed[ROOM * INTS * sizeof(int)];
        MPI_Pack(origin, 4, type, packed, sizeof(packed), &position, MPI_COMM_SELF);
        memcpy(in, packed, sizeof(in));
        while (at < SENT && in[at] == out[at]) {
            ++at;
        }
        CHECK(SENT == at, "int %d: expected %d, got %d", at, out[at % SENT], in[at % SENT]);
        UNTOUCHED(base, bytes / 2, bytes);
        MPI_Type_free(&type);
        FREE(base);
    }
}

/* MPI_PACKED on one side, types on the other. */
static void packed(int count, int src, int dst)
{
    tl_step("%d elements as MPI_PACKED, from %d to %d", count, src, dst);
    MPI_Datatype type = make(INDEXED);
    size_t bytes, n = (size_t) count * INTS * sizeof(int);
    char *origin, *base = memory_for(type, count, &bytes, &origin), *flat = tl_buf(n);
    uint64_t key = tl_key(91, src, dst, 0, n);
    int position = 0, room;
    MPI_Pack_size(count, type, MPI_COMM_WORLD, &room);
    char *pack = tl_buf((size_t) room);
    tl_fill(flat, n, key);
    if (tl.rank == src) {
        MPI_Unpack(flat, (int) n, &position, origin, count, type, MPI_COMM_SELF);
        position = 0;
        MPI_Pack(origin, count, type, pack, room, &position, MPI_COMM_WORLD);
        MPI_Send(pack, position, MPI_PACKED, dst, 3, MPI_COMM_WORLD);
        MPI_Send(origin, count, type, dst, 3, MPI_COMM_WORLD);
    } else if (tl.rank == dst) {
        for (int way = 0; way < 2; ++way) {
            tl_poison(base, bytes);
            if (0 == way) {
                MPI_Recv(origin, count, type, src, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            } else {
                MPI_Recv(pack, room, MPI_PACKED, src, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                position = 0;
                MPI_Unpack(pack, room, &position, origin, count, type, MPI_COMM_WORLD);
            }
            position = 0;
            tl_poison(flat, n);
            MPI_Pack(origin, count, type, flat, (int) n, &position, MPI_COMM_SELF);
            VERIFY(flat, n, key);
        }
    }
    MPI_Type_free(&type);
    FREE(base);
    FREE(flat);
    FREE(pack);
}

/* Absolute addresses of separate variables, with MPI_BOTTOM; kinds mixed in one struct. */
static void bottom(int n, int src, int dst)
{
    tl_step("MPI_BOTTOM, %d doubles, from %d to %d", n, src, dst);
    double *d = tl_buf(sizeof(double) * (size_t) n);
    char *c = tl_buf(7 + (size_t) n);
    short *s = tl_buf(3 * sizeof(short));
    uint64_t key = tl_key(92, src, dst, n, 0);
    MPI_Aint at[3];
    MPI_Datatype type, of[] = {MPI_SHORT, MPI_DOUBLE, MPI_CHAR};
    int length[] = {3, n, 7 + n};
    MPI_Get_address(s, &at[0]);
    MPI_Get_address(d, &at[1]);
    MPI_Get_address(c, &at[2]);
    MPI_Type_create_struct(3, length, at, of, &type);
    MPI_Type_commit(&type);
    if (tl.rank == src) {
        tl_fill(s, 6, key);
        tl_fill(d, sizeof(double) * (size_t) n, key + 1);
        tl_fill(c, 7 + (size_t) n, key + 2);
        MPI_Send(MPI_BOTTOM, 1, type, dst, 4, MPI_COMM_WORLD);
    } else if (tl.rank == dst) {
        if (n & 1) {
            tl_await(src, 4, MPI_COMM_WORLD);
        }
        MPI_Recv(MPI_BOTTOM, 1, type, src, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        VERIFY(s, 6, key);
        VERIFY(d, sizeof(double) * (size_t) n, key + 1);
        VERIFY(c, 7 + (size_t) n, key + 2);
    }
    MPI_Type_free(&type);
    FREE(d);
    FREE(c);
    FREE(s);
}

/* A freed type lives as long as the request that uses it. */
static void freed(int src, int dst)
{
    enum { COUNT = 4000 };
    tl_step("type freed while in use, from %d to %d", src, dst);
    MPI_Datatype type = make(NESTED);
    size_t bytes, n = (size_t) COUNT * INTS * sizeof(int);
    char *origin, *base = memory_for(type, COUNT, &bytes, &origin), *flat = tl_buf(n);
    int position = 0;
    MPI_Request request;
    tl_fill(flat, n, tl_key(93, src, dst, 0, 0));
    if (tl.rank == src) {
        MPI_Unpack(flat, (int) n, &position, origin, COUNT, type, MPI_COMM_SELF);
        MPI_Isend(origin, COUNT, type, dst, 5, MPI_COMM_WORLD, &request);
        MPI_Type_free(&type);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (tl.rank == dst) {
        MPI_Irecv(origin, COUNT, type, src, 5, MPI_COMM_WORLD, &request);
        MPI_Type_free(&type);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        type = make(NESTED);
        MPI_Pack(origin, COUNT, type, flat, (int) n, &position, MPI_COMM_SELF);
        VERIFY(flat, n, tl_key(93, src, dst, 0, 0));
    }
    if (MPI_DATATYPE_NULL != type) {
        MPI_Type_free(&type);
    }
    FREE(base);
    FREE(flat);
}

int main(int argc, char **argv)
{
    /* 96 bytes each: nothing, eager, about the eager limits, a fragment, many fragments. */
    static const int counts[] = {0, 1, 2, 41, 42, 43, 60, 341, 400, 681, 683, 1400, 20000};
    tl_start(&argc, &argv, "datatypes", 120);
    for (int src = 0; src < tl.size && tl.size > 1; ++src) {
        int dst = (src + 1) % tl.size;
        MPI_Barrier(tl.ctl);
        for (size_t c = 0; c < TL_N(counts); ++c) {
            for (int from = 0; from < KINDS; ++from) {
                for (int into = 0; into < KINDS; ++into) {
                    for (int order = 0; order < 3; ++order) {
                        if (counts[c] < 10000 || order == (from + into) % 2) {
                            meet(from, into, counts[c], order, src, dst);
                        }
                    }
                }
            }
            packed(counts[c], src, dst);
            bottom(counts[c] * 12 + 1, src, dst);
            bottom(counts[c] * 12, src, dst);
        }
        partial(src, dst);
        freed(src, dst);
    }
    return tl_finish();
}
