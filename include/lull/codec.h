/* Codecs for arrays of numbers: one table, each named by a string that users
 * write in policies: "raw", "bf16", "mpc:4", "zfp:8", "expo", "mxint8".
 *
 * A codec value is small and plain; copy it freely. Encoding and decoding
 * allocate nothing: a scratch object, one a thread, holds what they need.
 * Arrays need no alignment. All functions here are thread-safe as long as a
 * scratch is used by one thread at a time. */
#ifndef LULL_CODEC_H
#define LULL_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dtype.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A codec with its parameter, for one dtype. Fill it with lull_codec_parse();
 * the fields are for reading. */
typedef struct lull_codec {
    uint16_t id;    /* row of the table, pinned for ever: stands in frames */
    uint16_t flags; /* of the codec: rounding and the like */
    uint32_t param; /* zfp: rate in quarter bits; mpc: dim; else 0 */
    lull_dtype_t dtype;
} lull_codec_t;

typedef struct lull_codec_scratch lull_codec_scratch_t;

/* Parses a spec such as "zfp:8" for arrays of `dtype`. LULL_ERR_NOT_FOUND: no
 * such codec; LULL_ERR_INVALID: parameter malformed or out of range, named;
 * LULL_ERR_UNSUPPORTED: the codec does not know the dtype. */
LULL_API lull_status_t lull_codec_parse(const char *spec, lull_dtype_t dtype,
                                        lull_codec_t *out);

#ifdef __cplusplus
}
#endif

#endif
