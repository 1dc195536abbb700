#include "base/text.hpp"
#include "trace/import/rows/forms.hpp"

#include <algorithm>
#include <utility>

namespace vram::trace::rows {
namespace {

template <typename Number>
Result<> into(Number& target, const Result<Number>& parsed) {
  if (!parsed) return tl::unexpected(parsed.error());
  target = *parsed;
  return {};
}

Result<> read_time(std::string_view text, Row& row) {
  row.time_ns.reset();
  return text.empty() ? Result<>() : into(row.time_ns.emplace(), parse_whole<int64_t>(text));
}

// "0:7"; empty where the pool is not known.
Result<> read_pool(std::string_view text, Row& row) {
  row.pool.reset();
  if (text.empty()) return {};
  const size_t colon = std::min(text.find(':'), text.size());
  PoolName& pool = row.pool.emplace();
  if (auto first = into(pool.first, parse_whole<uint64_t>(text.substr(0, colon))); !first)
    return first;
  return into(pool.second, parse_whole<uint64_t>(text.substr(std::min(colon + 1, text.size()))));
}

Result<> read_stack(std::string_view text, Row& row) {
  row.stack.assign(text);
  std::ranges::replace(row.stack, ';', kFrameEnd);
  if (!row.stack.empty()) row.stack += kFrameEnd;
  return {};
}

template <std::string Row::* field>
Result<> read_text(std::string_view text, Row& row) {
  (row.*field).assign(text);
  return {};
}

struct CsvColumn {
  std::string_view name;
  Result<> (*read)(std::string_view text, Row& row);
  bool is_required = true;
};

constexpr std::array kColumns = {
    CsvColumn{"device", [](std::string_view text,
                           Row& row) { return into(row.device, parse_whole<uint32_t>(text)); }},
    CsvColumn{"device_kind",
              [](std::string_view text, Row& row) {
                return into(row.device_kind, parse_device_kind(text));
              }},
    CsvColumn{"time_ns", read_time},
    CsvColumn{"action", read_text<&Row::action>},
    CsvColumn{"address", [](std::string_view text,
                            Row& row) { return into(row.address, parse_address(text)); }},
    CsvColumn{"size_bytes",
              [](std::string_view text, Row& row) {
                return into(row.size_bytes, parse_whole<uint64_t>(text));
              }},
    CsvColumn{"stream", [](std::string_view text,
                           Row& row) { return into(row.stream, parse_whole<uint64_t>(text)); }},
    CsvColumn{"pool", read_pool},
    CsvColumn{"compile_id", read_text<&Row::compile_id>, false},
    CsvColumn{"user_metadata", read_text<&Row::user_metadata>, false},
    CsvColumn{"stack", read_stack, false},
    CsvColumn{"category", read_text<&Row::category>, false}};

}  // namespace

Result<> CsvForm::split(std::string_view record) {
  size_t used = 0;
  const auto next_field = [&]() -> std::string& {
    if (used == fields_.size()) fields_.emplace_back();
    std::string& field = fields_[used++];
    field.clear();
    return field;
  };
  for (size_t at = 0;; ++at) {
    std::string& field = next_field();
    bool is_doubled = false;  // "" inside is one of them
    while (at < record.size() && record[at] == '"') {
      if (std::exchange(is_doubled, true)) field += '"';
      const size_t close = record.find('"', at + 1);
      if (close == record.npos) return fail(Code::kBadInput, "expected a closing \"");
      field += record.substr(at + 1, close - at - 1);
      at = close + 1;
    }
    const size_t end = std::min(record.find(',', at), record.size());
    field += record.substr(at, end - at);
    at = end;
    if (at == record.size()) break;
  }
  fields_.resize(used);
  return {};
}

Result<> CsvForm::read_header(std::string_view record) {
  if (auto split = this->split(record); !split) return split;
  for (const std::string& field : fields_) {
    const auto* const column = std::ranges::find(kColumns, field, &CsvColumn::name);
    targets_.push_back(static_cast<size_t>(column - kColumns.begin()));
  }
  for (size_t i = 0; i < kColumns.size(); ++i) {
    if (!kColumns[i].is_required || std::ranges::count(targets_, i) == 1) continue;
    return fail(Code::kBadInput, "expected one column '{}', found {}", kColumns[i].name,
                std::ranges::count(targets_, i));
  }
  return {};
}

Result<> CsvForm::read(std::string_view record, Row& row) {
  if (auto split = this->split(record); !split) return split;
  if (fields_.size() != targets_.size()) {
    return fail(Code::kBadInput, "expected {} fields, found {}", targets_.size(), fields_.size());
  }
  for (size_t i = 0; i < fields_.size(); ++i) {
    if (targets_[i] == kColumns.size()) continue;
    const CsvColumn& column = kColumns[targets_[i]];
    if (auto read = column.read(fields_[i], row); !read)
      return fail(Code::kBadInput, "{}: {}", column.name, read.error().message);
  }
  return {};
}

}  // namespace vram::trace::rows
