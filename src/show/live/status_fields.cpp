#include "show/live/status_fields.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/text.hpp"
#include "show/live/status_export.hpp"
#include "show/live/status_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <variant>

namespace vram::show {
namespace {

namespace figures = watch::figures;

constexpr size_t kMaxSuggestions = 4;
constexpr size_t kMinPart = 3;  // of a name that an unknown entry may contain, or be contained in
constexpr int kMinTextWidth = 8;
constexpr int kUnitColumns = 7;  // of the list
constexpr int kGap = 2;          // between columns, and before the first
constexpr int kMinWidth = 4;     // so that most numbers never widen their column

std::string_view unit_name(figures::Unit unit) {
  switch (unit) {
    case figures::Unit::kNumber:
    case figures::Unit::kCount:
    case figures::Unit::kProcesses:
      return "";
    case figures::Unit::kBytes:
      return "MiB";
    case figures::Unit::kBytesPerSecond:
      return "MiB/s";
    case figures::Unit::kPercent:
      return "%";
    case figures::Unit::kCelsius:
      return "C";
    case figures::Unit::kMilliwatts:
      return "W";
    case figures::Unit::kMegahertz:
      return "MHz";
    case figures::Unit::kNanoseconds:
      return "ms";
  }
  return "";
}

// In the unit of the column. Small numbers have a decimal, so that 0 is exact.
std::string field_number(figures::Unit unit, double number) {
  const double divisor = unit == figures::Unit::kBytes || unit == figures::Unit::kBytesPerSecond
                             ? double{kMiB}
                         : unit == figures::Unit::kMilliwatts  ? 1e3
                         : unit == figures::Unit::kNanoseconds ? 1e6
                                                               : 1;
  if (divisor == 1 || number == 0) return fmt::format("{:.0f}", number);
  const double value = number / divisor;
  return fmt::format("{:.{}f}", value, value < 9.95 && value > -9.95 ? 1 : 0);
}

struct FieldList {
  std::string operator()(const std::vector<std::string>* texts) const {
    return printable(fmt::format("{}", fmt::join(*texts, "; ")));
  }
  std::string operator()(const std::vector<watch::XidCount>* counts) const {
    std::string text;
    for (const watch::XidCount& each : *counts)
      text += fmt::format("{}{} x{}", text.empty() ? "" : "; ", each.xid, each.count);
    return text;
  }
  template <typename T>
  std::string operator()(const std::vector<T>* objects) const {
    return std::to_string(objects->size());
  }
};

struct FieldText {
  figures::Unit unit;

