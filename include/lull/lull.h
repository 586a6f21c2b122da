/* All of liblull. comm.h, which needs MPI, is included by its users. */
#ifndef LULL_LULL_H
#define LULL_LULL_H

#include "ckpt.h"
#include "codec.h"
#include "device.h"
#include "dtype.h"
#include "safetensors.h"
#include "status.h"

#endif
