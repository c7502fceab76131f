/* How far a long command is: a line on stderr every two seconds, and one when it is done if there was one before. */
#ifndef API_PROGRESS_H
#define API_PROGRESS_H

#include <stdint.h>

/* From one thread of the process. */
void progress_tell(const char *what, uint64_t done, uint64_t last);

#endif
