/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What a transport had no room for is kept in one list, oldest first, and tried again from
 * opal_progress. The callback is registered only while the list is not empty; (un)registering
 * happens under our lock, so that two threads cannot undo each other's (opal_progress takes its
 * own lock inside and calls nothing). */
#include "pml_spec_packet.h"

int mca_pml_spec_progress(void)
{
    int events = 0;
    spec_node_t todo, *n;
    spec_list_init(&todo);

    mca_pml_spec_lock(&mca_pml_spec.lock);
    while (NULL != (n = spec_list_pop(&mca_pml_spec.pending))) {
        spec_list_append(&todo, n);
    }
    mca_pml_spec_unlock(&mca_pml_spec.lock);

    spec_node_t refused;
    spec_list_init(&refused);
    while (NULL != (n = spec_list_pop(&todo))) {
        mca_pml_spec_pending_t *pending = SPEC_ENTRY(n, mca_pml_spec_pending_t, node);
        if (pending->retry(pending)) {
            ++events;
        } else {
            spec_list_append(&refused, n);
        }
    }

    mca_pml_spec_lock(&mca_pml_spec.lock);
    while (!spec_list_is_empty(&refused)) { /* back to the front, in their order */
        n = refused.prev;
        spec_list_remove(n);
        spec_list_insert_after(&mca_pml_spec.pending, n);
    }
    if (mca_pml_spec.progress_registered && spec_list_is_empty(&mca_pml_spec.pending)) {
        mca_pml_spec.progress_registered = false;
        opal_progress_unregister(mca_pml_spec_progress);
    }
    mca_pml_spec_unlock(&mca_pml_spec.lock);
    return events;
}

void mca_pml_spec_pend(mca_pml_spec_pending_t *pending)
{
    MCA_PML_SPEC_COUNT(pending);
    mca_pml_spec_lock(&mca_pml_spec.lock);
    spec_list_append(&mca_pml_spec.pending, &pending->node);
    if (!mca_pml_spec.progress_registered) {
        mca_pml_spec.progress_registered = true;
        opal_progress_register(mca_pml_spec_progress);
    }
    mca_pml_spec_unlock(&mca_pml_spec.lock);
}
