/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A range of a staged message, whose buffer is on an accelerator or has gaps, is moved in pieces: core/spec_pipe.h bound to transfers. The
 * sender has a piece copied from there while the transport has those before it; the receiver has each piece copied to its
 * buffer when it is told of it, while those behind it are on their way. A device copies beside the processor (pml_spec_device.h).
 *
 * Each piece is a transfer of its own: told by its own FIN, accounted for by itself, moved by copy if it fails. A send's pieces go
 * through a few slots of host memory, which are used again and stay in a processor's caches.
 *
 * Threads: any; the request is kept until the pipeline and its registration are gone. */
#ifndef PML_SPEC_PIPE_H
#define PML_SPEC_PIPE_H

#include "../core/spec_pipe.h"
#include "pml_spec_transfer.h"

typedef struct mca_pml_spec_pipe {
    opal_free_list_item_t super;
    spec_pipe_t pipe;
    mca_pml_spec_transfer_args_t args;       /* of the whole range */
    char *memory;                            /* of the slots of a send, else NULL */
    size_t size;                             /* of that, bytes */
    bool pins;                               /* the request, as if a byte more were to come */
    mca_btl_base_registration_handle_t *key; /* the local side's */
    union {
        char bytes[MCA_PML_SPEC_KEY_MAX];
        uint64_t align;
    } remote_key;
} mca_pml_spec_pipe_t;
OBJ_CLASS_DECLARATION(mca_pml_spec_pipe_t);

/* Slow path of the next. */
void mca_pml_spec_pipe_begin(const mca_pml_spec_transfer_args_t *args);

/* As mca_pml_spec_transfer_start, or, where args->in_pieces, in pieces, for each of which args->tell is called. */
static inline void mca_pml_spec_pipe_start(const mca_pml_spec_transfer_args_t *args)
{
    if (OPAL_LIKELY(!args->in_pieces)) {
        mca_pml_spec_transfer_start(args);
    } else {
        mca_pml_spec_pipe_begin(args);
    }
}

#endif
