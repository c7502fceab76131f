/*
 * An entry that a Rekor v2 has already, read from what the log publishes (C2SP tlog-tiles): the checkpoint, the bundle
 * in which the entry stands, and the audit path put together from tiles. A tile is 256 hashes of a level of the tree
 * whose leaves are 256 times as many for each step up. Nothing of it is believed here; it is verified like any answer.
 */
#include "api/transparency/internal.h"

#include <stdio.h>

#define TILE_BITS  8u
#define TILE_WIDTH 256u
#define TILES_MAX  32u
#define LEVELS_MAX 63u

struct tile {
    unsigned level;
    uint64_t number;
    struct span hashes;
};
struct tiles {
    struct op *op;
    struct submit *submit;
    uint64_t size; /* of the checkpoint's tree */
    struct tile at[TILES_MAX];
    size_t count;
};

static struct fault odd(struct op *op)
{
    return tlog_refuse(op, "the log has the entry already, but its tiles do not show it");
}

/* "x001/x234/067", and ".p/12" when the tile has only so many. */
static void print_number(uint64_t number, uint64_t width, char *out, size_t size)
{
    char groups[8][8];
    size_t count = 0;
    do {
        (void)snprintf(groups[count], sizeof(groups[count]), "%s%03u", count > 0 ? "x" : "", (unsigned)(number % 1000));
        number /= 1000;
        count++;
    } while (number > 0 && count < COUNT_OF(groups));
    size_t len = 0;
    while (count > 0) {
        count--;
        int more = snprintf(out + len, size - len, "%s%s", groups[count], count > 0 ? "/" : "");
        len += more > 0 && (size_t)more < size - len ? (size_t)more : 0;
    }
    if (width < TILE_WIDTH) {
        (void)snprintf(out + len, size - len, ".p/%u", (unsigned)width);
    }
}

/* The partial tile, or the full one when the log has thrown the partial one away meanwhile. */
static struct fault fetch(struct tiles *tiles, const char *folder, uint64_t number, uint64_t width,
                          struct span *ret_bytes)
{
    struct op *op = tiles->op;
    for (int full = 0; full <= (width < TILE_WIDTH ? 1 : 0); full++) {
        CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
        char name[64];
        const char *path = NULL;
        print_number(number, full != 0 ? TILE_WIDTH : width, name, sizeof(name));
        TRY(arena_printf(op->arena, &path, "/api/v2/tile/%s/%s", folder, name));
        TRY(tlog_get(op, tiles->submit, path, &answer));
        if (answer.status != 404) {
            return arena_copy(op->arena, buf_span(&answer.body), ret_bytes);
        }
    }
    return op_fail(op, FAULT(TLOG_UNAVAILABLE), "the log %s does not show a tile yet; it is asked again",
                   tiles->submit->log->name);
}

/* How many hashes a tile of this tree has. */
static uint64_t width_of(uint64_t size, unsigned level, uint64_t number)
{
    uint64_t hashes = size >> (level * TILE_BITS), before = number * TILE_WIDTH;
    if (hashes <= before) {
        return 0;
    }
    return hashes - before < TILE_WIDTH ? hashes - before : TILE_WIDTH;
}

static struct fault tile_get(struct tiles *tiles, unsigned level, uint64_t number, struct span *ret_hashes)
{
    for (size_t i = 0; i < tiles->count; i++) {
        if (tiles->at[i].level == level && tiles->at[i].number == number) {
            *ret_hashes = tiles->at[i].hashes;
            return OK;
        }
    }
    uint64_t width = width_of(tiles->size, level, number);
    char folder[16];
    (void)snprintf(folder, sizeof(folder), "%u", level);
    if (width == 0 || tiles->count == TILES_MAX) {
        return odd(tiles->op);
    }
    struct tile *tile = &tiles->at[tiles->count];
    *tile = (struct tile){ .level = level, .number = number };
    TRY(fetch(tiles, folder, number, width, &tile->hashes));
    if (tile->hashes.len < width * SHA256_LEN) {
        return odd(tiles->op);
    }
    tiles->count++;
    *ret_hashes = tile->hashes;
    return OK;
}

/* The root of `count` (a power of two) hashes that stand one behind the other; at most a tile of them. */
static struct fault fold(struct span hashes, size_t count, struct sha256 *ret_root)
{
    struct sha256 row[TILE_WIDTH];
    BUG_IF(count > TILE_WIDTH || hashes.at == NULL || hashes.len < count * SHA256_LEN);
    memcpy(row, hashes.at, count * SHA256_LEN);
    for (; count > 1; count /= 2) {
        for (size_t i = 0; i < count / 2; i++) {
            TRY(tlog_node_hash(&row[2 * i], &row[2 * i + 1], &row[i]));
        }
    }
    *ret_root = row[0];
    return OK;
}

/* The root over leaves number * 2^level and on, 2^level of them, which the tree has all. */
static struct fault whole(struct tiles *tiles, unsigned level, uint64_t number, struct sha256 *ret_root)
{
    unsigned height = level % TILE_BITS;
    uint64_t first = number << height; /* among the hashes of the tile's level */
    struct span hashes = { 0 };
    TRY(tile_get(tiles, level / TILE_BITS, first / TILE_WIDTH, &hashes));
    size_t skipped = (size_t)(first % TILE_WIDTH) * SHA256_LEN;
    size_t count = (size_t)1 << height;
    if (hashes.len < skipped + count * SHA256_LEN) {
        return odd(tiles->op);
    }
    return fold(span_of(hashes.at + skipped, hashes.len - skipped), count, ret_root);
}