  std::string operator()(std::monostate /*unknown*/) const { return std::string(kUnknown); }
  std::string operator()(bool flag) const { return flag ? tr("yes") : tr("no"); }
  std::string operator()(std::string_view text) const { return printable(text); }
  std::string operator()(double number) const { return fmt::format("{:.3g}", number); }
  template <typename T>
  std::string operator()(const std::vector<T>* list) const {
    const std::string text = FieldList()(list);
    return text.empty() ? tr("none") : text;
  }
  std::string operator()(std::integral auto number) const {
    return field_number(unit, static_cast<double>(number));
  }
};

bool is_text(figures::Shape shape) {
  return shape == figures::Shape::kText || shape == figures::Shape::kTexts ||
         shape == figures::Shape::kFaults || shape == figures::Shape::kFlag;
}

std::string short_name_of(std::string name) {
  constexpr std::array<std::string_view, 2> kPrefixes = {"process.", "memory."};
  constexpr std::array<std::string_view, 5> kSuffixes = {"_bytes", "_percent", "_celsius",
                                                         "_milliwatts", "_unix_ns"};
  constexpr std::string_view kRate = "_bytes_per_second";
  for (const std::string_view prefix : kPrefixes)
    if (name.starts_with(prefix)) name.erase(0, prefix.size());
  for (const std::string_view suffix : kSuffixes)
    if (name.ends_with(suffix)) return name.substr(0, name.size() - suffix.size());
  if (name.ends_with(kRate)) return name.substr(0, name.size() - kRate.size()) + "_per_second";
  return name;
}

// A meaning is stated once for each type of object: that of BAR1 is that of the device's memory.
template <typename T>
std::string_view meaning_of(const figures::Figure<T>& figure) {
  if (!figure.meaning.empty() || figure.in == nullptr) return figure.meaning;
  const auto same = [&](const auto& other) {
    return other.key == figure.key && other.in != nullptr && other.in->type == figure.in->type &&
           !other.meaning.empty();
  };
  for (const auto& other : figures::figures_of<watch::Device>())
    if (same(other)) return other.meaning;
  return "";
}

template <typename T, typename Find>
void add_fields(std::string_view prefix, Find find, std::vector<Field>& fields) {
  for (const figures::Figure<T>& figure : figures::figures_of<T>()) {
    if (figure.key.empty() || figure.value.shape == figures::Shape::kUses) continue;
    Field& field = fields.emplace_back();
    if (figure.in != nullptr) field.group = fmt::format("{}{}", prefix, figure.in->key);
    field.name = field.group.empty() ? fmt::format("{}{}", prefix, figure.key)
                                     : fmt::format("{}.{}", field.group, figure.key);
    field.unit = figure.unit;
    field.shape = figure.value.shape;
    field.meaning = std::string(meaning_of(figure));
    field.is_of_process = !prefix.empty();
    field.read = [&figure, find](const FieldSubject& subject) -> figures::Value {
      const T* const object = find(subject);
      return object != nullptr ? figure.value(*object) : figures::Value();
    };
  }
}

Field time_field() {
  Field time;
  time.name = "time_unix_ns";
  time.meaning = tr_later("when the sample was taken");
  time.shape = figures::Shape::kText;
  time.read = [](const FieldSubject& subject) -> figures::Value {
    if (subject.snapshot.time_ns == 0) return {};
    return subject.snapshot.time_ns;
  };
  time.text = [](const figures::Value& value) {
    const auto* const time_ns = std::get_if<int64_t>(&value);
    return time_ns == nullptr ? std::string(kUnknown) : clock_text(*time_ns);
  };
  return time;
}

std::vector<Field> make_fields() {
  std::vector<Field> fields = {time_field()};
  add_fields<watch::Device>("", [](const FieldSubject& s) { return &s.device; }, fields);
  add_fields<watch::Process>("process.", [](const FieldSubject& s) { return s.process; }, fields);
  add_fields<watch::Use>("process.", [](const FieldSubject& s) { return s.use; }, fields);
  // A short name that several fields would have is that of the first, which is the device's.
  std::set<std::string> taken;
  for (const Field& field : fields) taken.insert(field.name);
  for (Field& field : fields) {
    const std::string name = short_name_of(field.name);
    const std::string with_prefix = field.is_of_process ? "process." + name : field.name;
    field.short_name = name == field.name || taken.insert(name).second ? name : with_prefix;
    taken.insert(field.short_name);
  }
  return fields;
}

std::string suggestions(std::string_view word) {
  std::vector<std::string> names;
  for (const Field& field : all_fields()) names.push_back(field.short_name);
  std::vector<std::string> near;
  if (const std::string_view closest = nearest(word, names); !closest.empty())
    near.emplace_back(closest);
  for (const std::string& name : names) {
    const bool is_part = word.size() >= kMinPart && (name.find(word) != std::string::npos ||
                                                     word.find(name) != std::string_view::npos);
    if (is_part && name.size() >= kMinPart && near.size() < kMaxSuggestions &&
        std::ranges::count(near, name) == 0)
      near.push_back(name);
  }
  if (near.empty()) return "";
  const std::string list = fmt::format("{}", fmt::join(near, ", "));
  return near.size() == 1 ? trf(" (nearest name: {})", list) : trf(" (nearest names: {})", list);
}

// Of one device, the lines that the fields call for.
std::vector<FieldSubject> subjects_of(std::span<const Field* const> fields,
                                      const watch::Snapshot& snapshot) {
  const bool by_process =
      std::ranges::any_of(fields, [](const Field* field) { return field->is_of_process; });
  std::vector<FieldSubject> subjects;
  for (const watch::Device& device : snapshot.devices) {
    const size_t before = subjects.size();
    for (const watch::Process& process : snapshot.processes) {
      if (!by_process) break;
      for (const watch::Use& use : process.uses)
        if (use.device == device.identity.index)
          subjects.push_back({snapshot, device, &process, &use});
    }
    if (subjects.size() == before) subjects.push_back({snapshot, device});
  }
  return subjects;
}

std::string cell_text(const Field& field, const FieldSubject& subject) {
  const figures::Value value = field.read(subject);
  return field.text != nullptr ? field.text(value) : std::visit(FieldText{field.unit}, value);
}

// Spaces to the right of a text and to the left of a number.
std::string padded(std::string_view text, int width, bool is_left) {
  const std::string space(static_cast<size_t>(std::max(0, width - display_width(text))), ' ');
  return is_left ? fmt::format("{}{}", text, space) : fmt::format("{}{}", space, text);
}

}  // namespace

std::span<const Field> all_fields() {
  static const std::vector<Field> kFields = make_fields();
  return kFields;
}

Result<std::vector<const Field*>> choose_fields(std::string_view list) {
  std::vector<const Field*> chosen;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view word = trimmed(list.substr(begin, end - begin));
    begin = end + 1;
    const size_t before = chosen.size();
    for (const Field& field : all_fields())
      if (word == field.name || word == field.short_name) chosen.push_back(&field);
    if (chosen.size() > before) continue;
    for (const Field& field : all_fields())
      if (!word.empty() && word == field.group) chosen.push_back(&field);
    if (chosen.size() == before)
      return fail(Code::kBadInput,
                  "expected names of fields with commas between them, found '{}'{}; `vram status "
                  "--fields list` lists all names",
                  word, suggestions(word));
  }
  return chosen;
}

