// A pickle sink that keeps everything, as text in the format of tests/data/make_snapshots.py
// (plain_repr). For tests of the machine.
#pragma once

#include "trace/import/pickle/sink.hpp"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vram::trace::pickle {

class TreeSink final : public Sink {
 public:
  uint32_t text(std::string_view bytes) override {
    texts_.emplace_back(bytes);
    return static_cast<uint32_t>(texts_.size() - 1);
  }
  uint64_t number(uint64_t bits) override {
    numbers_.push_back(bits);
    return numbers_.size() - 1;
  }
  void begin_dict(unsigned slot) override { open_[slot].clear(); }
  void set_items(unsigned slot, std::span<const Value> items) override {
    for (size_t i = 0; i < items.size(); i += 2) {
      if (!open_[slot].empty()) open_[slot] += ", ";
      open_[slot] += print(items[i]) + ": " + print(items[i + 1]);
    }
  }
  Value end_dict(unsigned slot) override { return keep('{' + open_[slot] + '}'); }
  void begin_list(unsigned slot) override { open_[slot].clear(); }
  void append(unsigned slot, std::span<const Value> items) override { add(open_[slot], items); }
  Value end_list(unsigned slot) override { return keep('[' + open_[slot] + ']'); }
  Value tuple(std::span<const Value> items) override {
    std::string text;
    add(text, items);
    return keep('(' + text + ')');
  }
  bool truncate_dict(unsigned, bool) override { return true; }
  void truncate_list(unsigned) override {}
  [[nodiscard]] uint64_t memory_bytes() const override { return memory_bytes_; }
  [[nodiscard]] const std::optional<Error>& error() const override { return no_error_; }

  [[nodiscard]] std::string print(const Value& value) const {
    switch (value.kind()) {
      case Kind::kNone:
        return "None";
      case Kind::kBool:
        return value.payload() != 0 ? "True" : "False";
      case Kind::kInt:
        return std::to_string(value.integer());
      case Kind::kWideInt:
        return std::to_string(static_cast<int64_t>(numbers_[value.payload()]));
      case Kind::kUnsigned:
        return std::to_string(numbers_[value.payload()]);
      case Kind::kHugeInt:
        return value.payload() != 0 ? "-huge" : "huge";
      case Kind::kFloat:
        return fmt::format("f{:016x}", numbers_[value.payload()]);
      case Kind::kText:
        return '\'' + texts_[value.payload()] + '\'';
      case Kind::kRecord:
        return records_[value.payload()];
      case Kind::kOpaque:
        return "bytes";
      default:
        return "?";
    }
  }

 private:
  void add(std::string& to, std::span<const Value> items) const {
    for (const Value& item : items) to += (to.empty() ? "" : ", ") + print(item);
  }
  Value keep(std::string text) {
    memory_bytes_ += text.size();
    records_.push_back(std::move(text));
    return {Kind::kRecord, records_.size() - 1, 0};
  }
  std::array<std::string, kMaxOpen> open_;
  std::vector<std::string> texts_;
  std::vector<std::string> records_;
  std::vector<uint64_t> numbers_;
  uint64_t memory_bytes_ = 0;
  std::optional<Error> no_error_;
};

}  // namespace vram::trace::pickle
