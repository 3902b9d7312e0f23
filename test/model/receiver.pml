/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The receiver's side: core/spec_match.c, core/spec_recv.c, and pml_spec_arrive.c for the order of messages. */

/* What is over is put into one form, as soon as nothing on its way needs it. */
inline tidy_receive(r)
{
    if
    :: rstate[r] == OVER && rtr[r] == NOWHERE -> rpat[r] = 0; SETTLE(r, OFFERED)
    :: else
    fi
}

/* The buffer is the user's again, with data or without. */
inline give_back(r)
{
    for (j : 0 .. NMSG - 1) {
        PROPERTY(no_write_after_the_buffer_was_given_back, put[j] == NOT_WRITING || mr[j] != r);
    }
    rstate[r] = OVER;
    rfin[r] = 0;
    tidy_receive(r)
}

inline leave_queue(r)
{
    posted--;
    rhas[r] = 0;
    rwant[r] = 0
}

/* Message m and receive r have found each other. */
inline match_up(m, r)
{
    /* MPI: an earlier pending receive that fits goes first, and so does an earlier message, wherever it is. */
    for (j : 0 .. NRECV - 1) {
        PROPERTY(receive_gets_the_message_MPI_gives_it,
                 j >= r || rstate[j] != POSTED || !FITS(rpat[j], mtag[m]));
    }
    for (j : 0 .. NMSG - 1) {
        PROPERTY(receive_gets_the_message_MPI_gives_it,
                 j >= m || mstate[j] == TAKEN || !FITS(rpat[r], mtag[j]));
    }
    PROPERTY(message_is_delivered_once, mstate[m] != TAKEN && rstate[r] == POSTED);
    PROPERTY(rtr_is_used_for_its_own_receive, mkind[m] != MATCH || mr[m] == r);
    mstate[m] = TAKEN;
    leave_queue(r);
    if
    :: mkind[m] == EAGER -> give_back(r)
    :: mkind[m] == RTS ->
        if
        :: RULE_RTS_SERVED || rtr[r] == NOWHERE -> rstate[r] = FETCHING; fetching++
        :: else -> rstate[r] = AWAITING_FIN
        fi
    :: else ->
        if
        :: mfull[m] || rfin[r] || !RULE_FIN -> give_back(r); mr[m] = 0
        :: else -> rstate[r] = AWAITING_FIN
        fi
    fi;
    mfull[m] = 0; mkind[m] = 0; mtag[m] = 0
}

/* spec_match_find_posted: into `hit`. */
inline find_posted(t)
{
    hit = NONE;
    for (i : 0 .. NRECV - 1) {
        if
        :: hit == NONE && rstate[i] == POSTED && FITS(rpat[i], t) -> hit = i
        :: else
        fi
    }
}

/* spec_recv_speculate, for receive r that was just posted for tag t. */
inline speculate(r, t)
{
    found = 0; /* a wildcard waits */
    n = 0;
    for (i : 0 .. NRECV - 1) {
        if
        :: i < r && rstate[i] == POSTED && rpat[i] == t -> n = n + (RULE_K_COUNTS_ALL || rhas[i])
        :: i < r && rstate[i] == POSTED && rpat[i] != t && t == ANY_TAG && RULE_FIRST -> found = true
        :: i < r && rstate[i] == POSTED && rpat[i] != t && FITS(rpat[i], t) -> found = RULE_WILDCARD
        :: else
        fi
    }
    if
    :: !found && (hold[t] == NO_HOLD || !RULE_HOLD) ->
        rhas[r] = 1;
        rtr[r] = FLYING;
        rno[r] = ctl_no;
        re[r] = (RULE_E -> e : 0);
        rk[r] = (RULE_K -> n : 0);
        if
        :: !RULE_E_IS_PROCESSED ->
            for (i : 0 .. NMSG - 1) {
                if
                :: mstate[i] == EARLY -> re[r] = i + 1
                :: else
                fi
            }
        :: else
        fi;
        SAY("post %d %d : posted offer %d %d %d\n", rpat[r], rcap[r], rno[r], re[r], rk[r]);
        ctl_no++;
        SEND_UP(RTR(r))
    :: else -> SAY("post %d %d : posted silent\n", rpat[r], rcap[r]); rcap[r] = 0
    fi
}

