/* Values of arrays as doubles, and how far two arrays are apart. */
#ifndef CLI_VALUES_H
#define CLI_VALUES_H

#include <lull/dtype.h>
#include <stdbool.h>
#include <stdint.h>

/* Can values of the dtype be read as doubles? (Not the 8-bit floats and the
 * packed ones.) */
bool value_known(lull_dtype_t dtype);
/* Value `index` of an array. */
double value_at(lull_dtype_t dtype, const void *data, uint64_t index);

typedef struct compare {
    uint64_t different; /* values (or bytes) whose bits differ */
    double max_abs;     /* nan: a NaN against another value */
    double rel_l2;
    double sum_diff, sum_a; /* of squares */
} compare_t;

void compare_begin(compare_t *compare);
void compare_add(compare_t *compare, lull_dtype_t dtype, const void *a,
                 const void *b, uint64_t bytes);
void compare_end(compare_t *compare);

#endif
