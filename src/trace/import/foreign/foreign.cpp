#include "trace/import/foreign/foreign.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace vram::trace {
namespace {

// The first members of what torch.profiler exports, in the orders of several versions.
constexpr std::array<std::string_view, 5> kFirstMembers = {
    "schemaVersion", "deviceProperties", "baseTimeNanoseconds", "displayTimeUnit", "traceEvents"};
constexpr std::string_view kRmmHead = "Thread,Time,Action,Pointer,Size,Stream";

bool is_profiler_trace(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto skip = [&](std::string_view start) {
    text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
    if (!text.starts_with(start)) return false;
    text.remove_prefix(start.size());
    return true;
  };
  if (!skip("{") || !skip("\"") || text.empty()) return false;
  return std::ranges::any_of(kFirstMembers, [&](std::string_view member) {
    return member.substr(0, text.size()) == text.substr(0, member.size());
  });
}

// A type of samples (field 1) of few bytes, which begins with its own name (field 1).
bool is_heap_profile(std::string_view text) {
  constexpr char kMaxSampleType = 12;
  return text.size() > 3 && text[0] == 0x0a && text[1] > 1 && text[1] <= kMaxSampleType &&
         text[2] == 0x08;
}

}  // namespace

std::optional<ForeignForm> foreign_form(std::span<const std::byte> first_bytes) {
  const std::string_view text(reinterpret_cast<const char*>(first_bytes.data()),
                              first_bytes.size());
  if (!text.empty() && kRmmHead.starts_with(text.substr(0, kRmmHead.size())) &&
      text.size() >= std::string_view("Thread,Time,").size())
    return ForeignForm::kRmmLog;
  if (is_profiler_trace(text)) return ForeignForm::kProfilerTrace;
  if (is_heap_profile(text)) return ForeignForm::kHeapProfile;
  return std::nullopt;
}

Result<Trace> import_foreign(ByteSource& source, ForeignForm form, const OpenOptions& options) {
  auto trace = form == ForeignForm::kProfilerTrace ? import_profiler_trace(source, options)
               : form == ForeignForm::kRmmLog      ? import_rmm_log(source, options)
                                                   : import_heap_profile(source, options);
  const std::string_view packing = source.compression();
  if (trace && !packing.empty()) trace->origin.format += fmt::format(", {}", packing);
  return trace;
}

}  // namespace vram::trace
