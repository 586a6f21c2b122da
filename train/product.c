/* Matrix products, by oneDNN where it was found when lull was built, else by
 * any CBLAS (docs/decisions/0020-matrix-products.md says why). */
#include "pass.h"

#include <stdlib.h>

#include "fail.h"

#ifdef TRAIN_ONEDNN
#include <oneapi/dnnl/dnnl.h>
#else
#include <cblas.h>
#endif

/* Whichever runtime the products came with. */
extern void omp_set_num_threads(int count) __attribute__((weak));
extern void openblas_set_num_threads(int count) __attribute__((weak));

void product_one_thread(void) {
    if (omp_set_num_threads && !getenv("OMP_NUM_THREADS"))
        omp_set_num_threads(1);
    if (openblas_set_num_threads && !getenv("OPENBLAS_NUM_THREADS") &&
        !getenv("OMP_NUM_THREADS"))
        openblas_set_num_threads(1);
}

lull_status_t product(product_kind_t kind, const product_t *p) {
    bool turn_a = kind == PRODUCT_TN, turn_b = kind == PRODUCT_NT;
    int a_stride = p->a_stride ? p->a_stride : turn_a ? p->rows : p->inner;
    int b_stride = p->b_stride ? p->b_stride : turn_b ? p->inner : p->cols;
    int c_stride = p->c_stride ? p->c_stride : p->cols;
    float alpha = p->alpha != 0 ? p->alpha : 1.0f;
#ifdef TRAIN_ONEDNN
    dnnl_status_t status = dnnl_sgemm(
        turn_a ? 'T' : 'N', turn_b ? 'T' : 'N', p->rows, p->cols, p->inner,
        alpha, p->a, a_stride, p->b, b_stride, p->beta, p->c, c_stride);
    if (status != dnnl_success)
        return train_fail(status == dnnl_out_of_memory ? LULL_ERR_NO_MEMORY
                                                       : LULL_ERR_INTERNAL,
                          "oneDNN: a product of %d x %d x %d failed: status %d",
                          p->rows, p->cols, p->inner, (int)status);
#else
    cblas_sgemm(CblasRowMajor, turn_a ? CblasTrans : CblasNoTrans,
                turn_b ? CblasTrans : CblasNoTrans, p->rows, p->cols, p->inner,
                alpha, p->a, a_stride, p->b, b_stride, p->beta, p->c, c_stride);
#endif
    return LULL_OK;
}
