/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Registrations of user memory that fail on purpose, for tests, whatever the transport: the parameter
 * btl_ibx_fault_register says how many, btl_ibx_fault_seed which. */
#ifndef BTL_IBX_FAULT_H
#define BTL_IBX_FAULT_H

#include <stdbool.h>

/* What btl_ibx_fault_register can be, if this is not it; else NULL. */
const char *mca_btl_ibx_fault_refuse(const char *text);

/* From the parameters, before the first registration. */
void mca_btl_ibx_fault_open(void);

/* Whether the registration that is about to be made fails, as for lack of resources. */
bool mca_btl_ibx_fault_registration(void);

/* Says how many have failed. */
void mca_btl_ibx_fault_close(void);

#endif
