/*
 * `svc-signer --doctor`: is this PKCS#11 module fit for the signer, and with which settings? One run goes step by step
 * from loading the module to threads that sign at once, with throw-away keys that are destroyed again, and prints a
 * table or JSON. The PIN is shown once. Keys have fixed ids, so what an interrupted run left is found and removed by
 * the next one. `--explain` prints what a CKR code means.
 */
#ifndef SIGNER_DOCTOR_DOCTOR_H
#define SIGNER_DOCTOR_DOCTOR_H

/* Exit codes. */
enum doctor_verdict { DOCTOR_FINE = 0, DOCTOR_FAILED = 1, DOCTOR_USAGE = 2 };

/* The words behind --doctor. May end the process by itself, when the module hangs. */
enum doctor_verdict doctor_main(int count, char *const *words);

#endif