/* MPI_Irecv. The oldest unexpected message that fits, or into the queue. A buffer of size 0 offers nothing. */
inline post_receive(pattern, buffer)
{
    hit = np;
    np++;
    rpat[hit] = pattern;
    rcap[hit] = buffer;
    rstate[hit] = POSTED;
    posted++;
    found = NONE;
    for (i : 0 .. NMSG - 1) {
        if
        :: found == NONE && mstate[i] == UNEXPECTED && FITS(pattern, mtag[i]) -> found = i
        :: else
        fi
    }
    if
    :: found != NONE ->
        SAY("post %d %d : takes %d\n", pattern, buffer, found);
        rcap[hit] = 0;
        match_up(found, hit)
    :: else ->
        if
        :: buffer > 0 && MAY_OFFER(pattern) && !IS_STOPPED(pattern) -> speculate(hit, pattern)
        :: else -> SAY("post %d %d : posted quiet\n", pattern, buffer); rcap[hit] = 0
        fi
    fi
}

/* spec_recv_revoke_done, for every tag. */
inline finish_revokes()
{
    for (k : 0 .. KINDS - 1) {
        if
        :: hold[k] == ANSWERED && (e >= vs[k] || !RULE_S) ->
            SAY("revoke_done %d\n", k);
            for (i : 0 .. NRECV - 1) {
                if
                :: rstate[i] == POSTED && rpat[i] == k && rwant[i] ->
                    SAY("cancelled %d\n", i);
                    leave_queue(i);
                    give_back(i)
                :: rstate[i] == POSTED && rpat[i] == k && !rwant[i] -> rhas[i] = 0
                :: else
                fi
            }
            hold[k] = NO_HOLD; vno[k] = 0; vs[k] = 0
        :: else
        fi
    }
}

/* spec_recv_yields: receives that message m, which is for `hit`, need not go to because they are being cancelled. */
inline skip_cancelled(m)
{
    do
    :: hit == NONE || !rwant[hit] || (mkind[m] == MATCH && RULE_YIELD_NOT_MATCH) -> break
    :: else ->
        n = 0;
        for (i : 0 .. NRECV - 1) {
            n = n + (i != hit && rstate[i] == POSTED && rpat[i] == rpat[hit] && rhas[i] && RULE_YIELD_ALONE)
        }
        if
        :: n > 0 -> break
        :: else
        fi;
        SAY("yields %d\n", hit);
        leave_queue(hit);
        give_back(hit);
        find_posted(mtag[m])
    od
}

/* A message arrives; those whose turn it is are processed. */
inline message_arrives(m)
{
    SAY("message %d\n", m);
    mstate[m] = EARLY;
    do
    :: found = (RULE_SEQ_ORDER -> e : m);
        if
        :: found >= NMSG -> break
        :: else ->
            if
            :: mstate[found] != EARLY -> break
            :: else
            fi
        fi;
        e++;
        if
        :: mkind[found] == RTS && mstop[found] ->
            stopped[mtag[found]] = 1;
            mstop[found] = 0;
            if
            :: !RULE_STOP_KEEPS_MARKS ->
                for (i : 0 .. NRECV - 1) {
                    if
                    :: rpat[i] == mtag[found] -> rhas[i] = 0
                    :: else
                    fi
                }
            :: else
            fi
        :: else
        fi;
        find_posted(mtag[found]);
        skip_cancelled(found);
        if
        :: hit != NONE -> SAY("matched %d %d\n", found, hit); match_up(found, hit)
        :: else ->
            SAY("unexpected %d\n", found);
            PROPERTY(rtr_is_used_for_its_own_receive, mkind[found] != MATCH);
            mstate[found] = UNEXPECTED
        fi
    od;
    if
    :: RULE_S_AGAIN -> finish_revokes()
    :: else
    fi
}

