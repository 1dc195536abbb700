#include "trace/import/torch/settings.hpp"

#include <fmt/format.h>

#include <bit>
#include <string>

namespace vram::trace::torch {

using pickle::Kind;
using pickle::Value;

namespace {

constexpr size_t kMaxSettings = 4096;  // shared dictionaries could make them endless
constexpr int kMaxDepth = 8;

std::string float_text(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

std::string value_text(const Collected& all, const Value& value);

std::string list_text(const Collected& all, const Value& list) {
  if (is(list, kPair)) {
    const PoolName pair = pair_of(list);
    return fmt::format("[{}, {}]", pair.first, pair.second);
  }
  std::string text;
  const auto add = [&text](const std::string& item) { text += (text.empty() ? "" : ", ") + item; };
  if (is(list, kScalars)) {
    for (const Value& item : all.scalar_lists[list.payload()]) add(value_text(all, item));
  } else if (is(list, kStack)) {
    const Tables& tables = all.trace.tables;
    for (const FrameId frame : tables.stacks[static_cast<StackId>(list.payload())]) {
      add(std::string(tables.strings[tables.frames[frame].function]));
    }
  }
  return '[' + text + ']';
}

std::string value_text(const Collected& all, const Value& value) {
  switch (value.kind()) {
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return value.payload() != 0 ? "True" : "False";
    case Kind::kInt:
      return std::to_string(value.integer());
    case Kind::kWideInt:
      return std::to_string(static_cast<int64_t>(all.numbers.bits(value)));
    case Kind::kUnsigned:
      return std::to_string(all.numbers.bits(value));
    case Kind::kFloat:
      return float_text(std::bit_cast<double>(all.numbers.bits(value)));
    case Kind::kText:
      return std::string(all.texts.view(static_cast<uint32_t>(value.payload())));
    case Kind::kRecord:
      return list_text(all, value);
    default:
      return "?";
  }
}

void flatten(const Collected& all, const Items& items, const std::string& prefix, int depth,
             std::vector<Setting>& settings) {
  for (const auto& [key, value] : items) {
    if (settings.size() >= kMaxSettings) return;
    const std::string name = prefix + value_text(all, key);
    if (is(value, kDict)) {
      if (depth < kMaxDepth)
        flatten(all, all.dicts[value.payload()], name + '.', depth + 1, settings);
    } else {
      settings.push_back({name, value_text(all, value)});
    }
  }
}

const Value* find_setting(const Collected& all, std::string_view name) {
  if (!is(all.root[kAllocatorSettings], kDict)) return nullptr;
  for (const auto& [key, value] : all.dicts[all.root[kAllocatorSettings].payload()]) {
    if (key.kind() == Kind::kText && all.texts.view(static_cast<uint32_t>(key.payload())) == name) {
      return &value;
    }
  }
  return nullptr;
}

bool is_true(const Value& value) {
  return (value.kind() == Kind::kBool || value.kind() == Kind::kInt) && value.payload() != 0;
}

}  // namespace

std::vector<Setting> flatten_settings(Collected& all) {
  std::vector<Setting> settings;
  if (is(all.root[kAllocatorSettings], kDict)) {
    flatten(all, all.dicts[all.root[kAllocatorSettings].payload()], "", 0, settings);
  }
  if (settings.size() >= kMaxSettings) {
    all.anomalies.count("allocator settings beyond the 4,096th, left out");
  }
  return settings;
}

RingFlags ring_flags(const Collected& all) {
  RingFlags flags;
  if (const Value* value = find_setting(all, "trace_alloc_overflowed")) {
    if (is(*value, kScalars)) {
      for (const Value& item : all.scalar_lists[value->payload()])
        flags.of_device.push_back(is_true(item));
    } else if (is(*value, kPair)) {
      flags.of_device = {pair_of(*value).first != 0, pair_of(*value).second != 0};
    } else {
      flags.of_all = is_true(*value);
    }
  }
  if (const Value* value = find_setting(all, "trace_alloc_max_entries")) {
    flags.max_entries = all.numbers.amount(*value);
  }
  return flags;
}

}  // namespace vram::trace::torch
