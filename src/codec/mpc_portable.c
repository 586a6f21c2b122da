/* MPC's kernels in plain C: the reference for the variants. */
#include <string.h>

#include "codec/mpc.h"

#define MPC_WORD uint16_t
#define MPC_BITS 16
#include "codec/mpc_word.h"

#define MPC_WORD uint32_t
#define MPC_BITS 32
#include "codec/mpc_word.h"

#define MPC_WORD uint64_t
#define MPC_BITS 64
#include "codec/mpc_word.h"

const lull__mpc_kernel_t lull__mpc_portable[3] = {
    {lull__mpc_encode16, lull__mpc_decode16},
    {lull__mpc_encode32, lull__mpc_decode32},
    {lull__mpc_encode64, lull__mpc_decode64},
};