/* The data of message m is there. */
inline fin_arrives(m)
{
    SAY("fin %d\n", m);
    hit = mr[m];
    PROPERTY(fin_finds_its_receive, rstate[hit] == POSTED || rstate[hit] == AWAITING_FIN);
    if
    :: rstate[hit] == AWAITING_FIN -> mr[m] = 0; give_back(hit)
    :: else -> rfin[hit] = RULE_EARLY_FIN
    fi
}

inline revoked_arrives(t)
{
    SAY("revoked %d\n", t);
    hold[t] = ANSWERED;
    finish_revokes()
}

inline packet_arrives(packet)
{
    if
    :: packet < NMSG -> message_arrives(packet)
    :: packet >= NMSG && packet < 2 * NMSG -> n = packet - NMSG; fin_arrives(n)
    :: else -> q = packet - 2 * NMSG; revoked_arrives(q)
    fi
}

/* The data of a message that was announced by RTS has been moved. */
inline fetch_ends(r)
{
    SAY("fetched %d\n", r);
    fetching--;
    give_back(r)
}

/* spec_recv_cancel. */
inline cancel_receive(r)
{
    q = rpat[r];
    n = 0;
    for (i : 0 .. NRECV - 1) {
        n = n + (rstate[i] == POSTED && rpat[i] == q && rhas[i])
    }
    first = n > 0 && MAY_OFFER(q) && RULE_REVOKE;
    if
    :: first -> first = hold[q] == NO_HOLD
    :: else
    fi;
#ifdef CLAIMS
    if
    :: first ->
        for (i : 0 .. NRECV - 1) {
            if
            :: rstate[i] == POSTED && rpat[i] == q && rhas[i] && (RULE_WITHDRAW_ALL || i == r) &&
               (!IS(i, IN_USE) || !RULE_TAKEN_STAYS) ->
                SETTLE(i, WITHDRAWN);
                rhas[i] = 0
            :: else
            fi
        }
    :: else
    fi;
#endif
    found = true; /* no RTR counts on it */
    for (i : 0 .. NRECV - 1) {
        found = found && (!MAY_OFFER(q) || !RULE_REVOKE || rstate[i] != POSTED || rpat[i] != q || !rhas[i] ||
                          i < r || i > r && (!RULE_REVOKE_BY_TAG || !RULE_WITHDRAW_ALL))
    }
    if
    :: found && first -> SAY("cancel %d : done ask %d\n", r, ctl_no)
    :: found && !first -> SAY("cancel %d : done\n", r)
    :: !found && first -> SAY("cancel %d : ask %d\n", r, ctl_no)
    :: else -> SAY("cancel %d : wait\n", r)
    fi;
    if
    :: first ->
        hold[q] = ASKED;
        vno[q] = ctl_no;
        ctl_no++;
        SEND_UP(REVOKE(q))
    :: else
    fi;
    if
    :: found -> leave_queue(r); give_back(r)
    :: else -> rwant[r] = 1
    fi
}

/* A message of another sender, with tag t, takes a receive from any source: it is neither ours nor of interest any more.
 * The protocol with the other sender is a matter of its own. */
inline taken_elsewhere(t)
{
    hit = NONE;
    for (i : 0 .. NRECV - 1) {
        if
        :: hit == NONE && rstate[i] == POSTED && IS_ANY_SRC(rpat[i]) && FITS(rpat[i], t) -> hit = i
        :: else
        fi
    }
    if
    :: hit != NONE -> SAY("elsewhere %d : %d\n", t, hit); leave_queue(hit); give_back(hit)
    :: else
    fi
}

inline resume(t)
{
    SAY("resume %d\n", t);
    stopped[t] = 0
}
