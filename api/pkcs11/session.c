#include "api/pkcs11/session.h"

#include "appliance/base/alloc.h"

#define INDEX_BITS 10
_Static_assert(SESSIONS_MAX == 1 << INDEX_BITS, "a handle is a number and an index");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    struct session *at[SESSIONS_MAX];
    size_t count;
    CK_ULONG turns; /* handles are never used twice */
    bool logged_in;
} sessions;

static void enter(void)
{
    (void)pthread_mutex_lock(&lock); /* a plain mutex that is never destroyed cannot fail */
}

static void leave(void)
{
    (void)pthread_mutex_unlock(&lock);
}

void sessions_forked(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    memset(&sessions, 0, sizeof(sessions));
}

static void session_free(struct session *session)
{
    mem_free(session->found);
    operation_end(&session->digest);
    operation_end(&session->sign);
    operation_end(&session->verify);
    (void)pthread_mutex_destroy(&session->lock);
    mem_free(session);
}

/* Out of the table; freed by whoever uses it last. */
static void close_locked(size_t index)
{
    struct session *session = TAKE(sessions.at[index]);
    sessions.count--;
    session->closed = true;
    if (session->refs == 0) {
        session_free(session);
    }
    sessions.logged_in = sessions.logged_in && sessions.count > 0;
}

static void close_all_locked(void)
{
    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        if (sessions.at[i] != NULL) {
            close_locked(i);
        }
    }
}

void sessions_close_all(void)
{
    enter();
    close_all_locked();
    leave();
}

static CK_RV make_session(CK_FLAGS flags, struct session **ret_session)
{
    struct session *made = NULL;
    if (FAULTED(mem_new(1, sizeof(*made), &made))) {
        return CKR_HOST_MEMORY;
    }
    if (pthread_mutex_init(&made->lock, NULL) != 0) {
        mem_free(made);
        return CKR_HOST_MEMORY;
    }
    made->flags = flags;
    *ret_session = made;
    return CKR_OK;
}

static CK_RV open_locked(struct session *made)
{
    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        if (sessions.at[i] == NULL) {
            made->handle = ++sessions.turns << INDEX_BITS | i;
            sessions.at[i] = made;
            sessions.count++;
            return CKR_OK;
        }
    }
    return CKR_SESSION_COUNT;
}

CK_RV session_open(CK_FLAGS flags, CK_SESSION_HANDLE *ret_handle)
{
    struct session *made = NULL;
    CK_RV rv = make_session(flags, &made);
    if (rv != CKR_OK) {
        return rv;
    }
    enter();
    rv = open_locked(made);
    CK_SESSION_HANDLE handle = made->handle;
    leave();
    if (rv != CKR_OK) {
        session_free(made);
        return rv;
    }
    *ret_handle = handle;
    return CKR_OK;
}

static bool find_locked(CK_SESSION_HANDLE handle, size_t *ret_index)
{
    *ret_index = handle & (SESSIONS_MAX - 1);
    const struct session *session = sessions.at[*ret_index];
    return session != NULL && session->handle == handle;
}

CK_RV session_close(CK_SESSION_HANDLE handle)
{
    size_t index = 0;
    enter();
    bool found = find_locked(handle, &index);
    if (found) {
        close_locked(index);
    }
    leave();
    return found ? CKR_OK : CKR_SESSION_HANDLE_INVALID;
}

CK_RV session_enter(CK_SESSION_HANDLE handle, struct session **ret_session)
{
    struct session *session = NULL;
    size_t index = 0;
    enter();
    if (find_locked(handle, &index)) {
        session = sessions.at[index];
        session->refs++;
    }
    leave();
    if (session == NULL) {
        return CKR_SESSION_HANDLE_INVALID;
    }
    (void)pthread_mutex_lock(&session->lock);
    *ret_session = session;
    return CKR_OK;
}

void session_leave(struct session *session)
{
    if (session == NULL) {
        return;
    }
    (void)pthread_mutex_unlock(&session->lock);
    enter();
    bool last = --session->refs == 0 && session->closed;
    leave();
    if (last) {
        session_free(session);
    }
}

size_t session_count(void)
{
    enter();
    size_t count = sessions.count;
    leave();
    return count;
}

/* ---- login ---- */

CK_RV login_set(void)
{
    enter();
    CK_RV rv = sessions.logged_in ? CKR_USER_ALREADY_LOGGED_IN : CKR_OK;
    sessions.logged_in = true;
    leave();
    return rv;
}

CK_RV login_clear(void)
{
    enter();
    CK_RV rv = sessions.logged_in ? CKR_OK : CKR_USER_NOT_LOGGED_IN;
    sessions.logged_in = false;
    leave();
    return rv;
}

bool login_is(void)
{
    enter();
    bool is = sessions.logged_in;
    leave();
    return is;
}
