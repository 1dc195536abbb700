// Files and bytes for the tests of import/.
#pragma once

#include "base/testing/paths.hpp"
#include "trace/import/torch_snapshot.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

namespace vram::trace {

inline std::string test_file(const std::string& name) {
  const std::string path = data_path(name);
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

inline Result<Trace> import_bytes(std::string_view packed, const OpenOptions& options = {},
                                  const SnapshotLimits& limits = {}) {
  Result<std::unique_ptr<ByteSource>> source = decompressed(memory_source(bytes_of(packed)));
  if (!source) return tl::unexpected(source.error());
  return import_torch_snapshot(**source, options, limits);
}

}  // namespace vram::trace
