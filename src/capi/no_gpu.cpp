// What python/vram/dry/_guard.py puts into PyTorch's table of a device guard, where there is no
// GPU. Callbacks of ctypes cannot return structs, therefore these two are here; they are no part of
// the library's interface.
#include <cstdint>

// c10::Stream of PyTorch: c10::Device (type and index, a byte each) and a number; 0 is the default
// stream.
struct TorchStream {
  uint16_t device;
  int64_t number;
};

extern "C" {

/// c10::impl::DeviceGuardImplInterface::getStream(): the default stream of a device.
__attribute__((visibility("default"))) TorchStream vram_dry_stream(const void* /*guard*/,
                                                                   uint16_t device) {
  return {device, 0};
}

/// The same class' exchangeStream(): every stream is the current one already.
__attribute__((visibility("default"))) TorchStream vram_dry_same_stream(const void* /*guard*/,
                                                                        TorchStream stream) {
  return stream;
}
}
