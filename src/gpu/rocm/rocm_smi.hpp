// RocmSmi: AMD's management library, started; reads the figures of each device that drm/ does not
// get from the kernel's files.
//
//     RocmApi ──▶ RocmSmi ──▶ devices by PCI address ──▶ query() ──▶ drm::AmdExtra
//
// Any of its calls may block for long, and opening it wakes sleeping devices: RocmExtras handles
// both. Use it from one thread at a time. The destructor shuts the library down.
#pragma once

#include "base/result.hpp"
#include "gpu/drm/drm.hpp"
#include "gpu/rocm/rocm_types.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace vram::gpu::rocm {

// RocmApi: the used functions of librocm_smi64.so as a table, loaded at run time. A function that
// the version lacks is null, and affects only its own figure. RocmSmi uses it.
//
// The library is closed with the table, so that the next load sees an upgrade of ROCm. May be
// loaded and called from any thread.
struct RocmApi {
  struct Unload {
    void operator()(void* opened) const;
  };

  // A function's result for the device with this number.
  template <typename... Values>
  using Of = RsmiStatus(uint32_t index, Values... values);

  std::unique_ptr<void, Unload> library;

  RsmiStatus (*init)(uint64_t flags) = nullptr;
  RsmiStatus (*shut_down)() = nullptr;
  RsmiStatus (*device_count)(uint32_t* count) = nullptr;
  Of<uint64_t*>* pci_id = nullptr;

  // From here on each may be null.
  Of<char*, uint32_t>* market_name = nullptr;
  Of<char*, size_t>* name = nullptr;
  Of<uint64_t, ErrorCount*>* error_count = nullptr;
  Of<uint32_t*, PageRecord*>* bad_pages = nullptr;

  // The first of these files that there is. kNotFound: none of them. kUnsupported: a library that
  // is not ROCm SMI.
  [[nodiscard]] static Result<RocmApi> load(const std::vector<std::string>& files);
};

// The file that the environment variable VRAM_ROCM_SMI names, else the library by the names that it
// has from ROCm 5 to 7.
[[nodiscard]] std::vector<std::string> libraries();

class RocmSmi {
 public:
  // Errors as RocmApi::load; kUnsupported also: it does not start.
  [[nodiscard]] static Result<RocmSmi> open(const std::vector<std::string>& files);
  RocmSmi(RocmSmi&& other) noexcept = default;
  RocmSmi& operator=(RocmSmi&&) = delete;
  ~RocmSmi();

  // Impossible and missing figures are unknown, as is everything of a device that the library does
  // not list. For a partitioned device, the figures of its first partition.
  [[nodiscard]] drm::AmdExtra query(const std::string& pci_id) const;

 private:
  explicit RocmSmi(RocmApi api) : api_(std::move(api)) {}
  [[nodiscard]] Result<> count_devices();

  RocmApi api_;                              // without a library: moved from
  std::map<std::string, uint32_t> devices_;  // their numbers, by PCI address
};

}  // namespace vram::gpu::rocm
