/*
 * The second software token: NSS softokn, a PKCS#11 module of another maker. Its database is made through the module
 * itself: C_InitPIN as security officer, who has no PIN on a new database. What the module wants to know at
 * C_Initialize is a text (setting init_args).
 */
#ifndef TESTS_UNIT_TOKEN_NSS_H
#define TESTS_UNIT_TOKEN_NSS_H

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <p11-kit/pkcs11.h>

#define NSS_MODULE "/usr/lib/x86_64-linux-gnu/libsoftokn3.so"
#define NSS_SLOT   2 /* 1 is for keys that are not kept */

/* "" = SoftHSM. */
static inline bool test_token_is_nss(void)
{
    const char *wanted = getenv("SVC_TEST_TOKEN");
    return wanted != NULL && strcmp(wanted, "nss") == 0;
}

static inline void nss_init_args(const char *folder, const char *label, char *out, size_t size)
{
    (void)snprintf(out, size,
                   "configDir='sql:%s' certPrefix='' keyPrefix='' secmod='secmod.db' flags= dbTokenDescription='%s'",
                   folder, label);
}

static inline void nss_put_pin(CK_FUNCTION_LIST *list, const char *label, const char *pin)
{
    CK_SESSION_HANDLE session = 0;
    CK_TOKEN_INFO info;
    CK_BYTE none = 0;
    assert_int_equal(list->C_GetTokenInfo(NSS_SLOT, &info), CKR_OK);
    assert_memory_equal(info.label, label, strlen(label));
    assert_int_equal(list->C_OpenSession(NSS_SLOT, CKF_SERIAL_SESSION | CKF_RW_SESSION, NULL, NULL, &session), CKR_OK);
    assert_int_equal(list->C_Login(session, CKU_SO, &none, 0), CKR_OK);
    assert_int_equal(list->C_InitPIN(session, (CK_BYTE *)(uintptr_t)pin, strlen(pin)), CKR_OK);
    assert_int_equal(list->C_Logout(session), CKR_OK);
}

/* Makes the database below `folder`, which must exist. */
static inline void nss_init_token(const char *folder, const char *label, const char *pin)
{
    CK_RV (*function_list)(CK_FUNCTION_LIST **) = NULL;
    CK_FUNCTION_LIST *list = NULL;
    char text[512];
    nss_init_args(folder, label, text, sizeof(text));
    CK_C_INITIALIZE_ARGS args = { .flags = CKF_OS_LOCKING_OK, .pReserved = text };
    void *library = dlopen(NSS_MODULE, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fail_msg("%s", dlerror());
    }
    *(void **)&function_list = dlsym(library, "C_GetFunctionList");
    assert_int_equal(function_list(&list), CKR_OK);
    assert_int_equal(list->C_Initialize(&args), CKR_OK);
    nss_put_pin(list, label, pin);
    assert_int_equal(list->C_Finalize(NULL), CKR_OK);
    assert_int_equal(dlclose(library), 0);
}

#endif
