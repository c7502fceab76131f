/*
 * What a run found. A step is one line of the table; the text form prints each as it ends, the JSON form all at the
 * end. Thread-safe, because a watcher ends the report of a module that hangs.
 */
#ifndef SIGNER_DOCTOR_REPORT_H
#define SIGNER_DOCTOR_REPORT_H

#include "signer-pkcs11/doctor/doctor.h"
#include "signer-pkcs11/token/internal.h"

enum step_result { STEP_OK, STEP_NOTE, STEP_FAILED, STEP_SKIPPED };

struct report;

struct fault report_new(bool json, struct report **ret_report);
void report_free(struct report *report);
DEFINE_FREEP(struct report, report_free)

/* A step has ended. `advice`: what to do; "" = nothing. */
void report_step(struct report *report, const char *step, enum step_result result, const char *advice,
                 const char *format, ...) PRINTF(5, 6);
/* A step was refused: what the module answered, its likely cause, what to do. */
void report_call(struct report *report, const char *step, const struct call *call);
/* The same from an operation of the token; its note is emptied. */
void report_op(struct report *report, const char *step, struct op *op, struct fault fault);
/* How long `count` operations took, each; sorts `ns`. */
void report_times(struct report *report, const char *operation, int64_t *ns, size_t count);
/* The settings that the run ended with, beside those it was given. */
void report_quirks(struct report *report, const struct token_quirks *given, const struct token_quirks *needed);
/* "module", "model" ... for the head of the table. */
void report_fact(struct report *report, const char *name, const char *format, ...) PRINTF(3, 4);
/* Did every step do? */
bool report_good(struct report *report);
/* Prints what is left to print. */
enum doctor_verdict report_end(struct report *report);

#endif
