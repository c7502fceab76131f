#include "unit/release/release_testlib.h"

static EVP_PKEY *key;
static struct op *op;
static struct release_keys *keys;
static struct buf good = BUF_INIT((size_t)1 << 20);

static int begin(void **state)
{
    if (made_begin(state) != 0) {
        return -1;
    }
    op = made_op();
    key = made_key("P-256");
    keys = made_keys(op, key);
    made_file(op, &(struct made_release){ 0 }, key, made_path("good"));
    assert_fault(file_read(made_path("good"), &good), NONE);
    return 0;
}

static int end(void **state)
{
    (void)state;
    release_keys_free(keys);
    EVP_PKEY_free(key);
    op_free(op);
    buf_free(&good);
    return 0;
}

static struct fault nothing(void *arg, struct op *of, struct span bytes)
{
    (void)of;
    *(uint64_t *)arg += bytes.len;
    return OK;
}

/* Header and all parts. */
static struct fault judge(const char *path)
{
    CLEANUP(release_closep) struct release_file *file = NULL;
    uint64_t bytes = 0;
    op->note = (struct fault_note){ 0 };
    TRY(release_open(op, path, keys, &file));
    for (size_t i = 0; i < release_manifest(file)->part_count; i++) {
        TRY(release_read_part(op, file, i, nothing, &bytes));
    }
    return OK;
}

static struct fault judge_bytes(struct span bytes)
{
    made_write(made_path("tried"), bytes);
    return judge(made_path("tried"));
}

static void a_file_that_is_cut_or_longer_is_refused(void **state)
{
    (void)state;
    static const size_t lengths[] = { 0, 1, 7, 8, 11, 12, 13, 200, 4095, 4096, 4097 };
    CLEANUP(buf_free) struct buf longer = BUF_INIT((size_t)1 << 20);
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        assert_fault(judge_bytes(span_of(good.at, lengths[i])), RELEASE_FILE);
    }
    assert_fault(judge_bytes(span_of(good.at, good.len - 1)), RELEASE_FILE);
    assert_fault(buf_put(&longer, buf_span(&good)), NONE);
    assert_fault(buf_u8(&longer, 0), NONE);
    assert_fault(judge_bytes(buf_span(&longer)), RELEASE_FILE);
    assert_fault(judge(made_path("missing")), NOT_FOUND);
    assert_fault(judge(made_folder), RELEASE_FILE);
    assert_int_equal(mkfifo(made_path("pipe"), 0600), 0);
    assert_fault(judge(made_path("pipe")), RELEASE_FILE);
    assert_fault(judge("/dev/zero"), RELEASE_FILE);
}

static void every_byte_of_the_file_counts(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf changed = BUF_INIT((size_t)1 << 20);
    assert_fault(buf_put(&changed, buf_span(&good)), NONE);
    for (size_t i = 0; i < good.len; i += i < 1200 ? 1 : 509) {
        changed.at[i] ^= 1;
        struct fault fault = judge_bytes(buf_span(&changed));
        if (fault.code != FAULT_RELEASE_FILE && fault.code != FAULT_RELEASE_SIGNATURE) {
            fail_msg("byte %zu: %s", i, fault_row(fault.code)->text);
        }
        changed.at[i] ^= 1;
    }
    assert_fault(judge_bytes(buf_span(&changed)), NONE);
}

static void lengths_in_the_header_are_bounded(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf changed = BUF_INIT((size_t)1 << 20);
    assert_fault(buf_put(&changed, buf_span(&good)), NONE);
    memset(changed.at + 8, 0xff, 4); /* the manifest's */
    assert_fault(judge_bytes(buf_span(&changed)), RELEASE_FILE);
    memset(changed.at + 8, 0, 4);
    assert_fault(judge_bytes(buf_span(&changed)), RELEASE_FILE);
    memcpy(changed.at + 8, good.at + 8, 4);
    size_t manifest = (size_t)(good.at[10] << 8 | good.at[11]);
    memset(changed.at + 12 + manifest, 0xff, 2); /* the signature's */
    assert_fault(judge_bytes(buf_span(&changed)), RELEASE_FILE);
    memset(changed.at + 12 + manifest, 0, 2);
    assert_fault(judge_bytes(buf_span(&changed)), RELEASE_FILE);
}

