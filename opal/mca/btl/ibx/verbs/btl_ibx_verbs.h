/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The verbs transport of the BTL: what the component needs of it. The transport itself is verbs/vb_* (no
 * Open MPI in it); verbs/btl_ibx_verbs* binds it to Open MPI. */
#ifndef BTL_IBX_VERBS_H
#define BTL_IBX_VERBS_H

#include "btl_ibx.h"

typedef struct mca_btl_ibx_verbs_options {
    const mca_btl_base_module_t *standard; /* as over UDP, with the standard parameters of a BTL */
    uint32_t exclusivity;
    bool is_only; /* no other transport is left: tell why there is none */
} mca_btl_ibx_verbs_options_t;

#if MCA_BTL_IBX_VERBS

void mca_btl_ibx_verbs_register(const mca_base_component_t *version);
/* A parameter of the transport that cannot have its value ends the job. */
void mca_btl_ibx_verbs_check(const mca_base_component_t *version);

/* Modules for all ports that are wanted and usable: at most MCA_BTL_IBX_INTERFACES, into modules. Returns how many. */
int mca_btl_ibx_verbs_open(const mca_btl_ibx_verbs_options_t *options, mca_btl_base_module_t **modules);

/* What is published of them. Returns its size, at most MCA_BTL_IBX_VERBS_OFFER_MAX bytes. */
size_t mca_btl_ibx_verbs_offer(void *to);

int mca_btl_ibx_verbs_progress(void);

/* All ports, and there are some, are of adapters in software. */
bool mca_btl_ibx_verbs_is_software(void);

/* From now on what comes makes one of these descriptors readable; what has come already does not. Fills in one for
 * each module. Returns how many; -1: not possible now. */
struct pollfd;
int mca_btl_ibx_verbs_arm(struct pollfd *fd);

/* The program ends, and nobody has finalized the modules: goodbyes to the peers, and nothing of Open MPI is called. */
void mca_btl_ibx_verbs_leave(void);

#    define MCA_BTL_IBX_VERBS_OFFER_MAX 2048

#else

#    define MCA_BTL_IBX_VERBS_OFFER_MAX 1

#    define mca_btl_ibx_verbs_register(version) ((void) (version))
#    define mca_btl_ibx_verbs_check(version)    ((void) (version))
#    define mca_btl_ibx_verbs_offer(to)         ((void) (to), (size_t) 0)
#    define mca_btl_ibx_verbs_progress()        0
#    define mca_btl_ibx_verbs_is_software()     false
#    define mca_btl_ibx_verbs_arm(fd)           ((void) (fd), 0)
#    define mca_btl_ibx_verbs_leave()           ((void) 0)

static inline int mca_btl_ibx_verbs_open(const mca_btl_ibx_verbs_options_t *options,
                                         mca_btl_base_module_t **modules)
{
    (void) modules;
    SPEC_TELL(1, opal_btl_base_framework.framework_output,
                        "btl/ibx: no RDMA adapter is used: this build has no verbs");
    if (options->is_only) {
        mca_btl_ibx_explain("no device", "", "this build has no verbs, since configure did not find libibverbs and librdmacm",
                            NULL == mca_btl_ibx_component.if_include ? "" : mca_btl_ibx_component.if_include);
    }
    return 0;
}

#endif
#endif
