/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What runs below progress, as a SPIN model: the threads of one sending process, each with its stack of calls, and every
 * program and every timing within bounds.
 *
 * A stack is what nested progress makes of it: a wait polls, the poll brings a packet, its handler issues a send, the send
 * completes, the completion callback starts a message or waits itself, and so on. Each frame is a position in a function
 * (`pc`) and one argument. A step is what is done under one lock, or one atomic access.
 *
 * A wait that finds nothing to do polls in vain and is not modelled: it stays where it is. So each step takes something
 * away that never comes back, and where no step is left nothing ever happens again.
 *
 * The other process takes messages in the order of their numbers and gives credit for them. docs/design/model.md says what is
 * left out, and what shows that each rule is needed. test/model/run runs it.
 *
 * Parameters (-D), with their defaults: */
#ifndef NMSG
#define NMSG 3 /* messages that the program and its callbacks start, at most */
#endif
#ifndef INCOMING
#define INCOMING 0 /* messages that come in and have a completion callback */
#endif
#ifndef ROOM
#define ROOM 1 /* packets that the transport has room for */
#endif
#ifndef WINDOW
#define WINDOW 1 /* credit that a sender begins with */
#endif
#ifndef DEPTH
#define DEPTH 30 /* frames of a stack; more is an error */
#endif
/* FREE         the program, or a callback of it, frees its communicator
 * FOREIGN      there is a foreign progress function (of one-sided operations): under its lock it starts a message in a
 *              communicator of its own, and the other process takes nothing else before it (a fence)
 * LARGE        messages for which a call polls (is there an RTR?), and which cost less than what is set apart for them
 * STRANGER     the other process does not know the program's communicator at first: no credit, then WINDOW at once
 * ONE_THREAD   one thread, not two
 * ANSWERS      the callback of a message may wait until the other process has read it, as one that receives the answer does
 * WAIT_BELOW_LOCK  a callback waits even below the lock of the foreign progress function
 * TELL         tell every step (for the trail of an error)
 * CYCLES       for run: search what goes on for ever
 * OUTCOMES     check only what the program could notice
 * RULE_X=0     without rule X: see nested_rules.pml */
#include "nested_rules.pml"

#ifdef ONE_THREAD
#define THREADS 1
#else
#define THREADS 2
#endif
#ifndef FOREIGN
#define MESSAGES NMSG
#elif NMSG == 2 /* a number, for CHOOSE */
#define MESSAGES 3
#elif NMSG == 3
#define MESSAGES 4
#else
#error "with FOREIGN, NMSG is 2 or 3"
#endif
#ifdef LARGE
#define MOST 2 /* the most that a message can cost: set apart until it has its number */
#else
#define MOST 1
#endif

/* ---- the state ---- */

