/* Policy strings: what each means, and that errors point at the character. */
#include <locale.h>

#include "comm/auto.h"
#include "comm/internal.h"
#include "comm/policy.h"
#include "support_mpi.h"

static void refused(const char *text, lull_status_t status, unsigned at) {
    char place[40];
    snprintf(place, sizeof place, "character %u:", at);
    CHECK_FAILS(lull_policy_check(text), status, place);
    if (strstr(lull_last_error(), text) == NULL)
        test_fail(__FILE__, __LINE__, "'%s' does not show '%s'",
                  lull_last_error(), text);
    const char *first = strstr(lull_last_error(), "character ");
    if (strstr(first + 1, "character ") != NULL)
        test_fail(__FILE__, __LINE__, "'%s' names two places",
                  lull_last_error());
}

static void accepted(const char *text, const char *canonical) {
    lull__policy_t policy;
    char got[LULL__POLICY_MAX], again[LULL__POLICY_MAX];
    CHECK_OK(lull__policy_parse(text, &policy));
    lull__policy_text(&policy, got);
    CHECK_OK(lull__policy_parse(got, &policy));
    lull__policy_text(&policy, again);
    CHECK(strcmp(again, got) == 0);
    if (strcmp(got, canonical) != 0)
        test_fail(__FILE__, __LINE__, "%s: %s, expected %s", text, got,
                  canonical);
}

static const char none[] =
    "dp=none;tp=none;pp=none;param=none;min=16384;hier=0";

/* By size and dtype: the last entry that fits decides. */
static void rules(void) {
    accepted("dp=none,64KiB:mpc,1MiB/bf16:expo",
             "dp=none,65536:mpc,1048576/bf16:expo;tp=none;pp=none;param=none;"
             "min=16384;hier=0");
    accepted("none,4KiB/f32:zfp:8;min=4KiB",
             "dp=none,4096/f32:zfp:8;tp=none,4096/f32:zfp:8;"
             "pp=none,4096/f32:zfp:8;param=none,4096/f32:raw;min=4096;hier=0");
    accepted("dp=0:mpc", "dp=mpc;tp=none;pp=none;param=none;min=16384;hier=0");
    accepted("mpc;check=1", "dp=mpc;tp=mpc;pp=mpc;param=mpc;min=16384;hier=0;"
                            "check=1");
    accepted("dp=0/f32:mpc,none,18446744073709551615/f16:zfp:6.5;min=1GiB",
             "dp=0/f32:mpc,none,18446744073709551615/f16:zfp:6.5;tp=none;"
             "pp=none;param=none;min=1073741824;hier=0");
    accepted("dp=1MiB:mpc,1KiB:zfp:8,1KiB:bf16;min=00007",
             "dp=1048576:mpc,1024:zfp:8,1024:bf16;tp=none;pp=none;param=none;"
             "min=7;hier=0");
    refused("dp=,", LULL_ERR_INVALID, 4);
    refused("dp=KiB:mpc", LULL_ERR_INVALID, 4);
    refused("dp=18446744073709551616:mpc", LULL_ERR_INVALID, 4);
    refused("none;min=1 KiB", LULL_ERR_INVALID, 11);
    refused("none;min=-1", LULL_ERR_INVALID, 10);
    refused("dp=64KiB", LULL_ERR_INVALID, 9);
    refused("dp=64kb:mpc", LULL_ERR_INVALID, 6);
    refused("dp=none,:mpc", LULL_ERR_INVALID, 9);
    refused("dp=none,64/i32:mpc", LULL_ERR_INVALID, 12);
    refused("dp=none,64/:mpc", LULL_ERR_INVALID, 12);
    refused("dp=none,", LULL_ERR_INVALID, 9);
    refused("dp=none,64:", LULL_ERR_INVALID, 12);
    refused("param=none,64:zfp:8", LULL_ERR_INVALID, 15);
    refused("dp=99999999999GiB:mpc", LULL_ERR_INVALID, 4);
    refused("dp=mpc,mpc,mpc,mpc,mpc,mpc,mpc,mpc,mpc,mpc,mpc,mpc,mpc,mpc,mpc,"
            "mpc,mpc",
            LULL_ERR_INVALID, 68);
}

