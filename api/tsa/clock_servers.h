/*
 * One round of questions to all configured time servers, over UDP, bounded in time. Names are resolved here too, so it
 * may block for as long as the resolver does: never called for a request. One thread.
 */
#ifndef API_TSA_CLOCK_SERVERS_H
#define API_TSA_CLOCK_SERVERS_H

#include "api/tsa/clock_sntp.h"

#include <stdatomic.h>

struct clock_servers;
/* `names`: "host", "host:port" or "[v6]:port"; port 123 when none is said. CONFIG names the one that is none. */
struct fault clock_servers_new(struct op *op, const struct config_list *names, unsigned quorum,
                               const struct clock_source *source, struct clock_servers **ret_servers);
void clock_servers_free(struct clock_servers *servers);
DEFINE_FREEP(struct clock_servers, clock_servers_free)

/* Asks all that may be asked, waits for at most SERVERS_WAIT_MS for each of two tries, or until *stopping. True when
 * enough agreed; *ret_agreement.answered is always filled. */
#define SERVERS_WAIT_MS 1000
bool clock_servers_ask(struct clock_servers *servers, const atomic_bool *stopping,
                       struct clock_agreement *ret_agreement);

#endif
