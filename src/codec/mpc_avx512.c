/* MPC's kernels for AVX-512. */
#include "codec/mpc.h"

const lull__mpc_kernel_t lull__mpc_avx512[3] = {
    {lull__mpc_encode16, lull__mpc_decode16},
    {lull__mpc_encode32, lull__mpc_decode32},
    {lull__mpc_encode64, lull__mpc_decode64},
};
