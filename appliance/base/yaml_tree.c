#include "appliance/base/yaml_tree.h"

#include <yaml.h>

struct tree {
    yaml_parser_t parser;
    struct arena *arena;
    const char *file;
    struct buf *why;
    unsigned nodes;
};

static struct fault refuse(const struct tree *tree, size_t line, const char *what)
{
    if (tree->why != NULL) {
        IGNORE(buf_printf(tree->why, "%s:%zu: %s\n", tree->file, line + 1, what));
    }
    return FAULT(CONFIG);
}

static struct fault next_event(struct tree *tree, yaml_event_t *ret_event)
{
    if (yaml_parser_parse(&tree->parser, ret_event) != 1) {
        const char *problem = tree->parser.problem;
        return refuse(tree, tree->parser.problem_mark.line, problem != NULL ? problem : "not YAML");
    }
    return OK;
}

static struct fault take_scalar(struct tree *tree, const yaml_event_t *event, struct yaml_node *node)
{
    if (event->data.scalar.anchor != NULL || event->data.scalar.tag != NULL) {
        return refuse(tree, event->start_mark.line, "anchors and tags are not accepted");
    }
    node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    struct span text = span_of(event->data.scalar.value, event->data.scalar.length);
    struct fault fault = arena_text(tree->arena, text, &node->text);
    return FAULTED(fault) ? refuse(tree, event->start_mark.line, "a scalar is not plain text") : OK;
}

static struct fault take_node(struct tree *tree, const yaml_event_t *event, unsigned depth,
                              struct yaml_node **ret_node);

/* Key and value alternate in a mapping's events. */
static struct fault take_key(struct tree *tree, const struct yaml_node *map, const yaml_event_t *event,
                             const char **ret_key)
{
    struct yaml_node key = { 0 };
    if (event->type != YAML_SCALAR_EVENT) {
        return refuse(tree, event->start_mark.line, "a key must be plain text");
    }
    TRY(take_scalar(tree, event, &key));
    if (yaml_tree_get(map, key.text) != NULL) {
        return refuse(tree, event->start_mark.line, "the key stands here a second time");
    }
    *ret_key = key.text;
    return OK;
}

static struct fault take_child(struct tree *tree, struct yaml_node *parent, const yaml_event_t *first, unsigned depth,
                               struct yaml_node ***tail)
{
    yaml_event_t value = { 0 };
    struct yaml_node *child = NULL;
    const char *key = NULL;
    struct fault fault = OK;
    if (parent->kind == YAML_KIND_MAP) {
        TRY(take_key(tree, parent, first, &key));
        TRY(next_event(tree, &value));
        fault = take_node(tree, &value, depth + 1, &child);
        yaml_event_delete(&value);
    } else {
        fault = take_node(tree, first, depth + 1, &child);
    }
    TRY(fault);
    if (key != NULL) {
        child->key = key;
        child->line = (unsigned)first->start_mark.line + 1;
    }
    **tail = child;
    *tail = &child->next;
    parent->count++;
    return OK;
}

static struct fault take_children(struct tree *tree, struct yaml_node *parent, unsigned depth)
{
    yaml_event_type_t end = parent->kind == YAML_KIND_MAP ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT;
    struct yaml_node **tail = &parent->first;
    for (;;) {
        yaml_event_t event = { 0 };
        TRY(next_event(tree, &event));
        bool ended = event.type == end;
        struct fault fault = ended ? OK : take_child(tree, parent, &event, depth, &tail);
        yaml_event_delete(&event);
        TRY(fault);
        if (ended) {
            return OK;
        }
    }
}

static struct fault take_node(struct tree *tree, const yaml_event_t *event, unsigned depth, struct yaml_node **ret_node)
{
    size_t line = event->start_mark.line;
    struct yaml_node *node = NULL;
    if (depth > YAML_TREE_DEPTH_MAX || ++tree->nodes > YAML_TREE_NODES_MAX) {
        return refuse(tree, line, "too deep or too much");
    }
    TRY(arena_take(tree->arena, 1, sizeof(*node), &node));
    node->line = (unsigned)line + 1;
    *ret_node = node;
    if (event->type == YAML_SCALAR_EVENT) {
        return take_scalar(tree, event, node);
    }
    if (event->type == YAML_SEQUENCE_START_EVENT && event->data.sequence_start.anchor == NULL &&
        event->data.sequence_start.tag == NULL) {
        node->kind = YAML_KIND_LIST;
        return take_children(tree, node, depth);
    }
    if (event->type == YAML_MAPPING_START_EVENT && event->data.mapping_start.anchor == NULL &&
        event->data.mapping_start.tag == NULL) {
        node->kind = YAML_KIND_MAP;
        return take_children(tree, node, depth);
    }
    return refuse(tree, line, "a value, a list or a mapping is due; anchors, aliases and tags are not accepted");
}

/* Stream start, document start, the root, document end, stream end. */
static struct fault take_document(struct tree *tree, struct yaml_node **ret_root)
{
    static const yaml_event_type_t around[] = { YAML_STREAM_START_EVENT, YAML_DOCUMENT_START_EVENT, YAML_NO_EVENT,
                                                YAML_DOCUMENT_END_EVENT, YAML_STREAM_END_EVENT };
    for (size_t i = 0; i < COUNT_OF(around); i++) {
        yaml_event_t event = { 0 };
        TRY(next_event(tree, &event));
        struct fault fault = OK;
        if (i == 1 && event.type == YAML_STREAM_END_EVENT) {
            yaml_event_delete(&event);
            TRY(arena_take(tree->arena, 1, sizeof(**ret_root), ret_root));
            **ret_root = (struct yaml_node){ .kind = YAML_KIND_MAP, .line = 1 };
            return OK;
        }
        if (around[i] == YAML_NO_EVENT) {
            fault = take_node(tree, &event, 0, ret_root);
        } else if (event.type != around[i]) {
            fault = refuse(tree, event.start_mark.line, "exactly one document is due");
        }
        yaml_event_delete(&event);
        TRY(fault);
    }
    return OK;
}

struct fault yaml_tree_parse(struct arena *arena, struct span text, const char *file, struct buf *why,
                             struct yaml_node **ret_root)
{
    struct tree tree = { .arena = arena, .file = file, .why = why };
    struct yaml_node *root = NULL;
    REQUIRE(yaml_parser_initialize(&tree.parser) == 1, NO_MEMORY);
    yaml_parser_set_input_string(&tree.parser, text.at != NULL ? text.at : (const unsigned char *)"", text.len);
    struct fault fault = take_document(&tree, &root);
    yaml_parser_delete(&tree.parser);
    TRY(fault);
    *ret_root = root;
    return OK;
}

const struct yaml_node *yaml_tree_get(const struct yaml_node *node, const char *key)
{
    if (node == NULL || node->kind != YAML_KIND_MAP) {
        return NULL;
    }
    for (const struct yaml_node *child = node->first; child != NULL; child = child->next) {
        if (strcmp(child->key, key) == 0) {
            return child;
        }
    }
    return NULL;
}