/* Where a thread is. */
#define PROGRAM     1
#define PROGRAM_END 2  /* the thread is done with MPI */
/* These wait, and so run all of progress (PROGRESSES). */
#define WAIT        3  /* the program, for message ARG */
#define WAIT_ALL    4
#define CB_WAIT     5  /* a completion callback, for message ARG */
#define START_WAIT  6  /* only without RULE_START_NEVER_WAITS */
#define POLL        7  /* mca_pml_spec_poll */
#define CB          8  /* a completion callback: of message ARG, or NO_MESSAGE */
#define CB_END      9
#define START       10 /* mca_pml_spec_send_start of message ARG */
#define START_AGAIN 11
#define START_JOIN  12 /* only without RULE_CHECKED_AS_QUEUED */
#define START_RTR   13
#define START_NO    14
#define START_SEND  15 /* only without RULE_SENT_BEFORE_TURNS */
#define START_TURNS 16
#define START_PUT   17
#define START_END   18
#define TURNS       19 /* mca_pml_spec_send_turns, in communicator ARG */
#define TURNS_NO    20 /* only without RULE_TURN_IS_NUMBERED */
#define SEND        21 /* mca_pml_spec_send_issued: message ARG to the transport */
#define SEND_PEND   22
#define SEND_REG    23 /* only without RULE_REGISTER_UNDER_LOCK */
#define SENT        24 /* the transport has it, its callback is over */
#define PASS        25 /* mca_pml_spec_progress */
#define PASS_TRY    26 /* message ARG in hand */
#define PASS_END    27
#define PASS_UNREG  28 /* only without RULE_REGISTER_UNDER_LOCK */
#define CREDIT      29 /* mca_pml_spec_recv_credit: ARG is CREDIT_IN() */
#define CREDIT_FIND 30
#define CREDIT_HEED 31
#define PUT         32 /* mca_pml_spec_comm_put */
#define REAP        33 /* mca_pml_spec_slot_reap */
#define DEL         34 /* mca_pml_spec_del_comm */
#define DEL_AWAY    35
#define DEL_FREE    36 /* only without RULE_AWAY_THEN_COUNT */
#define FOREIGN_FN  37 /* the foreign progress function */
#define FOREIGN_GO  38
#define FOREIGN_END 39
#define CB_ANSWER   40 /* a completion callback, for the answer to its message */
#define IN_CALLBACK(at)  ((at) == CB || (at) == CB_WAIT || (at) == CB_ANSWER || (at) == CB_END)
byte sp[THREADS];
byte pc[THREADS * DEPTH];
byte arg[THREADS * DEPTH];
#define ME  me
#define TOP (ME * DEPTH + sp[ME])
#define AT  pc[TOP]
#define ARG arg[TOP]

/* A message. Those below NMSG are the program's, numbered in the order in which they are started; the last one is that of the
 * foreign function, in its own communicator. */
#define COMM(m)    ((m) / NMSG)
#define FENCE      NMSG
#define NO_MESSAGE 255
#define NEW      0
#define STARTING 1
#define QUEUED   2 /* waits for credit */
#define TAKEN    3 /* out of the queue, without a number */
#define NUMBERED 4 /* and on its way to the transport, in the hands of one call */
#define REFUSED  5 /* in the lane */
#define IN_HAND  6 /* of a pass */
#define FLYING   7 /* the transport has it; from here on it cannot be lost */
#define THERE    8
#define READ     9 /* by the other process, in its turn */
byte mstate[MESSAGES];
byte mno[MESSAGES];     /* its number, until it is read */
byte mbehind[MESSAGES]; /* the set of those that waited when it was started or queued, until it has a number */
bit returned[MESSAGES]; /* the call that started it is over: it may be waited for */
bit complete[MESSAGES]; /* the transport has it, and its callback is over */
byte started;           /* how many of the program's, */
byte unfinished;        /* and how many of those are not complete */

/* Communicators: 0 the program's, 1 that of the foreign function. */
chan queue0 = [NMSG] of { byte };
chan queue1 = [1] of { byte };
byte nxt[2];  /* number of the next message */
byte left[2]; /* credit */
bit turning[2];
byte reads[2]; /* number of the next message that the other process reads */
byte owed[2];  /* credit on its way back */
#define LETS(c)         (left[c] >= MOST)
#define QUEUE_EMPTY(c)  (c == 0 && len(queue0) == 0 || c == 1 && len(queue1) == 0)
#define CREDIT_IN(c, n) ((c) + 2 * (n))
#define C_OF(credit)    ((credit) % 2)
#define N_OF(credit)    ((credit) / 2)

/* The life of the program's. */
#define ALIVE 0
#define ENDED 1 /* cannot be found any more */
#define FREED 2
byte life;
byte users;
bool handle; /* the program has it; so has each message that is not complete */

/* The transport. */
byte room;
byte gone; /* packets that have left, whose room the next poll gets back */
byte incoming;

/* What it refused. */
byte in_lane;
byte waiting; /* in the lane and in hands */
bool registered;
bool passing;

/* The foreign progress function. */
byte locker; /* the thread that has its lock, from 1 on; 0: nobody */
bool has_work;

/* Scratch: always set before use inside one step. */
hidden byte pick, i, at, found;
hidden byte ok;

