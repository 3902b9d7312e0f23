/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The rendezvous of pml/spec as a SPIN model: one sender, one receiver, every program and every timing within bounds.
 *
 * What the application does is chosen nondeterministically: which messages (tag, size), which receives (tag or wildcard,
 * buffer, whether they speculate), which cancels, and when. So is the network. The rules are those of
 * ompi/mca/pml/spec/core; test/unit/test_model_replay.c makes the core repeat what this model does and compares.
 * docs/design/model.md says what is left out, and which hazard each property meets. test/model/run runs it.
 *
 * Parameters (-D), with their defaults: */
#ifndef NMSG
#define NMSG 3 /* messages sent, at most */
#endif
#ifndef NRECV
#define NRECV 3 /* receives posted, at most */
#endif
#ifndef TAGS
#define TAGS 2
#endif
#ifndef RING
#define RING 256 /* a power of two: how many of its latest sends the sender remembers (SPEC_RING) */
#endif
/* REORDER      packets may overtake each other (default: each direction in order)
 * WILDCARDS=1  receives for (*,*)             WILDCARDS=2  also for (*,t) and (s,*)
 * ANYTAG       receives for (s,*) may send RTRs (with WILDCARDS=2)
 * CANCEL       receives may be cancelled
 * CLAIMS       and their RTRs be withdrawn without the sender (core/spec_claim.h)
 * ADAPT        an RTS may carry STOP; the receiver resumes when it likes
 * SIZES        two sizes of large messages and buffers, so that an offered buffer may be too short
 * SYNC         small messages that go by RTS all the same (synchronous ones; datatypes with gaps)
 * LOSSY        the sender may drop any RTR on its arrival (limits of memory)
 * PATIENT      the sender waits for receives and their RTRs: simulation would rarely meet a used RTR by chance
 * TRACE        tell every step; no states are made one then (for test_model_replay)
 * TELL         tell every step (for the trail of an error)
 * OUTCOMES     check only what the application could notice
 * RULE_X=0     without rule X: see rules.pml */
#include "rules.pml"

/* ---- the state ---- */

#define ANY      TAGS           /* patterns of receives: 0 .. TAGS-1 are exact, this is (*,*) */
#define ANY_TAG  (TAGS + 1)     /* (s,*) */
#define ANY_SRC  (TAGS + 2)     /* (*,t) is ANY_SRC + t */
#define FITS(pattern, tag) \
    (pattern == tag || pattern == ANY || pattern == ANY_TAG || pattern == ANY_SRC + tag)
#define IS_EXACT(pattern) (pattern < TAGS)
/* Patterns that may send RTRs, and what they name. */
#ifdef ANYTAG
#if TAGS == 1 /* a literal, for CHOOSE */
#define KINDS 3
#elif TAGS == 2
#define KINDS 4
#else
#define KINDS 5
#endif
#define MAY_OFFER(pattern)   (pattern < TAGS || pattern == ANY_TAG)
#define NAMES(pattern, tag)  (pattern == tag || pattern == ANY_TAG)
#else
#define KINDS                TAGS
#define MAY_OFFER(pattern)   IS_EXACT(pattern)
#define NAMES(pattern, tag)  (pattern == tag)
#endif
#define IS_ANY_SRC(pattern) (pattern == ANY || pattern >= ANY_SRC)
#define NONE 255

/* A message. */
#define UNSENT     0
#define ON_ITS_WAY 1 /* sent; or using an RTR and not told of yet */
#define EARLY      2 /* arrived before its turn */
#define UNEXPECTED 3
#define TAKEN      4
#define EAGER 0
#define RTS   1
#define MATCH 2
byte mstate[NMSG];
byte mkind[NMSG];
byte mtag[NMSG];
byte mr[NMSG];  /* MATCH: the receive it is written to */
bit mfull[NMSG]; /* MATCH: sent after the data, a FIN in the same packet */
bit mstop[NMSG]; /* RTS: carries STOP */
#define NOT_WRITING 0
#define UNNOTICED   1 /* writing, no MATCH sent yet */
#define NOTICED     2 /* writing, MATCH is ahead of the data */
byte put[NMSG];

/* The sender. */
byte nxt;     /* sequence number of the next message */
bool ledger;  /* exists from the first RTR or REVOKE on */
byte base;    /* first sequence number in the ring */
#if RING < NMSG
byte ring[RING];
#else
byte ring[NMSG];
#endif
byte ctl_nxt; /* next number of the control stream */

/* A receive. */
#define UNPOSTED     0
#define POSTED       1
#define FETCHING     2 /* matched by an RTS, the data is being moved */
#define AWAITING_FIN 3 /* matched by a MATCH that came ahead of its data */
#define OVER         4 /* complete or cancelled: the buffer is the user's again */
byte rstate[NRECV];
byte rpat[NRECV];
byte rcap[NRECV];   /* size of the buffer: 0 offers nothing */
bit rhas[NRECV];    /* has_rtr: an RTR is out, as the receiver remembers it */
bit rwant[NRECV];   /* cancel_wanted */
bit rfin[NRECV];    /* FIN came before MATCH */

