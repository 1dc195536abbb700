#include "gpu/cuda/cuda_copies.hpp"

#include "gpu/cuda/driver.hpp"
#include "gpu/symbols.hpp"

#include <array>
#include <cctype>

namespace vram::gpu::cuda {
namespace {

constexpr unsigned kStreamNonBlocking = 1;  // CU_STREAM_NON_BLOCKING: does not wait for stream 0
constexpr unsigned kHostPortable = 1;       // CU_MEMHOSTALLOC_PORTABLE: pinned for all contexts
constexpr int kNameBytes = 256;
constexpr uint64_t kWordBytes = 4;

std::string uuid_text(const CUuuid& uuid) {
  std::string text = "GPU-";
  for (size_t i = 0; i < sizeof(uuid.bytes); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", uuid.bytes[i]);
  }
  return text;
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

DeviceNames names_of(const CopyApi& api, CUdevice device) {
  DeviceNames names;
  std::array<char, kNameBytes> text{};
  CUuuid uuid;
  if (api.device_get_name(text.data(), kNameBytes - 1, device) == kSuccess)
    names.name = text.data();
  if (api.device_get_uuid(&uuid, device) == kSuccess) names.uuid = uuid_text(uuid);
  text.fill(0);
  if (api.device_get_pci_bus_id(text.data(), kNameBytes - 1, device) == kSuccess)
    names.pci_id = lower(text.data());
  return names;
}

Result<std::unique_ptr<CudaCopies>> CudaCopies::open(const DriverApi& driver, const CopyApi& api,
                                                     uint32_t ordinal) {
  // Not make_unique: the constructor is private.
  std::unique_ptr<CudaCopies> copies(new CudaCopies(driver, api, ordinal));
  CUresult result = driver.device_get(&copies->device_, static_cast<int>(ordinal));
  if (result == kSuccess)
    result = driver.device_primary_ctx_retain(&copies->context_, copies->device_);
  if (result != kSuccess) {
    copies->context_ = nullptr;
    return fail(Code::kUnsupported,
                "expected CUDA device {} to start, found that the driver answers {}: see with "
                "nvidia-smi whether it is healthy",
                ordinal, driver.name_of(result));
  }
  return copies;
}

CudaCopies::~CudaCopies() {
  if (context_ != nullptr) (void)driver_.device_primary_ctx_release(device_);
}

template <typename Call>
Status CudaCopies::run(Call call) {
  const CurrentContext current(driver_, context_);
  const CUresult result = current.result() == kSuccess ? call() : current.result();
  if (result != kSuccess) last_failure_.store(result, std::memory_order_relaxed);
  return status_of(result);
}

template <typename Call>
Status CudaCopies::run_on(uint32_t device, Call call) {
  return device == ordinal_ ? run(call) : Status::kInvalidValue;
}

Status CudaCopies::pin(uint64_t bytes, void** host) {
  void* got = nullptr;
  if (bytes == 0) return Status::kInvalidValue;
  const Status status = run([&] { return api_.mem_host_alloc(&got, bytes, kHostPortable); });
  if (status == Status::kOk) *host = got;
  return status;
}

Status CudaCopies::unpin(void* host) {
  return run([&] { return api_.mem_free_host(host); });
}

Status CudaCopies::create_stream(uint32_t device, StreamHandle* stream) {
  CUstream made = nullptr;
  const Status status =
      run_on(device, [&] { return api_.stream_create(&made, kStreamNonBlocking); });
  if (status == Status::kOk) *stream = reinterpret_cast<StreamHandle>(made);
  return status;
}

Status CudaCopies::destroy_stream(StreamHandle stream) {
  // The driver would take 0 for its own default stream.
  if (stream == 0) return Status::kInvalidValue;
  return run([&] { return api_.stream_destroy(as_stream(stream)); });
}

Status CudaCopies::copy_in(uint32_t device, StreamHandle stream, Address to, const void* from,
                           uint64_t bytes) {
  return run_on(device, [&] { return api_.memcpy_htod_async(to, from, bytes, as_stream(stream)); });
}

Status CudaCopies::copy_out(uint32_t device, StreamHandle stream, void* to, Address from,
                            uint64_t bytes) {
  return run_on(device, [&] { return api_.memcpy_dtoh_async(to, from, bytes, as_stream(stream)); });
}

Status CudaCopies::copy(uint32_t device, StreamHandle stream, Address to, Address from,
                        uint64_t bytes) {
  return run_on(device, [&] { return api_.memcpy_dtod_async(to, from, bytes, as_stream(stream)); });
}

Status CudaCopies::fill(uint32_t device, StreamHandle stream, Address to, uint32_t word,
                        uint64_t bytes) {
  if (to % kWordBytes != 0 || bytes % kWordBytes != 0) return Status::kInvalidValue;
  return run_on(device, [&] {
    return api_.memset_d32_async(to, word, bytes / kWordBytes, as_stream(stream));
  });
}

Result<CopyApi> CopyApi::load(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return fail(Code::kNotFound, "expected the CUDA driver as {}, found that it can't be opened",
                path);
  }
  CopyApi api;
  Symbols symbols(library);
  symbols.find("cuMemHostAlloc", api.mem_host_alloc);
  symbols.find("cuMemFreeHost", api.mem_free_host);
  symbols.find("cuStreamCreate", api.stream_create);
  symbols.find("cuStreamDestroy_v2", api.stream_destroy);
  symbols.find("cuMemcpyHtoDAsync_v2", api.memcpy_htod_async);
  symbols.find("cuMemcpyDtoHAsync_v2", api.memcpy_dtoh_async);
  symbols.find("cuMemcpyDtoDAsync_v2", api.memcpy_dtod_async);
  symbols.find("cuMemsetD32Async", api.memset_d32_async);
  symbols.find("cuDeviceGetName", api.device_get_name);
  // Since 11.4 there is one that tells the parts of a divided device apart.
  symbols.find_newest("cuDeviceGetUuid_v2", "cuDeviceGetUuid", api.device_get_uuid);
  symbols.find("cuDeviceGetPCIBusId", api.device_get_pci_bus_id);
  if (!symbols.missing().empty()) {
    return fail(Code::kUnsupported,
                "expected a CUDA driver of version 11.0 or later as {}, found a library without "
                "{}: update NVIDIA's driver",
                path, symbols.missing());
  }
  return api;
}

}  // namespace vram::gpu::cuda
