#include "show/live/status_csv.hpp"

#include "base/text.hpp"
#include "watch/figures/figure.hpp"

#include <array>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

namespace vram::show {
namespace {

namespace figures = watch::figures;
using watch::Device;

constexpr std::string_view kLineEnd = "\r\n";

std::string harmless(std::string text) {
  const bool is_formula =
      !text.empty() && std::string_view("=+-@").find(text.front()) != std::string_view::npos;
  return is_formula ? "'" + text : text;
}

// Readers may strip spaces around a bare field.
std::string quoted(const std::string& text) {
  const bool is_padded = text.starts_with(' ') || text.ends_with(' ');
  if (!is_padded && text.find_first_of(",\"") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out.append(c == '"' ? 2 : 1, c);
  return out + "\"";
}

struct CsvField {
  std::string operator()(bool flag) const { return flag ? "1" : "0"; }
  std::string operator()(std::string_view text) const { return quoted(harmless(printable(text))); }
  template <typename T>
  std::string operator()(T value) const {
    if constexpr (std::is_arithmetic_v<T>) return std::to_string(value);
    return "";  // unknown, or a list
  }
};

// One line, field by field. Heads and rows are written by the same calls, so they can't disagree.
class CsvRow {
 public:
  explicit CsvRow(bool is_head) : is_head_(is_head) {}

  void add(std::string_view name, const figures::Value& value) {
    if (!is_first_) line_ += ',';
    is_first_ = false;
    line_ += is_head_ ? std::string(name) : std::visit(CsvField(), value);
  }
  [[nodiscard]] std::string finish() && { return std::move(line_ += kLineEnd); }

 private:
  bool is_head_;
  bool is_first_ = true;
  std::string line_;
};

// Without the object its columns are empty.
template <typename T>
void add_columns(const T* object, bool is_late, CsvRow& row) {
  using Figure = figures::Figure<T>;
  static const std::array kColumns = {
      figures::arranged<T>(&Figure::csv,
                           [](const figures::CsvCell& cell) { return !cell.is_late; }),
      figures::arranged<T>(&Figure::csv,
                           [](const figures::CsvCell& cell) { return cell.is_late; })};
  for (const Figure* figure : kColumns.at(is_late ? 1 : 0))
    row.add(figure->csv.name, object != nullptr ? figure->value(*object) : figures::Value());
}

std::string row_of(const watch::Snapshot& snapshot, const Device& device,
                   const watch::Process* process, const watch::Use* use, bool is_head = false) {
  CsvRow row(is_head);
  row.add("time_unix_ns",
          snapshot.time_ns == 0 ? figures::Value() : figures::Value(snapshot.time_ns));
  row.add("host", std::string_view(snapshot.host));
  add_columns(&device, false, row);
  add_columns(use, false, row);
  add_columns(process, false, row);
  // What came later stands last: columns keep their places.
  add_columns(use, true, row);
  add_columns(process, true, row);
  add_columns(&device, true, row);
  return std::move(row).finish();
}

std::string rows_of(const watch::Snapshot& snapshot, const Device& device) {
  std::string rows;
  for (const watch::Process& process : snapshot.processes) {
    for (const watch::Use& use : process.uses) {
      if (use.device == device.identity.index) rows += row_of(snapshot, device, &process, &use);
    }
  }
  return rows.empty() ? row_of(snapshot, device, nullptr, nullptr) : rows;
}

}  // namespace

std::string status_csv_head() { return row_of({}, {}, nullptr, nullptr, true); }

std::string status_csv(const watch::Snapshot& snapshot) {
  std::string rows;
  for (const Device& device : snapshot.devices) rows += rows_of(snapshot, device);
  return rows;
}

}  // namespace vram::show
