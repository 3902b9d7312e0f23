/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The rules that threads and nested progress need, each of which can be switched off (-DRULE_X=0), as in rules.pml. What the
 * code does of them: docs/design/model.md. */

/* ---- what a transport refused: core/spec_retry.h, pml_spec_pending.c ---- */
#ifndef RULE_TAKEN_IN_HAND
#define RULE_TAKEN_IN_HAND 1 /* what a pass tries is out of the lane meanwhile */
#endif
#ifndef RULE_COUNT_IN_HAND
#define RULE_COUNT_IN_HAND 1 /* the callback stays registered while a pass has an item in hand; off: while the lane has one */
#endif
#ifndef RULE_REGISTER_UNDER_LOCK
#define RULE_REGISTER_UNDER_LOCK 1 /* the count changes and the callback is registered or unregistered in one step */
#endif
#ifndef RULE_PASSES_OVERLAP
#define RULE_PASSES_OVERLAP 1 /* a pass goes on while another one is in a callback; off: one pass at a time */
#endif
#ifndef RULE_PASS_ENDS
#define RULE_PASS_ENDS 1 /* a pass leaves the lane that was refused; off: it tries until the item is taken */
#endif

/* ---- sends that wait for credit: pml_spec_flow.c, pml_spec_send.c ---- */
#ifndef RULE_ANYBODY_TURNS
#define RULE_ANYBODY_TURNS 1 /* whoever comes issues those whose turn it is; off: one at a time does */
#endif
#ifndef RULE_TURN_IS_NUMBERED
#define RULE_TURN_IS_NUMBERED 1 /* taking a send out of the queue and numbering it is one step */
#endif
#ifndef RULE_QUEUE_FIRST
#define RULE_QUEUE_FIRST 1 /* a send queues behind those that wait, even if there is credit for it */
#endif
#ifndef RULE_CHECKED_AS_QUEUED
#define RULE_CHECKED_AS_QUEUED 1 /* finding no credit and joining the queue is one step */
#endif
#ifndef RULE_START_NEVER_WAITS
#define RULE_START_NEVER_WAITS 1 /* a call that starts a message queues it; off: it waits for credit */
#endif
#ifndef RULE_SENT_BEFORE_TURNS
#define RULE_SENT_BEFORE_TURNS 1 /* a message with a number goes to the transport before others are issued */
#endif
#ifndef RULE_POLL_HOLDS_NOTHING
#define RULE_POLL_HOLDS_NOTHING 1 /* a call that polls has neither credit set apart nor a number */
#endif
#ifndef RULE_TURNS_HOLD
#define RULE_TURNS_HOLD 1 /* who issues others holds the communicator: the last message may be what kept it */
#endif

/* ---- calls that start a message poll: pml_spec_endpoint.c ---- */
#ifndef RULE_POLL_TRANSPORTS
#define RULE_POLL_TRANSPORTS 1 /* transports only; off: all of opal_progress */
#endif
#ifndef RULE_POLL_ONCE
#define RULE_POLL_ONCE 1 /* not below another such poll or a completion callback */
#endif

/* ---- communicators: pml_spec_comm.[ch] ---- */
#ifndef RULE_USERS
#define RULE_USERS 1 /* a communicator that is used is not freed */
#endif
#ifndef RULE_COUNT_THEN_LOOK
#define RULE_COUNT_THEN_LOOK 1 /* a handler counts itself, then searches the communicator; off: the other way round */
#endif
#ifndef RULE_AWAY_THEN_COUNT
#define RULE_AWAY_THEN_COUNT 1 /* the communicator is taken away, then its users are counted; off: the other way round */
#endif
#ifndef RULE_LAST_USER_FREES
#define RULE_LAST_USER_FREES 1 /* the last user frees; off: only the call that ends the communicator */
#endif
