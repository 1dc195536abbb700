#include "show/live/status_export.hpp"

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
    line_ += is_head_ ? std::string(name) : csv_text(value);
  }
  [[nodiscard]] std::string finish() && { return std::move(line_ += kCsvLineEnd); }

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

std::string csv_text(const figures::Value& value) { return std::visit(CsvField(), value); }

std::string status_json(const watch::Snapshot& snapshot) {
  Json devices = Json::array();
  for (const watch::Device& device : snapshot.devices) devices.push_back(json_device(device));
  Json processes = Json::array();
  for (const watch::Process& process : snapshot.processes)
    processes.push_back(json_process(process));
  Json document = {{"schema", "vram.status/1"},
                   {"time_unix_ns", snapshot.time_ns == 0 ? Json() : Json(snapshot.time_ns)},
                   {"host", snapshot.host.empty() ? Json() : json_text(snapshot.host)}};
  document["devices"] = std::move(devices);
  document["processes"] = std::move(processes);
  document["notes"] = json_texts(snapshot.notes);
  return document.dump(2, ' ', true) + "\n";
}

namespace {

template <typename T>
Json json_of(const T& object);

// A figure as JSON; unknown is null.
struct ToJson {
  Json operator()(std::monostate /*unknown*/) const { return {}; }
  Json operator()(std::string_view text) const { return json_text(std::string(text)); }
  Json operator()(const std::vector<std::string>* texts) const { return json_texts(*texts); }
  template <typename T>
  Json operator()(const std::vector<T>* objects) const {
    Json json = Json::array();
    for (const T& each : *objects) json.push_back(json_of(each));
    return json;
  }
  Json operator()(auto number) const { return number; }
};

template <typename T>
Json json_of(const T& object) {
  Json json = Json::object();
  for (const auto& figure : watch::figures::figures_of<T>()) {
    if (figure.key.empty()) continue;
    if (figure.in == nullptr) {
      json[figure.key] = std::visit(ToJson(), figure.value(object));
      continue;
    }
    Json& group = json[figure.in->key];
    if (figure.in->is_known == nullptr || figure.in->is_known(object))
      group[figure.key] = std::visit(ToJson(), figure.value(object));
  }
  return json;
}

}  // namespace

Json json_device(const watch::Device& device) { return json_of(device); }

Json json_process(const watch::Process& process) { return json_of(process); }

std::string status_csv_head() { return row_of({}, {}, nullptr, nullptr, true); }

std::string status_csv(const watch::Snapshot& snapshot) {
  std::string rows;
  for (const Device& device : snapshot.devices) rows += rows_of(snapshot, device);
  return rows;
}

}  // namespace vram::show
