// What python/vram/dry/_guard.py puts into PyTorch's table of a device guard, where there is no
// GPU.
#include <vram/record.h>

// c10::impl::DeviceGuardImplInterface::getStream()
vram_torch_stream vram_torch_default_stream(const void* /*guard*/, uint16_t device) {
  return {.device = device, .number = 0};
}

// exchangeStream() of the same class: every stream is the current one already.
vram_torch_stream vram_torch_same_stream(const void* /*guard*/, vram_torch_stream stream) {
  return stream;
}
