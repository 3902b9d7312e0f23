/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Pages of words that processes of one host share, so that an offered buffer can be withdrawn without its sender. */
#include "../objects/pml_spec_compat.h" /* first: it asks for GNU's functions */

#include "pml_spec_claims.h"

#include "../objects/pml_spec_share.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Words of receives that are pending together lie in lines of the cache of their own, as long as there are enough. */
#define LINES 511u
#define WORDS (8u * LINES)
#define MAGIC UINT64_C(0x706d6c2f73706563)

/* What a peer may have changed is never relied on: see core/spec_claim.h. */
typedef struct mca_pml_spec_page {
    uint64_t magic;
    uint64_t name; /* of the receiver */
    uint64_t words;
    uint64_t reserved[5];
    uint64_t word[WORDS];
} page_t;
_Static_assert(sizeof(page_t) == 32768, "whole pages of the system");

static uint64_t *word_of(page_t *page, uint32_t index)
{
    return &page->word[index % LINES * 8 + index / LINES];
}

/* Of another process; page NULL: it cannot be reached. */
typedef struct theirs {
    struct theirs *next;
    uint64_t name;
    page_t *page;
} theirs_t;

/* Under the lock; `mine` is read without. Nothing of MPI is called under it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static page_t *mine;
static int my_fd = -1;
static uint32_t my_pid;
static bool has_tried;
static theirs_t *others;

static page_t *make(void)
{
    page_t *page = mca_pml_spec_share_make("pml_spec_claims", sizeof(*page), &my_fd);
    if (NULL != page) {
        page->magic = MAGIC;
        page->name = mca_pml_spec.my_name;
        page->words = WORDS;
        my_pid = (uint32_t) getpid();
    }
    return page;
}

static page_t *my_page(void)
{
    page_t *page = MCA_PML_SPEC_SEEN(mine);
    if (OPAL_LIKELY(NULL != page)) {
        return page;
    }
    (void) pthread_mutex_lock(&lock);
    if (!has_tried) {
        has_tried = true;
        page = make();
        __atomic_store_n(&mine, page, __ATOMIC_RELEASE);
    }
    page = mine;
    (void) pthread_mutex_unlock(&lock);
    return page;
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
    *pid = has_word ? my_pid : 0;
    *fd = has_word ? (uint16_t) my_fd : 0;
}

/* ---- the sender ---- */

static page_t *reach(uint64_t name, uint32_t pid, uint16_t fd)
{
    page_t *page = mca_pml_spec_share_reach(pid, fd, sizeof(*page));
    if (NULL != page && (MAGIC != page->magic || name != page->name || WORDS != page->words)) {
        (void) munmap(page, sizeof(*page));
        page = NULL;
    }
    return page;
}

/* The page of another process, found once; the lock is held. NULL: memory is out. */
static theirs_t *theirs_of(uint64_t name, uint32_t pid, uint16_t fd)
{
    theirs_t *theirs = others;
    while (NULL != theirs && theirs->name != name) {
        theirs = theirs->next;
    }
    if (NULL == theirs && NULL != (theirs = malloc(sizeof(*theirs)))) {
        *theirs = (theirs_t){.next = others, .name = name, .page = reach(name, pid, fd)};
        others = theirs;
        MCA_PML_SPEC_VERBOSE(10, "words of process %llx: %s", (unsigned long long) name,
                             NULL == theirs->page ? "not reached, so its RTRs are not used"
                                                  : "found");
    }
    return theirs;
}

static page_t *page_of(mca_pml_spec_peer_t *peer, uint32_t pid, uint16_t fd)
{
    page_t *page = MCA_PML_SPEC_SEEN(peer->page);
    if (OPAL_LIKELY(NULL != page)) {
        return page;
    }
    if (peer->is_self) {
        page = my_page();
    } else {
        (void) pthread_mutex_lock(&lock);
        const theirs_t *theirs = theirs_of(spec_name_of(&peer->proc->super), pid, fd);
        page = NULL == theirs ? NULL : theirs->page;
        (void) pthread_mutex_unlock(&lock);
    }
    __atomic_store_n(&peer->page, page, __ATOMIC_RELEASE);
    return page;
}

bool mca_pml_spec_claims_find(mca_pml_spec_peer_t *peer, uint64_t r, uint32_t pid, uint16_t fd,
                              spec_claim_t *claim)
{
    claim->at = NULL;
    return 0 == pid || find_word(page_of(peer, pid, fd), r, claim);
}

void mca_pml_spec_claims_fini(void)
{
    while (NULL != others) {
        theirs_t *theirs = others;
        others = theirs->next;
        if (NULL != theirs->page) {
            (void) munmap(theirs->page, sizeof(*theirs->page));
        }
        free(theirs);
    }
    if (NULL != mine) {
        (void) munmap(mine, sizeof(*mine));
        (void) close(my_fd);
    }
    mine = NULL;
    has_tried = false;
}
