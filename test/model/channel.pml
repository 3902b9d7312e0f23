/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The network: a channel per direction, in order or not. A packet is a number; what it carries stands in the arrays of
 * rendezvous.pml, so that each packet exists once. */

/* To the receiver. */
#define MSG(m)     (m)
#define FIN(m)     (NMSG + m)
#define REVOKED(t) (2 * NMSG + t)
/* To the sender. */
#define RTR(r)    (r)
#define REVOKE(t) (NRECV + t)

#ifdef REORDER

/* A set of packets: any may be the next to arrive. */
int down, up;
#define DOWN_IS_EMPTY (down == 0)
#define UP_IS_EMPTY   (up == 0)
#define NO_RTR_IS_UP  ((up & ((1 << NRECV) - 1)) == 0)
#define SEND_DOWN(p)  down = down | (1 << (p))
#define SEND_UP(p)    up = up | (1 << (p))

/* A packet that arrives before its turn waits, and nobody can see where: held at the other side, or in the network as
 * here. Only the first packet to the sender counts at once, because it opens the ledger. Without the rules of order, and
 * for a trace, everything arrives. */
#if defined(TRACE) || !RULE_SEQ_ORDER || !RULE_E_IS_PROCESSED
#define MSG_MAY_ARRIVE(m) true
#else
#define MSG_MAY_ARRIVE(m) (m == e)
#endif
#if defined(TRACE) || !RULE_CTL_ORDER
#define RTR_MAY_ARRIVE(r)    true
#define REVOKE_MAY_ARRIVE(t) true
#else
#define RTR_MAY_ARRIVE(r)    (!ledger || rno[r] == ctl_nxt)
#define REVOKE_MAY_ARRIVE(t) (!ledger || vno[t] == ctl_nxt)
#endif
#define IS_IN(set, p) ((set >> (p)) & 1)
#define MSG_DOWN(m)     (IS_IN(down, MSG(m)) && MSG_MAY_ARRIVE(m))
#define FIN_DOWN(m)     IS_IN(down, FIN(m))
#define REVOKED_DOWN(t) IS_IN(down, REVOKED(t))
#define RTR_UP(r)       (IS_IN(up, RTR(r)) && RTR_MAY_ARRIVE(r))
#define REVOKE_UP(t)    (IS_IN(up, REVOKE(t)) && REVOKE_MAY_ARRIVE(t))

#define TAKE_DOWN \
    if \
    :: CHOOSE(NMSG, MSG_DOWN) \
    :: CHOOSE(NMSG, FIN_DOWN); pick = FIN(pick) \
    :: CHOOSE(KINDS, REVOKED_DOWN); pick = REVOKED(pick) \
    fi; \
    down = down & ~(1 << pick)
#define TAKE_UP \
    if \
    :: CHOOSE(NRECV, RTR_UP) \
    :: CHOOSE(KINDS, REVOKE_UP); pick = REVOKE(pick) \
    fi; \
    up = up & ~(1 << pick)

#else

chan down = [2 * NMSG + KINDS] of { byte };
chan up = [NRECV + KINDS] of { byte };
#define DOWN_IS_EMPTY (len(down) == 0)
#define UP_IS_EMPTY   (len(up) == 0)
#define NO_RTR_IS_UP  UP_IS_EMPTY
#define SEND_DOWN(p)  down!p
#define SEND_UP(p)    up!p
#define TAKE_DOWN     down?pick
#define TAKE_UP       up?pick

#endif
