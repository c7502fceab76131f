#include "signer-pkcs11/broker/broker_internal.h"

#define A_SECOND 20

bool noise_allows(struct noise *noise, uint64_t *ret_left_out)
{
    mono_ns now = clock_mono();
    BUG_IF(pthread_mutex_lock(&noise->lock) != 0);
    if (now - noise->second >= NS_PER_S) {
        noise->second = now;
        noise->written = 0;
    }
    bool allows = noise->written < A_SECOND;
    *ret_left_out = allows ? noise->left_out : 0;
    noise->left_out = allows ? 0 : noise->left_out + 1;
    noise->written += allows;
    BUG_IF(pthread_mutex_unlock(&noise->lock) != 0);
    return allows;
}
