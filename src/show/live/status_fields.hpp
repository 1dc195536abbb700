// Fields: figures of devices and processes that a user chooses by name, for `vram status --fields`.
//
//     all_fields()  one field for each row of the table of figures (watch/figures/figure.hpp)
//        │
//     choose_fields("time,used,bar1") ──▶ FieldTable (scrolling text) or fields_csv()
//
// A field's full name is the path in vram.status/1: "memory.used_bytes"; of a process,
// "process.allocator.cached_bytes". Its short name has no unit and no "memory." or "process.":
// "used", "allocator.cached". Pure functions; a FieldTable belongs to one thread.
#pragma once

#include "base/result.hpp"
#include "show/draw/page.hpp"
#include "watch/figures/figure.hpp"
#include "watch/snapshot.hpp"

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vram::show {

// What a line of values is about. Without a process, the last two are null.
struct FieldSubject {
  const watch::Snapshot& snapshot;
  const watch::Device& device;
  const watch::Process* process = nullptr;
  const watch::Use* use = nullptr;
};

struct Field {
  std::string name;
  std::string short_name;
  std::string group;  // a name that chooses all fields of the group: "memory"; "" without a group
  watch::figures::Unit unit = watch::figures::Unit::kNumber;
  watch::figures::Shape shape = watch::figures::Shape::kUnknown;
  std::string meaning;
  bool is_of_process = false;
  std::function<watch::figures::Value(const FieldSubject&)> read;
  // The text for people, if it is not that of the value and its unit.
  std::string (*text)(const watch::figures::Value& value) = nullptr;
};

[[nodiscard]] std::span<const Field> all_fields();

// The fields of a list with commas, in its order. Each entry is a full name, a short name, or a
// group. An unknown entry is an error that has the nearest names.
[[nodiscard]] Result<std::vector<const Field*>> choose_fields(std::string_view list);

// All short names with their units and meanings.
[[nodiscard]] std::string draw_field_list(const TextOptions& options);

// CSV (RFC 4180) of the fields, with full names and exact values as in status_csv().
[[nodiscard]] std::string fields_csv_head(std::span<const Field* const> fields);
[[nodiscard]] std::string fields_csv(std::span<const Field* const> fields,
                                     const watch::Snapshot& snapshot);

// Lines for people: one for each device and sample; with fields of processes, one for each process
// on a device. The header has the names and the units, and each of its lines begins with "#". The
// device's index is the first column, or the second after the time, unless it is chosen.
class FieldTable {
 public:
  struct Shape {
    std::optional<int> columns = {};  // of the terminal; none: as wide as necessary
    int rows_between_headers = 25;
    bool colour = false;
    bool unicode = true;
  };

  explicit FieldTable(std::vector<const Field*> fields);

  // The lines of a sample. A header comes first, after enough lines, and when a column has become
  // wider or the terminal's width has changed.
  [[nodiscard]] std::string next(const watch::Snapshot& snapshot, const Shape& shape);

  // Names of the fields that had no room in the last lines.
  [[nodiscard]] std::vector<std::string> omitted() const;

 private:
  [[nodiscard]] int width_of(size_t count) const;
  [[nodiscard]] size_t fitting(int columns) const;
  void shrink_texts(int columns);
  [[nodiscard]] std::string header() const;
  [[nodiscard]] std::string line(std::span<const std::string> cells) const;

  std::vector<const Field*> fields_;
  std::vector<int> widths_;
  size_t shown_ = 0;
  int since_header_ = 0;
};

}  // namespace vram::show
