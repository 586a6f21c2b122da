/* Parsing --ckpt-tier. */
#include "tiers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"

static const char wanted[] = "DIR[,keep-last=N][,keep-every=N][,files=N]";

static lull_status_t refuse(const char *text, const char *why) {
    return train_fail(LULL_ERR_INVALID, "--ckpt-tier: '%s': %s: give %s", text,
                      why, wanted);
}

/* "key=number" into its field; false: not so. */
static bool set_key(lull_ckpt_tier_t *tier, const char *piece) {
    static const char *const keys[] = {"keep-last=", "keep-every=", "files="};
    for (int i = 0; i < 3; ++i) {
        size_t n = strlen(keys[i]);
        char *end;
        if (strncmp(piece, keys[i], n) != 0)
            continue;
        errno = 0;
        unsigned long long value = strtoull(piece + n, &end, 10);
        if (errno != 0 || piece[n] < '0' || piece[n] > '9' || *end != '\0' ||
            (i != 1 && value > UINT32_MAX))
            return false;
        if (i == 0)
            tier->keep_last = (uint32_t)value;
        else if (i == 1)
            tier->keep_every = value;
        else
            tier->files = (uint32_t)value;
        return true;
    }
    return false;
}

lull_status_t tier_parse(const char *text, tier_spec_t *out) {
    *out = (tier_spec_t){.tier = LULL_CKPT_TIER_INIT};
    if (strlen(text) >= sizeof out->dir)
        return refuse(text, "too long");
    strcpy(out->dir, text);
    out->tier.dir = out->dir;
    for (;;) {
        char *comma = strrchr(out->dir, ',');
        if (comma == NULL || strchr(comma, '=') == NULL ||
            strchr(comma, '/') != NULL)
            break;
        if (!set_key(&out->tier, comma + 1))
            return refuse(text, comma + 1);
        *comma = '\0';
    }
    return out->dir[0] != '\0' ? LULL_OK : refuse(text, "no directory");
}

void tier_dirs_fill(const config_t *config, tier_dirs_t *out) {
    out->dirs[0] = config->ckpt_dir;
    out->count = 1;
    for (int i = 0; i < config->ckpt_tiers.count; ++i) {
        /* It was checked when the options were read. */
        (void)tier_parse(config->ckpt_tiers.text[i], &out->specs[i]);
        out->dirs[out->count++] = out->specs[i].dir;
    }
}
