/*
 * Sessions. Thread-safe: one lock for their table, and one a session, held while a call works in it, so that a host
 * which shares a session between threads is slow but not broken. A session that is closed meanwhile lives until the
 * call ends.
 */
#ifndef API_PKCS11_SESSION_H
#define API_PKCS11_SESSION_H

#include "api/pkcs11/module.h"
#include "api/pkcs11/operation.h"

#include <pthread.h>

#define SESSIONS_MAX 1024

struct session {
    CK_SESSION_HANDLE handle;
    CK_FLAGS flags;
    unsigned refs; /* under the table's lock, like `closed` */
    bool closed;
    pthread_mutex_t lock; /* guards what follows */
    bool finding;
    CK_OBJECT_HANDLE *found;
    size_t found_count, found_next;
    struct operation digest, sign, verify;
};

CK_RV session_open(CK_FLAGS flags, CK_SESSION_HANDLE *ret_handle); /* CKR_SESSION_COUNT, CKR_HOST_MEMORY */
CK_RV session_close(CK_SESSION_HANDLE handle);
void sessions_close_all(void);
void sessions_forked(void); /* in the child of a fork: there are none */
size_t session_count(void);

/* The session, locked. CKR_SESSION_HANDLE_INVALID. */
CK_RV session_enter(CK_SESSION_HANDLE handle, struct session **ret_session);
void session_leave(struct session *session); /* NULL is fine */
DEFINE_FREEP(struct session, session_leave)

/* The user's login is kept for form's sake: sessions have a state, and a second login is refused. It ends with the last
 * session. */
CK_RV login_set(void);
CK_RV login_clear(void);
bool login_is(void);

/* The module is initialized and the session stands for the rest of the function, or the function returns why not. */
#define MODULE_ENTER()                     \
    do {                                   \
        CK_RV module_rv_ = module_check(); \
        if (module_rv_ != CKR_OK) {        \
            return module_rv_;             \
        }                                  \
    } while (0)
#define SESSION_ENTER(name, handle)                           \
    CLEANUP(session_leavep) struct session *name = NULL;      \
    MODULE_ENTER();                                           \
    do {                                                      \
        CK_RV session_rv_ = session_enter((handle), &(name)); \
        if (session_rv_ != CKR_OK) {                          \
            return session_rv_;                               \
        }                                                     \
    } while (0)

#endif
