/* rooms: machine base */
/* A provision.yaml of anybody. What is refused is told with a line; what is accepted prints in one form that reads back
 * as itself, holds nothing that steers a terminal, and makes a configuration of the product that is YAML. */
#include "appliance/base/yaml_tree.h"
#include "appliance/machine/provision_store.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#define TEXT_MAX ((size_t)4 << 20)

static struct op *new_op(void)
{
    struct op *op = NULL;
    BUG_IF(FAULTED(op_new("fuzz", (struct tenant_id){ 0 }, 60000, &op)));
    return op;
}

static void check_text(const struct buf *text)
{
    for (size_t i = 0; i < text->len; i++) {
        BUG_IF((text->at[i] < 0x20 && text->at[i] != '\n') || text->at[i] == 0x7f);
    }
}

static void check_accepted(struct op *op, const struct provision *provision)
{
    CLEANUP(buf_free) struct buf once = BUF_INIT(TEXT_MAX), twice = BUF_INIT(TEXT_MAX), config = BUF_INIT(TEXT_MAX);
    CLEANUP(op_freep) struct op *again = new_op();
    struct provision kept;
    struct yaml_node *root = NULL;
    BUG_IF(FAULTED(provision_print(provision, &once)));
    check_text(&once);
    BUG_IF(FAULTED(provision_parse(again, buf_span(&once), "kept", NULL, &kept)));
    BUG_IF(FAULTED(provision_print(&kept, &twice)));
    BUG_IF(!span_equal(buf_span(&once), buf_span(&twice)));
    BUG_IF(FAULTED(provision_print_svc_yaml(op, provision, false, &config)));
    BUG_IF(FAULTED(yaml_tree_parse(again->arena, buf_span(&config), "svc.yaml", NULL, &root)));
    BUG_IF(root->kind != YAML_KIND_MAP || yaml_tree_get(root, "data_dir") == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    CLEANUP(op_freep) struct op *op = new_op();
    CLEANUP(buf_free) struct buf why = BUF_INIT(TEXT_MAX);
    struct provision provision;
    if (len > PROVISION_FILE_MAX) {
        return 0;
    }
    struct fault parsed = provision_parse(op, span_of(bytes, len), "provision.yaml", &why, &provision);
    if (FAULTED(parsed)) {
        BUG_IF(parsed.code == FAULT_CONFIG && (why.len == 0 || !op->note.set));
        return 0;
    }
    check_accepted(op, &provision);
    return 0;
}