/* ---- the properties ---- */

hidden byte no_deadlock;
hidden byte message_is_sent_once;
hidden byte numbers_follow_the_queue;
hidden byte nothing_is_used_after_it_was_freed;
hidden byte what_ended_is_freed;
hidden byte callback_is_registered_while_something_waits;
hidden byte polls_do_not_nest;
hidden byte stack_has_an_end;
#define PROPERTY(name, condition) name = (condition); assert(name)
/* What breaks before the program notices (OUTCOMES). */
#ifdef OUTCOMES
#define INVARIANT(name, condition) skip
#else
#define INVARIANT(name, condition) PROPERTY(name, condition)
#endif

#ifdef TELL
#define SAY(...) printf(__VA_ARGS__)
#else
#define SAY(...) skip
#endif

#include "choose.pml"

/* ---- the stack ---- */

inline call(function, argument)
{
    PROPERTY(stack_has_an_end, sp[ME] < DEPTH - 1);
    sp[ME]++;
    AT = function;
    ARG = argument
}

inline leave()
{
    AT = 0;
    ARG = 0;
    sp[ME]--
}

inline go_on(position)
{
    AT = position
}

/* mca_pml_spec_may_poll: into `ok`. */
inline may_poll()
{
    ok = true;
    for (i : 0 .. DEPTH - 1) {
        at = (i <= sp[ME] -> pc[ME * DEPTH + i] : 0);
        ok = ok && at != POLL && !IN_CALLBACK(at)
    }
    ok = ok || !RULE_POLL_ONCE
}

inline poll_and_then(position)
{
    may_poll();
    go_on(position);
    if
    :: ok ->
        for (i : 0 .. DEPTH - 1) {
            PROPERTY(polls_do_not_nest, i > sp[ME] || pc[ME * DEPTH + i] != POLL);
        }
        call(POLL, 0)
    :: else
    fi
}

/* ---- communicators ---- */

inline use(c)
{
    PROPERTY(nothing_is_used_after_it_was_freed, c != 0 || life != FREED)
}

inline free_it()
{
    SAY("%d: frees the communicator\n", ME);
    PROPERTY(nothing_is_used_after_it_was_freed, life != FREED);
    life = FREED
}

/* What keeps the communicator is one less. The last one ends it, wherever that happens. */
inline unref()
{
    if
    :: unfinished == 0 && !handle -> call(DEL, 0)
    :: else
    fi
}

/* ---- sends ---- */

/* Where a call that starts a message begins, and where it goes on with its credit set apart. */
#ifndef LARGE
#define FIRST  START
#define MAY_GO START_NO
#elif RULE_POLL_HOLDS_NOTHING
#define FIRST  START_RTR
#define AFTER_POLL START
#define MAY_GO START_NO
#else
#define FIRST  START
#define MAY_GO START_RTR
#define AFTER_POLL START_NO
#endif

/* Those that wait for credit in communicator c, or were taken and have no number: into mbehind[m]. */
inline stands_behind(m)
{
    mbehind[m] = 0;
    for (i : 0 .. NMSG - 1) {
        if
        :: COMM(m) == 0 && (mstate[i] == QUEUED || mstate[i] == TAKEN) -> mbehind[m] = mbehind[m] | (1 << i)
        :: else
        fi
    }
}

inline number(m)
{
    use(COMM(m));
    PROPERTY(numbers_follow_the_queue, mbehind[m] == 0);
    for (i : 0 .. NMSG - 1) {
        mbehind[i] = mbehind[i] & ~(1 << m);
    }
    mno[m] = nxt[COMM(m)];
    nxt[COMM(m)]++;
    left[COMM(m)] = left[COMM(m)] + MOST - 1;
    mstate[m] = NUMBERED;
    SAY("%d: message %d is number %d\n", ME, m, mno[m])
}

inline begin_message(m)
{
    SAY("%d: starts message %d, depth %d\n", ME, m, sp[ME]);
    mstate[m] = STARTING;
    unfinished = unfinished + (COMM(m) == 0);
    stands_behind(m);
    call(FIRST, m)
}

