/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A message that both ends move, as a SPIN model: docs/design/protocol.md, "Both ends move the data".
 *
 * Messages go one after the other through the same word, which is the receiver's. Of each the ends take any number of pieces at
 * a time, and a piece is in place some time after it was taken (ASYNC: the end goes on meanwhile). Either end may compute: it does
 * nothing until the other end is complete. Packets arrive in any order. docs/design/model.md says what is left out, and
 * what shows that each rule is needed. test/model/run runs it.
 *
 * Parameters (-D), with their defaults: */
#ifndef NMSG
#define NMSG 2
#endif
#ifndef PIECES
#define PIECES 3
#endif
/* ASYNC        an end takes the next piece, or leaves, before the last one is in its place
 * FAILS        a piece that an end has taken may fail; it is then asked for, or sent, by copy
 * FRAGMENTS    the sender may send a piece that it has taken in a fragment, which the receiver copies when it is in MPI
 * RULE_X=0     without rule X: */
#ifndef RULE_ONE_STEP
#define RULE_ONE_STEP 1 /* a piece is taken in one step */
#endif
#ifndef RULE_NUMBER
#define RULE_NUMBER 1 /* the word tells which offer it is of */
#endif
#ifndef RULE_STAYS
#define RULE_STAYS 1 /* a request does not end while it may take pieces */
#endif
#ifndef RULE_IN_PLACE
#define RULE_IN_PLACE 1 /* what is told is in its place */
#endif
#ifndef RULE_AT_ONCE
#define RULE_AT_ONCE 1 /* the other end is told of each piece; off: of all, when no piece is left to take */
#endif
#ifndef RULE_COPIED
#define RULE_COPIED 1 /* a piece that goes in a fragment counts at the sender once it is copied into that */
#endif
#ifndef RULE_ASKED_FOR
#define RULE_ASKED_FOR 1 /* a piece that fails is asked for by copy */
#endif

#define SENDER   0
#define RECEIVER 1
#define OTHER    (1 - me)
#define AT(e, m) ((e) * NMSG + (m))
#define P(m, p)  ((m) * PIECES + (p))

/* An end of a message. */
#define NEW     0
#define JOINED  1 /* may take pieces */
#define LEFT    2 /* takes no more */
#define ENDED   3 /* its buffer is the program's again */
byte state[2 * NMSG];
byte left[2 * NMSG];  /* pieces that the end does not know to be in place, and 1 while it may take some */
byte moved[2 * NMSG]; /* in place by this end, or taken without RULE_IN_PLACE, and not told */
byte fins[2 * NMSG];  /* pieces that FINs on their way to this end tell of */
bit match[NMSG];      /* on its way to the other end: it may join */
byte frags[NMSG];     /* fragments on their way */
byte copies[NMSG];    /* pieces by copy on their way: asked for, or the data */

/* A piece: free, taken by an end that moves it, or in its place. */
#define FREE  0
#define TAKEN 1 /* by the sender; by the receiver: + 1 */
#define THERE 3
#define COPIED 4 /* in a fragment that is on its way: out of the sender's buffer */
#define LATE   5 /* the same, but not copied yet: without RULE_COPIED */
byte piece[NMSG * PIECES];

/* The word. */
byte word_no;
byte word_front;
byte word_back;

bit computes[2 * NMSG];
byte current; /* message */

hidden byte i, k, n;
hidden byte each_piece_is_moved_once;
hidden byte no_write_after_the_buffer_was_given_back;
hidden byte nothing_is_used_after_it_was_freed;
#define PROPERTY(name, condition) name = (condition); assert(name)

/* All bytes of a message are accounted for at this end: its buffer goes back. One that has not heard of the other yet waits. */
inline end_if_done(e, m)
{
    if
    :: left[AT(e, m)] == 0 && state[AT(e, m)] != NEW ->
        PROPERTY(nothing_is_used_after_it_was_freed, state[AT(e, m)] == LEFT);
        i = 0;
        do
        :: i < PIECES ->
            PROPERTY(no_write_after_the_buffer_was_given_back,
                     piece[P(m, i)] == THERE || (piece[P(m, i)] == COPIED && e == SENDER));
            i++
        :: else -> break
        od;
        state[AT(e, m)] = ENDED;
        if
        :: e == RECEIVER && m + 1 < NMSG -> current = m + 1
        :: else
        fi
    :: else
    fi
}

inline account(e, m, pieces)
{
    left[AT(e, m)] = left[AT(e, m)] - (pieces);
    end_if_done(e, m)
}

inline tell(e, m)
{
    fins[AT(1 - e, m)] = fins[AT(1 - e, m)] + moved[AT(e, m)];
    moved[AT(e, m)] = 0
}

inline take(m, p)
{
    PROPERTY(each_piece_is_moved_once, piece[P(m, p)] == FREE);
    piece[P(m, p)] = TAKEN + me;
    if
    :: !RULE_IN_PLACE -> moved[AT(me, m)]++; tell(me, m)
    :: else
    fi
}

#define HAS_LEFT(m)   (word_front + word_back < PIECES && (!RULE_NUMBER || word_no == m))
#define MOVING(m)     (piece[P(m, 0)] == TAKEN + me || piece[P(m, 1)] == TAKEN + me || piece[P(m, 2)] == TAKEN + me)
#define MY_STATE      state[AT(me, m)]
#define MAY_ACT       (!computes[AT(me, m)] || state[AT(OTHER, m)] == ENDED)

