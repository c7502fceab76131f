/*
 * Faults as HTTP answers: the one place where a failure gets its status and its words (RFC 9457). The code is the
 * contract; a fault that means a defect or a broken part of the service tells the caller nothing but the trace id.
 */
#ifndef API_SERVER_PROBLEM_H
#define API_SERVER_PROBLEM_H

#include "api/server/response.h"

#define PROBLEM_CONTENT_TYPE "application/problem+json"

/* Replaces whatever the response held. Never fails: without memory it answers a constant body. */
void problem_fill(struct op *op, struct fault fault, struct response *response);

#endif