/* The next of the program's messages, from a frame that goes on at `position`. */
inline begin_next(position)
{
    go_on(position);
    started++;
    begin_message(started - 1)
}

inline spend(m)
{
    use(COMM(m));
    ok = LETS(COMM(m)) && (QUEUE_EMPTY(COMM(m)) || !RULE_QUEUE_FIRST);
    if
    :: ok -> left[COMM(m)] = left[COMM(m)] - MOST
    :: else
    fi
}

inline append(m)
{
    SAY("%d: message %d waits for credit\n", ME, m);
    stands_behind(m);
    mstate[m] = QUEUED;
    if
    :: COMM(m) == 0 -> queue0!m
    :: else -> queue1!m
    fi;
    returned[m] = true;
    leave()
}

inline start_again(m)
{
    spend(m);
    if
    :: ok -> go_on(MAY_GO)
    :: !ok && !RULE_START_NEVER_WAITS -> go_on(START_WAIT)
    :: !ok && RULE_START_NEVER_WAITS && !RULE_CHECKED_AS_QUEUED -> go_on(START_JOIN)
    :: else -> append(m)
    fi
}

inline start_number(m)
{
    number(m);
    if
    :: MOST == 1 || QUEUE_EMPTY(COMM(m)) -> go_on(START_END); call(SEND, m)
    :: else ->
        /* What it did not need may be what another one waits for. */
        if
        :: RULE_SENT_BEFORE_TURNS -> users = users + RULE_TURNS_HOLD; go_on(START_TURNS); call(SEND, m)
        :: else -> go_on(START_SEND); call(TURNS, COMM(m))
        fi
    fi
}

inline next_turn(c)
{
    use(c);
    if
    :: !QUEUE_EMPTY(c) && LETS(c) ->
        left[c] = left[c] - MOST;
        if
        :: c == 0 -> queue0?pick
        :: else -> queue1?pick
        fi;
        if
        :: RULE_TURN_IS_NUMBERED -> number(pick); call(SEND, pick)
        :: else -> mstate[pick] = TAKEN; ARG = pick; go_on(TURNS_NO)
        fi
    :: else -> turning[c] = false; leave()
    fi
}

/* ---- the transport, and what it refuses ---- */

inline hand_over(m)
{
    SAY("%d: message %d is sent\n", ME, m);
    PROPERTY(message_is_sent_once, mstate[m] < FLYING);
    room--;
    mstate[m] = FLYING
}

inline pend(m)
{
    SAY("%d: message %d is refused\n", ME, m);
    mstate[m] = REFUSED;
    in_lane++;
    waiting++;
    if
    :: waiting == 1 && !RULE_REGISTER_UNDER_LOCK -> go_on(SEND_REG)
    :: else -> registered = registered || waiting == 1 || !RULE_COUNT_IN_HAND; leave()
    fi
}

inline end_pass()
{
    passing = false;
    leave()
}

inline pass_done()
{
    waiting--;
    if
    :: waiting == 0 && RULE_COUNT_IN_HAND && !RULE_REGISTER_UNDER_LOCK -> ARG = 0; go_on(PASS_UNREG)
    :: else -> registered = registered && (waiting > 0 || !RULE_COUNT_IN_HAND); end_pass()
    fi
}

inline message_ends(m)
{
    complete[m] = true;
    leave();
    if
    :: COMM(m) == 0 -> unfinished--; unref()
    :: else
    fi
}

/* ---- what is asked of states ---- */

#define IS_REFUSED(m)  (mstate[m] == REFUSED)
#define MAY_START      (handle && started < NMSG)
#define MAY_FREE       (handle && started > 0)
/* Somebody has the request, and it is not complete. */
#define MAY_WAIT(m)         (returned[m] && !complete[m])
#define PROGRAM_MAY_WAIT(m) (AT == PROGRAM && MAY_WAIT(m))
#define PASS_MAY_TAKE(m)    (AT == PASS && IS_REFUSED(m))
/* A callback waits for later messages only, so that no two callbacks wait for each other. */
#define CB_MAY_WAIT(m) (AT == CB && MAY_BLOCK && MAY_WAIT(m) && mstate[m] < FLYING \
                        && (ARG == NO_MESSAGE || ARG == FENCE || m > ARG))
