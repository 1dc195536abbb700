// What the readers of protobuf messages share. Internal to foreign/; one thread at a time.
#pragma once

#include "base/result.hpp"
#include "trace/import/bytes/source.hpp"
#include "trace/open.hpp"

#include <protozero/pbf_reader.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace vram::trace {

// protozero reads a field as whatever type it is asked for: the type that was written is checked
// here, and fields of another one are skipped.
inline bool has_number(const protozero::pbf_reader& message, uint32_t tag) {
  return message.tag_and_type() == protozero::tag_and_type(tag, protozero::pbf_wire_type::varint);
}

inline bool has_bytes(const protozero::pbf_reader& message, uint32_t tag) {
  return message.tag_and_type() ==
         protozero::tag_and_type(tag, protozero::pbf_wire_type::length_delimited);
}

inline std::string_view text_of(protozero::pbf_reader& message) {
  const protozero::data_view text = message.get_view();
  return {text.data(), text.size()};
}

// All bytes of a source; kTooLarge above the limit. `what`: "a profile".
[[nodiscard]] Result<std::string> read_all(ByteSource& source, const OpenOptions& options,
                                           uint64_t max_bytes, std::string_view what);

}  // namespace vram::trace