/* One end of one message; the program may have several under way. */
proctype end(byte me, m)
{
    byte front, back;
    do
    :: MY_STATE == ENDED -> break

    /* It begins, at the end that has heard of the other: the sender by an RTR, the receiver by an RTS. The word is the receiver's,
     * and free: its last message has ended there. */
    :: atomic { m == current && MY_STATE == NEW && MAY_ACT && !match[m] && state[AT(OTHER, m)] == NEW ->
        word_no = m; word_front = 0; word_back = 0;
        state[AT(me, m)] = JOINED;
        left[AT(me, m)] = PIECES + RULE_STAYS;
        left[AT(OTHER, m)] = PIECES;
        match[m] = 1
    }
    :: atomic { MY_STATE == NEW && MAY_ACT && match[m] && state[AT(OTHER, m)] != NEW ->
        match[m] = 0;
        state[AT(me, m)] = JOINED;
        left[AT(me, m)] = left[AT(me, m)] + RULE_STAYS
    }

    /* A FIN, also one that overtook what it belongs to. */
    :: atomic { MAY_ACT && fins[AT(me, m)] > 0 && MY_STATE != ENDED ->
        n = fins[AT(me, m)]; fins[AT(me, m)] = 0;
        account(me, m, n)
    }

    /* A piece, or all that is left, from this end's side. */
#ifdef ASYNC
    :: atomic { MY_STATE == JOINED && MAY_ACT && HAS_LEFT(m) && RULE_ONE_STEP ->
#else
    :: atomic { MY_STATE == JOINED && MAY_ACT && HAS_LEFT(m) && RULE_ONE_STEP && !MOVING(m) ->
#endif
        do
        :: word_front + word_back < PIECES ->
            if
            :: me == RECEIVER -> take(m, word_front); word_front++
            :: else -> take(m, PIECES - 1 - word_back); word_back++
            fi
        :: MOVING(m) -> break
        od
    }
    :: atomic { MY_STATE == JOINED && MAY_ACT && HAS_LEFT(m) && !RULE_ONE_STEP && !MOVING(m) ->
        front = word_front; back = word_back };
        atomic {
        if
        :: me == RECEIVER -> take(m, front); word_front = front + 1
        :: else -> take(m, PIECES - 1 - back); word_back = back + 1
        fi
    }

    /* One comes to its place. */
    :: atomic { MAY_ACT && MOVING(m) ->
        k = 0;
        do
        :: k < PIECES && piece[P(m, k)] != TAKEN + me -> k++
        :: else -> break
        od;
        if
        :: piece[P(m, k)] = THERE;
            if
            :: RULE_IN_PLACE -> moved[AT(me, m)]++
            :: else
            fi;
            if
            :: RULE_AT_ONCE || MY_STATE == LEFT -> tell(me, m)
            :: else
            fi;
            account(me, m, 1)
#ifdef FRAGMENTS
        :: me == SENDER ->
            if
            :: RULE_COPIED -> piece[P(m, k)] = COPIED
            :: else -> piece[P(m, k)] = LATE
            fi;
            frags[m]++;
            account(me, m, 1)
#endif
#ifdef FAILS
        :: piece[P(m, k)] = THERE; /* nobody moves it but by copy from here on */
            if
            :: RULE_ASKED_FOR -> copies[m]++
            :: else
            fi
#endif
        fi
    }
    /* A fragment is copied by the receiver, also ahead of the packet that has it join. */
    :: atomic { MAY_ACT && me == RECEIVER && frags[m] > 0 && MY_STATE != ENDED ->
        frags[m]--;
        k = 0;
        do
        :: k < PIECES && piece[P(m, k)] != COPIED && piece[P(m, k)] != LATE -> k++
        :: else -> break
        od;
        piece[P(m, k)] = THERE;
        account(me, m, 1)
    }
    /* By copy: the sender has the data, and sends them once they are asked for or have failed here. */
    :: atomic { MAY_ACT && me == SENDER && copies[m] > 0 && MY_STATE != ENDED ->
        copies[m]--;
        fins[AT(RECEIVER, m)]++;
        account(me, m, 1)
    }

    /* None is left. */
#ifdef ASYNC
    :: atomic { MY_STATE == JOINED && MAY_ACT && !HAS_LEFT(m) ->
#else
    :: atomic { MY_STATE == JOINED && MAY_ACT && !HAS_LEFT(m) && !MOVING(m) ->
#endif
        state[AT(me, m)] = LEFT;
        tell(me, m);
        if
        :: RULE_STAYS -> account(me, m, 1)
        :: else
        fi
    }
    /* The program of this end computes from here on, until the other end has all; a call moves a piece that it took before it
     * returns. What goes by copy needs the sender. */
#ifndef FAILS
    :: d_step { !MOVING(m) && !computes[AT(me, m)] && !computes[AT(OTHER, m)] -> computes[AT(me, m)] = 1 }
#endif
    od
}

init {
    atomic {
        n = 0;
        do
        :: n < NMSG -> run end(SENDER, n); run end(RECEIVER, n); n++
        :: else -> break
        od
    }
    (_nr_pr == 1)
}
