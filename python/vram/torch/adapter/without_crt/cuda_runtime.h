// Stands for CUDA's cuda_runtime.h where the installed CUDA headers lack its folder crt/, which
// comes with the compiler for device code. Newer versions of PyTorch include it in c10, which needs
// the runtime's C interface alone.
#pragma once

#include <cuda_runtime_api.h>
