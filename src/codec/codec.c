/* Codec specs and the table of codecs. */
#include <lull/codec.h>

#include "base/error.h"

lull_status_t lull_codec_parse(const char *spec, lull_dtype_t dtype,
                               lull_codec_t *out) {
    (void)dtype;
    (void)out;
    return lull__fail(LULL_ERR_NOT_FOUND, "no codec is named '%.40s'", spec);
}
