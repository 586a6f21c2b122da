/* Saves a checkpoint of one tensor to argv[1], as another program would:
 * lull-train must refuse it. argv[2], if given, is a key of its metadata. */
#include <lull/ckpt.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    static const float values[4] = {1, 2, 3, 4};
    lull_ckpt_options_t options = LULL_CKPT_OPTIONS_INIT;
    lull_ckpt_t *ckpt;
    options.dir = argc > 1 ? argv[1] : "";
    options.world = 1;
    if (lull_ckpt_open(&options, &ckpt) != LULL_OK)
        goto failed;
    lull_ckpt_tensor_t tensor = LULL_CKPT_TENSOR_INIT;
    tensor.name = "weight";
    tensor.dtype = LULL_F32;
    tensor.ndim = 1;
    tensor.global_shape[0] = tensor.shape[0] = 4;
    tensor.data = values;
    const lull_ckpt_meta_t meta = {argc > 2 ? argv[2] : "made.by", "hand"};
    lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
    save.step = 10;
    save.tensors = &tensor;
    save.tensor_count = 1;
    save.meta = &meta;
    save.meta_count = 1;
    if (lull_ckpt_save(ckpt, &save, NULL) != LULL_OK ||
        lull_ckpt_close(ckpt) != LULL_OK)
        goto failed;
    lull_ckpt_destroy(ckpt);
    return EXIT_SUCCESS;
failed:
    fprintf(stderr, "foreign_checkpoint: %s\n", lull_last_error());
    return EXIT_FAILURE;
}
