/* The codec policy of checkpoints: which codec each class of tensors is
 * stored with. Grammar and classes: lull_ckpt_options_t.codec. */
#ifndef LULL__CKPT_CLASSES_H
#define LULL__CKPT_CLASSES_H

#include <lull/codec.h>
#include <stdbool.h>

#define LULL__DTYPES 32 /* more than the greatest value of a dtype */

typedef enum lull__class {
    LULL__CLASS_WEIGHTS,
    LULL__CLASS_MOMENTS,
    LULL__CLASSES
} lull__class_t;

/* How tensors of one class and dtype are stored. */
typedef struct lull__class_codec {
    bool coded; /* false: raw */
    lull_codec_t codec;
    char spec[LULL_CODEC_SPEC_MAX];
} lull__class_codec_t;

typedef struct lull__classes {
    lull__class_codec_t of[LULL__CLASSES][LULL__DTYPES];
    bool any;          /* something is coded */
    size_t frame_most; /* bytes of the largest frame */
} lull__classes_t;

/* NULL and "": all raw. LULL_ERR_INVALID, _NOT_FOUND: the sentence points at
 * the place. */
lull_status_t lull__classes_parse(const char *policy, lull__classes_t *out);
/* NULL: raw. */
const lull__class_codec_t *lull__classes_find(const lull__classes_t *classes,
                                              const char *name,
                                              lull_dtype_t dtype);

#endif
