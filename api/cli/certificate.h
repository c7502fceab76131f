/* Moved by the lead to api/codesign/verify.h (files: api/codesign/verify_*.c), since the server's verifying routes use
 * it too. Include that one; this forwarder goes away. */
#include "api/codesign/verify.h"
