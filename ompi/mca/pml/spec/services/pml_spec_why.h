/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Why a protocol was chosen: with pml_spec_verbose from MCA_PML_SPEC_WHY on, the choice for an
 * envelope is printed with what led to it, whenever it changes. Messages that are so small that they
 * need no request are not mentioned.
 *
 * What was printed last is remembered in the tables of adaptation (spec_adapt_entry_t.note). */
#ifndef PML_SPEC_WHY_H
#define PML_SPEC_WHY_H

#include "../objects/pml_spec_request.h"

#define MCA_PML_SPEC_WHY 20

/* Why a receive has sent no RTR. */
typedef enum mca_pml_spec_no_rtr {
    MCA_PML_SPEC_RTR_GOES, /* it has, or would */
    MCA_PML_SPEC_RTR_SMALL,
    MCA_PML_SPEC_RTR_SHORT,
    MCA_PML_SPEC_RTR_OFF,
    MCA_PML_SPEC_RTR_ANY_SOURCE,
    MCA_PML_SPEC_RTR_DEVICE,
    MCA_PML_SPEC_RTR_GAPS,
    MCA_PML_SPEC_RTR_NO_WAY,
    MCA_PML_SPEC_RTR_NO_PUT,
    MCA_PML_SPEC_RTR_NO_NUMBER,
    MCA_PML_SPEC_RTR_CROWD,
    MCA_PML_SPEC_RTR_NO_MEMORY,
    MCA_PML_SPEC_RTR_BEHIND,
    MCA_PML_SPEC_RTR_STOPPED,
    MCA_PML_SPEC_RTR_WAITS,
} mca_pml_spec_no_rtr_t;

/* Called with a send that is about to begin; rtr: one is used for it, fate: of the RTR that named it
 * (SPEC_RTR_KEPT: there was none). */
void mca_pml_spec_why_send(const mca_pml_spec_send_request_t *sendreq, bool rtr,
                           spec_rtr_fate_t fate);

/* Called with a receive from an exact source that found no message; why: it sends no RTR, or MCA_PML_SPEC_RTR_GOES. */
void mca_pml_spec_why_recv(const mca_pml_spec_recv_request_t *recvreq, mca_pml_spec_no_rtr_t why);

/* What became of an RTR, in words. */
const char *mca_pml_spec_why_fate(spec_rtr_fate_t fate);

/* Called when it is decided where eager ends for a peer; costs: what that was decided from, or NULL. */
void mca_pml_spec_why_ends(const mca_pml_spec_peer_t *peer, const spec_costs_t *costs);

/* Called if a progress agent was asked for; found: what was found of the host's processors. */
void mca_pml_spec_why_agent(const char *found);

#endif
