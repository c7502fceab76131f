/*
 * Privacy erasure: the bytes of a subject (a person's name, an address) are taken out of a tenant's history.
 *
 *     requested -> activated -> completed        a leader-only worker goes from step to step and may die at each
 *     requested -> failed                        what the rehearsal refused; nothing was changed
 *
 * Rewriting: every message of the tenant up to the request's own that holds the subject gets a replacement, in which
 * the subject's bytes are a placeholder; sequences, ids, types, times and the order of all else stay. The replacements
 * are rehearsed, then activated as a new generation of the history by one signed event (privacy.generation.activated),
 * at which the read model is regenerated (api/projection). Scrubbing: the superseded messages are overwritten in the
 * log, older replacements too, and answers that were kept with the subject in them are blanked. What lies in files
 * beyond that is taken by `svc-appliance scrub` (docs/privacy-erasure.md).
 *
 * An erasure needs a second person's approval. The subject stands in no event and no log in the clear: the request
 * holds it sealed by the tenant's seal key. Archives that were made before are out of reach: what was done about them
 * is attested (privacy.archive.attested).
 *
 * Events (lane "privacy"): privacy.erasure.requested, privacy.erasure.failed, privacy.generation.activated,
 * privacy.scrub.completed, privacy.archive.attested; and privacy.lane.marked on any lane whose last message is to be
 * overwritten, since a lane's last message is what commands are appended behind.
 */
#ifndef API_PRIVACY_PRIVACY_H
#define API_PRIVACY_PRIVACY_H

#include "api/feature.h"
#include "api/services.h"

extern const struct feature privacy_feature;

#endif
