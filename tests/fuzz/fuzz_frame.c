/* Fuzz target: frames of any codec. The checksum is not verified, so that
 * what lies behind it is reached. */
#include "fuzz_codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void decode(const uint8_t *frame, size_t bytes,
                   const lull_frame_info_t *info,
                   lull_codec_scratch_t *scratch) {
    uint64_t values_bytes;
    if (info->count > 1 << 20 ||
        lull_dtype_bytes(info->codec.dtype, info->count, &values_bytes))
        return;
    size_t sum_bytes = info->count * (info->codec.dtype == LULL_F64 ? 8 : 4);
    void *values = fuzz_block(values_bytes), *sum = fuzz_block(sum_bytes);
    lull_status_t status = lull_frame_decode(frame, bytes, LULL_FRAME_TRUST,
                                             values, values_bytes, scratch);
    lull_status_t added = lull_frame_decode_add(frame, bytes, LULL_FRAME_TRUST,
                                                sum, sum_bytes, scratch);
    FUZZ_CHECK(added == status || added == LULL_ERR_UNSUPPORTED);
    FUZZ_CHECK((lull_frame_decode(frame, bytes, 0, values, values_bytes,
                                  scratch) == LULL_OK) <= (status == LULL_OK));
    free(values);
    free(sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static lull_codec_scratch_t *scratch;
    if (scratch == NULL)
        FUZZ_CHECK(lull_codec_scratch_create(&scratch) == LULL_OK);
    lull_frame_info_t info;
    if (lull_frame_peek(data, bytes, &info) != LULL_OK)
        return 0;
    for (unsigned i = 0; i < 3; i++) {
        FUZZ_CHECK(lull_setting_set("isa", fuzz_isas[i]) == LULL_OK);
        decode(data, bytes, &info, scratch);
    }
    return 0;
}
