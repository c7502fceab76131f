/* The routes of the TSA, for feature.c. */
#ifndef API_TSA_ROUTES_H
#define API_TSA_ROUTES_H

#include "api/feature.h"

#define TSA_ROUTE_COUNT 14
extern const struct route tsa_routes[TSA_ROUTE_COUNT];

/* page.c: what people see at the authority's address. */
struct tsa;
struct fault tsa_page(struct request *request, struct tsa *tsa);

/* qualify_route.c */
#define TSA_QUALIFY_ANSWERS 7
extern const struct answer_field tsa_qualify_answer[TSA_QUALIFY_ANSWERS];
struct fault tsa_qualify(struct request *request);

/* judge_route.c */
struct tsa_verify_request {
    struct span token, digest, nonce; /* nonce: INTEGER body */
    const char *hash_algorithm, *roots_pem;
    utc_us at;
};
#define TSA_VERIFY_MEMBERS 6
#define TSA_VERIFY_ANSWERS 9
extern const struct jin_field tsa_verify_body[TSA_VERIFY_MEMBERS];
extern const struct answer_field tsa_verify_answer[TSA_VERIFY_ANSWERS];
struct fault tsa_verify(struct request *request);

#endif
