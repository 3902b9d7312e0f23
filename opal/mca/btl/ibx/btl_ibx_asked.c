/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Reads from the lists of components that the user gave whether this job wants btl/ibx. */
#include "btl_ibx_asked.h"

#include "btl_ibx.h"
#include "btl_ibx_net.h"

#include "opal/mca/base/mca_base_var.h"

/* A list with ^ in front names what is not wanted. */
static bool names(const char *list, const char *name)
{
    return NULL != list && '^' != *list && mca_btl_ibx_names(list, name);
}

/* Whether the parameter that selects among a framework's components names one. Open MPI 4.1 opens BTLs before the PML's
 * framework is there: then the parameter is registered here, as the framework will do again, just to be read. */
static bool selects(const char *project, const char *framework, const char *name)
{
    char *own = NULL, *const *list = NULL;
    int index, mine = -1;
    if (OPAL_SUCCESS != mca_base_var_find_by_name(framework, &index)) {
        index = mine = mca_base_var_register(project, framework, NULL, NULL, NULL, MCA_BASE_VAR_TYPE_STRING, NULL, 0, 0,
                                             OPAL_INFO_LVL_2, MCA_BASE_VAR_SCOPE_ALL_EQ, &own);
    }
    const bool is_named = index >= 0 && OPAL_SUCCESS == mca_base_var_get_value(index, &list, NULL, NULL) && NULL != list
                          && names(*list, name);
    if (mine >= 0) {
        (void) mca_base_var_deregister(mine);
    }
    return is_named;
}

bool mca_btl_ibx_asked(void)
{
    return mca_btl_ibx_component.always || selects("opal", "btl", "ibx") || selects("ompi", "pml", "spec");
}
