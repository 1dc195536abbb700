#include "trace/import/torch/collected.hpp"

#include <limits>

namespace vram::trace::torch {

using pickle::Kind;
using pickle::Value;

uint64_t address_of(const Value& value) { return is_integer(value) ? value.payload : 0; }

uint64_t amount_of(const Value& value) {
  if (value.kind == Kind::kUnsigned) return value.payload;
  if (value.kind != Kind::kInt) return 0;
  return static_cast<int64_t>(value.payload) < 0 ? 0 : value.payload;
}

int64_t time_ns_of(const Value& microseconds) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 1000;
  if (microseconds.kind != Kind::kInt) return 0;
  const auto time_us = static_cast<int64_t>(microseconds.payload);
  return time_us > kMost || time_us < -kMost ? 0 : time_us * 1000;
}

bool is_integer(const Value& value) {
  return value.kind == Kind::kInt || value.kind == Kind::kUnsigned;
}

}  // namespace vram::trace::torch
