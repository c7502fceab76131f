/* What the files of this folder share: one run, its options, and how an operation is tried. */
#ifndef SIGNER_DOCTOR_INTERNAL_H
#define SIGNER_DOCTOR_INTERNAL_H

#include "signer-pkcs11/doctor/report.h"
#include "signer-pkcs11/token/places.h"

#define OPERATION_MS 120000 /* a smart card may take that long to make an RSA key */

struct options {
    const char *config, *token, *module, *label, *serial, *pin_file, *init_args, *public_keys_dir;
    bool explain, json, quick, slot_set, login_set;
    const char *code; /* of --explain */
    uint64_t slot;
    enum token_login login;
    unsigned threads, timeout_s;
    struct token_quirks quirks;
};
/* ---- options.c ---- */
extern const char doctor_usage[];
/* false: it said on stderr what it does not understand. */
bool options_read(int count, char *const *words, struct options *ret_options);

struct doctor {
    const struct options *options;
    struct report *report;
    struct token_settings settings; /* its quirks change while no operation runs */
    struct token_quirks given;
    unsigned sessions;   /* that the signer is configured for; the settings have as many as there will be threads */
    struct token *token; /* NULL = not open */
    struct watch *watch;
};

/* ---- watch.c ---- */
/* Ends the process with the report as it is, when a step takes too long: a call into a module cannot be broken off. */
struct fault watch_new(struct report *report, unsigned step_s, struct watch **ret_watch);
void watch_free(struct watch *watch);
void watch_step(struct watch *watch, const char *step); /* begins the step's time anew */

/* ---- look.c ---- */
/* The module, its slots, the token and its mechanisms, without the PIN. false: there is no point in going on. */
bool look_at_module(struct doctor *doctor);

/* ---- attempt.c ---- */
/* One operation with a session and an op of its own. */
typedef struct fault (*attempt_fn)(struct op *op, struct token_session *session, void *arg);
/* *ret_op (if not NULL) gets the operation, for its note. */
struct fault attempt(struct doctor *doctor, attempt_fn work, void *arg, struct op **ret_op);

/* ---- cure.c ---- */
struct cure {
    const char *word; /* of the quirk language */
    unsigned group;   /* of one group at most one is tried; 0 = no group */
};
#define CURE_ALONE 99 /* this group's are tried alone only */
struct remedy {
    attempt_fn work, undo; /* undo: takes back what a trial of `work` made; NULL = it makes nothing */
    void *arg;
};
/* Tries as it is, then with quirks, until it works; those that helped stay on. Reports the step. */
bool cure_step(struct doctor *doctor, const char *step, const struct cure *cures, size_t count,
               const struct remedy *remedy);

/* ---- trial.c ---- */
struct key_ref trial_key(const char *what); /* the same id in every run */
/* Each algorithm: make, find, show, sign, verify, destroy. false: the token went away, or the run was interrupted. */
bool try_algorithms(struct doctor *doctor);
/* ---- trial_seal.c ---- */
bool try_sealing(struct doctor *doctor);
/* ---- crowd.c ---- */
void try_sessions(struct doctor *doctor);
bool try_threads(struct doctor *doctor);

#endif
