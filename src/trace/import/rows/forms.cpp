#include "trace/import/rows/forms.hpp"

#include "base/result.hpp"
#include "base/text.hpp"

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

namespace {

constexpr int kMaxNesting = 32;

tl::unexpected<Error> unlike(std::string_view expected, std::string_view rest) {
  return fail(Code::kBadInput, "expected {}, found '{}'", expected, printable(rest.substr(0, 40)));
}

// Walks over a line of JSON. After an error nothing more is read.
class JsonCursor {
 public:
  explicit JsonCursor(std::string_view text) : rest_(text) {}

  // Whether `c` comes next; then it is passed.
  bool take(char c) {
    skip_spaces();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  [[nodiscard]] Result<> need(char c) {
    return take(c) ? Result<>() : unlike(std::string_view(&c, 1), rest_);
  }
  bool take_null() {
    skip_spaces();
    if (!rest_.starts_with("null")) return false;
    rest_.remove_prefix(4);
    return true;
  }
  [[nodiscard]] bool is_at_end() {
    skip_spaces();
    return rest_.empty();
  }

  // Appends the decoded text.
  [[nodiscard]] Result<> read_string(std::string& out) {
    if (auto open = need('"'); !open) return open;
    while (true) {
      const size_t plain = std::min(rest_.find_first_of("\"\\"), rest_.size());
      out += rest_.substr(0, plain);
      rest_.remove_prefix(plain);
      if (rest_.empty()) return fail(Code::kBadInput, "expected a closing \"");
      const bool is_end = rest_.front() == '"';
      rest_.remove_prefix(1);
      if (is_end) return {};
      if (auto read = read_escape(out); !read) return read;
    }
  }

  template <typename Number>
  [[nodiscard]] Result<> read_whole(Number& out) {
    skip_spaces();
    const size_t end = std::min(rest_.find_first_not_of("-0123456789.eE+"), rest_.size());
    VRAM_TRY_ASSIGN(const auto number,
                    parse_whole<Number>(end == 0 ? rest_ : rest_.substr(0, end)));
    rest_.remove_prefix(end);
    out = number;
    return {};
  }

  // read(cursor) for each item of an array.
  template <typename Read>
  [[nodiscard]] Result<> read_items(Read&& read) {
    if (auto open = need('['); !open) return open;
    if (take(']')) return {};
    do {
      if (auto item = read(); !item) return item;
    } while (take(','));
    return need(']');
  }

  [[nodiscard]] Result<> skip_value(int nesting = 0) {
    if (nesting == kMaxNesting)
      return fail(Code::kBadInput, "expected at most {} levels, found more", kMaxNesting);
    skip_spaces();
    std::string ignored;
    if (rest_.starts_with('"')) return read_string(ignored);
    if (rest_.starts_with('[')) return read_items([&] { return skip_value(nesting + 1); });
    if (take('{')) {
      if (take('}')) return {};
      do {
        if (auto name = read_string(ignored); !name) return name;
        if (auto colon = need(':'); !colon) return colon;
        if (auto value = skip_value(nesting + 1); !value) return value;
      } while (take(','));
      return need('}');
    }
    const size_t end = std::min(rest_.find_first_of(",]} \t"), rest_.size());
    if (end == 0) return unlike("a value", rest_);
    rest_.remove_prefix(end);
    return {};
  }

 private:
  void skip_spaces() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r"), rest_.size()));
  }
  [[nodiscard]] Result<> read_escape(std::string& out) {
    static constexpr std::string_view kShort = "\"\\/bfnrt";
    static constexpr std::string_view kMeant = "\"\\/\b\f\n\r\t";
    if (rest_.empty()) return fail(Code::kBadInput, "expected a closing \"");
    const char c = rest_.front();
    rest_.remove_prefix(1);
    if (const size_t which = kShort.find(c); which != kShort.npos) {
      out += kMeant[which];
      return {};
    }
    if (c != 'u') return unlike(tr("an escape of JSON"), rest_);
    auto code = read_unit();
    if (!code) return tl::unexpected(code.error());
    const bool is_high = *code >= 0xD800 && *code < 0xDC00;
    if (is_high && rest_.starts_with("\\u")) {
      rest_.remove_prefix(2);
      VRAM_TRY_ASSIGN(const auto low, read_unit());
      code = 0x10000 + ((*code & 0x3FF) << 10) + (low & 0x3FF);
    }
    out += utf8_of(*code);
    return {};
  }
  [[nodiscard]] Result<uint32_t> read_unit() {
    const auto unit = rest_.size() < 4 ? parse_address("")
                                       : parse_address("0x" + std::string(rest_.substr(0, 4)));
    if (!unit) return unlike(tr("four hexadecimal digits"), rest_);
    rest_.remove_prefix(4);
    return static_cast<uint32_t>(*unit);
  }

