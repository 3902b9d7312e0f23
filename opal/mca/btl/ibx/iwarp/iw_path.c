/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Probes which datagram size the path to a peer carries, and falls back when it does not any more. */
#include "iw_path.h"

void iw_path_init(iw_path_t *p, uint16_t base, uint16_t ceiling)
{
    *p = (iw_path_t){.size = base, .ceiling = ceiling > base ? ceiling : base};
}

uint16_t iw_path_next(iw_path_t *p)
{
    if (0 != p->probe || p->size == p->ceiling) {
        return 0;
    }
    p->probe = p->searching ? (uint16_t) (p->size + (p->ceiling - p->size + 1) / 2) : p->ceiling;
    return p->probe;
}

static void close_enough(iw_path_t *p)
{
    if (p->searching && p->ceiling - p->size < IW_PATH_CLOSE) {
        p->ceiling = p->size;
    }
}

static void failed(iw_path_t *p, uint16_t size)
{
    p->lost = 0;
    if (size > p->ceiling || size <= p->size) {
        return;
    }
    p->ceiling = (uint16_t) (size - 1);
    p->searching = true;
    close_enough(p);
}

void iw_path_acked(iw_path_t *p, uint16_t probe)
{
    if (0 == probe || probe != p->probe) {
        return;
    }
    p->probe = 0;
    p->lost = 0;
    if (probe > p->size) {
        p->size = probe;
    }
    if (p->ceiling < p->size) {
        p->ceiling = p->size;
    }
    close_enough(p);
}

void iw_path_lost(iw_path_t *p, uint16_t probe)
{
    if (0 == probe || probe != p->probe) {
        return;
    }
    p->probe = 0;
    if (++p->lost >= IW_PATH_TRIES) {
        failed(p, probe);
    }
}

void iw_path_unsent(iw_path_t *p, uint16_t probe)
{
    if (probe == p->probe) {
        p->probe = 0;
    }
}

void iw_path_too_big(iw_path_t *p, uint16_t size, uint16_t limit)
{
    if (p->probe >= size) {
        p->probe = 0;
    }
    if (0 == limit || limit >= size) {
        failed(p, size);
        return;
    }
    if (p->ceiling > limit) {
        p->ceiling = limit > p->size ? limit : p->size;
        p->searching = false; /* the limit itself is worth a try */
        p->lost = 0;
    }
}

bool iw_path_black_hole(iw_path_t *p, uint16_t base)
{
    if (p->size <= base) {
        return false;
    }
    *p = (iw_path_t){.size = base, .ceiling = p->ceiling};
    return true;
}
