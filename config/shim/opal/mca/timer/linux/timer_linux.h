/* What opal/mca/timer/base/base.h offers when Open MPI was built with the timer component 'linux'.
 *
 * The base header includes the header of the component that configure chose, and that one is not installed. The
 * functions below are exported by libopen-pal; the component sets the pointers when it is opened, so that they read the
 * cycle counter or clock_gettime, whichever is monotonic. */
#ifndef SPEC_SHIM_TIMER_LINUX_H
#define SPEC_SHIM_TIMER_LINUX_H

#include "opal_config.h"
#include "opal/sys/timer.h"

BEGIN_C_DECLS

OPAL_DECLSPEC extern opal_timer_t (*opal_timer_base_get_cycles)(void);
OPAL_DECLSPEC extern opal_timer_t (*opal_timer_base_get_usec)(void);
OPAL_DECLSPEC opal_timer_t opal_timer_base_get_freq(void);

END_C_DECLS

#define OPAL_TIMER_CYCLE_NATIVE    OPAL_HAVE_SYS_TIMER_GET_CYCLES
#define OPAL_TIMER_CYCLE_SUPPORTED OPAL_HAVE_SYS_TIMER_GET_CYCLES
#define OPAL_TIMER_USEC_NATIVE     1
#define OPAL_TIMER_USEC_SUPPORTED  1

#endif
