#include "signer-pkcs11/broker/crc32c.h"

#include <pthread.h>

#define POLYNOMIAL 0x82f63b78u /* reflected */

/* table[k][b]: what byte b contributes when k more bytes follow it in the same step of eight. */
static uint32_t table[8][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_table(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ ((crc & 1) != 0 ? POLYNOMIAL : 0);
        }
        table[0][b] = crc;
    }
    for (int k = 1; k < 8; k++) {
        for (uint32_t b = 0; b < 256; b++) {
            table[k][b] = (table[k - 1][b] >> 8) ^ table[0][table[k - 1][b] & 0xff];
        }
    }
}

static uint32_t little(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

uint32_t crc32c(uint32_t crc, struct span bytes)
{
    BUG_IF(pthread_once(&once, make_table) != 0);
    const uint8_t *at = bytes.at;
    size_t len = bytes.len;
    crc = ~crc;
    for (; len >= 8; at += 8, len -= 8) {
        uint32_t low = crc ^ little(at);
        uint32_t high = little(at + 4);
        crc = table[7][low & 0xff] ^ table[6][low >> 8 & 0xff] ^ table[5][low >> 16 & 0xff] ^ table[4][low >> 24] ^
              table[3][high & 0xff] ^ table[2][high >> 8 & 0xff] ^ table[1][high >> 16 & 0xff] ^ table[0][high >> 24];
    }
    for (; len > 0; at++, len--) {
        crc = (crc >> 8) ^ table[0][(crc ^ *at) & 0xff];
    }
    return ~crc;
}
