// RocmApi: the functions of librocm_smi64.so that are used here, as a table, opened at run time. A
// function that the version lacks is null, and takes only its own figure away. RocmSmi stands on
// it.
//
// The library is let go of with the table: an upgrade of ROCm is seen by the next who loads. Any
// thread may load and may call.
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

  // What a function answers, of the device of that number.
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
