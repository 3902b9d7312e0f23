/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Messages: fragments that go out, bays that messages come into. */
#ifndef BTL_IBX_MESSAGE_H
#define BTL_IBX_MESSAGE_H

#include "btl_ibx.h"

typedef struct mca_btl_ibx_message {
    mca_btl_ibx_hdr_t hdr;
    char data[];
} mca_btl_ibx_message_t;

/* A receive buffer. Its message is mapped memory of its own, so that one that is never used costs nothing,
 * and one that has been used nothing any more when it has not been for a while. */
typedef struct mca_btl_ibx_bay {
    struct mca_btl_ibx_bay *next, *previous; /* of all */
    mca_btl_ibx_message_t *message;
    bool is_touched;
} mca_btl_ibx_bay_t;

mca_btl_base_descriptor_t *mca_btl_ibx_alloc(mca_btl_base_module_t *btl,
                                             mca_btl_base_endpoint_t *endpoint, uint8_t order,
                                             size_t size, uint32_t flags);
int mca_btl_ibx_free(mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *des);
mca_btl_base_descriptor_t *mca_btl_ibx_prepare_src(mca_btl_base_module_t *btl,
                                                   mca_btl_base_endpoint_t *endpoint,
                                                   opal_convertor_t *convertor, uint8_t order,
                                                   size_t reserve, size_t *size, uint32_t flags);
int mca_btl_ibx_send(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                     mca_btl_base_descriptor_t *des, mca_btl_base_tag_t tag);
int mca_btl_ibx_sendi(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                      opal_convertor_t *convertor, void *header, size_t header_size,
                      size_t payload_size, uint8_t order, uint32_t flags, mca_btl_base_tag_t tag,
                      mca_btl_base_descriptor_t **descriptor);

/* A message of our own that fits IW_INLINE_MAX. IW_AGAIN: no room now. lock is held. */
iw_status_t mca_btl_ibx_say(mca_btl_ibx_endpoint_t *endpoint, uint8_t tag, const void *data, size_t size);

/* Tell who sent the fragments that waited for others that they have left. lock is held, but not while one is told. */
void mca_btl_ibx_tell_gathered(mca_btl_ibx_module_t *module);

/* The engine is done with a fragment. lock is not held. */
void mca_btl_ibx_frag_done(mca_btl_ibx_module_t *module, mca_btl_ibx_frag_t *frag, int status);

/* These put fragments that cannot go any more into the module's list. lock is held. */

/* Post those that found no room before, unless jobs still wait. */
void mca_btl_ibx_retry_frags(mca_btl_ibx_module_t *module);
/* An endpoint goes away, for which they wait. */
void mca_btl_ibx_drop_frags(mca_btl_ibx_module_t *module, mca_btl_ibx_endpoint_t *endpoint);

/* Tell whose fragments and jobs are in that list. lock is held, but not while one is told. */
void mca_btl_ibx_tell_ended(mca_btl_ibx_module_t *module);

/* The engine's alarm: gives back receive buffers of a window that was not needed for a while, whether
 * messages come or not. By whoever runs the engine's timers; lock is held. */
void mca_btl_ibx_look_at_window(void *context, iw_engine_t *engine, uint64_t now);

/* Post receive buffers up to the window. lock is held. */
int mca_btl_ibx_fill_window(mca_btl_ibx_module_t *module);

/* A buffer is free again; was_used: a message was in it. lock is held. */
void mca_btl_ibx_bay_return(mca_btl_ibx_module_t *module, mca_btl_ibx_bay_t *bay, bool was_used);

/* No message came for a while: the memory of free buffers, but of those used first, goes back to the
 * system. lock is held. */
void mca_btl_ibx_bays_rest(mca_btl_ibx_module_t *module);

/* All buffers, when there is no engine any more that knows them. */
void mca_btl_ibx_bays_free(mca_btl_ibx_module_t *module);

#endif
