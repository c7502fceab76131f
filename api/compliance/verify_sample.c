#include "api/compliance/verify_sample.h"

#include <stdio.h>

static struct fault number_of(const char *seed, uint64_t counter, uint64_t *ret_number)
{
    char text[sizeof(SAMPLE_ALGORITHM) + SAMPLE_SEED_MAX + 32];
    struct sha256 digest;
    uint64_t number = 0;
    int len = snprintf(text, sizeof(text), SAMPLE_ALGORITHM ":%s:%llu", seed, (unsigned long long)counter);
    BUG_IF(len < 0 || (size_t)len >= sizeof(text));
    TRY(sha256_of(span_of(text, (size_t)len), &digest));
    for (size_t i = 0; i < sizeof(number); i++) {
        number = number << 8 | digest.at[i];
    }
    *ret_number = number;
    return OK;
}

static bool is_drawn(const int64_t *ranks, size_t count, int64_t rank)
{
    for (size_t i = 0; i < count; i++) {
        if (ranks[i] == rank) {
            return true;
        }
    }
    return false;
}

struct fault sample_draw(const char *seed, int64_t total, size_t n, int64_t *ret_ranks)
{
    BUG_IF(total < 0 || n > SAMPLE_MAX || (int64_t)n > total || strlen(seed) > SAMPLE_SEED_MAX);
    uint64_t size = (uint64_t)total;
    uint64_t refused = n > 0 ? (0 - size) % size : 0; /* 2^64 mod total */
    size_t count = 0;
    for (uint64_t counter = 0; count < n; counter++) {
        uint64_t number = 0;
        TRY(number_of(seed, counter, &number));
        int64_t rank = (int64_t)(number % size) + 1;
        if (number <= UINT64_MAX - refused && !is_drawn(ret_ranks, count, rank)) {
            ret_ranks[count++] = rank;
        }
    }
    return OK;
}
