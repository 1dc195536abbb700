#include "trace/import/torch/dict.hpp"

namespace vram::trace::torch {

using pickle::Kind;
using pickle::Value;

namespace {
constexpr size_t kMaxOtherKeys = 4096;  // of one dictionary
}  // namespace

void Dict::set(std::span<const Value> items) {
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    const Value& key = items[i];
    if (key.kind() == Kind::kText && key.payload() < kKeyCount) {
      fields[key.payload()] = items[i + 1];
      keys |= uint64_t{1} << key.payload();
    } else if (others.size() < kMaxOtherKeys) {
      others.emplace_back(key, items[i + 1]);
    }
  }
}

void note_unknown_keys(Collected& all, const Dict& dict, const char* where) {
  for (const auto& [key, value] : dict.others) {
    if (key.kind() != Kind::kText) {
      all.anomalies.count("dictionary keys that are no texts");
      continue;
    }
    const auto number = static_cast<uint32_t>(key.payload());
    all.anomalies.count("key", number, all.texts.view(number), where);
  }
}

}  // namespace vram::trace::torch
