/*
 * Places at which a test ends the process as kill -9 would: FAILPOINT("codesign.after_append"). In a build without
 * SVC_FAILPOINTS, so in every one that is shipped, a failpoint is nothing at all. With it, the process maps the file
 * that SVC_FAILPOINT_FILE names at its first failpoint_open (before any sandbox), and dies once when it comes to the
 * failpoint whose name stands in that file; the name is erased by the one who dies, so nobody dies twice.
 */
#ifndef APPLIANCE_BASE_FAILPOINT_H
#define APPLIANCE_BASE_FAILPOINT_H

#ifdef SVC_FAILPOINTS
#define FAILPOINT_NAME_MAX 64
/* Maps the file; without the variable nothing ever happens. Call once, early. */
void failpoint_open(void);
void failpoint_hit(const char *name);
#define FAILPOINT(name) failpoint_hit(name)
#else
#define failpoint_open() ((void)0)
#define FAILPOINT(name)  ((void)0)
#endif

#endif
