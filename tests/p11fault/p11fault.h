/*
 * p11fault: a PKCS#11 module for tests. It forwards to the module named by P11FAULT_MODULE (SoftHSM when unset) and, by
 * plan, answers chosen calls with chosen values, harms the real module on the way, or holds a call back. A test in the
 * same process finds these functions with dlsym; other processes are told by a control file (P11FAULT_CONTROL), which
 * is read again whenever it changes, one rule a line:
 *
 *     C_Sign rv=0x30 after=10 times=1 effect=close-sessions hold_ms=0
 *
 * The first rule that fits a call and is not used up counts. rv=0 means: do the harm, then really call. So a delay is
 * rv=0 effect=hold hold_ms=50, and a call that hangs and fails in the end has an rv too.
 *
 * A C_Finalize while another call is inside the module ends the process by abort(): PKCS#11 leaves it undefined.
 *
 * What was called can be read from the file P11FAULT_COUNTS, which is kept up to date by every process that maps it:
 * lines of P11FAULT_COUNTS_LINE bytes, the function's name, how often it was called since the module was loaded, and
 * how many threads were inside it at once at most. The file is opened when the module is, before any sandbox of calls.
 */
#ifndef TESTS_P11FAULT_H
#define TESTS_P11FAULT_H

enum p11fault_effect {
    P11FAULT_NONE,
    P11FAULT_DO_IT,          /* "do-it": the real call is made, then rv is answered all the same */
    P11FAULT_CLOSE_SESSIONS, /* "close-sessions" */
    P11FAULT_LOGOUT,         /* "logout" */
    P11FAULT_FINALIZE,       /* "finalize" */
    P11FAULT_DIE,            /* "die": CKR_CRYPTOKI_NOT_INITIALIZED for every call until the next C_Initialize */
    P11FAULT_SICK,           /* "sick": CKR_DEVICE_ERROR for every call until C_Finalize */
    P11FAULT_HOLD,           /* "hold": the call waits until p11fault_clear, or hold_ms */
    P11FAULT_FORGET,         /* "forget": C_FindObjects finds nothing */
    P11FAULT_EXIT,           /* "exit": the process ends with P11FAULT_EXIT_CODE, before the real call */
    P11FAULT_EXIT_LATE,      /* "exit-late": ... after it */
};

struct p11fault_rule {
    char function[40]; /* "C_Sign"; "*" fits every call */
    unsigned long rv;
    unsigned after; /* fitting calls that pass first */
    unsigned times; /* how often; 0 = for ever */
    enum p11fault_effect effect;
    unsigned hold_ms;    /* 0 = until cleared */
    unsigned long flags; /* CKF_... that C_GetTokenInfo then says beside the real ones */
};

/* Adds a rule. */
typedef void p11fault_plan_fn(const struct p11fault_rule *rule);
/* Forgets all rules and lets go of calls that are held. */
typedef void p11fault_clear_fn(void);
/* How often rules have hit since the last clear. */
typedef unsigned p11fault_hits_fn(void);
/* How many calls of a function there have been since the module was loaded. */
typedef unsigned p11fault_calls_fn(const char *function);
/* How many threads at most have been inside a function at once. */
typedef unsigned p11fault_most_fn(const char *function);

#define P11FAULT_EXIT_CODE   86
#define P11FAULT_COUNTS_LINE 64

#endif
