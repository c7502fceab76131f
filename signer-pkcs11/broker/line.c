#include "signer-pkcs11/broker/broker_internal.h"

static void lock(struct line *line)
{
    BUG_IF(pthread_mutex_lock(&line->lock) != 0);
}
static void unlock(struct line *line)
{
    BUG_IF(pthread_mutex_unlock(&line->lock) != 0);
}

void line_init(struct line *line, unsigned limit)
{
    *line = (struct line){ .limit = limit };
    line->end = &line->first;
    BUG_IF(pthread_mutex_init(&line->lock, NULL) != 0);
}

void line_clear(struct line *line)
{
    BUG_IF(line->count != 0);
    (void)pthread_mutex_destroy(&line->lock);
}

struct fault line_push(struct line *line, struct connection *connection)
{
    lock(line);
    bool fits = line->count < line->limit;
    if (fits) {
        connection->next = NULL;
        *line->end = connection;
        line->end = &connection->next;
        line->count++;
    }
    unlock(line);
    REQUIRE(fits, SATURATED);
    return OK;
}

static struct connection *take_locked(struct line *line, struct connection **link)
{
    struct connection *taken = *link;
    *link = taken->next;
    if (line->end == &taken->next) {
        line->end = link;
    }
    line->count--;
    return taken;
}

struct connection *line_pop(struct line *line)
{
    lock(line);
    struct connection *taken = line->first != NULL ? take_locked(line, &line->first) : NULL;
    unlock(line);
    return taken;
}

struct connection *line_pop_expired(struct line *line)
{
    struct connection *taken = NULL;
    lock(line);
    for (struct connection **link = &line->first; *link != NULL; link = &(*link)->next) {
        if (op_expired((*link)->op)) {
            taken = take_locked(line, link);
            break;
        }
    }
    unlock(line);
    return taken;
}

unsigned line_count(struct line *line)
{
    lock(line);
    unsigned count = line->count;
    unlock(line);
    return count;
}