static void only_a_trusted_key_signs(void **state)
{
    (void)state;
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *other = made_key("P-256");
    CLEANUP(release_keys_freep) struct release_keys *none = NULL;
    struct release_file *file = NULL;
    made_file(op, &(struct made_release){ 0 }, other, made_path("foreign"));
    assert_fault(judge(made_path("foreign")), RELEASE_SIGNATURE);
    assert_null(strstr(op->note.detail, "test.pem"));
    assert_fault(release_keys_new(&none), NONE);
    assert_fault(release_open(op, made_path("good"), none, &file), RELEASE_SIGNATURE);
    /* To look at it, without believing it. */
    assert_fault(release_open(op, made_path("foreign"), NULL, &file), NONE);
    assert_null(release_signer(file));
    release_close(file);
    assert_fault(release_open(op, made_path("good"), keys, &file), NONE);
    assert_string_equal(release_signer(file), "test.pem");
    release_close(file);
}

static void the_hash_goes_with_the_curve(void **state)
{
    (void)state;
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *larger = made_key("P-384");
    CLEANUP(release_keys_freep) struct release_keys *trusted = made_keys(op, larger);
    CLEANUP(buf_free) struct buf of256 = BUF_INIT(512), of384 = BUF_INIT(512);
    const char *signer = NULL;
    struct span message = span_text("manifest");
    made_sign(larger, "SHA256", message, &of256);
    made_sign(larger, "SHA384", message, &of384);
    assert_fault(release_keys_verify(op, trusted, message, buf_span(&of256), &signer), RELEASE_SIGNATURE);
    assert_fault(release_keys_verify(op, trusted, span_text("manifesT"), buf_span(&of384), &signer), RELEASE_SIGNATURE);
    assert_fault(release_keys_verify(op, trusted, message, (struct span){ 0 }, &signer), RELEASE_SIGNATURE);
    assert_fault(release_keys_verify(op, trusted, message, buf_span(&of384), &signer), NONE);
    assert_fault(buf_u8(&of384, 0), NONE); /* something behind the signature */
    assert_fault(release_keys_verify(op, trusted, message, buf_span(&of384), &signer), RELEASE_SIGNATURE);
}

static void a_folder_of_keys_is_taken_whole_or_not_at_all(void **state)
{
    (void)state;
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *rsa = EVP_RSA_gen(2048), *weak = made_key("P-224"), *second = made_key("P-384");
    CLEANUP(buf_free) struct buf one = BUF_INIT(8192), two = BUF_INIT(8192), bad = BUF_INIT(8192);
    CLEANUP(release_keys_freep) struct release_keys *loaded = NULL;
    EVP_PKEY *const refused[] = { rsa, weak };
    assert_fault(release_keys_new(&loaded), NONE);
    assert_int_equal(mkdir(made_path("keys"), 0700), 0);
    assert_fault(release_keys_load(op, loaded, made_path("keys")), CONFIG); /* none */
    assert_fault(release_keys_load(op, loaded, made_path("nowhere")), CONFIG);
    made_pem(key, &one);
    made_pem(second, &two);
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        buf_clear(&bad);
        made_pem(refused[i], &bad);
        assert_fault(release_keys_add(op, loaded, "bad", buf_span(&bad)), CONFIG);
    }
    assert_fault(release_keys_add(op, loaded, "text", span_text("-----BEGIN PUBLIC KEY-----\n")), CONFIG);
    made_write(made_path("keys/1.pem"), buf_span(&one));
    made_write(made_path("keys/2.pem"), buf_span(&two));
    made_write(made_path("keys/note.txt"), span_text("no key"));
    assert_fault(release_keys_load(op, loaded, made_path("keys")), NONE);
    const char *signer = NULL;
    CLEANUP(buf_free) struct buf signature = BUF_INIT(512);
    made_sign(second, "SHA384", span_text("x"), &signature);
    assert_fault(release_keys_verify(op, loaded, span_text("x"), buf_span(&signature), &signer), NONE);
    assert_string_equal(signer, "2.pem");
    assert_fault(buf_put(&two, buf_span(&one)), NONE); /* two in one file: one of them would be lost */
    made_write(made_path("keys/2.pem"), buf_span(&two));
    assert_fault(release_keys_load(op, loaded, made_path("keys")), CONFIG);
}

