/* Policy strings: what each means, and that errors point at the character. */
#include "comm/policy.h"
#include "support_mpi.h"

static void refused(const char *text, lull_status_t status, unsigned at) {
    char place[40];
    snprintf(place, sizeof place, "character %u:", at);
    CHECK_FAILS(lull_policy_check(text), status, place);
    if (strstr(lull_last_error(), text) == NULL)
        test_fail(__FILE__, __LINE__, "'%s' does not show '%s'",
                  lull_last_error(), text);
}

static void accepted(const char *text, const char *canonical) {
    lull__policy_t policy;
    char got[LULL__POLICY_MAX];
    CHECK_OK(lull__policy_parse(text, &policy));
    lull__policy_text(&policy, got);
    if (strcmp(got, canonical) != 0)
        test_fail(__FILE__, __LINE__, "%s: %s, expected %s", text, got,
                  canonical);
}

static const char none[] =
    "dp=none;tp=none;pp=none;param=none;min=16384;hier=0";

int main(int argc, char **argv) {
    test_begin(&argc, &argv);
    accepted(NULL, none);
    accepted("none", none);
    accepted("dp=none;other=none", none);
    accepted("none;min=100;hier=0",
             "dp=none;tp=none;pp=none;param=none;min=100;hier=0");
    accepted("min=0", "dp=none;tp=none;pp=none;param=none;min=0;hier=0");

    accepted("mpc", "dp=mpc;tp=mpc;pp=mpc;param=mpc;min=16384;hier=0");
    accepted("zfp:8", "dp=zfp:8;tp=zfp:8;pp=zfp:8;param=raw;min=16384;hier=0");
    accepted("raw", "dp=raw;tp=raw;pp=raw;param=raw;min=16384;hier=0");
    accepted("bf16", "dp=bf16;tp=bf16;pp=bf16;param=raw;min=16384;hier=0");
    accepted("mzhybrid", "dp=zfp:8;tp=mpc;pp=mpc;param=mpc;min=16384;hier=0");
    accepted("mzhybrid:6", "dp=zfp:6;tp=mpc;pp=mpc;param=mpc;min=16384;hier=0");
    accepted("zhybrid",
             "dp=zfp:8;tp=zfp:16;pp=zfp:16;param=raw;min=16384;hier=0");
    accepted("zhybrid:12",
             "dp=zfp:8;tp=zfp:12;pp=zfp:12;param=raw;min=16384;hier=0");
    accepted("zhybrid:12,6.5",
             "dp=zfp:6.5;tp=zfp:12;pp=zfp:12;param=raw;min=16384;hier=0");
    accepted("dp=zfp:8;tp=mpc;pp=mxint8",
             "dp=zfp:8;tp=mpc;pp=mxint8;param=none;min=16384;hier=0");
    accepted("zfp:8;param=mpc;min=5",
             "dp=zfp:8;tp=zfp:8;pp=zfp:8;param=mpc;min=5;hier=0");
    accepted("zfp:64", "dp=zfp:64;tp=zfp:64;pp=zfp:64;param=raw;min=16384;"
                       "hier=0");

    refused("zhybrid:16,", LULL_ERR_INVALID, 12);
    refused("zfp:1", LULL_ERR_INVALID, 5);
    refused("zfp:65", LULL_ERR_INVALID, 5);
    refused("", LULL_ERR_INVALID, 1);
    refused("zpf:8", LULL_ERR_INVALID, 1);
    refused("none;", LULL_ERR_INVALID, 6);
    refused("none;;min=1", LULL_ERR_INVALID, 6);
    refused("none;mpc", LULL_ERR_INVALID, 6);
    refused("none;dp=", LULL_ERR_INVALID, 9);
    refused("none;dq=none", LULL_ERR_INVALID, 6);
    refused("dp=none;dp=none", LULL_ERR_INVALID, 9);
    refused("zfp", LULL_ERR_INVALID, 4);
    refused("zfp:", LULL_ERR_INVALID, 5);
    refused("zfp:x", LULL_ERR_INVALID, 5);
    refused("zfp:8,8", LULL_ERR_INVALID, 5);
    refused("bf16:3", LULL_ERR_INVALID, 5);
    refused("mzhybrid:", LULL_ERR_INVALID, 10);
    refused("zhybrid:,8", LULL_ERR_INVALID, 9);
    refused("none;min=12k", LULL_ERR_INVALID, 12);
    refused("none;min=", LULL_ERR_INVALID, 10);
    refused("none;min=99999999999999999999", LULL_ERR_INVALID, 10);
    accepted("none;hier=1",
             "dp=none;tp=none;pp=none;param=none;min=16384;hier=1");
    refused("none;hier=2", LULL_ERR_INVALID, 11);
    refused("none;param=zfp:8", LULL_ERR_INVALID, 12);
    refused("none;other=mpc", LULL_ERR_INVALID, 12);
    refused("auto", LULL_ERR_UNSUPPORTED, 1);
    refused("auto:zfp:8", LULL_ERR_UNSUPPORTED, 1);
    return test_end();
}
