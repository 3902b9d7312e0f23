/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The agent: a thread that keeps a port and its engine going while the application computes.
 *
 * BACKUP: as long as the application calls iw_agent_enter the thread only checks now and then
 * whether it still does. When it has been silent for `patience`, the thread takes over - places data,
 * acknowledges, sends again - sleeping in the kernel between datagrams, until the application is back.
 * So acknowledgements leave even if the application never calls again.
 *
 * OFFLOAD: the thread takes every datagram as it comes (a software RNIC); for a processor to spare.
 *
 * Lock: one mutex protects port and engine. iw_agent_lock around every call of theirs, and nothing
 * that can block under it. iw_agent_enter takes it only if it is free: if not, the thread is at
 * work already. */
#ifndef IW_AGENT_H
#define IW_AGENT_H

#include "iw_port.h"

typedef struct iw_agent iw_agent_t;

typedef enum iw_agent_mode { IW_AGENT_BACKUP, IW_AGENT_OFFLOAD } iw_agent_mode_t;

typedef struct iw_agent_config {
    iw_agent_mode_t mode;
    bool owns; /* OFFLOAD: the thread has a processor that the application does not need */
    uint64_t patience_ns;      /* BACKUP: silence after which the thread takes over */
    uint64_t bulk_patience_ns; /* the same while large transfers are expected */
    /* Called by the thread before anything else, to bind itself to processors, and after iw_agent_offload; may be NULL. */
    void (*started)(void *context);
    /* Called by the thread whenever it has given back the lock: for what takes long; may be NULL. */
    void (*relieved)(void *context);
    /* Called by the thread under the lock when the engine has completions that nobody has taken yet; may be NULL. */
    void (*arrived)(void *context);
    void *context;
} iw_agent_config_t;

/* BACKUP with a patience for bulk below the shortest probe timeout, so that silence is not taken for loss, nor
 * a link falls idle where both ends begin to compute as soon as a transfer has begun. */
void iw_agent_config_default(iw_agent_config_t *config);

/* The lock, and no thread yet: a process that talks to nobody needs none. NULL: errno says why. Port and engine stay the
 * caller's. */
iw_agent_t *iw_agent_create(const iw_agent_config_t *config, iw_port_t *port, iw_engine_t *engine);
/* Under the lock: the thread begins, if it has not yet. False: errno says why, and only the application moves data. */
bool iw_agent_start(iw_agent_t *agent);
/* The thread has got processors of its own: OFFLOAD from now on; it calls `started` again, to go there. Under the lock. */
void iw_agent_offload(iw_agent_t *agent);
/* Is it that already? */
bool iw_agent_offloads(const iw_agent_t *agent);
/* Ends the thread, if there is one, and waits for it; none begins any more. Not under the lock, one caller at a time. */
void iw_agent_stop(iw_agent_t *agent);
/* Stops, if that has not been done, and frees. */
void iw_agent_destroy(iw_agent_t *agent);

/* Waits for about one batch of the thread's, not for all that it has to send. */
void iw_agent_lock(iw_agent_t *agent);
void iw_agent_unlock(iw_agent_t *agent);

/* Before iw_port_progress by the application: takes the lock if it is free, and lets the thread know that the application is
 * alive. True: iw_agent_unlock must follow; false: the thread is at it. Beside a thread with a processor of its own iw_port_progress sends a few
 * datagrams only: a nonblocking call that polls once goes on soon, and one that waits polls again. */
bool iw_agent_enter(iw_agent_t *agent);
/* Under the lock, after posting from a thread that may not come back soon: send now, and let the
 * agent know that there are timers. */
void iw_agent_flush(iw_agent_t *agent);

/* Under the lock, after posting what may wait for more: the application comes back for it, or the thread sends it. */
void iw_agent_gather(iw_agent_t *agent);

/* Under the lock, between posting a large write and iw_agent_flush or iw_agent_gather. A thread with a processor of its own is left the
 * write, and what is posted behind it while there is something to send, so that the application goes on at once; if it waits instead,
 * iw_port_progress sends it as well. */
void iw_agent_leave(iw_agent_t *agent);

/* Large transfers begin, here or at a peer that was told of memory: for a while the thread is less patient.
 * Any thread, with or without the lock. */
void iw_agent_expect_bulk(iw_agent_t *agent);

/* Times the thread took over. */
uint64_t iw_agent_takeovers(const iw_agent_t *agent);

#endif
