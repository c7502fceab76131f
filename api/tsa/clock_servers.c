#include "api/tsa/clock_servers.h"

#include "appliance/base/alloc.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define TRIES         2
#define SLICE_MS      100 /* between looks at *stopping */
#define REST_MAX      64  /* rounds that a server which sent us away is left alone */
#define RESOLVE_TURNS 16  /* addresses of one name that are taken in turn */
#define HOST_MAX      255
#define PACKET_MAX    1024
#define PACKETS_MAX   8 /* of one server in one look: a flood must not hold us */

struct server {
    char host[HOST_MAX + 1], port[8];
    struct sockaddr_storage address;
    socklen_t address_len; /* 0 = to be resolved */
    unsigned resolved;     /* how often: the next address is taken each time */
    unsigned rest, rests;  /* rounds left to sit out; how many it was the last time */
    int fd;                /* -1 between rounds */
    struct sntp_exchange exchange;
    bool answered;
};

struct clock_servers {
    struct clock_source source;
    unsigned quorum;
    size_t count;
    struct server at[CLOCK_SERVERS_MAX];
};

static bool is_port(const char *text)
{
    size_t len = strspn(text, "0123456789");
    return len > 0 && len <= 5 && text[len] == '\0' && strtoul(text, NULL, 10) >= 1 && strtoul(text, NULL, 10) <= 65535;
}

/* More than one colon without brackets is an IPv6 address without a port. */
static bool parse_name(const char *text, struct server *server)
{
    const char *host = text, *port = "123";
    size_t len = strlen(text);
    const char *colon = strrchr(text, ':');
    if (text[0] == '[') {
        const char *end = strchr(text, ']');
        if (end == NULL || (end[1] != '\0' && end[1] != ':')) {
            return false;
        }
        host = text + 1;
        len = (size_t)(end - host);
        port = end[1] == ':' ? end + 2 : port;
    } else if (colon != NULL && strchr(text, ':') == colon) {
        len = (size_t)(colon - text);
        port = colon + 1;
    }
    if (len == 0 || len > HOST_MAX || !is_port(port) || memchr(host, ' ', len) != NULL) {
        return false;
    }
    memcpy(server->host, host, len);
    (void)snprintf(server->port, sizeof(server->port), "%s", port);
    return true;
}

struct fault clock_servers_new(struct op *op, const struct config_list *names, unsigned quorum,
                               const struct clock_source *source, struct clock_servers **ret_servers)
{
    CLEANUP(clock_servers_freep) struct clock_servers *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    made->source = *source;
    made->quorum = quorum;
    BUG_IF(names->count > CLOCK_SERVERS_MAX);
    for (size_t i = 0; i < names->count; i++) {
        struct server *server = &made->at[made->count++];
        server->fd = -1;
        if (!parse_name(names->at[i], server)) {
            return op_fail_field(op, FAULT(CONFIG), "protocols.tsa.clock.servers",
                                 "protocols.tsa.clock.servers: \"%s\" is no host, host:port or [address]:port",
                                 names->at[i]);
        }
        for (size_t j = 0; j + 1 < made->count; j++) { /* one server must not count for two */
            if (strcmp(made->at[j].host, server->host) == 0 && strcmp(made->at[j].port, server->port) == 0) {
                return op_fail_field(op, FAULT(CONFIG), "protocols.tsa.clock.servers",
                                     "protocols.tsa.clock.servers: \"%s\" is there twice", names->at[i]);
            }
        }
    }
    *ret_servers = TAKE(made);
    return OK;
}

static void hang_up(struct server *server)
{
    if (server->fd >= 0) {
        (void)close(server->fd);
        server->fd = -1;
    }
}

void clock_servers_free(struct clock_servers *servers)
{
    if (servers == NULL) {
        return;
    }
    for (size_t i = 0; i < servers->count; i++) {
        hang_up(&servers->at[i]);
    }
    mem_free(servers);
}

/* Several addresses are taken in turn, one at each look. */
static void resolve(struct server *server)
{
    struct addrinfo want = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM }, *found = NULL;
    if (getaddrinfo(server->host, server->port, &want, &found) != 0) {
        return;
    }
    const struct addrinfo *chosen = found;
    for (unsigned i = 0; i < server->resolved % RESOLVE_TURNS; i++) {
        chosen = chosen->ai_next != NULL ? chosen->ai_next : found;
    }
    memcpy(&server->address, chosen->ai_addr, chosen->ai_addrlen);
    server->address_len = chosen->ai_addrlen;
    server->resolved++;
    freeaddrinfo(found);
}

