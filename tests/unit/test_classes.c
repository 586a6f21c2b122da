/* The codec policy of checkpoints: classes of tensors, and what is refused. */
#include <stdlib.h>
#include <string.h>

#include "ckpt.h"
#include "ckpt/classes.h"
#include "test.h"

static const char *spec_of(const char *policy, const char *name,
                           lull_dtype_t dtype) {
    static lull__classes_t classes;
    assert_ok(lull__classes_parse(policy, &classes));
    const lull__class_codec_t *one = lull__classes_find(&classes, name, dtype);
    return one ? one->spec : "raw";
}

static void classes_are_by_name(void **state) {
    (void)state;
    const char *policy = "weights=mpc,moments=zfp:8,*=raw";
    const char *moment = "optimizer.exp_avg.w";
    assert_string_equal(spec_of(policy, "w", LULL_F32), "mpc");
    assert_string_equal(spec_of(policy, moment, LULL_F32), "zfp:8");
    assert_string_equal(spec_of(policy, moment, LULL_I64), "raw");
    assert_string_equal(spec_of("expo", "w", LULL_F32), "expo");
    assert_string_equal(spec_of("expo", moment, LULL_BF16), "expo");
    assert_string_equal(spec_of("*=raw,weights=expo", "w", LULL_F32), "expo");
    assert_string_equal(spec_of("*=expo,weights=raw", "w", LULL_F32), "raw");
    assert_string_equal(spec_of("weights=expo", moment, LULL_F32), "raw");
    assert_string_equal(spec_of("moments=zfp:48", moment, LULL_F64), "zfp:48");
    assert_string_equal(spec_of("moments=zfp:48", moment, LULL_F32), "raw");
    assert_string_equal(spec_of("", "w", LULL_F32), "raw");
    assert_string_equal(spec_of(NULL, "w", LULL_F32), "raw");
}

/* Before the directory is looked at, which could not be made. */
static void a_malformed_policy_is_pointed_at(void **state) {
    (void)state;
    static const struct {
        const char *policy, *says;
    } rows[] = {
        {"weights=", "a codec is missing, at character 9: ''"},
        {"weights=expo,", "a codec is missing, at character 14"},
        {"wieghts=expo", "no such class"},
        {"weights=expo,moment=raw", "at character 14: 'moment=raw'"},
        {"weights=nope", "no codec is named 'nope'"},
        {"weights=zfp:nope", "at character 9"},
        {"weights=expo,weights=raw", "given before, at character 14"},
        {"*=zfp:8", "a lossy codec is only for what is named"},
        {"bf16", "a lossy codec is only for what is named"},
        {"=expo", "no such class"},
        {"weights=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
         "no such codec, at character 9"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lull_ckpt_options_t options = test_options("/proc/nowhere", 0, 1);
        lull_ckpt_t *ckpt = NULL;
        options.codec = rows[i].policy;
        assert_fails(lull_ckpt_open(&options, &ckpt), LULL_ERR_INVALID,
                     rows[i].says);
        assert_null(ckpt);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_are_by_name),
        cmocka_unit_test(a_malformed_policy_is_pointed_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
