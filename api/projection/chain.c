#include "api/projection/chain.h"

#include "appliance/base/json.h"

static const char chain_domain[] = "svc.audit.chain.v1"; /* with its NUL */

struct fault audit_record_bytes(const struct event_view *event, int64_t sequence, struct buf *out)
{
    struct jout jout;
    buf_clear(out);
    jout_init(&jout, out);
    jout_object(&jout); /* keys in RFC 8785 order */
    jout_key(&jout, "actor");
    jout_object(&jout);
    jout_key(&jout, "roles");
    jout_array(&jout);
    for (size_t i = 0; i < event->actor_role_count; i++) {
        jout_text(&jout, event->actor_roles[i]);
    }
    jout_array_end(&jout);
    jout_key_text(&jout, "subject", event->actor_subject);
    jout_object_end(&jout);
    jout_key_raw(&jout, "data", event->data);
    jout_key_text(&jout, "event_id", event->id.text);
    jout_key_text(&jout, "lane", event->lane);
    jout_key_int(&jout, "schema_version", event->schema_version);
    jout_key_int(&jout, "sequence", sequence);
    jout_key_text(&jout, "tenant_id", event->tenant.text);
    jout_key_time(&jout, "time", event->time);
    jout_key_text(&jout, "trace_id", event->trace_id);
    jout_key_text(&jout, "type", event->type);
    jout_object_end(&jout);
    return jout_end(&jout);
}

struct fault audit_chain_next(const struct sha256 *previous, struct span record, struct sha256 *ret_next)
{
    struct span parts[] = { SPAN_ARRAY(chain_domain), SPAN_ARRAY(previous->at), record };
    return sha256_of_parts(parts, COUNT_OF(parts), ret_next);
}
