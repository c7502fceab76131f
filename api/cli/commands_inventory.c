/* Certificates, credentials and access reviews: the table is the command line, its help, and what it asks of the
 * server. */
#include "api/cli/commands.h"

#define CUSTODY_FLAGS                                                                                             \
    { .name = "origin", .value = "WORD", .doc = "public_ca, private_ca, self_signed or third_party" },            \
        { .name = "storage-class",                                                                                \
          .value = "WORD",                                                                                        \
          .doc = "hsm, kms, tpm, smartcard, pkcs11_token, os_keystore, sealed_file, encrypted_file, plain_file, " \
                 "memory or destroyed" },                                                                         \
        { .name = "exportability", .value = "WORD", .doc = "exportable, exportable_wrapped or non_exportable" },  \
        { .name = "holder", .value = "TEXT", .doc = "who keeps the private key" },                                \
        { .name = "locus", .value = "TEXT", .doc = "where it is kept" }

static const struct flag certificate_list_flags[] = {
    { .name = "custody", .value = "WORD", .doc = "recorded or unrecorded" },
    { .name = "origin", .value = "WORD", .doc = "only certificates of this origin" },
    { .name = "expiring-before", .value = "TIME", .doc = "only those that end before, such as 2027-01-31T00:00:00Z" },
    LIMIT_FLAG,
    CURSOR_FLAG,
};
static const struct flag custody_flags[] = { CUSTODY_FLAGS };
static const struct flag credential_list_flags[] = {
    { .name = "kind", .value = "KIND", .doc = "key, token or certificate" },
    { .name = "live", .value = "BOOL", .doc = "true: only those that could still be used; false: only the others" },
    LIMIT_FLAG,
    CURSOR_FLAG,
};
static const struct flag owner_flags[] = {
    { .name = "owner", .value = "ID", .required = true, .doc = "who answers for it" },
    { .name = "contact", .value = "TEXT", .doc = "how they are reached" },
    { .name = "application", .value = "ID", .doc = "the application that uses it" },
    { .name = "environment", .value = "TEXT", .doc = "such as production" },
};
static const struct flag review_open_flags[] = {
    { .name = "title", .value = "TEXT", .required = true, .doc = "what people call it" },
    { .name = "kind", .value = "KIND", .repeats = true, .doc = "key, token or certificate (all of them)" },
    { .name = "owner", .value = "ID", .doc = "only credentials of this owner" },
};
static const struct flag review_decide_flags[] = {
    { .name = "decision", .value = "WORD", .doc = "keep or revoke, for all that are named" },
    { .name = "reason", .value = "TEXT", .doc = "goes into the audit trail" },
    FILE_FLAG("{\"decisions\": [{kind, credential_id, decision, reason} ...]}; - is stdin"),
};
static const struct flag review_show_flags[] = {
    { .name = "undecided", .doc = "only credentials without a decision" },
    LIMIT_FLAG,
    CURSOR_FLAG,
};