std::string draw_field_list(const TextOptions& options) {
  Page page(options);
  int widest = 0;
  for (const Field& field : all_fields())
    widest = std::max(widest, display_width(field.short_name));
  for (const Field& field : all_fields()) {
    std::string meaning(tr(std::string_view(field.meaning)));
    std::erase(meaning, '`');
    const Line lead = Line(field.short_name)
                          .pad_to(widest + kGap)
                          .add(unit_name(field.unit), Style::kFaint)
                          .pad_to(widest + kGap + kUnitColumns);
    page.paragraph(lead, meaning);
  }
  page.blank();
  page.paragraph(
      {}, tr("A full name is the path in the JSON, such as memory.used_bytes; these names lack "
             "units and \"memory.\". A name before a dot chooses the whole group: bar1."));
  return page.finish();
}

std::string fields_csv_head(std::span<const Field* const> fields) {
  std::vector<std::string_view> names;
  for (const Field* field : fields) names.push_back(field->name);
  return fmt::format("{}{}", fmt::join(names, ","), kCsvLineEnd);
}

std::string fields_csv(std::span<const Field* const> fields, const watch::Snapshot& snapshot) {
  std::string rows;
  for (const FieldSubject& subject : subjects_of(fields, snapshot)) {
    std::vector<std::string> cells;
    for (const Field* field : fields) {
      const figures::Value value = field->read(subject);
      cells.push_back(std::visit(
          [&](const auto& known) {
            if constexpr (requires { FieldList()(known); })
              return csv_text(std::string_view(FieldList()(known)));
            else
              return csv_text(value);
          },
          value));
    }
    rows += fmt::format("{}{}", fmt::join(cells, ","), kCsvLineEnd);
  }
  return rows;
}