static void automatic(void) {
    char text[LULL_POLICY_MAX];
    accepted("auto", "dp=auto;tp=auto;pp=auto;param=auto;min=16384;hier=0");
    accepted("auto:zfp:8,mxint8",
             "dp=auto:zfp:8,mxint8;tp=auto:zfp:8,mxint8;"
             "pp=auto:zfp:8,mxint8;param=auto;min=16384;hier=0");
    accepted("dp=auto:zfp:8;tp=mpc",
             "dp=auto:zfp:8;tp=mpc;pp=none;param=none;min=16384;hier=0");
    refused("param=auto:zfp:8", LULL_ERR_INVALID, 12);
    refused("other=auto", LULL_ERR_INVALID, 7);
    refused("auto:", LULL_ERR_INVALID, 1);
    refused("auto:zpf:8", LULL_ERR_INVALID, 6);
    CHECK(lull_policy_is_auto("dp=auto", LULL_ROLE_DP));
    CHECK(!lull_policy_is_auto("dp=auto", LULL_ROLE_TP));
    CHECK(!lull_policy_is_auto("zfp", LULL_ROLE_DP));
    CHECK_OK(lull_policy_replace("auto;min=5", LULL_ROLE_DP, "none,64:mpc",
                                 text, sizeof text));
    CHECK(strcmp(text, "dp=none,64:mpc;tp=auto;pp=auto;param=auto;min=5;"
                       "hier=0") == 0);
    CHECK_FAILS(lull_policy_replace("auto", LULL_ROLE_DP, "mpc", text, 9),
                LULL_ERR_CAPACITY, "bytes");
    CHECK_FAILS(lull_policy_replace("auto", LULL_ROLE_PARAM, "zfp:8", text,
                                    sizeof text),
                LULL_ERR_INVALID, "param");
}

static void decides(const lull__auto_table_t *table, uint64_t min,
                    const char *expected) {
    lull__rules_t got;
    char text[LULL__RULES_TEXT_MAX];
    lull__auto_decide(table, min, &got);
    lull__rules_text(&got, text, sizeof text);
    if (strcmp(text, expected) != 0)
        test_fail(__FILE__, __LINE__, "%s, expected %s", text, expected);
}

/* What follows from a table, and from nothing else: a codec only for what it
 * gains, and only between sizes at which it does not lose. */
static void decided(void) {
    lull__auto_table_t t = {.codec_count = 4,
                            .part_count = 2,
                            .specs = {"none", "raw", "mpc", "zfp:8"},
                            .sizes = {1024, 16384, 65536, 262144}};
    const double slow[] = {1, 0.9, 0.8, 0.5}, near[] = {1, 1.04, 1.0, 1.0},
                 wins[] = {1, 1.1, 1.04, 2.5}, loses[] = {1, 1.06, 1.0, 0.9};
    lull__auto_part_t *f32 = &t.parts[0], *bf16 = &t.parts[1];
    f32->dtype = LULL_F32, f32->size_count = 4;
    bf16->dtype = LULL_BF16, bf16->size_count = 2;
    for (unsigned c = 0; c < 4; c++) {
        f32->ratio[0][c] = bf16->ratio[0][c] = slow[c];
        f32->ratio[1][c] = near[c];
        f32->ratio[2][c] = f32->ratio[3][c] = wins[c];
        bf16->ratio[1][c] = wins[c];
    }
    decides(&t, 0, "none,65536/f32:zfp:8,16384/bf16:zfp:8");
    decides(&t, 100000, "none,262144/f32:zfp:8");
    decides(&t, 1 << 20, "none");
    for (unsigned c = 0; c < 4; c++)
        f32->ratio[3][c] = loses[c];
    decides(&t, 0, "none,65536/f32:raw,16384/bf16:zfp:8");
    /* Messages between two ranks would be framed at 1 KiB, at a loss. */
    t.framed = true;
    decides(&t, 0, "none");
    f32->ratio[0][1] = bf16->ratio[0][1] = 0.96;
    decides(&t, 0, "none,65536/f32:raw,16384/bf16:zfp:8");
    /* A fast link: nothing gains. */
    memset(t.parts, 0, sizeof t.parts);
    f32->size_count = 4;
    decides(&t, 0, "none");
}