#ifdef WAIT_BELOW_LOCK
#define MAY_BLOCK (locker != ME + 1 || ARG == NO_MESSAGE)
#else
#define MAY_BLOCK (locker != ME + 1)
#endif
#define POLLS          (AT == POLL || PROGRESSES)
#define PROGRESSES     (AT == WAIT && !complete[ARG] || AT == WAIT_ALL && !IS_OVER || AT == CB_WAIT && !complete[ARG] \
                        || AT == CB_ANSWER && mstate[ARG] != READ || AT == START_WAIT && !LETS(0))
#define RUNS_ALL       (PROGRESSES || AT == POLL && !RULE_POLL_TRANSPORTS)

#ifdef FOREIGN
#define IS_OVER (unfinished == 0 && complete[FENCE])
#else
#define IS_OVER (unfinished == 0)
#endif
#define IS_FLYING(m) (mstate[m] == FLYING)
#ifdef FOREIGN
#define IS_READ_NEXT(m) (mstate[m] == THERE && mno[m] == reads[COMM(m)] && (m == FENCE || mstate[FENCE] == READ))
#else
#define IS_READ_NEXT(m) (mstate[m] == THERE && mno[m] == reads[COMM(m)])
#endif

/* ---- what holds in every state ---- */

inline check_state()
{
    for (i : 0 .. MESSAGES - 1) {
        INVARIANT(callback_is_registered_while_something_waits,
                  registered || mstate[i] != REFUSED && mstate[i] != IN_HAND);
    }
}

#define STEP(guard, action) atomic { guard -> d_step { action; check_state(); pick = 0 } }

