/* Our table of the CUDA driver's entry points against cuda.h itself. Only
 * compiled, where that header exists. */
#include <cuda.h>

#include "device/cuda_driver.h"

/* A pointer to CUDA's own function must do as a member of the table. */
lull__cuda_t table_of_cuda_h(void);
lull__cuda_t table_of_cuda_h(void) {
    return (lull__cuda_t){
#define ROW(name, parameters) .name = name,
        LULL__CUDA_TABLE(ROW)
#undef ROW
    };
}

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
SAME(LULL__CU_SUCCESS, CUDA_SUCCESS);
SAME(LULL__CU_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT);
SAME(LULL__CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(LULL__CU_EVENT_BLOCKING_NO_TIMING,
     CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING);
SAME(LULL__CU_HOST_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE);
SAME(LULL__CU_CAPTURE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(LULL__CU_POINTER_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME(LULL__CU_POINTER_IS_MANAGED, CU_POINTER_ATTRIBUTE_IS_MANAGED);
SAME(LULL__CU_POINTER_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME(LULL__CU_MEMORY_HOST, CU_MEMORYTYPE_HOST);
SAME(LULL__CU_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE);
#define ROW(number, name, status, meaning) SAME(number, CUDA_ERROR_##name);
LULL__CUDA_RESULTS(ROW)