FieldTable::FieldTable(std::vector<const Field*> fields) : fields_(std::move(fields)) {
  const auto is_index = [](const Field& field) { return field.name == "index"; };
  if (std::ranges::any_of(fields_, [&](const Field* field) { return is_index(*field); })) return;
  const bool has_time = !fields_.empty() && fields_.front()->text != nullptr;
  const auto index = std::ranges::find_if(all_fields(), is_index);
  fields_.insert(fields_.begin() + (has_time ? 1 : 0), &*index);
}

// The lines begin where the header's names do, behind "# ".
std::string FieldTable::line(std::span<const std::string> cells) const {
  std::string text;
  for (size_t i = 0; i < cells.size(); ++i)
    text += std::string(kGap, ' ') +
            padded(shorten_end(cells[i], widths_[i]), widths_[i], is_text(fields_[i]->shape));
  return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
}

std::string FieldTable::header() const {
  std::vector<std::string> names;
  std::vector<std::string> units;
  for (const Field* field : std::span(fields_).first(shown_)) {
    names.push_back(field->short_name);
    units.emplace_back(unit_name(field->unit));
  }
  std::string text;
  for (const std::string& each : {line(names), line(units)})
    if (each.size() > 1) text += "#" + each.substr(1);  // no line without units
  return text;
}

int FieldTable::width_of(size_t count) const {
  int width = 0;
  for (size_t i = 0; i < count; ++i) width += kGap + widths_[i];
  return width;
}

// How many columns the terminal has room for; the first always counts.
size_t FieldTable::fitting(int columns) const {
  size_t count = fields_.size();
  while (count > 1 && width_of(count) > columns) --count;
  return count;
}

// Texts lose their ends before columns are left out, the last text first.
void FieldTable::shrink_texts(int columns) {
  int excess = width_of(fields_.size()) - columns;
  for (size_t i = fields_.size(); i-- > 0 && excess > 0;) {
    if (!is_text(fields_[i]->shape)) continue;
    const int least = std::max(kMinTextWidth, display_width(fields_[i]->short_name));
    const int cut = std::clamp(widths_[i] - least, 0, excess);
    widths_[i] -= cut;
    excess -= cut;
  }
}

std::string FieldTable::next(const watch::Snapshot& snapshot, const Shape& shape) {
  std::vector<std::vector<std::string>> rows;
  std::vector<int> widths = widths_;
  widths.resize(fields_.size(), kMinWidth);
  for (const FieldSubject& subject : subjects_of(fields_, snapshot)) {
    std::vector<std::string>& cells = rows.emplace_back();
    for (size_t i = 0; i < fields_.size(); ++i) {
      cells.push_back(cell_text(*fields_[i], subject));
      for (const std::string_view each :
           {std::string_view(cells[i]), std::string_view(fields_[i]->short_name),
            unit_name(fields_[i]->unit)})
        widths[i] = std::max(widths[i], display_width(each));
    }
  }
  std::swap(widths_, widths);
  if (shape.columns) shrink_texts(*shape.columns);
  const size_t shown_before =
      std::exchange(shown_, shape.columns ? fitting(*shape.columns) : fields_.size());
  const bool is_due = widths_ != widths || shown_before != shown_ ||
                      since_header_ >= std::max(1, shape.rows_between_headers);
  std::string text = is_due && !rows.empty() ? header() : "";
  if (!text.empty()) since_header_ = 0;
  for (const auto& cells : rows) text += line(std::span(cells).first(shown_));
  since_header_ += static_cast<int>(rows.size());
  return shape.unicode ? text : to_ascii(text);
}

std::vector<std::string> FieldTable::omitted() const {
  std::vector<std::string> names;
  for (size_t i = shown_; i < fields_.size(); ++i) names.push_back(fields_[i]->short_name);
  return names;
}

}  // namespace vram::show
