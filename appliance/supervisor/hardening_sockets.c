#include "appliance/base/alloc.h"
#include "appliance/base/file.h"
#include "appliance/supervisor/hardening_facts.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SOCKETS_MAX   4096
#define NET_FILE_MAX  ((size_t)8 << 20)
#define STATE_LISTEN  0x0a
#define STATE_NO_PEER 0x07
#define ACCEPTS       0x10000 /* of a unix socket's flags */

struct inodes {
    unsigned long at[SOCKETS_MAX];
    size_t count;
};

/* The sockets that it has open. More than fit are not looked at: none of ours has so many before it listens. */
static struct fault inodes_read(const struct process_facts *facts, struct inodes *inodes)
{
    char path[64], name[320], link[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)facts->pid);
    DIR *folder = opendir(path);
    REQUIRE(folder != NULL, NOT_FOUND);
    const struct dirent *entry;
    while ((entry = readdir(folder)) != NULL && inodes->count < SOCKETS_MAX) {
        (void)snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
        ssize_t len = readlink(name, link, sizeof(link) - 1);
        if (len > 8 && strncmp(link, "socket:[", 8) == 0) {
            link[len] = '\0';
            inodes->at[inodes->count++] = strtoul(link + 8, NULL, 10);
        }
    }
    (void)closedir(folder);
    return OK;
}

static bool has(const struct inodes *inodes, unsigned long inode)
{
    bool found = false;
    for (size_t i = 0; i < inodes->count && !found; i++) {
        found = inodes->at[i] == inode;
    }
    return found;
}

/* "0100007F:1F90": words of four bytes in this machine's order. */
static bool address_text(const char *hex, char out[80])
{
    uint32_t words[4] = { 0 };
    size_t count = strcspn(hex, ":") / 8;
    char part[9] = { 0 }, text[INET6_ADDRSTRLEN];
    if (count != 1 && count != 4) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        memcpy(part, hex + 8 * i, 8);
        words[i] = (uint32_t)strtoul(part, NULL, 16);
    }
    unsigned long port = strtoul(hex + 8 * count + 1, NULL, 16);
    if (inet_ntop(count == 1 ? AF_INET : AF_INET6, words, text, sizeof(text)) == NULL) {
        return false;
    }
    (void)snprintf(out, 80, count == 1 ? "%s:%lu" : "[%s]:%lu", text, port);
    return true;
}

/* "0: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 643 0 12345 ..." */
static struct fault inet_line(struct op *op, const char *kind, char *line, const struct inodes *inodes,
                              struct texts *listens)
{
    char *words[10], address[80], text[96];
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        words[i] = word_next(&line);
        if (words[i] == NULL) {
            return OK;
        }
    }
    unsigned long state = strtoul(words[3], NULL, 16);
    bool waits = state == STATE_LISTEN || (state == STATE_NO_PEER && strncmp(kind, "udp", 3) == 0);
    if (!waits || !has(inodes, strtoul(words[9], NULL, 10)) || !address_text(words[1], address)) {
        return OK;
    }
    (void)snprintf(text, sizeof(text), "%.3s %s", kind, address);
    return texts_add(op, listens, text);
}

/* "0000000000000000: 00000002 00000000 00010000 0001 01 12345 /path" */
static struct fault unix_line(struct op *op, char *line, const struct inodes *inodes, struct texts *listens)
{
    char *words[7], text[160];
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        words[i] = word_next(&line);
        if (words[i] == NULL) {
            return OK;
        }
    }
    if ((strtoul(words[3], NULL, 16) & ACCEPTS) == 0 || !has(inodes, strtoul(words[6], NULL, 10))) {
        return OK;
    }
    (void)snprintf(text, sizeof(text), "unix %s", *line != '\0' ? line : "(unnamed)");
    return texts_add(op, listens, text);
}

/* `of`: whose network's sockets are looked through. */
static struct fault kind_read(struct op *op, const char *of, const char *kind, const struct inodes *inodes,
                              struct texts *listens)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(NET_FILE_MAX);
    char path[64];
    const char *lines = NULL;
    (void)snprintf(path, sizeof(path), "/proc/%s/net/%s", of, kind);
    if (FAULTED(file_read(path, &text))) {
        return OK; /* a kernel without that kind of sockets */
    }
    TRY(buf_cstr(&text, &lines));
    char *rest = (char *)lines, *line = strsep(&rest, "\n"); /* the buffer is ours; the heading */
    while ((line = strsep(&rest, "\n")) != NULL) {
        TRY(strcmp(kind, "unix") == 0 ? unix_line(op, line, inodes, listens)
                                      : inet_line(op, kind, line, inodes, listens));
    }
    return OK;
}

/* In a network of its own a process may still listen at a socket that it was handed from ours. */
static bool has_own_network(const struct process_facts *facts)
{
    char path[64], theirs[64] = "", ours[64] = "";
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)facts->pid);
    return readlink(path, theirs, sizeof(theirs) - 1) > 0 &&
           readlink("/proc/self/ns/net", ours, sizeof(ours) - 1) > 0 && strcmp(theirs, ours) != 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

struct fault process_facts_listens(struct op *op, struct process_facts *facts)
{
    static const char *const kinds[] = { "tcp", "tcp6", "udp", "udp6", "unix" };
    struct inodes *inodes = NULL;
    TRY(arena_take(op->arena, 1, sizeof(*inodes), (void *)&inodes));
    TRY(inodes_read(facts, inodes));
    char pid[16];
    (void)snprintf(pid, sizeof(pid), "%d", (int)facts->pid);
    bool own = has_own_network(facts);
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        TRY(kind_read(op, pid, kinds[i], inodes, &facts->listens));
        TRY(own ? kind_read(op, "self", kinds[i], inodes, &facts->listens) : OK);
    }
    if (facts->listens.count > 1) {
        qsort(facts->listens.at, facts->listens.count, sizeof(char *), by_text);
    }
    return OK;
}
