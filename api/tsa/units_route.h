/* What the routes about time-stamping units take and give, for routes.c. */
#ifndef API_TSA_UNITS_ROUTE_H
#define API_TSA_UNITS_ROUTE_H

#include "api/server/request.h"
#include "api/tsa/units.h"

#define UNITS_PATH "/api/v1/protocols/tsa/units"

struct unit_csr_request {
    const char *subject;
};
struct unit_chain_request {
    struct span certificate_chain; /* JSON array */
};
struct unit_retire_request {
    const char *reason;
    bool stop_stamping;
};
extern const struct jin_field unit_csr_body[1], unit_chain_body[1], unit_retire_body[2];
extern const struct answer_field units_answer[1], unit_answer[17], unit_csr_answer[2];

struct fault route_units_list(struct request *request);
struct fault route_unit_prepare(struct request *request);
struct fault route_unit_csr(struct request *request);
struct fault route_unit_certify(struct request *request);
struct fault route_unit_activate(struct request *request);
struct fault route_unit_retire(struct request *request);

#endif