/* Its RTR, which is in one place. */
#define NOWHERE 0
#define FLYING  1
#define HELD    2 /* at the sender, before its turn on the control stream */
#define KEPT    3
byte rtr[NRECV];
byte rno[NRECV], re[NRECV], rk[NRECV];
#ifdef CLAIMS
/* The word of its offer. */
#define OFFERED   0
#define IN_USE    1
#define WITHDRAWN 2
byte rword[NRECV];
#define IS(r, state) (rword[r] == state)
#define SETTLE(r, state) rword[r] = state
#else
#define IS(r, state) false
#define SETTLE(r, state) skip
#endif
byte skip_[NRECV]; /* of a kept one: sends of its tag that go before */

/* The receiver. */
byte np;     /* receives posted so far */
byte e;      /* next sequence number to process */
byte ctl_no; /* next number of the control stream */
bit stopped[TAGS];

#define IS_STOPPED(t) (t < TAGS && stopped[(t < TAGS -> t : 0)])

/* A REVOKE exchange per tag, and for any; not NO_HOLD: nothing new speculates. */
#define NO_HOLD  0
#define ASKED    1 /* REVOKE flies */
#define ASK_HELD 2 /* at the sender, before its turn */
#define REPLIED  3 /* REVOKED flies */
#define ANSWERED 4 /* and is here: wait for the messages before S */
byte hold[KINDS];
byte vno[KINDS], vs[KINDS];

/* How many there are, to be asked by guards. */
byte posted, writing, fetching;

/* What the application or the network has chosen for the next step. 0 between steps. */
byte pick, tag, size;
bool no_room;

/* Scratch: always set before use inside one step. */
hidden byte i, j, k, n, q, hit, first, found;
hidden byte seq;

/* ---- the properties ---- */

/* SPIN names the variable when the assertion fails, so each property has one of its own. */
hidden byte receive_gets_the_message_MPI_gives_it;
hidden byte message_is_delivered_once;
hidden byte rtr_is_used_for_its_own_receive;
hidden byte write_fits_the_buffer;
hidden byte no_write_after_the_buffer_was_given_back;
hidden byte fin_finds_its_receive;
hidden byte kept_rtr_belongs_to_a_posted_receive;
hidden byte honest_rtr_is_not_refused;
hidden byte no_deadlock;
#define PROPERTY(name, condition) name = (condition); assert(name)
/* Those of the sender's books, which break before a message is lost or a buffer spoilt. Without them (OUTCOMES) SPIN goes
 * on to that harm, which shows what a rule is there for. */
#ifdef OUTCOMES
#define INVARIANT(name, condition) skip
#else
#define INVARIANT(name, condition) PROPERTY(name, condition)
#endif

#if defined(TRACE) || defined(TELL)
#define SAY(...) printf(__VA_ARGS__)
#else
#define SAY(...) skip
#endif

#include "choose.pml"
#include "channel.pml"
#include "receiver.pml"
#include "sender.pml"

/* ---- what holds in every state ---- */

inline check_state()
{
    /* RTRs do not accumulate: each that the sender keeps is the only one of a receive that is pending. */
    for (i : 0 .. NRECV - 1) {
        INVARIANT(kept_rtr_belongs_to_a_posted_receive,
                  rtr[i] != KEPT || rstate[i] == POSTED || IS(i, WITHDRAWN));
    }
    /* Whenever no step of the protocol is left, nobody waits - whatever the application might do next. */
    if
    :: !DOWN_IS_EMPTY || !UP_IS_EMPTY || writing > 0 || fetching > 0
    :: else ->
        PROPERTY(no_deadlock, e == nxt);
        for (i : 0 .. NRECV - 1) {
            PROPERTY(no_deadlock, rstate[i] != AWAITING_FIN && !rwant[i]);
        }
        for (i : 0 .. KINDS - 1) {
            PROPERTY(no_deadlock, hold[i] == NO_HOLD);
        }
    fi
}

