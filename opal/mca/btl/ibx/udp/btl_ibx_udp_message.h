/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Messages over UDP: fragments that go out, receive buffers that messages come into. */
#ifndef BTL_IBX_UDP_MESSAGE_H
#define BTL_IBX_UDP_MESSAGE_H

#include "udp/btl_ibx_udp_module.h"

typedef struct mca_btl_ibx_udp_message {
    mca_btl_ibx_udp_hdr_t hdr;
    char data[];
} mca_btl_ibx_udp_message_t;

/* A receive buffer. Its message is mapped memory of its own, so that one that is never used costs nothing,
 * and one that has been used nothing any more when it has not been for a while. */
typedef struct mca_btl_ibx_udp_receive {
    struct mca_btl_ibx_udp_receive *next, *previous; /* of all */
    mca_btl_ibx_udp_message_t *message;
    bool is_touched;
} mca_btl_ibx_udp_receive_t;

MCA_BTL_IBX_DECLARE(alloc, mca_btl_ibx_udp_alloc);
MCA_BTL_IBX_DECLARE(prepare, mca_btl_ibx_udp_prepare_src);
MCA_BTL_IBX_DECLARE(send, mca_btl_ibx_udp_send);
MCA_BTL_IBX_DECLARE(sendi, mca_btl_ibx_udp_sendi);

/* Tell the senders of the fragments that waited for others that these have left. lock is held, but not while one is told. */
void mca_btl_ibx_udp_tell_gathered(mca_btl_ibx_udp_module_t *module);

/* The engine gives a fragment back. lock is held. */
void mca_btl_ibx_udp_acknowledged(mca_btl_ibx_udp_module_t *module,
                                  const mca_btl_ibx_udp_frag_t *frag);

/* The transport's frag_post and frag_return (btl_ibx_module.h). */
int mca_btl_ibx_udp_frag_post(mca_btl_ibx_frag_t *frag);
void mca_btl_ibx_udp_frag_return(mca_btl_ibx_module_t *module, mca_btl_ibx_frag_t *frag);

/* The engine's alarm: gives back receive buffers of a window that was not needed for a while, whether
 * messages come or not. Called by the thread that runs the engine's timers; lock is held. */
void mca_btl_ibx_udp_check_window(void *context, iw_engine_t *engine, uint64_t now);

/* Post receive buffers up to the window. lock is held. */
int mca_btl_ibx_udp_fill_window(mca_btl_ibx_udp_module_t *module);

/* The buffer of a message is free again. lock is held. */
void mca_btl_ibx_udp_receive_return(mca_btl_ibx_udp_module_t *module, mca_btl_ibx_udp_receive_t *receive);

/* No message came for a while: the memory of free buffers, but of those used first, goes back to the
 * system. lock is held. */
void mca_btl_ibx_udp_receives_give_back(mca_btl_ibx_udp_module_t *module);

/* All buffers, when there is no engine any more that knows them. */
void mca_btl_ibx_udp_receives_free(mca_btl_ibx_udp_module_t *module);

#endif
