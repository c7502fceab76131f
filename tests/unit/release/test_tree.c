#include "unit/release/release_testlib.h"

/* An image of `len` bytes, byte n being n * 31 + n / 4096; and its tree. */
static void make(struct op *op, size_t len, const char *path, struct release_tree *tree)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT((size_t)2 << 20);
    uint8_t *at = NULL, salt[SHA256_LEN];
    assert_fault(buf_reserve(&bytes, len, &at), NONE);
    for (size_t i = 0; i < len; i++) {
        at[i] = (uint8_t)(i * 31 + i / RELEASE_BLOCK);
    }
    for (size_t i = 0; i < sizeof(salt); i++) {
        salt[i] = (uint8_t)i;
    }
    made_write(path, buf_span(&bytes));
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_fault(release_tree_append(op, fd, SPAN_ARRAY(salt), tree), NONE);
    (void)close(fd);
}

static struct fault check(struct op *op, const char *path, const struct release_tree *tree)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(fstat(fd, &status), 0);
    op->note = (struct fault_note){ 0 };
    struct fault fault = release_tree_check(op, fd, 0, (uint64_t)status.st_size, tree);
    (void)close(fd);
    return fault;
}

static void a_tree_is_the_one_that_veritysetup_makes(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = made_op();
    struct release_tree tree;
    struct stat status;
    make(op, (size_t)300 * RELEASE_BLOCK - 100, made_path("image"), &tree);
    assert_int_equal(tree.blocks, 300);
    /* veritysetup format --data-blocks=300 --salt=000102...1f of the same bytes */
    assert_string_equal(tree.roothash, "172fed4e4fc0e7d314d3edda866ef66eb92cc4071a18d3301867c73becf2b3d9");
    assert_int_equal(stat(made_path("image"), &status), 0);
    assert_int_equal(status.st_size, (300 + 1 + 1 + 3) * RELEASE_BLOCK);
    assert_fault(check(op, made_path("image"), &tree), NONE);
}

static void a_changed_byte_of_data_or_tree_is_found(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = made_op();
    struct release_tree tree, other;
    static const off_t places[] = { 0, 299 * RELEASE_BLOCK + 4095, 301 * RELEASE_BLOCK, 302 * RELEASE_BLOCK + 5,
                                    304 * RELEASE_BLOCK + 4095 };
    make(op, (size_t)300 * RELEASE_BLOCK, made_path("image"), &tree);
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        uint8_t byte = 0;
        int fd = open(made_path("image"), O_RDWR | O_CLOEXEC);
        assert_int_equal(pread(fd, &byte, 1, places[i]), 1);
        byte ^= 1;
        assert_int_equal(pwrite(fd, &byte, 1, places[i]), 1);
        assert_fault(check(op, made_path("image"), &tree), RELEASE_FILE);
        byte ^= 1;
        assert_int_equal(pwrite(fd, &byte, 1, places[i]), 1);
        (void)close(fd);
    }
    other = tree;
    other.blocks = 299;
    assert_fault(check(op, made_path("image"), &other), RELEASE_FILE);
    other = tree;
    other.blocks = UINT64_MAX / RELEASE_BLOCK + 2;
    assert_fault(check(op, made_path("image"), &other), RELEASE_FILE);
    other = tree;
    other.salt[0] = '1';
    assert_fault(check(op, made_path("image"), &other), RELEASE_FILE);
    assert_int_equal(truncate(made_path("image"), 306 * RELEASE_BLOCK), 0);
    assert_fault(check(op, made_path("image"), &tree), RELEASE_FILE);
    assert_int_equal(truncate(made_path("image"), 304 * RELEASE_BLOCK), 0);
    assert_fault(check(op, made_path("image"), &tree), RELEASE_FILE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tree_is_the_one_that_veritysetup_makes),
        cmocka_unit_test(a_changed_byte_of_data_or_tree_is_found),
    };
    return cmocka_run_group_tests(tests, made_begin, NULL);
}
