#include "testlib.h"

#include "appliance/base/yaml_tree.h"

static struct arena *arena;

static struct fault parse(const char *text, struct buf *why, struct yaml_node **ret_root)
{
    return yaml_tree_parse(arena, span_text(text), "t.yaml", why, ret_root);
}

static void assert_refused(const char *text, const char *says)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(1024);
    struct yaml_node *root = NULL;
    assert_fault(parse(text, &why, &root), CONFIG);
    assert_null(root);
    if (memmem(why.at, why.len, says, strlen(says)) == NULL) {
        fail_msg("expected '%s' in '%.*s'", says, (int)why.len, (const char *)why.at);
    }
}

static void what_a_reader_would_not_see_is_refused_with_its_line(void **state)
{
    (void)state;
    assert_refused("a: 1\nb: 2\na: 3\n", "t.yaml:3: ");
    assert_refused("a: &x 1\nb: *x\n", "t.yaml:1: ");
    assert_refused("a: 1\nb: *x\n", "t.yaml:2: ");
    assert_refused("a: !!binary aGk=\n", "t.yaml:1: ");
    assert_refused("a: !own {}\n", "t.yaml:1: ");
    assert_refused("a: 1\n---\nb: 2\n", "t.yaml:2: ");
    assert_refused("a: [1, 2\n", "t.yaml:");
    assert_refused("[x]: 1\n", "t.yaml:1: ");
    assert_refused("a: \"x\\0y\"\n", "t.yaml:1: ");
    assert_refused("a:\n\t- b\n", "t.yaml:2: ");
}

static void depth_is_bounded(void **state)
{
    (void)state;
    char deep[200];
    memset(deep, '[', 99);
    memset(deep + 99, ']', 99);
    deep[198] = '\0';
    assert_refused(deep, "too deep");
}

static void maps_lists_and_texts_keep_order_and_lines(void **state)
{
    (void)state;
    struct yaml_node *root = NULL;
    assert_fault(parse("# c\nroles:\n  b: [x, \"y z\"]\n  a:\n    - q\nnone: {}\n", NULL, &root), NONE);
    const struct yaml_node *roles = yaml_tree_get(root, "roles");
    assert_int_equal(roles->kind, YAML_KIND_MAP);
    assert_int_equal(roles->count, 2);
    assert_string_equal(roles->first->key, "b");
    assert_int_equal(roles->first->line, 3);
    assert_string_equal(roles->first->first->text, "x");
    assert_string_equal(roles->first->first->next->text, "y z");
    assert_string_equal(roles->first->next->first->text, "q");
    assert_int_equal(yaml_tree_get(root, "none")->count, 0);
    assert_null(yaml_tree_get(root, "other"));
    assert_null(yaml_tree_get(roles->first, "x"));
    assert_null(yaml_tree_get(NULL, "x"));
    assert_fault(parse("# only words\n", NULL, &root), NONE);
    assert_int_equal(root->kind, YAML_KIND_MAP);
    assert_int_equal(root->count, 0);
}

static int start(void **state)
{
    (void)state;
    return FAULTED(arena_new((size_t)1 << 20, &arena)) ? -1 : 0;
}

static int end(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_reader_would_not_see_is_refused_with_its_line),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(maps_lists_and_texts_keep_order_and_lines),
    };
    return cmocka_run_group_tests_name("yaml_tree", tests, start, end);
}
