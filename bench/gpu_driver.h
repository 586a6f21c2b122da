/* The CUDA driver as bench_gpu uses it, loaded at run time: the yardsticks,
 * the kernels and the memory of a training that the engine runs beside.
 * Source: the CUDA Driver API reference. */
#ifndef GPU_DRIVER_H
#define GPU_DRIVER_H

#include <stddef.h>

typedef unsigned long long gpu_pointer_t;
typedef void *gpu_handle_t; /* context, stream, module, function */

#define GPU_TABLE(X)                                                         \
    X(cuInit, (unsigned))                                                    \
    X(cuDeviceGet, (int *, int))                                             \
    X(cuDeviceGetName, (char *, int, int))                                   \
    X(cuDevicePrimaryCtxRetain, (gpu_handle_t *, int))                       \
    X(cuCtxPushCurrent_v2, (gpu_handle_t))                                   \
    X(cuMemAlloc_v2, (gpu_pointer_t *, size_t))                              \
    X(cuMemFree_v2, (gpu_pointer_t))                                         \
    X(cuMemHostAlloc, (void **, size_t, unsigned))                           \
    X(cuMemFreeHost, (void *))                                               \
    X(cuMemcpyHtoD_v2, (gpu_pointer_t, const void *, size_t))                \
    X(cuMemcpyDtoH_v2, (void *, gpu_pointer_t, size_t))                      \
    X(cuMemcpyDtoHAsync_v2, (void *, gpu_pointer_t, size_t, gpu_handle_t))   \
    X(cuMemsetD8Async, (gpu_pointer_t, unsigned char, size_t, gpu_handle_t)) \
    X(cuStreamCreate, (gpu_handle_t *, unsigned))                            \
    X(cuStreamSynchronize, (gpu_handle_t))                                   \
    X(cuModuleLoadData, (gpu_handle_t *, const void *))                      \
    X(cuModuleGetFunction, (gpu_handle_t *, gpu_handle_t, const char *))     \
    X(cuLaunchKernel,                                                        \
      (gpu_handle_t, unsigned, unsigned, unsigned, unsigned, unsigned,       \
       unsigned, unsigned, gpu_handle_t, void **, void **))

typedef struct gpu {
#define GPU_MEMBER(name, parameters) int(*name) parameters;
    GPU_TABLE(GPU_MEMBER)
#undef GPU_MEMBER
} gpu_t;

/* Two kernels, in the driver's own intermediate language, so that no compiler
 * is needed. spin(out, loops): 16 dependent multiply-adds a loop, one store.
 * stream(to, from, count): copies 16-byte words. */
static const char gpu_kernels[] =
    ".version 6.4\n.target sm_60\n.address_size 64\n"
    ".visible .entry spin(.param .u64 out, .param .u32 loops)\n{\n"
    " .reg .pred %p; .reg .f32 %f<3>; .reg .b32 %r<5>; .reg .b64 %d<3>;\n"
    " ld.param.u64 %d0, [out]; ld.param.u32 %r0, [loops];\n"
    " mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
    " mad.lo.s32 %r4, %r1, %r2, %r3; cvt.rn.f32.s32 %f0, %r4;\n"
    " mov.f32 %f1, 0f3F7FFFFF; mov.f32 %f2, 0f3F000000;\n"
    "again:\n"
#define GPU_FMA4                                                       \
    " fma.rn.f32 %f0, %f0, %f1, %f2; fma.rn.f32 %f0, %f0, %f1, %f2;\n" \
    " fma.rn.f32 %f0, %f0, %f1, %f2; fma.rn.f32 %f0, %f0, %f1, %f2;\n"
    GPU_FMA4 GPU_FMA4 GPU_FMA4 GPU_FMA4
    " sub.s32 %r0, %r0, 1; setp.gt.s32 %p, %r0, 0; @%p bra again;\n"
    " cvta.to.global.u64 %d1, %d0; mul.wide.u32 %d2, %r4, 4;\n"
    " add.s64 %d1, %d1, %d2; st.global.f32 [%d1], %f0; ret;\n}\n"
    ".visible .entry stream(.param .u64 to, .param .u64 from,\n"
    " .param .u64 count)\n{\n"
    " .reg .pred %p; .reg .f32 %f<4>; .reg .b32 %r<4>; .reg .b64 %d<9>;\n"
    " ld.param.u64 %d0, [to]; ld.param.u64 %d1, [from];\n"
    " ld.param.u64 %d2, [count];\n"
    " cvta.to.global.u64 %d0, %d0; cvta.to.global.u64 %d1, %d1;\n"
    " mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x;\n"
    " mov.u32 %r3, %nctaid.x;\n"
    " mul.wide.u32 %d3, %r0, %r1; cvt.u64.u32 %d4, %r2;\n"
    " add.s64 %d3, %d3, %d4; mul.wide.u32 %d4, %r3, %r1;\n"
    "again:\n"
    " setp.ge.u64 %p, %d3, %d2; @%p bra done;\n"
    " shl.b64 %d5, %d3, 4; add.s64 %d6, %d1, %d5; add.s64 %d7, %d0, %d5;\n"
    " ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%d6];\n"
    " st.global.v4.f32 [%d7], {%f0, %f1, %f2, %f3};\n"
    " add.s64 %d3, %d3, %d4; bra again;\n"
    "done:\n ret;\n}\n";

#endif
