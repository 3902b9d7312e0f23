/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The list of the protocols, in the order in which they are asked for a send.
 *
 * To add one: a header that ends in a descriptor mca_pml_spec_proto_NAME (pml_spec_rts.h is the shortest), included
 * here, and its NAME in the list. What it does not inline goes into a .c file, a line in Makefile.am; a packet of its own is a
 * number in objects/pml_spec_wire.h. test/lint/patches/protocol.patch is an example. */
#ifndef PML_SPEC_PROTOCOLS_H
#define PML_SPEC_PROTOCOLS_H

#include "pml_spec_eager.h"
#include "pml_spec_parts.h"
#include "pml_spec_rtr.h"
#include "pml_spec_rts.h"

#define MCA_PML_SPEC_PROTOCOLS(X) X(rtr) X(eager) X(parts) X(rts)

#endif
