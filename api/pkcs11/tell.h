/* The module's voice: one line about each thing that did not work, for a human, in SVC_PKCS11_LOG or else on stderr.
 * Nothing is ever written to stdout, which belongs to the host. */
#ifndef API_PKCS11_TELL_H
#define API_PKCS11_TELL_H

#include "api/pkcs11/settings.h"

/* settings may be NULL: C_Initialize could not read them, or the call came before it. */
void tell(const struct settings *settings, const char *format, ...) PRINTF(2, 3);

#endif
