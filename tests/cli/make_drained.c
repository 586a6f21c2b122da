/* make_drained FAST SLOW FILES: drains the checkpoints of FAST to SLOW, the
 * ranks' files merged into FILES. */
#include <lull/ckpt.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    lull_ckpt_tier_t tier = LULL_CKPT_TIER_INIT;
    tier.dir = argv[2];
    tier.files = (uint32_t)atoi(argv[3]);
    lull_ckpt_options_t options = LULL_CKPT_OPTIONS_INIT;
    options.dir = argv[1];
    options.world = 1;
    options.buffer_bytes = 1 << 20;
    options.tiers = &tier;
    options.tier_count = 1;
    lull_ckpt_t *ckpt;
    lull_status_t status = lull_ckpt_open(&options, &ckpt);
    if (status == LULL_OK) {
        status = lull_ckpt_close(ckpt);
        lull_ckpt_destroy(ckpt);
    }
    if (status != LULL_OK)
        fprintf(stderr, "make_drained: %s\n", lull_last_error());
    return status != LULL_OK;
}
