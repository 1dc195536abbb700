#include "trace/import/torch/collected.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

namespace vram::trace::torch {

void Anomalies::count(const char* what, uint32_t name_number, std::string_view name,
                      const char* where) {
  // Unknown keys come in the same order in every entry, so the next one is mostly right after the
  // last.
  for (size_t tried = 0; tried < named_.size(); ++tried) {
    last_ = last_ + 1 < named_.size() ? last_ + 1 : 0;
    Named& known = named_[last_];
    if (known.name_number == name_number && known.where == where && known.what == what) {
      ++known.count;
      return;
    }
  }
  if (named_.size() == kMaxDistinct) {
    ++more_;
    return;
  }
  named_.push_back({what, where, name_number, printable(name.substr(0, 80)), 1});
  last_ = named_.size() - 1;
}

void Anomalies::count(const char* sentence, uint64_t times) {
  if (times != 0) sentences_[sentence] += times;
}

std::vector<Note> Anomalies::notes() const {
  std::vector<Note> notes;
  for (const Named& named : named_) {
    notes.push_back(
        {trf("unknown {} '{}' in {}", named.what, named.name, named.where), named.count});
  }
  if (more_ != 0) notes.push_back({tr_later("other unknown names"), more_});
  for (const auto& [sentence, times] : sentences_) notes.push_back({std::string(sentence), times});
  return notes;
}

uint32_t Texts::number(std::string_view text) {
  if (const std::optional<uint32_t> keyword = find_keyword(text)) return *keyword;
  const size_t known = strings_.size();
  const StringId id = strings_.intern(text);
  constexpr uint64_t kTableBytes = 24;  // offset and index
  if (strings_.size() != known) memory_bytes_ += text.size() + kTableBytes;
  return id + kKeywordCount;
}

StringId Texts::string_id(uint32_t number) {
  if (number >= kKeywordCount) return number - kKeywordCount;
  if (keyword_ids_[number] == 0) keyword_ids_[number] = strings_.intern(keyword_text(number));
  return keyword_ids_[number];
}

std::string_view Texts::view(uint32_t number) const {
  return number < kKeywordCount ? keyword_text(number) : strings_[number - kKeywordCount];
}

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
      all.anomalies.count(tr_later("dictionary keys that are no texts"));
      continue;
    }
    const auto number = static_cast<uint32_t>(key.payload());
    all.anomalies.count("key", number, all.texts.view(number), where);
  }
}

}  // namespace vram::trace::torch
