/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A transport in the hands of a script: what is given to it lies in a list until the script says that it
 * goes. A packet is then delivered, a put or get is done and completed - in any order that the transport
 * does not exclude by a promise (opal/include/spec/promises.h), as late as the script likes, or never.
 *
 * It is a BTL of two modules that are built into the program and reach this process only. Like an adapter it
 * touches memory only within what was registered, if `registers`; otherwise only what held_touches allows. */
#ifndef HELD_BTL_H
#define HELD_BTL_H

#include "opal/mca/btl/ibx/btl_ibx_compat.h"

enum { HELD_MODULES = 2, HELD_KEY = 32 };

typedef struct held_config {
    bool registers;
    bool completes_later; /* a send is complete when its packet is delivered, not at once */
    uint32_t promises;    /* of opal/include/spec/promises.h: of the first module */
} held_config_t;

/* How many of the next calls find no room. */
typedef struct held_refuse {
    unsigned sends, transfers, registrations;
    unsigned packets; /* sends of packets that were made before */
} held_refuse_t;

extern held_refuse_t held_refuse;

/* May [address, address + size) be read or written from afar, where nothing is registered? Of the script. */
extern bool (*held_touches)(uint64_t address, uint64_t size, bool write);

/* Something was asked for that the transport had to refuse: a window that is not there, memory of nobody. */
extern unsigned held_refused;

/* The component, for the list of those that are built in. */
extern const mca_base_component_t *held_component(void);
mca_btl_base_module_t *held_module(unsigned i);

/* For what follows; nothing is held. */
void held_configure(const held_config_t *config);

/* What may go now. */
unsigned held_count(void);
/* Let the k-th of it go. */
void held_go(unsigned k);
/* The same, but if it is a put or get it fails, and moves nothing. False: it is not, or may not fail. */
bool held_fail(unsigned k);
/* What is held of the first so many modules is gone, as if their connections had ended; of the others what moves memory
 * from afar. */
void held_break(unsigned modules);

/* The bytes of the k-th, if it is a packet; else NULL. */
uint8_t *held_packet(unsigned k, size_t *size);
/* Deliver the k-th, if it is a packet, and keep it. */
void held_twice(unsigned k);
/* Deliver these bytes as a packet. */
void held_forge(unsigned module, uint8_t tag, const uint8_t *data, size_t size);

/* Windows that are registered. */
unsigned held_windows(void);

#endif
