/*
 * A batch as bytes. What stands here depends on records, configuration and batch id alone, so a batch is the same at
 * every attempt, on every host. A record that is larger than the collector takes goes as its digest.
 */
#include "api/feeds/internal.h"

static size_t piece_end(struct span text, size_t at, size_t max)
{
    size_t end = text.len - at > max ? at + max : text.len;
    while (end < text.len && end > at && (text.at[end] & 0xc0) == 0x80) { /* not within a character */
        end--;
    }
    return end;
}

static unsigned pieces_of(struct span text, size_t max)
{
    unsigned pieces = 1;
    for (size_t at = 0; max > 0 && (at = piece_end(text, at, max)) < text.len;) {
        pieces++;
    }
    return pieces;
}

static struct fault put_item(const struct feed_render *render, const struct feed_item *item, struct buf *out)
{
    if (out->len > strlen(render->kind->open)) {
        TRY(buf_text(out, render->kind->between));
    }
    return render->kind->item(render, item, out);
}

static struct fault put_pieces(const struct feed_render *render, const struct feed_record *record, struct buf *out)
{
    size_t max = render->kind->piece_max != NULL ? render->kind->piece_max(render->config) : 0;
    struct feed_item item = { .record = record, .parts = pieces_of(record->record, max) };
    size_t at = 0;
    do {
        size_t end = max > 0 ? piece_end(record->record, at, max) : record->record.len;
        item.part++;
        item.piece = span_of(record->record.at + at, end - at);
        TRY(put_item(render, &item, out));
        at = end;
    } while (at < record->record.len);
    return OK;
}

static struct fault put_record(const struct feed_render *render, const struct feed_record *record, struct buf *out)
{
    CLEANUP(buf_free) struct buf alone = BUF_INIT(render->kind->bytes_max - FEED_TRAILER_MAX);
    struct fault fault = buf_text(&alone, render->kind->open);
    if (!FAULTED(fault)) {
        fault = put_pieces(render, record, &alone);
    }
    if (fault.code != FAULT_TOO_LARGE) {
        TRY(fault);
        return put_pieces(render, record, out);
    }
    const struct feed_item item = { .record = record, .part = 1, .parts = 1, .oversize = true };
    return put_item(render, &item, out);
}

struct fault feed_render(const struct feed_render *render, const struct feed_record *records, size_t count,
                         struct buf *out, size_t *ret_count)
{
    size_t most = render->kind->bytes_max - FEED_TRAILER_MAX, done = 0;
    buf_clear(out);
    TRY(buf_text(out, render->kind->open));
    for (; done < count; done++) {
        size_t before = out->len;
        TRY(put_record(render, &records[done], out));
        if (out->len > most) {
            REQUIRE(ret_count != NULL && done > 0, TOO_LARGE);
            out->len = before;
            break;
        }
    }
    REQUIRE(done > 0, TOO_LARGE);
    TRY(buf_text(out, render->kind->between));
    TRY(render->kind->trailer(render, &records[done - 1], out));
    TRY(buf_text(out, render->kind->close));
    if (ret_count != NULL) {
        *ret_count = done;
    }
    return OK;
}