static const struct command rows[] = {
    { .words = "certificates list",
      .routes = { { "GET", "/api/v1/certificates" } },
      FLAGS(certificate_list_flags),
      .run = run_certificates_list,
      .help = "certificates and who keeps their keys, newest first",
      .more = "Those of managed keys and time-stamping units are in it by themselves. Needs certs:read.",
      .example = "certificates list --custody unrecorded" },
    { .words = "certificates show",
      .arguments = "CERTIFICATE_ID",
      .least = 1,
      .most = 1,
      .routes = { { "GET", "/api/v1/certificates/{id}" } },
      .run = run_certificates_show,
      .help = "one certificate",
      .example = "certificates show 5f2c1f0e-93d1-8a44-9c1e-00000000abcd" },
    { .words = "certificates record",
      .arguments = "FILE",
      .least = 1,
      .most = 1,
      .routes = { { "POST", "/api/v1/certificates" } },
      FLAGS(custody_flags),
      .run = run_certificates_record,
      .help = "record a certificate from somewhere else",
      .more = "One certificate, PEM or DER; - is stdin. Custody is recorded when all five facts are given. Needs the\n"
              "permission audit:write.",
      .example = "certificates record web.pem --origin public_ca --storage-class hsm --exportability non_exportable "
                 "--holder 'web team' --locus hsm-1" },
    { .words = "certificates custody",
      .arguments = "CERTIFICATE_ID",
      .least = 1,
      .most = 1,
      .routes = { { "PUT", "/api/v1/certificates/{id}/custody" }, { "GET", "/api/v1/certificates/{id}" } },
      FLAGS(custody_flags),
      .run = run_certificates_custody,
      .help = "state who keeps the key of a recorded certificate",
      .more = "What is left out is not recorded afterwards. Needs audit:write and certs:read.",
      .example = "certificates custody 5f2c1f0e-93d1-8a44-9c1e-00000000abcd --origin private_ca --storage-class kms "
                 "--exportability non_exportable --holder pki --locus kms-eu" },
    { .words = "credentials list",
      .routes = { { "GET", "/api/v1/credentials" } },
      FLAGS(credential_list_flags),
      .run = run_credentials_list,
      .help = "keys, tokens and certificates with owner, age, last use and end",
      .more = "Needs the permission audit:read.",
      .example = "credentials list --live true" },
    { .words = "credentials owner",
      .arguments = "KIND CREDENTIAL_ID",
      .least = 2,
      .most = 2,
      .routes = { { "PUT", "/api/v1/credentials/{kind}/{id}/owner" } },
      FLAGS(owner_flags),
      .run = run_credentials_owner,
      .help = "record who answers for a credential, and attest it",
      .more = "Needs the permission identities:write.",
      .example = "credentials owner key 0190a6b2-0001-7000-8000-00000000abcd --owner release --contact r@example.com "
                 "--application app-1 --environment production" },
    { .words = "access-reviews open",
      .routes = { { "POST", "/api/v1/access-reviews" } },
      FLAGS(review_open_flags),
      .run = run_reviews_open,
      .help = "open a review of the live credentials of users",
      .more = "At most 10000 at once: else one for each kind or owner. Needs the permission audit:write.",
      .example = "access-reviews open --title 'fourth quarter'" },
    { .words = "access-reviews decide",
      .arguments = "REVIEW_ID [KIND:ID ...]",
      .least = 1,
      .most = ARGUMENTS_MAX,
      .routes = { { "POST", "/api/v1/access-reviews/{id}/decisions" } },
      FLAGS(review_decide_flags),
      .run = run_reviews_decide,
      .help = "keep or revoke credentials of a review",
      .more = "A decision revokes nothing itself: tokens revoke, keys destroy do. Needs the permission audit:write.",
      .example =
          "access-reviews decide 0190a6b2-0001-7000-8000-00000000abcd token:0190a6b2-0002-7000-8000-00000000abcd "
          "--decision revoke --reason 'left the team'" },
    { .words = "access-reviews complete",
      .arguments = "REVIEW_ID",
      .least = 1,
      .most = 1,
      .routes = { { "POST", "/api/v1/access-reviews/{id}/completion" } },
      .run = run_reviews_complete,
      .help = "close a review, as somebody else than its opener",
      .more = "Refused while anything is undecided, or was to be revoked and is still live. Needs audit:write.",
      .example = "access-reviews complete 0190a6b2-0001-7000-8000-00000000abcd" },
    { .words = "access-reviews list",
      .routes = { { "GET", "/api/v1/access-reviews" } },
      .flags = review_show_flags + 1,
      .flag_count = COUNT_OF(review_show_flags) - 1,
      .run = run_reviews_list,
      .help = "access reviews, newest first",
      .example = "access-reviews list" },
    { .words = "access-reviews show",
      .arguments = "REVIEW_ID",
      .least = 1,
      .most = 1,
      .routes = { { "GET", "/api/v1/access-reviews/{id}" } },
      FLAGS(review_show_flags),
      .run = run_reviews_show,
      .help = "one review and its credentials",
      .example = "access-reviews show 0190a6b2-0001-7000-8000-00000000abcd --undecided" },
};

const struct command_group commands_of_inventory = { rows, COUNT_OF(rows) };
