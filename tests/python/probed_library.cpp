// Stands in for PyTorch's libc10_cuda.so: an allocator's probes, and nothing that allocates.
#include "attach/testing/probe.hpp"

#include <cstdint>

extern "C" void probed_malloc(uint64_t address, int8_t device, uint64_t size_bytes,
                              int64_t stream) {
  if (stand_in_malloc_semaphore == 0) return;
  asm volatile(
      VRAM_TEST_PROBE("pytorch", "malloc", "8@%[address] -1@%[device] 8@%[size] -8@%[stream]")
      :
      : [address] "nor"(address), [device] "nor"(device), [size] "nor"(size_bytes),
        [stream] "nor"(stream));
}

extern "C" void probed_free(uint64_t address) {
  if (stand_in_free_semaphore == 0) return;
  asm volatile(VRAM_TEST_PROBE("pytorch", "free", "8@%[address]") : : [address] "nor"(address));
}
