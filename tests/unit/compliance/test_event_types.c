/* Frameworks ask for events that some feature has: a type that nobody appends would be a gap for ever. Linked with all
 * features (tests/CMakeLists.txt). */
#include "testlib.h"

#include "api/compliance/framework.h"
#include "api/feature.h"

static bool is_appended(const char *type)
{
    size_t count = 0;
    const struct feature *const *all = features_all(&count);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < all[i]->event_count; j++) {
            if (strcmp(all[i]->events[j].type, type) == 0) {
                return true;
            }
        }
    }
    return false;
}

static void every_event_type_of_a_framework_is_of_some_feature(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = NULL;
    CLEANUP(frameworks_freep) struct frameworks *files = NULL;
    size_t seen = 0, unknown = 0;
    assert_fault(op_new("test", (struct tenant_id){ "default" }, 60000, &op), NONE);
    assert_fault(frameworks_load(op, "policies/frameworks", &files), NONE);
    for (size_t i = 0; i < FRAMEWORKS; i++) {
        const struct framework *framework = frameworks_get(files, framework_id(i));
        for (size_t j = 0; j < framework->control_count; j++) {
            for (size_t k = 0; k < framework->controls[j].prerequisite_count; k++) {
                const struct framework_prerequisite *asked = &framework->controls[j].prerequisites[k];
                for (size_t n = 0; n < asked->type_count; n++, seen++) {
                    if (!is_appended(asked->types[n])) {
                        print_error("%s, %s, %s: no feature appends %s\n", framework->id, framework->controls[j].id,
                                    asked->name, asked->types[n]);
                        unknown++;
                    }
                }
            }
        }
    }
    assert_true(seen > 100);
    assert_int_equal(unknown, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_event_type_of_a_framework_is_of_some_feature) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
