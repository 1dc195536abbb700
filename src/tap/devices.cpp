#include "tap/devices.hpp"

#include "tap/found.hpp"

#include <atomic>

namespace vram::tap {
namespace {

// Looked for until the driver is there.
template <typename Function>
class LazyFunction {
 public:
  explicit constexpr LazyFunction(const char* name) : name_(name) {}
  Function get() {
    void* function = function_.load(std::memory_order_relaxed);
    if (function == nullptr) {
      function = driver_function(name_);
      function_.store(function, std::memory_order_relaxed);
    }
    return reinterpret_cast<Function>(function);
  }

 private:
  const char* name_;
  std::atomic<void*> function_ = nullptr;
};

constinit LazyFunction<Result (*)(Device*)> context_device("cuCtxGetDevice");
constinit LazyFunction<Result (*)(Stream, Context*)> stream_context("cuStreamGetCtx");
constinit LazyFunction<Result (*)(Context)> push_context("cuCtxPushCurrent_v2");
constinit LazyFunction<Result (*)(Context*)> pop_context("cuCtxPopCurrent_v2");
constinit LazyFunction<Result (*)(void*, int, DevicePointer)> pointer_attribute(
    "cuPointerGetAttribute");
constinit LazyFunction<Result (*)(MemoryProperties*, Handle)> handle_properties(
    "cuMemGetAllocationPropertiesFromHandle");

// The default stream, and the handles CU_STREAM_LEGACY and CU_STREAM_PER_THREAD.
bool is_default(Stream stream) { return reinterpret_cast<uintptr_t>(stream) <= 2; }

}  // namespace

Device current_device() {
  const auto get = context_device.get();
  Device device = 0;
  return get != nullptr && get(&device) == kSuccess ? device : 0;
}

Device device_of_stream(Stream stream) {
  const auto context_of = stream_context.get();
  const auto push = push_context.get();
  const auto pop = pop_context.get();
  Context context = nullptr;
  if (is_default(stream) || context_of == nullptr || push == nullptr || pop == nullptr ||
      context_of(stream, &context) != kSuccess || push(context) != kSuccess) {
    return current_device();
  }
  const Device device = current_device();
  (void)pop(&context);
  return device;
}

// The driver says a device of the host's memory, too. It knows no address that a graph will have.
Device device_of_block(DevicePointer address, Stream stream) {
  const auto get = pointer_attribute.get();
  unsigned type = 0;
  Device device = 0;
  if (get == nullptr || get(&type, kAttributeMemoryType, address) != kSuccess ||
      get(&device, kAttributeDeviceOrdinal, address) != kSuccess) {
    return device_of_stream(stream);
  }
  return type != kMemoryTypeHost && device >= 0 ? device : kHost;
}

Device device_of_handle(Handle handle) {
  const auto get = handle_properties.get();
  MemoryProperties properties{};
  if (get == nullptr || get(&properties, handle) != kSuccess) return current_device();
  return properties.location_type == kLocationDevice ? properties.location : kHost;
}

}  // namespace vram::tap
