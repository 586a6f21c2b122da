/* expo's kernels for AVX2. */
#include "codec/expo.h"
typedef int lull__todo;
