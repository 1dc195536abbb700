#include "trace/import/foreign/foreign.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

namespace vram::trace {
namespace {

// The first members of what torch.profiler exports, in the orders of several versions.
constexpr std::array<std::string_view, 5> kFirstMembers = {
    "schemaVersion", "deviceProperties", "baseTimeNanoseconds", "displayTimeUnit", "traceEvents"};
constexpr std::string_view kRmmHead = "Thread,Time,Action,Pointer,Size,Stream";

// What XProf's tool memory_profile writes.
constexpr std::array<std::string_view, 4> kMemoryProfileMembers = {
    "memoryProfilePerAllocator", "numHosts", "memoryIds", "version"};

// A JSON object whose first member is one of these, as far as the text goes.
bool begins_with_member(std::string_view text, std::span<const std::string_view> members) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto skip = [&](std::string_view start) {
    text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
    if (!text.starts_with(start)) return false;
    text.remove_prefix(start.size());
    return true;
  };
  if (!skip("{") || !skip("\"") || text.empty()) return false;
  return std::ranges::any_of(members, [&](std::string_view member) {
    return member.substr(0, text.size()) == text.substr(0, member.size());
  });
}

// Planes (field 1), the first of which has an id (field 1) or none, and a name (field 2) such as
// "/host:CPU".
bool is_xspace(std::string_view text) {
  const auto skip_varint = [&] {
    while (!text.empty() && (text[0] & 0x80) != 0) text.remove_prefix(1);
    text.remove_prefix(std::min<size_t>(1, text.size()));
  };
  const auto skip_tag = [&](char tag) {
    if (text.empty() || text[0] != tag) return false;
    text.remove_prefix(1);
    skip_varint();
    return true;
  };
  if (!skip_tag(0x0a)) return false;
  (void)skip_tag(0x08);
  if (!skip_tag(0x12) || text.size() < 3) return false;
  constexpr std::array<std::string_view, 3> kPlanes = {"/host:", "/device:", "Task Environment"};
  return std::ranges::any_of(kPlanes, [&](std::string_view plane) {
    const size_t common = std::min(plane.size(), text.size());
    return plane.substr(0, common) == text.substr(0, common);
  });
}

// A type of samples (field 1) of few bytes, which begins with its own name (field 1).
bool is_heap_profile(std::string_view text) {
  constexpr char kMaxSampleType = 12;
  return text.size() > 3 && text[0] == 0x0a && text[1] > 1 && text[1] <= kMaxSampleType &&
         text[2] == 0x08;
}

Result<Trace> import_form(ByteSource& source, ForeignForm form, const OpenOptions& options) {
  switch (form) {
    case ForeignForm::kProfilerTrace:
      return import_profiler_trace(source, options);
    case ForeignForm::kRmmLog:
      return import_rmm_log(source, options);
    case ForeignForm::kHeapProfile:
      return import_heap_profile(source, options);
    case ForeignForm::kXSpace:
      return import_xspace(source, options);
    case ForeignForm::kMemoryProfile:
      return import_memory_profile(source, options);
  }
  return fail(Code::kUnsupported, "expected a known form of recording");
}

}  // namespace

std::optional<ForeignForm> foreign_form(std::span<const std::byte> first_bytes) {
  const std::string_view text(reinterpret_cast<const char*>(first_bytes.data()),
                              first_bytes.size());
  if (!text.empty() && kRmmHead.starts_with(text.substr(0, kRmmHead.size())) &&
      text.size() >= std::string_view("Thread,Time,").size())
    return ForeignForm::kRmmLog;
  if (begins_with_member(text, kFirstMembers)) return ForeignForm::kProfilerTrace;
  if (begins_with_member(text, kMemoryProfileMembers)) return ForeignForm::kMemoryProfile;
  if (is_xspace(text)) return ForeignForm::kXSpace;
  if (is_heap_profile(text)) return ForeignForm::kHeapProfile;
  return std::nullopt;
}

Result<Trace> import_foreign(ByteSource& source, ForeignForm form, const OpenOptions& options) {
  auto trace = import_form(source, form, options);
  const std::string_view packing = source.compression();
  if (trace && !packing.empty()) trace->origin.format += fmt::format(", {}", packing);
  return trace;
}

}  // namespace vram::trace