proctype thread(byte me)
{
end:
    do
    /* ---- the program ---- */
    :: STEP(AT == PROGRAM && MAY_START, begin_next(PROGRAM))
    :: atomic { CHOOSE(NMSG, PROGRAM_MAY_WAIT); d_step { ARG = pick; go_on(WAIT) } }
    :: STEP(AT == WAIT && complete[ARG], ARG = 0; go_on(PROGRAM))
#ifdef FREE
    :: STEP(AT == PROGRAM && MAY_FREE, handle = false; unref())
#endif
    /* The first thread waits for all at the end. The other may go at any time: nobody must need its help. */
    :: STEP(AT == PROGRAM, go_on((ME == 0 -> WAIT_ALL : PROGRAM_END)))
    :: STEP(AT == WAIT_ALL && IS_OVER, go_on(PROGRAM_END))

    /* ---- progress: one thing that there is to be done ---- */
    :: STEP(POLLS && owed[0] > 0, pick = owed[0]; owed[0] = 0; call(CREDIT, CREDIT_IN(0, pick)))
#ifdef FOREIGN
    :: STEP(POLLS && owed[1] > 0, pick = owed[1]; owed[1] = 0; call(CREDIT_HEED, CREDIT_IN(1, pick)))
#endif
    :: STEP(POLLS && incoming > 0, incoming--; call(CB, NO_MESSAGE))
    :: STEP(POLLS && gone > 0, room = room + gone; gone = 0)
    :: STEP(RUNS_ALL && registered && in_lane > 0 && room > 0 && (RULE_PASSES_OVERLAP || !passing),
            passing = !RULE_PASSES_OVERLAP; call(PASS, 0))
    :: STEP(RUNS_ALL && registered && in_lane == 0 && !RULE_COUNT_IN_HAND, registered = false)
#ifdef FOREIGN
    :: STEP(RUNS_ALL && has_work, call(FOREIGN_FN, 0))
#endif
    :: STEP(AT == POLL, leave())

    /* ---- a completion callback ---- */
    :: STEP(AT == CB, leave())
    :: STEP(AT == CB && MAY_START, ARG = 0; begin_next(CB_END))
    :: atomic {
        CHOOSE(NMSG, CB_MAY_WAIT);
        d_step { SAY("%d: callback of %d waits for %d\n", ME, ARG, pick); ARG = pick; go_on(CB_WAIT) }
       }
#ifdef ANSWERS
    :: STEP(AT == CB && ARG < NMSG && MAY_BLOCK,
            SAY("%d: callback of %d waits for the answer\n", ME, ARG); go_on(CB_ANSWER))
    :: STEP(AT == CB_ANSWER && mstate[ARG] == READ, leave())
#endif
#ifdef FREE
    :: STEP(AT == CB && MAY_FREE, ARG = 0; go_on(CB_END); handle = false; unref())
#endif
    :: STEP(AT == CB_WAIT && complete[ARG], leave())
    :: STEP(AT == CB_END, leave())

    /* ---- a message is started ---- */
    :: STEP(AT == START,
            pick = ARG; spend(pick); if :: ok -> go_on(MAY_GO) :: else -> poll_and_then(START_AGAIN) fi)
    :: STEP(AT == START_AGAIN, pick = ARG; start_again(pick))
    :: STEP(AT == START_WAIT && LETS(COMM(ARG)), left[COMM(ARG)] = left[COMM(ARG)] - MOST; go_on(START_NO))
    :: STEP(AT == START_JOIN, pick = ARG; append(pick))
#ifdef LARGE
    :: STEP(AT == START_RTR, poll_and_then(AFTER_POLL))
#endif
    :: STEP(AT == START_NO, pick = ARG; start_number(pick))
    :: STEP(AT == START_SEND, pick = ARG; go_on(START_END); call(SEND, pick))
    :: STEP(AT == START_TURNS, go_on(START_PUT); call(TURNS, 0))
    :: STEP(AT == START_PUT,
            returned[ARG] = true; if :: RULE_TURNS_HOLD -> ARG = 0; go_on(PUT) :: else -> leave() fi)
    :: STEP(AT == START_END, returned[ARG] = true; leave())

    /* ---- those whose turn it is ---- */
    :: STEP(AT == TURNS, pick = ARG; next_turn(pick))
    :: STEP(AT == TURNS_NO, pick = ARG; ARG = COMM(pick); number(pick); go_on(TURNS); call(SEND, pick))

    /* ---- to the transport ---- */
    :: STEP(AT == SEND,
            pick = ARG; if :: room > 0 -> hand_over(pick); go_on(SENT); call(CB, pick) :: else -> go_on(SEND_PEND) fi)
    :: STEP(AT == SEND_PEND, pick = ARG; pend(pick))
    :: STEP(AT == SEND_REG, registered = true; leave())
    :: STEP(AT == SENT, pick = ARG; message_ends(pick))

    /* ---- a pass ---- */
    :: atomic {
        CHOOSE(MESSAGES, PASS_MAY_TAKE);
        d_step {
            SAY("%d: message %d in hand\n", ME, pick);
            if
            :: RULE_TAKEN_IN_HAND -> mstate[pick] = IN_HAND; in_lane--
            :: else
            fi;
            ARG = pick;
            go_on(PASS_TRY);
            check_state();
            pick = 0
        }
       }
    :: STEP(AT == PASS && in_lane == 0, registered = registered && RULE_COUNT_IN_HAND; end_pass())
    :: STEP(AT == PASS_TRY && room > 0,
            pick = ARG; in_lane = in_lane - !RULE_TAKEN_IN_HAND; hand_over(pick); go_on(PASS_END); call(SENT, pick); call(CB, pick))
    :: STEP(AT == PASS_TRY && room == 0 && RULE_PASS_ENDS,
            mstate[ARG] = REFUSED; in_lane = in_lane + RULE_TAKEN_IN_HAND; end_pass())
    :: STEP(AT == PASS_END, pass_done())
    :: STEP(AT == PASS_UNREG, registered = false; end_pass())

    /* ---- packets ---- */
    :: STEP(AT == CREDIT && RULE_COUNT_THEN_LOOK, users++; go_on(CREDIT_FIND))
    :: STEP(AT == CREDIT && !RULE_COUNT_THEN_LOOK,
            if :: life == ALIVE -> go_on(CREDIT_FIND) :: else -> leave() fi)
    :: STEP(AT == CREDIT_FIND && RULE_COUNT_THEN_LOOK,
            if :: life == ALIVE -> go_on(CREDIT_HEED) :: else -> ARG = 0; go_on(PUT) fi)
    :: STEP(AT == CREDIT_FIND && !RULE_COUNT_THEN_LOOK, users++; go_on(CREDIT_HEED))
    :: STEP(AT == CREDIT_HEED,
            pick = C_OF(ARG);
            use(pick);
            left[pick] = left[pick] + N_OF(ARG);
            ARG = 0;
            if
            :: pick == 0 -> go_on(PUT)
            :: else -> leave()
            fi;
            if
            :: QUEUE_EMPTY(pick) || turning[pick] -> skip
            :: else -> turning[pick] = !RULE_ANYBODY_TURNS; call(TURNS, pick)
            fi)
    :: STEP(AT == PUT,
            users--; if :: users == 0 && life == ENDED && RULE_LAST_USER_FREES -> go_on(REAP) :: else -> leave() fi)
    :: STEP(AT == REAP, if :: users == 0 && life == ENDED -> free_it() :: else -> skip fi; leave())

    /* ---- the end of the communicator ---- */
#ifdef FREE
    :: STEP(AT == DEL,
            SAY("%d: the communicator ends\n", ME);
            if
            :: !RULE_USERS -> free_it(); leave()
            :: RULE_USERS && RULE_AWAY_THEN_COUNT -> users++; go_on(DEL_AWAY)
            :: RULE_USERS && !RULE_AWAY_THEN_COUNT && users > 0 -> life = ENDED; leave()
            :: else -> go_on(DEL_FREE)
            fi)
    :: STEP(AT == DEL_AWAY,
            life = ENDED; if :: RULE_LAST_USER_FREES -> go_on(PUT) :: else -> users--; go_on(REAP) fi)
    :: STEP(AT == DEL_FREE, free_it(); leave())
#endif

    /* ---- the foreign progress function ---- */
#ifdef FOREIGN
    :: STEP(AT == FOREIGN_FN && locker == 0, locker = ME + 1; go_on(FOREIGN_GO))
    :: STEP(AT == FOREIGN_GO, go_on(FOREIGN_END); if :: has_work -> begin_message(FENCE) :: else -> skip fi)
    :: STEP(AT == FOREIGN_END, has_work = false; locker = 0; leave())
#endif
    od
}

proctype network()
{
end:
    do
    :: atomic { CHOOSE(MESSAGES, IS_FLYING); d_step { mstate[pick] = THERE; gone++ } }
    :: atomic {
        CHOOSE(MESSAGES, IS_READ_NEXT);
        d_step { mstate[pick] = READ; mno[pick] = 0; reads[COMM(pick)]++; owed[COMM(pick)]++ }
       }
    :: timeout ->
        d_step {
            for (i : 0 .. THREADS - 1) {
                PROPERTY(no_deadlock, sp[i] == 0 && pc[i * DEPTH] == PROGRAM_END);
            }
            PROPERTY(what_ended_is_freed, life != ENDED);
        }
        break
    od
}

init
{
    atomic {
        for (i : 0 .. THREADS - 1) {
            pc[i * DEPTH] = PROGRAM
        }
#ifdef STRANGER
        owed[0] = WINDOW;
#else
        left[0] = WINDOW;
#endif
        room = ROOM;
        incoming = INCOMING;
        handle = true;
#ifdef FOREIGN
        has_work = true;
        owed[1] = MOST; /* a stranger, too */
#endif
        run network();
        for (i : 0 .. THREADS - 1) {
            run thread(i)
        }
    }
}