/* The root over leaves first to end: whole trees from the left, each smaller than the one before. */
static struct fault rest(struct tiles *tiles, uint64_t first, uint64_t end, struct sha256 *ret_root)
{
    struct sha256 trees[LEVELS_MAX];
    size_t count = 0;
    while (first < end) {
        unsigned level = LEVELS_MAX - 1;
        while ((UINT64_C(1) << level) > end - first) {
            level--;
        }
        TRY(whole(tiles, level, first >> level, &trees[count]));
        count++;
        first += UINT64_C(1) << level;
    }
    for (; count > 1; count--) {
        TRY(tlog_node_hash(&trees[count - 2], &trees[count - 1], &trees[count - 2]));
    }
    *ret_root = trees[0];
    return OK;
}

/* RFC 6962 2.1.1: the path from the root down, so the last one that is found stands first. */
static struct fault audit_path(struct tiles *tiles, uint64_t index, struct tlog_entry *entry)
{
    struct sha256 path[LEVELS_MAX];
    size_t count = 0;
    uint64_t first = 0, end = tiles->size;
    while (end - first > 1) {
        uint64_t half = 1;
        while (half * 2 < end - first) {
            half *= 2;
        }
        bool left = index < first + half;
        TRY(left ? rest(tiles, first + half, end, &path[count]) : rest(tiles, first, first + half, &path[count]));
        count++;
        end = left ? first + half : end;
        first = left ? first : first + half;
    }
    TRY(arena_take(tiles->op->arena, count + 1, sizeof(*entry->hashes), &entry->hashes));
    for (size_t i = 0; i < count; i++) {
        TRY(arena_copy(tiles->op->arena, SPAN_ARRAY(path[count - 1 - i].at), &entry->hashes[i]));
    }
    entry->hash_count = count;
    return OK;
}

/* Entries stand one behind the other, each behind its length in two bytes. */
static struct fault find_body(struct tiles *tiles, uint64_t index, struct span *ret_body)
{
    struct span bundle;
    TRY(fetch(tiles, "entries", index / TILE_WIDTH, width_of(tiles->size, 0, index / TILE_WIDTH), &bundle));
    struct reader reader = { bundle };
    for (uint64_t i = 0; i <= index % TILE_WIDTH; i++) {
        uint16_t len = 0;
        if (FAULTED(reader_u16(&reader, &len)) || FAULTED(reader_bytes(&reader, len, ret_body))) {
            return odd(tiles->op);
        }
    }
    return OK;
}

static struct fault fetch_checkpoint(struct op *op, struct submit *submit, const char **ret_text)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    TRY(tlog_get(op, submit, "/api/v2/checkpoint", &answer));
    if (answer.status == 404) {
        return op_fail(op, FAULT(TLOG_UNAVAILABLE), "the log %s shows no checkpoint; it is asked again",
                       submit->log->name);
    }
    struct fault fault = arena_text(op->arena, buf_span(&answer.body), ret_text);
    return tlog_is_refusal(fault) ? tlog_refuse(op, "the log's checkpoint is no text") : fault;
}

/* The id by which the checkpoint's signer calls the log: of the pinned key that signed it. */
static struct fault name_log(struct op *op, const struct tlog *log, const struct note *note, struct span *ret_log_id)
{
    const struct tlog_trust trust = { .keys = log->keys, .key_count = log->key_count, .origin = log->origin };
    const struct tlog_key *key = NULL;
    struct sha256 id;
    TRY(note_check(op, note, &trust, clock_utc(), &key, &id));
    return arena_copy(op->arena, SPAN_ARRAY(id.at), ret_log_id);
}

struct fault tiles_entry(struct op *op, struct submit *submit, int64_t index, struct tlog_entry *ret_entry)
{
    struct tlog_entry entry = { .kind = "hashedrekord", .version = "0.0.2", .log_index = index, .proof_index = index };
    struct tiles *tiles = NULL;
    struct note note;
    TRY(fetch_checkpoint(op, submit, &entry.checkpoint));
    TRY(note_parse(op, span_text(entry.checkpoint), &note));
    TRY(name_log(op, submit->log, &note, &entry.log_id));
    if (note.size <= (uint64_t)index) {
        return op_fail(op, FAULT(TLOG_UNAVAILABLE), "the log %s has not published the entry yet; it is asked again",
                       submit->log->name);
    }
    TRY(arena_take(op->arena, 1, sizeof(*tiles), &tiles));
    tiles->op = op;
    tiles->submit = submit;
    tiles->size = note.size;
    entry.tree_size = (int64_t)note.size;
    TRY(arena_copy(op->arena, SPAN_ARRAY(note.root.at), &entry.root_hash));
    TRY(find_body(tiles, (uint64_t)index, &entry.body));
    TRY(audit_path(tiles, (uint64_t)index, &entry));
    *ret_entry = entry;
    return OK;
}
