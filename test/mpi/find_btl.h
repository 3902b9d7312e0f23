/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The modules of BTLs that Open MPI has opened, for tests that call one themselves. After ompi_config.h. */
#ifndef TEST_FIND_BTL_H
#define TEST_FIND_BTL_H

#include "opal/mca/btl/base/base.h"
#include "opal/mca/btl/btl.h"

#include <string.h>

/* The last module of the component of this name; NULL: there is none. After MPI_Init, until MPI_Finalize. */
static inline mca_btl_base_module_t *find_btl(const char *name)
{
    mca_btl_base_module_t *found = NULL;
    mca_btl_base_selected_module_t *selected;
    OPAL_LIST_FOREACH (selected, &mca_btl_base_modules_initialized,
                       mca_btl_base_selected_module_t) {
        if (0 == strcmp(name, selected->btl_component->btl_version.mca_component_name)) {
            found = selected->btl_module;
        }
    }
    return found;
}

#endif