/* Changes the file while it is read. */
struct meddler {
    char path[160];
    uint64_t seen;
};
static struct fault meddle(void *arg, struct op *of, struct span bytes)
{
    struct meddler *meddler = arg;
    (void)of;
    if (meddler->seen == 0) {
        int fd = open(meddler->path, O_RDWR | O_CLOEXEC);
        off_t end = lseek(fd, 0, SEEK_END);
        assert_int_equal(pwrite(fd, "meddled", 7, end - MADE_UKI_SIZE - 2 * RELEASE_BLOCK), 7);
        (void)close(fd);
    }
    meddler->seen += bytes.len;
    return OK;
}

static void a_file_that_changes_while_it_is_read_does_not_pass(void **state)
{
    (void)state;
    CLEANUP(release_closep) struct release_file *file = NULL;
    struct meddler meddler = { 0 };
    (void)snprintf(meddler.path, sizeof(meddler.path), "%s", made_path("large"));
    made_file(op, &(struct made_release){ .blocks = 600 }, key, made_path("large")); /* more than one chunk */
    assert_fault(judge(made_path("large")), NONE);
    assert_fault(release_open(op, made_path("large"), keys, &file), NONE);
    assert_fault(release_read_part(op, file, 0, meddle, &meddler), RELEASE_FILE);
    assert_true(meddler.seen > RELEASE_CHUNK);
}

static void packing_refuses_what_is_not_as_the_manifest_says(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf json = BUF_INIT(RELEASE_MANIFEST_MAX), signature = BUF_INIT(512);
    struct release_manifest manifest;
    const char *parts[] = { made_path("part0"), made_path("part1") };
    const char *swapped[] = { parts[1], parts[0] }, *absent[] = { parts[0], "/nowhere" };
    made_manifest(op, &(struct made_release){ 0 }, &manifest);
    assert_fault(release_manifest_print(op, &manifest, &json), NONE);
    made_sign(key, "SHA256", buf_span(&json), &signature);
    struct span text = buf_span(&json), sealed = buf_span(&signature);
    const char *path = made_path("packed");
    assert_fault(release_pack(op, text, sealed, keys, swapped, path), RELEASE_FILE);
    assert_fault(release_pack(op, text, sealed, keys, absent, path), NOT_FOUND);
    assert_fault(release_pack(op, text, span_text("not a signature"), keys, parts, path), RELEASE_SIGNATURE);
    assert_fault(release_pack(op, span_text("{}"), sealed, NULL, parts, path), RELEASE_FILE);
    made_write(parts[1], span_of(good.at, MADE_UKI_SIZE));
    assert_fault(release_pack(op, text, sealed, keys, parts, path), RELEASE_FILE);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_not_equal(access(made_path("packed.new"), F_OK), 0);
}

static void a_copy_is_the_same_file(void **state)
{
    (void)state;
    CLEANUP(release_closep) struct release_file *file = NULL;
    CLEANUP(buf_free) struct buf copy = BUF_INIT((size_t)1 << 20);
    int fd = open(made_path("copy"), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_fault(release_open(op, made_path("good"), keys, &file), NONE);
    assert_fault(release_copy(op, file, fd), NONE);
    (void)close(fd);
    assert_fault(file_read(made_path("copy"), &copy), NONE);
    assert_true(span_equal(buf_span(&copy), buf_span(&good)));
    assert_int_equal(release_part_offset(file, RELEASE_PART_UKI) % RELEASE_BLOCK, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_is_cut_or_longer_is_refused),
        cmocka_unit_test(every_byte_of_the_file_counts),
        cmocka_unit_test(lengths_in_the_header_are_bounded),
        cmocka_unit_test(only_a_trusted_key_signs),
        cmocka_unit_test(the_hash_goes_with_the_curve),
        cmocka_unit_test(a_folder_of_keys_is_taken_whole_or_not_at_all),
        cmocka_unit_test(a_file_that_changes_while_it_is_read_does_not_pass),
        cmocka_unit_test(packing_refuses_what_is_not_as_the_manifest_says),
        cmocka_unit_test(a_copy_is_the_same_file),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
