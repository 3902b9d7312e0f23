/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Pages of words that processes of one host share, so that an offered buffer can be withdrawn without its sender. */
#include "../objects/pml_spec_compat.h" /* first: it asks for GNU's functions */

#include "pml_spec_claims.h"

#include "../objects/pml_spec_share.h"

/* Words of receives that are pending together lie in lines of the cache of their own, as long as there are enough. */
#define LINES 511u
#define WORDS (8u * LINES)
#define MAGIC UINT64_C(0x706d6c2f73706563)

/* What a peer may have changed is never relied on: see core/spec_claim.h. */
typedef struct mca_pml_spec_page {
    mca_pml_spec_share_head_t head;
    uint64_t reserved[6];
    uint64_t word[WORDS];
} page_t;
_Static_assert(sizeof(page_t) == 32768, "whole pages of the system");

static uint64_t *word_of(page_t *page, uint32_t index)
{
    return &page->word[index % LINES * 8 + index / LINES];
}

static mca_pml_spec_share_t pages =
    MCA_PML_SPEC_SHARE("pml_spec_claims", MAGIC, sizeof(page_t), false);

static page_t *my_page(void)
{
    return mca_pml_spec_share_mine(&pages);
}

bool mca_pml_spec_claims_serve(const mca_pml_spec_peer_t *peer)
{
    return !peer->is_near || NULL != my_page();
}

/* The word of a receive by its handle. False: there is no page, or no word for so many receives. */
static bool find_word(page_t *page, uint64_t handle, spec_claim_t *claim)
{
    const uint32_t index = (uint32_t) handle;
    claim->at = NULL;
    if (OPAL_UNLIKELY(NULL == page || index >= WORDS)) {
        return false;
    }
    claim->at = word_of(page, index);
    claim->no = (uint32_t) (handle >> 32);
    return true;
}

static bool find_mine(mca_pml_spec_recv_request_t *recvreq)
{
    return find_word(my_page(), mca_pml_spec_recv_handle(recvreq), &recvreq->posted.claim);
}

bool mca_pml_spec_claims_offer(mca_pml_spec_recv_request_t *recvreq)
{
    if (!recvreq->peer->is_near) {
        recvreq->posted.claim.at = NULL;
        return true;
    }
    if (!find_mine(recvreq)) {
        return false;
    }
    spec_claim_offer(&recvreq->posted.claim);
    return true;
}

bool mca_pml_spec_claims_share(mca_pml_spec_recv_request_t *recvreq, bool waits, bool fragments)
{
    if (!find_mine(recvreq)) {
        return false;
    }
    spec_claim_share(&recvreq->posted.claim, waits, fragments);
    return true;
}

void mca_pml_spec_claims_tell(const mca_pml_spec_recv_request_t *recvreq, uint32_t *pid,
                              uint16_t *fd)
{
    const bool has_word = NULL != recvreq->posted.claim.at;
    *pid = has_word ? pages.pid : 0;
    *fd = has_word ? (uint16_t) pages.fd : 0;
}

/* ---- the sender ---- */

static page_t *page_of(mca_pml_spec_peer_t *peer, uint32_t pid, uint16_t fd)
{
    if (peer->is_self) {
        return my_page();
    }
    const mca_pml_spec_share_of_t *of = MCA_PML_SPEC_SEEN(peer->words);
    if (OPAL_UNLIKELY(NULL == of)) {
        of = mca_pml_spec_share_find(&pages, &peer->words, spec_name_of(&peer->proc->super), pid,
                                     fd);
    }
    return NULL == of ? NULL : of->at;
}

bool mca_pml_spec_claims_find(mca_pml_spec_peer_t *peer, uint64_t r, uint32_t pid, uint16_t fd,
                              spec_claim_t *claim)
{
    claim->at = NULL;
    return 0 == pid || find_word(page_of(peer, pid, fd), r, claim);
}

void mca_pml_spec_claims_forget(mca_pml_spec_peer_t *peer)
{
    mca_pml_spec_share_leave(&pages, &peer->words);
}

void mca_pml_spec_claims_fini(void)
{
    mca_pml_spec_share_fini(&pages);
}
