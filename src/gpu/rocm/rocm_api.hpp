// RocmApi: the used functions of librocm_smi64.so as a table, loaded at run time. A function that
// the version lacks is null, and affects only its own figure. RocmSmi uses it.
//
// The library is closed with the table, so that the next load sees an upgrade of ROCm. May be
// loaded and called from any thread.
#pragma once

#include "base/result.hpp"
#include "gpu/rocm/rocm_types.hpp"

#include <memory>
#include <string>
#include <vector>

namespace vram::gpu::rocm {

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

}  // namespace vram::gpu::rocm
