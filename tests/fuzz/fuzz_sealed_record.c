/* rooms: signer_sealed signer_token fips base */
#include "signer-pkcs11/sealed/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Files of sealed keys: what parses prints back to the very same bytes. The digest at the end is put right, so that the
 * parser behind it is reached. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(SEALED_FILE_MAX + SHA256_LEN);
    CLEANUP(buf_free) struct buf printed = BUF_INIT(SEALED_FILE_MAX + SHA256_LEN);
    struct sealed_record record;
    struct sha256 digest;
    IGNORE(sealed_record_parse(span_of(data, size), &record));
    if (size > SEALED_FILE_MAX) {
        return 0;
    }
    BUG_IF(FAULTED(sha256_of(span_of(data, size), &digest)));
    BUG_IF(FAULTED(buf_put(&bytes, span_of(data, size))) || FAULTED(buf_put(&bytes, SPAN_ARRAY(digest.at))));
    if (FAULTED(sealed_record_parse(buf_span(&bytes), &record))) {
        return 0;
    }
    BUG_IF(FAULTED(sealed_record_print(&record, &printed)));
    BUG_IF(!span_equal(buf_span(&printed), buf_span(&bytes)));
    return 0;
}
