/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The rules of the protocol that its safety rests on, each of which can be switched off (-DRULE_X=0). test/model/run does
 * that to every one of them and expects SPIN to find what then goes wrong: a rule that nothing needs is no rule, and a
 * model that misses nothing shows nothing. */

/* ---- the receiver speculates ---- */
#ifndef RULE_WILDCARD
#define RULE_WILDCARD 1 /* no RTR behind a pending wildcard receive that could take the message */
#endif
#ifndef RULE_FIRST
#define RULE_FIRST 1 /* a receive for any tag sends an RTR only if all that stand before it are alike */
#endif
#ifndef RULE_K
#define RULE_K 1 /* an RTR tells how many receives of its tag stand before it */
#endif
#ifndef RULE_K_COUNTS_ALL
#define RULE_K_COUNTS_ALL 1 /* also those that sent no RTR */
#endif
#ifndef RULE_E
#define RULE_E 1 /* an RTR tells from which message on to count; off: always from the first */
#endif
#ifndef RULE_E_IS_PROCESSED
#define RULE_E_IS_PROCESSED 1 /* E counts processed messages; off: a message that arrived early counts, too */
#endif
#ifndef RULE_HOLD
#define RULE_HOLD 1 /* no RTR while a REVOKE of its tag is under way */
#endif
#ifndef RULE_STOP_KEEPS_MARKS
#define RULE_STOP_KEEPS_MARKS 1 /* STOP changes what is sent from now on, not what is known about RTRs that are out */
#endif

/* ---- the sender places an RTR ---- */
#ifndef RULE_N
#define RULE_N 1 /* messages that were sent already count: the RTR may be crossed */
#endif
#ifndef RULE_N_BY_TAG
#define RULE_N_BY_TAG 1 /* those with the same tag, that is */
#endif
#ifndef RULE_USED_UP
#define RULE_USED_UP 1 /* a message that cannot use its RTR takes it away all the same, and counts for the others */
#endif
#ifndef RULE_FIT
#define RULE_FIT 1 /* the message must fit the buffer */
#endif
#ifndef RULE_TOO_OLD
#define RULE_TOO_OLD 1 /* an RTR that counts from a message beyond the ring is dropped */
#endif
#ifndef RULE_BASE
#define RULE_BASE 1 /* what was sent before the ring existed is beyond it */
#endif

/* ---- order ---- */
#ifndef RULE_SEQ_ORDER
#define RULE_SEQ_ORDER 1 /* messages are processed in the order of their numbers */
#endif
#ifndef RULE_CTL_ORDER
#define RULE_CTL_ORDER 1 /* RTR and REVOKE are, too */
#endif
#ifndef RULE_FIN
#define RULE_FIN 1 /* a receive that MATCH named is not complete before its data is there */
#endif
#ifndef RULE_EARLY_FIN
#define RULE_EARLY_FIN 1 /* a FIN that overtook its MATCH counts */
#endif
#ifndef RULE_RTS_SERVED
#define RULE_RTS_SERVED 1 /* an RTS is answered even if the receive has an RTR out */
#endif

/* ---- taking back ---- */
#ifndef RULE_REVOKE
#define RULE_REVOKE 1 /* a receive with an RTR out is not cancelled on the spot */
#endif
#ifndef RULE_REVOKE_BY_TAG
#define RULE_REVOKE_BY_TAG 1 /* nor is one without, if others of its tag behind it have one: their k counts it */
#endif
#ifndef RULE_TAKE
#define RULE_TAKE 1 /* the sender uses no RTR that was withdrawn */
#endif
#ifndef RULE_TAKEN_STAYS
#define RULE_TAKEN_STAYS 1 /* one that the sender has taken is not withdrawn */
#endif
#ifndef RULE_WITHDRAW_ALL
#define RULE_WITHDRAW_ALL 1 /* nor is a receive cancelled whose own RTR is withdrawn, if those behind it are not */
#endif
#ifndef RULE_REVOKE_DROPS
#define RULE_REVOKE_DROPS 1 /* REVOKE removes the kept RTRs */
#endif
#ifndef RULE_S
#define RULE_S 1 /* the receiver processes the messages before S first */
#endif
#ifndef RULE_S_IS_NEXT
#define RULE_S_IS_NEXT 1 /* S is the sender's next number; off: its latest */
#endif
#ifndef RULE_YIELD_ALONE
#define RULE_YIELD_ALONE 1 /* a cancel ends with the message that comes for it only if no other RTR counts it */
#endif
#ifndef RULE_YIELD_NOT_MATCH
#define RULE_YIELD_NOT_MATCH 1 /* and if the message does not use its RTR */
#endif
#ifndef RULE_S_AGAIN
#define RULE_S_AGAIN 1 /* checked again after each message, not only when REVOKED arrives */
#endif
