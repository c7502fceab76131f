/* Custody facts: closed words, and what is missing of them. */
#include "api/inventory/certificates.h"

#include <stdio.h>

#define STORED_MAX 32768 /* longer than what is taken: an erasure may have put longer words in place of others */

const char *const custody_origins[] = { "managed_key", "own_authority", "private_ca",         "public_ca",
                                        "self_signed", "third_party",   "time_stamping_unit", NULL };
const char *const custody_storage_classes[] = { "destroyed",   "encrypted_file", "hsm",          "kms",
                                                "memory",      "os_keystore",    "pkcs11_token", "plain_file",
                                                "sealed_file", "smartcard",      "tpm",          NULL };
const char *const custody_exportabilities[] = { "exportable", "exportable_wrapped", "non_exportable", NULL };

const struct jin_field custody_fields[] = {
    JIN_TEXT(struct custody, origin, JIN_OPTIONAL, 1, 32),
    JIN_TEXT(struct custody, storage_class, JIN_OPTIONAL, 1, 32),
    JIN_TEXT(struct custody, exportability, JIN_OPTIONAL, 1, 32),
    JIN_TEXT(struct custody, holder, JIN_OPTIONAL, 1, CUSTODY_TEXT_MAX),
    JIN_TEXT(struct custody, locus, JIN_OPTIONAL, 1, CUSTODY_TEXT_MAX),
};
const size_t custody_field_count = COUNT_OF(custody_fields);

const struct jin_field custody_stored_fields[CUSTODY_FACTS] = {
    JIN_TEXT(struct custody, origin, JIN_OPTIONAL, 1, STORED_MAX),
    JIN_TEXT(struct custody, storage_class, JIN_OPTIONAL, 1, STORED_MAX),
    JIN_TEXT(struct custody, exportability, JIN_OPTIONAL, 1, STORED_MAX),
    JIN_TEXT(struct custody, holder, JIN_OPTIONAL, 1, STORED_MAX),
    JIN_TEXT(struct custody, locus, JIN_OPTIONAL, 1, STORED_MAX),
};

bool custody_origin_is_own(const char *origin)
{
    return strcmp(origin, "managed_key") == 0 || strcmp(origin, "own_authority") == 0 ||
           strcmp(origin, "time_stamping_unit") == 0;
}

static bool is_of(const char *word, const char *const *list)
{
    for (; *list != NULL; list++) {
        if (strcmp(*list, word) == 0) {
            return true;
        }
    }
    return false;
}

static struct fault check_word(struct op *op, const char *word, const char *const *list, const char *pointer,
                               const char *name)
{
    char at[64];
    char words[192] = "";
    if (word == NULL || (is_of(word, list) && !custody_origin_is_own(word))) {
        return OK;
    }
    for (size_t i = 0, len = 0; list[i] != NULL; i++) {
        if (!custody_origin_is_own(list[i])) {
            len += (size_t)snprintf(words + len, sizeof(words) - len, "%s%s", len > 0 ? ", " : "", list[i]);
        }
    }
    (void)snprintf(at, sizeof(at), "%s/%s", pointer, name);
    return op_fail_field(op, FAULT(JSON_FIELD), at, "%s: must be one of %s", at, words);
}

struct fault custody_check(struct op *op, const struct custody *custody, const char *pointer)
{
    TRY(check_word(op, custody->origin, custody_origins, pointer, "origin"));
    TRY(check_word(op, custody->storage_class, custody_storage_classes, pointer, "storage_class"));
    return check_word(op, custody->exportability, custody_exportabilities, pointer, "exportability");
}

size_t custody_missing(const struct custody *custody, const char *ret_names[CUSTODY_FACTS])
{
    const struct {
        const char *name, *value;
    } facts[CUSTODY_FACTS] = { { "exportability", custody->exportability },
                               { "holder", custody->holder },
                               { "locus", custody->locus },
                               { "origin", custody->origin },
                               { "storage_class", custody->storage_class } };
    size_t count = 0;
    for (size_t i = 0; i < CUSTODY_FACTS; i++) {
        if (facts[i].value == NULL || facts[i].value[0] == '\0') {
            ret_names[count++] = facts[i].name;
        }
    }
    return count;
}

bool custody_is_empty(const struct custody *custody)
{
    const char *names[CUSTODY_FACTS];
    return custody_missing(custody, names) == CUSTODY_FACTS;
}

static void print(struct jout *jout, const char *name, const char *value)
{
    if (value != NULL && value[0] != '\0') {
        jout_key_text(jout, name, value);
    }
}

void custody_print_facts(struct jout *jout, const struct custody *custody)
{
    print(jout, "exportability", custody->exportability);
    print(jout, "holder", custody->holder);
    print(jout, "locus", custody->locus);
    print(jout, "origin", custody->origin);
    print(jout, "storage_class", custody->storage_class);
}