  std::string_view rest_;
};

Result<> read_optional(JsonCursor& cursor, std::string& out) {
  out.clear();
  return cursor.take_null() ? Result<>() : cursor.read_string(out);
}

Result<> read_pool(JsonCursor& cursor, Row& row) {
  row.pool.reset();
  if (cursor.take_null()) return {};
  PoolName& pool = row.pool.emplace();
  if (auto open = cursor.need('['); !open) return open;
  if (auto first = cursor.read_whole(pool.first); !first) return first;
  if (auto comma = cursor.need(','); !comma) return comma;
  if (auto second = cursor.read_whole(pool.second); !second) return second;
  return cursor.need(']');
}

Result<> read_stack(JsonCursor& cursor, Row& row) {
  row.stack.clear();
  return cursor.read_items([&] {
    auto read = cursor.read_string(row.stack);
    row.stack += kFrameEnd;
    return read;
  });
}

template <typename Parse, typename Target>
Result<> read_named(JsonCursor& cursor, Parse parse, Target& target) {
  std::string text;
  if (auto read = cursor.read_string(text); !read) return read;
  VRAM_TRY_ASSIGN(const auto parsed, parse(text));
  target = parsed;
  return {};
}

struct JsonMember {
  std::string_view name;
  Result<> (*read)(JsonCursor& cursor, Row& row);
  bool is_required = true;
};

constexpr std::array kMembers = {
    JsonMember{"device", [](JsonCursor& c, Row& row) { return c.read_whole(row.device); }},
    JsonMember{
        "device_kind",
        [](JsonCursor& c, Row& row) { return read_named(c, parse_device_kind, row.device_kind); }},
    JsonMember{"time_ns",
               [](JsonCursor& c, Row& row) {
                 row.time_ns.reset();
                 return c.take_null() ? Result<>() : c.read_whole(row.time_ns.emplace());
               }},
    JsonMember{"action",
               [](JsonCursor& c, Row& row) {
                 row.action.clear();
                 return c.read_string(row.action);
               }},
    JsonMember{"address",
               [](JsonCursor& c, Row& row) { return read_named(c, parse_address, row.address); }},
    JsonMember{"size_bytes", [](JsonCursor& c, Row& row) { return c.read_whole(row.size_bytes); }},
    JsonMember{"stream", [](JsonCursor& c, Row& row) { return c.read_whole(row.stream); }},
    JsonMember{"pool", read_pool},
    JsonMember{"compile_id",
               [](JsonCursor& c, Row& row) { return read_optional(c, row.compile_id); }, false},
    JsonMember{"user_metadata",
               [](JsonCursor& c, Row& row) { return read_optional(c, row.user_metadata); }, false},
    JsonMember{"category", [](JsonCursor& c, Row& row) { return read_optional(c, row.category); },
               false},
    JsonMember{"stack", read_stack, false}};

}  // namespace

Result<> read_json_row(std::string_view record, Row& row) {
  row = {};
  JsonCursor cursor(record);
  if (auto open = cursor.need('{'); !open) return open;
  uint32_t seen = 0;
  std::string name;
  do {
    name.clear();
    if (auto read = cursor.read_string(name); !read) return read;
    if (auto colon = cursor.need(':'); !colon) return colon;
    const auto* const member = std::ranges::find(kMembers, name, &JsonMember::name);
    if (member == kMembers.end()) {
      if (auto skipped = cursor.skip_value(); !skipped) return skipped;
      continue;
    }
    seen |= 1U << (member - kMembers.begin());
    if (auto read = member->read(cursor, row); !read)
      return fail(Code::kBadInput, "{}: {}", name, read.error().message);
  } while (cursor.take(','));
  if (auto close = cursor.need('}'); !close) return close;
  if (!cursor.is_at_end()) return fail(Code::kBadInput, "expected one object a line, found more");
  for (size_t i = 0; i < kMembers.size(); ++i) {
    if (kMembers[i].is_required && (seen >> i & 1U) == 0)
      return fail(Code::kBadInput, "expected a member '{}', found none", kMembers[i].name);
  }
  return {};
}

}  // namespace vram::trace::rows