/* A codec has one spelling in the canonical string: ranks may differ in theirs,
 * and what is printed is what runs. */
static void spellings(void) {
    accepted("zfp:8.0;min=0", "dp=zfp:8;tp=zfp:8;pp=zfp:8;param=raw;min=0;"
                              "hier=0");
    accepted("dp=zfp:08.50;tp=mpc:1;pp=mpc:02;min=0",
             "dp=zfp:8.5;tp=mpc;pp=mpc:2;param=none;min=0;hier=0");
    accepted("zhybrid:16.0,8.1;min=0",
             "dp=zfp:8;tp=zfp:16;pp=zfp:16;param=raw;min=0;hier=0");
    accepted("dp=zfp:40.25;tp=auto:zfp:8,zfp:8.00;min=0",
             "dp=zfp:40.25;tp=auto:zfp:8,zfp:8;pp=none;param=none;min=0;"
             "hier=0");
}

/* Rates have a point also where the program writes numbers with a comma. */
static void decimal_comma(void) {
    lull_comm_t *comm;
    char json[2048];
    float x = 1, y;
    if (!test_decimal_comma())
        return;
    accepted("dp=zfp:7.5;tp=zfp:40.5;min=0",
             "dp=zfp:7.5;tp=zfp:40.5;pp=none;param=none;min=0;hier=0");
    CHECK_OK(lull_comm_create(MPI_COMM_SELF, LULL_ROLE_DP, "zfp:7.5", &comm));
    CHECK_OK(lull_allreduce(&x, &y, 1, LULL_F32, LULL_SUM, comm));
    CHECK_OK(lull_comm_stats_json(comm, json, sizeof json, NULL));
    CHECK(strstr(json, "\"ms\":0.") && strstr(json, "\"policy\":\"zfp:7.5\""));
    lull__choices_t *f64 = &comm->choices[1];
    CHECK(lull__dtypes[1] == LULL_F64 && f64->coding[0].codec.param == 30);
    /* 7.5 bits of 64: chunks as large as they may be. */
    CHECK(f64->coding[0].step == 16384);
    lull_comm_destroy(comm);
    setlocale(LC_NUMERIC, "C");
}

int main(int argc, char **argv) {
    test_begin(&argc, &argv);
    spellings();
    decimal_comma();
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
    accepted("mxhybrid",
             "dp=mxint8;tp=bf16;pp=bf16;param=raw;min=16384;hier=0");
    accepted("mxhybrid;tp=none;min=0",
             "dp=mxint8;tp=none;pp=bf16;param=raw;min=0;hier=0");
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
    refused("zfp:8,8", LULL_ERR_INVALID, 8);
    refused("bf16:3", LULL_ERR_INVALID, 5);
    refused("mzhybrid:", LULL_ERR_INVALID, 10);
    refused("zhybrid:,8", LULL_ERR_INVALID, 9);
    refused("mzhybrid:99", LULL_ERR_INVALID, 10);
    refused("zhybrid:99,8", LULL_ERR_INVALID, 9);
    refused("zhybrid:16,99", LULL_ERR_INVALID, 12);
    refused("mxhybrid:8", LULL_ERR_INVALID, 9);
    refused("none;min=12k", LULL_ERR_INVALID, 12);
    refused("none;min=", LULL_ERR_INVALID, 10);
    refused("none;min=99999999999999999999", LULL_ERR_INVALID, 10);
    accepted("none;hier=1",
             "dp=none;tp=none;pp=none;param=none;min=16384;hier=1");
    refused("none;hier=2", LULL_ERR_INVALID, 11);
    refused("none;param=zfp:8", LULL_ERR_INVALID, 12);
    refused("none;other=mpc", LULL_ERR_INVALID, 12);
    rules();
    automatic();
    decided();
    return test_end();
}
