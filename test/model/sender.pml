/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The sender's side: core/spec_send.c, and pml_spec_rtr.c for MATCH, FIN and REVOKED. */

/* Sizes of messages. */
#define SMALL  0 /* eager */
#define LARGE  1
#define HUGE   2 /* larger than a LARGE buffer */
#define BY_RTS 3 /* small or with gaps, and yet by RTS */
#define CAN_PUT(size) (size == LARGE || size == HUGE)

/* An RTR is settled. */
inline rtr_gone(r)
{
    rtr[r] = NOWHERE; rno[r] = 0; re[r] = 0; rk[r] = 0; skip_[r] = 0; rcap[r] = 0;
    tidy_receive(r)
}

/* MATCH for all RTRs that were used and not told of: no message waits behind a transfer. */
inline send_notices()
{
    for (i : 0 .. NMSG - 1) {
        if
        :: put[i] == UNNOTICED -> put[i] = NOTICED; SEND_DOWN(MSG(i))
        :: else
        fi
    }
}

/* spec_send_issue: the next message. The RTR that names it is used or dropped. */
inline send_message(t, its_size, stop)
{
    send_notices();
    seq = nxt;
    hit = NONE;
    if
    :: ledger -> ring[seq % RING] = t
    :: else
    fi;
    for (i : 0 .. NRECV - 1) {
        if
        :: rtr[i] == KEPT && NAMES(rpat[i], t) && (RULE_USED_UP || CAN_PUT(its_size)) ->
            if
            :: skip_[i] == 0 -> hit = i
            :: else -> skip_[i]--
            fi
        :: else
        fi
    }
    mtag[seq] = t;
    mstate[seq] = ON_ITS_WAY;
    nxt++;
    if
    :: hit != NONE && CAN_PUT(its_size) && (its_size <= rcap[hit] || !RULE_FIT) && (!IS(hit, WITHDRAWN) || !RULE_TAKE) ->
        SAY("send %d %d : %d used %d\n", t, its_size, seq, hit);
        PROPERTY(write_fits_the_buffer, its_size <= rcap[hit]);
        PROPERTY(no_write_after_the_buffer_was_given_back, rstate[hit] == POSTED);
        mkind[seq] = MATCH;
        mr[seq] = hit;
        put[seq] = UNNOTICED;
        writing++;
        SETTLE(hit, IN_USE);
        rtr_gone(hit)
    :: else ->
        if
        :: hit == NONE -> SAY("send %d %d : %d none -1\n", t, its_size, seq)
        :: else ->
            if
            :: CAN_PUT(its_size) && its_size <= rcap[hit] ->
                SAY("send %d %d : %d revoked %d\n", t, its_size, seq, hit)
            :: CAN_PUT(its_size) && its_size > rcap[hit] ->
                SAY("send %d %d : %d too_short %d\n", t, its_size, seq, hit)
            :: else -> SAY("send %d %d : %d mispredicted %d\n", t, its_size, seq, hit)
            fi;
            rtr_gone(hit)
        fi;
        if
        :: its_size == SMALL -> mkind[seq] = EAGER
        :: else -> mkind[seq] = RTS; mstop[seq] = stop
        fi;
        SEND_DOWN(MSG(seq))
    fi
}

/* A transfer has ended. */
inline put_ends(m)
{
    SAY("put %d\n", m);
    writing--;
    if
    :: put[m] == UNNOTICED -> mfull[m] = 1; SEND_DOWN(MSG(m))
    :: else -> SEND_DOWN(FIN(m))
    fi;
    put[m] = NOT_WRITING
}

/* spec_send_admit: an RTR whose turn it is. */
inline admit(r)
{
    if
    :: nxt - base > RING -> base = nxt - RING
    :: else
    fi;
    n = 0;
    seq = re[r];
    INVARIANT(honest_rtr_is_not_refused, seq <= nxt);
    do
    :: seq < nxt && RULE_N ->
        n = n + (NAMES(rpat[r], ring[seq % RING]) || !RULE_N_BY_TAG);
        seq++
    :: else -> break
    od;
    if
    :: no_room -> SAY("rtr %d full\n", r); rtr_gone(r)
    :: !no_room && re[r] < base && RULE_TOO_OLD -> SAY("rtr %d too_old\n", r); rtr_gone(r)
    :: else ->
        if
        :: n > rk[r] -> SAY("rtr %d crossed\n", r); rtr_gone(r)
        :: else ->
            SAY("rtr %d kept\n", r);
            rtr[r] = KEPT;
            skip_[r] = rk[r] - n;
            rno[r] = 0; re[r] = 0; rk[r] = 0;
            for (i : 0 .. NRECV - 1) {
                INVARIANT(honest_rtr_is_not_refused,
                          i == r || rtr[i] != KEPT || rpat[i] != rpat[r] || skip_[i] != skip_[r]);
                INVARIANT(honest_rtr_is_not_refused,
                          i == r || rtr[i] != KEPT || (rpat[i] == ANY_TAG) == (rpat[r] == ANY_TAG));
            }
        fi
    fi
}

/* spec_send_revoke: a REVOKE whose turn it is. */
inline revoke(t)
{
    n = 0;
    for (i : 0 .. NRECV - 1) {
        if
        :: rtr[i] == KEPT && rpat[i] == t && RULE_REVOKE_DROPS -> n++; rtr_gone(i)
        :: else
        fi
    }
    send_notices();
    vs[t] = (RULE_S_IS_NEXT -> nxt : (nxt > 0 -> nxt - 1 : 0));
    SAY("revoke %d : %d %d\n", t, vs[t], n);
    hold[t] = REPLIED;
    SEND_DOWN(REVOKED(t))
}

/* An RTR or REVOKE arrives; those whose turn it is are processed. */
inline control_arrives(packet)
{
    SAY("control %d\n", packet);
    if
    :: !ledger -> ledger = true; base = (RULE_BASE -> nxt : 0)
    :: else
    fi;
    if
    :: packet < NRECV -> rtr[packet] = HELD
    :: else -> hold[packet - NRECV] = ASK_HELD
    fi;
    do
    :: found = NONE;
        for (q : 0 .. NRECV + KINDS - 1) {
            if
            :: q < NRECV ->
                if
                :: rtr[q] == HELD && (rno[q] == ctl_nxt || !RULE_CTL_ORDER) -> found = q
                :: else
                fi
            :: else ->
                if
                :: hold[q - NRECV] == ASK_HELD && (vno[q - NRECV] == ctl_nxt || !RULE_CTL_ORDER) -> found = q
                :: else
                fi
            fi
        }
        if
        :: found == NONE -> break
        :: found < NRECV -> ctl_nxt++; admit(found)
        :: else -> ctl_nxt++; found = found - NRECV; revoke(found)
        fi
    od
}