/* Connected: the kernel lets in what comes from this address and port alone, and tells of ICMP errors. */
static bool dial(struct server *server)
{
    if (server->address_len == 0) {
        resolve(server);
    }
    if (server->address_len == 0) {
        return false;
    }
    server->fd = socket(server->address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (server->fd >= 0 && connect(server->fd, (const struct sockaddr *)&server->address, server->address_len) != 0) {
        hang_up(server);
    }
    return server->fd >= 0;
}

static void send_request(const struct clock_servers *servers, struct server *server)
{
    uint8_t packet[SNTP_SIZE];
    if (FAULTED(random_bytes(server->exchange.cookie, sizeof(server->exchange.cookie)))) {
        hang_up(server);
        return;
    }
    sntp_request(server->exchange.cookie, packet);
    struct clock_reading now = servers->source.read(servers->source.arg);
    server->exchange.sent_boot_ns = now.boot_ns;
    server->exchange.near_wall_ns = now.wall_ns;
    (void)send(server->fd, packet, sizeof(packet), 0); /* a lost request is an answer that does not come */
}

static void sent_away(struct server *server)
{
    server->rests = server->rests * 2 + 1 < REST_MAX ? server->rests * 2 + 1 : REST_MAX;
    server->rest = server->rests;
}

/* True when there is a claim. The time of arrival is taken before the packet is read. */
static bool receive(const struct clock_servers *servers, struct server *server, struct sntp_claim *ret_claim)
{
    uint8_t packet[PACKET_MAX];
    for (int i = 0; i < PACKETS_MAX; i++) {
        server->exchange.came_boot_ns = servers->source.boot(servers->source.arg);
        ssize_t len = recv(server->fd, packet, sizeof(packet), 0);
        if (len < 0 && (errno == EAGAIN || errno == EINTR)) {
            return false;
        }
        if (len < 0) { /* nobody listens there */
            hang_up(server);
            return false;
        }
        enum sntp_verdict verdict = sntp_answer(span_of(packet, (size_t)len), &server->exchange, ret_claim);
        if (verdict == SNTP_NOT_OURS) {
            continue;
        }
        hang_up(server);
        server->answered = true;
        if (verdict == SNTP_GO_AWAY) {
            sent_away(server);
        }
        return verdict == SNTP_GOOD;
    }
    return false;
}

struct round {
    struct sntp_claim claims[CLOCK_SERVERS_MAX];
    size_t claim_count;
};

static nfds_t waiting(struct clock_servers *servers, struct pollfd fds[CLOCK_SERVERS_MAX],
                      struct server *of[CLOCK_SERVERS_MAX])
{
    nfds_t count = 0;
    for (size_t i = 0; i < servers->count; i++) {
        if (servers->at[i].fd >= 0) {
            of[count] = &servers->at[i];
            fds[count++] = (struct pollfd){ .fd = servers->at[i].fd, .events = POLLIN };
        }
    }
    return count;
}

static void collect(struct clock_servers *servers, const atomic_bool *stopping, struct round *round)
{
    mono_ns until = clock_mono() + SERVERS_WAIT_MS * NS_PER_MS;
    struct pollfd fds[CLOCK_SERVERS_MAX];
    struct server *of[CLOCK_SERVERS_MAX];
    nfds_t count = waiting(servers, fds, of);
    while (count > 0 && clock_mono() < until && !atomic_load(stopping)) {
        int left = clock_ms_left(until);
        int ready = poll(fds, count, left < SLICE_MS ? left : SLICE_MS);
        for (nfds_t i = 0; ready > 0 && i < count; i++) {
            if (fds[i].revents != 0 && receive(servers, of[i], &round->claims[round->claim_count])) {
                round->claim_count++;
            }
        }
        count = waiting(servers, fds, of);
    }
}

static void begin(struct clock_servers *servers, const atomic_bool *stopping)
{
    for (size_t i = 0; i < servers->count && !atomic_load(stopping); i++) {
        struct server *server = &servers->at[i];
        server->answered = false;
        if (server->rest > 0) {
            server->rest--;
            continue;
        }
        (void)dial(server);
    }
}

static void end(struct clock_servers *servers)
{
    for (size_t i = 0; i < servers->count; i++) {
        struct server *server = &servers->at[i];
        hang_up(server);
        if (!server->answered && server->rest == 0) {
            server->address_len = 0; /* perhaps it has moved */
        }
    }
}

static unsigned announcing(const struct round *round)
{
    unsigned count = 0;
    for (size_t i = 0; i < round->claim_count; i++) {
        count += round->claims[i].leap_ahead;
    }
    return count;
}

bool clock_servers_ask(struct clock_servers *servers, const atomic_bool *stopping,
                       struct clock_agreement *ret_agreement)
{
    struct round round = { 0 };
    struct clock_agreement agreement = { .at_boot_ns = servers->source.boot(servers->source.arg) };
    begin(servers, stopping);
    for (int try = 0; try < TRIES && !atomic_load(stopping); try++) {
        for (size_t i = 0; i < servers->count; i++) {
            if (servers->at[i].fd >= 0) {
                send_request(servers, &servers->at[i]);
            }
        }
        collect(servers, stopping, &round);
    }
    end(servers);
    agreement.answered = (unsigned)round.claim_count;
    agreement.leap_ahead = announcing(&round) >= servers->quorum;
    bool agreed = sntp_agree(round.claims, round.claim_count, servers->quorum, &agreement.low_ns, &agreement.high_ns,
                             &agreement.agreed);
    *ret_agreement = agreement;
    return agreed;
}
