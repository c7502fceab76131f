/*
 * The state of the module in this process: whether it is initialized, its settings, its objects. Thread-safe, by one
 * lock that is never held over the network. What a call uses is counted: C_Finalize in another thread takes nothing
 * away from under it.
 *
 * In the child of a fork the module is as if it had never been initialized; what the parent had open is left alone.
 */
#ifndef API_PKCS11_MODULE_H
#define API_PKCS11_MODULE_H

#include "api/pkcs11/keyring.h"
#include "api/pkcs11/remote.h"

#define MODULE_SLOT 0

CK_RV module_start(const CK_C_INITIALIZE_ARGS *args);
CK_RV module_stop(void);
/* CKR_OK, or CKR_CRYPTOKI_NOT_INITIALIZED. */
CK_RV module_check(void);
/* References; CKR_CRYPTOKI_NOT_INITIALIZED. */
CK_RV module_settings(struct settings **ret_settings);
/* The objects as last fetched, possibly none yet. */
CK_RV module_keyring(struct keyring **ret_keyring);
/* The objects as the appliance has them now, or had them a few seconds ago. */
CK_RV module_keyring_fresh(struct keyring **ret_keyring);
/* The appliance said something that the objects do not: the next look asks it again. */
void module_keyring_doubt(void);

/* fetch.c: all pages of the list into an empty keyring; what does not work is told. */
CK_RV keyring_fetch(struct settings *settings, struct keyring *keyring);

#endif