/* States that differ only in what nobody can see any more are made one. */
inline forget()
{
    /* Numbers of the control stream are told from the next one on. */
    for (i : 0 .. NRECV - 1) {
        if
        :: rtr[i] == FLYING || rtr[i] == HELD -> rno[i] = rno[i] - ctl_nxt
        :: else
        fi
    }
    for (i : 0 .. KINDS - 1) {
        if
        :: hold[i] == ASKED || hold[i] == ASK_HELD -> vno[i] = vno[i] - ctl_nxt
        :: else -> vno[i] = 0
        fi
    }
    ctl_no = ctl_no - ctl_nxt;
    ctl_nxt = 0;
    /* After the last receive STOP means nothing. */
    if
    :: np == NRECV ->
        for (i : 0 .. TAGS - 1) {
            stopped[i] = 0;
        }
        for (i : 0 .. NMSG - 1) {
            mstop[i] = 0;
        }
    :: else
    fi;
    /* No RTR that is still to come counts from before this. */
    first = (RULE_E -> e : 0);
    for (i : 0 .. NRECV - 1) {
        if
        :: (rtr[i] == FLYING || rtr[i] == HELD) && re[i] < first -> first = re[i]
        :: else
        fi
    }
    if
    :: first >= base && RULE_BASE -> base = 0
    :: else
    fi;
#if RING >= NMSG
    for (i : 0 .. NMSG - 1) {
        if
        :: i < first -> ring[i] = 0
        :: else
        fi
    }
#endif
}

inline end_step()
{
    check_state();
#ifndef TRACE
    forget();
#endif
    pick = 0; tag = 0; size = 0; no_room = false
}

/* Tags are alike, so the first one that anybody uses may be called 0. */
#define MAY_USE(t) (t == 0 || nxt > 0 || np > 0)

#if TAGS == 1
#define CHOOSE_TAG tag = 0
#elif TAGS == 2
#define CHOOSE_TAG \
    if \
    :: tag = 0 \
    :: MAY_USE(1) -> tag = 1 \
    fi
#elif TAGS == 3
#define CHOOSE_TAG \
    if \
    :: tag = 0 \
    :: MAY_USE(1) -> tag = 1 \
    :: MAY_USE(2) -> tag = 2 \
    fi
#else
#error "CHOOSE_TAG knows up to 3 tags"
#endif

#define IS_CANCELLABLE(r) (rstate[r] == POSTED && !rwant[r])
#define IS_FETCHING(r)    (rstate[r] == FETCHING)
#define IS_WRITING(m)     (put[m] != NOT_WRITING)
#define MAY_BE_TAKEN(r)   (rstate[r] == POSTED && IS_ANY_SRC(rpat[r]))

#ifdef PATIENT
#define MAY_SEND (NO_RTR_IS_UP && (nxt + 1 < np || np == NRECV))
#else
#define MAY_SEND true
#endif

active proctype world()
{
end:
    do
    /* ---- the application ---- */
    :: atomic {
        nxt < NMSG && MAY_SEND ->
        CHOOSE_TAG;
        if
        :: size = SMALL
        :: size = LARGE
#ifdef SIZES
        :: size = HUGE
#endif
#ifdef SYNC
        :: size = BY_RTS
#endif
        fi;
#ifdef ADAPT
        if
        :: size != SMALL -> pick = 1 /* STOP, if it becomes an RTS */
        :: true
        fi;
#endif
        d_step { send_message(tag, size, pick); end_step() }
       }
    :: atomic {
        np < NRECV ->
        if
        :: CHOOSE_TAG;
           if
           :: size = 0 /* a small buffer, one with gaps, or no wish to speculate */
           :: size = LARGE
#ifdef SIZES
           :: size = HUGE
#endif
           fi
#ifdef WILDCARDS
        :: tag = ANY
#if WILDCARDS > 1
        :: tag = ANY_TAG
#ifdef ANYTAG
        :: tag = ANY_TAG;
           size = LARGE
#endif
        :: CHOOSE_TAG; tag = tag + ANY_SRC
#endif
#endif
        fi;
        d_step { post_receive(tag, size); end_step() }
       }
#ifdef CANCEL
    :: atomic { CHOOSE(NRECV, IS_CANCELLABLE); d_step { cancel_receive(pick); end_step() } }
#endif

    /* ---- the network ---- */
    :: atomic { TAKE_DOWN; d_step { packet_arrives(pick); end_step() } }
    :: atomic {
        TAKE_UP;
#ifdef LOSSY
        if
        :: no_room = false
        :: no_room = true
        fi;
#endif
        d_step { control_arrives(pick); end_step() }
       }
    :: atomic { CHOOSE(NMSG, IS_WRITING); d_step { put_ends(pick); end_step() } }
    :: atomic { CHOOSE(NRECV, IS_FETCHING); d_step { fetch_ends(pick); end_step() } }
#ifdef WILDCARDS
    /* A message of another sender may take a receive from any source. */
    :: atomic {
        CHOOSE(NRECV, MAY_BE_TAKEN);
        tag = rpat[pick];
        if
        :: tag == ANY -> CHOOSE_TAG
        :: else -> tag = tag - ANY_SRC
        fi;
        d_step { taken_elsewhere(tag); end_step() }
       }
#endif
#ifdef ADAPT
    :: atomic { CHOOSE(TAGS, IS_STOPPED); d_step { resume(pick); end_step() } }
#endif
    od
}
