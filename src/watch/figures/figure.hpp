// The table of figures: a row for each known property of a device, a MIG instance, a process or a
// fault. A row states the struct member that holds the figure, its meaning, and its name in each
// view. All views are drawn from the rows.
//
//     Figure ──▶ show/: JSON, CSV, the detailed view, metrics, also under dcgm-exporter's names
//            ├─▶ serve/: the schemas of openapi.json
//            ├─▶ history/metrics.hpp: what the history keeps
//            └─▶ tools/figures.py: tables in docs/json.md, docs/metrics.md and docs/history.md
//
// A view shows the rows whose cell for it has a name, in the order of the table, which is that of
// the JSON. A cell with `after` follows the cell of that name instead, which keeps the published
// order of the columns and series of a view. New figures need no `after`.
//
// Constants and pure functions; any thread.
#pragma once

#include "base/shared.hpp"
#include "watch/snapshot.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace vram::watch::figures {

// A figure of an object, which must outlive it. std::monostate is unknown.
using Value = std::variant<std::monostate, bool, uint64_t, int64_t, double, std::string_view,
                           const std::vector<std::string>*, const std::vector<gpu::MigInstance>*,
                           const std::vector<XidCount>*, const std::vector<Use>*>;

// What a known value is: the alternatives of Value, in their order.
enum class Shape : uint8_t {
  kUnknown,
  kFlag,
  kCount,
  kSigned,
  kRatio,
  kText,
  kTexts,
  kInstances,
  kFaults,
  kUses
};

// Reads a figure of a T.
template <typename T>
struct Reader {
  Value (*read)(const T&) = nullptr;
  Shape shape = Shape::kUnknown;
  bool is_optional = false;  // may be unknown in an object that is there

  explicit operator bool() const { return read != nullptr; }
  Value operator()(const T& object) const { return read(object); }
};

namespace detail {

template <typename Step>
struct OwnerOf;
template <typename Member, typename T>
struct OwnerOf<Member T::*> {
  using Type = T;
};
template <typename Result, typename T>
struct OwnerOf<Result (*)(const T&)> {
  using Type = T;
};

template <typename T>
struct KnownOf {
  using Type = T;
  static const T* in(const T& part) { return &part; }
};
template <typename T>
struct KnownOf<std::optional<T>> {
  using Type = T;
  static const T* in(const std::optional<T>& part) { return part ? &*part : nullptr; }
};
template <>
struct KnownOf<std::optional<std::string>> {
  using Type = std::string;
  static const std::string* in(const std::optional<std::string>& part) {
    return part && !part->empty() ? &*part : nullptr;
  }
};

template <typename T>
struct KnownOf<Shared<T>> {
  using Type = T;
  static const T* in(const Shared<T>& part) { return &*part; }
};

template <typename T, auto First, auto... Rest>
struct PathEnd {
  using Part = std::remove_cvref_t<std::invoke_result_t<decltype(First), const T&>>;
  using Type = typename PathEnd<typename KnownOf<Part>::Type, Rest...>::Type;
};
template <typename T, auto Last>
struct PathEnd<T, Last> {
  using Type = std::remove_cvref_t<std::invoke_result_t<decltype(Last), const T&>>;
};

inline Value value_of(bool flag) { return flag; }
inline Value value_of(std::unsigned_integral auto count) { return uint64_t{count}; }
inline Value value_of(std::signed_integral auto number) { return int64_t{number}; }
inline Value value_of(double ratio) { return ratio; }
inline Value value_of(std::string_view text) { return text; }
inline Value value_of(const std::string& text) { return std::string_view(text); }
template <typename Item>
Value value_of(const std::vector<Item>& items) {
  return &items;
}

template <typename T, auto First, auto... Rest>
Value value_at(const T& object) {
  const auto& part = std::invoke(First, object);
  const auto* known = KnownOf<std::remove_cvref_t<decltype(part)>>::in(part);
  if (known == nullptr) return {};
  if constexpr (sizeof...(Rest) == 0)
    return value_of(*known);
  else
    return value_at<std::remove_cvref_t<decltype(*known)>, Rest...>(*known);
}

template <typename T>
consteval Shape shape_of() {
  if (std::same_as<T, bool>) return Shape::kFlag;
  if (std::unsigned_integral<T>) return Shape::kCount;
  if (std::signed_integral<T>) return Shape::kSigned;
  if (std::floating_point<T>) return Shape::kRatio;
  if (std::same_as<T, std::vector<std::string>>) return Shape::kTexts;
  if (std::same_as<T, std::vector<gpu::MigInstance>>) return Shape::kInstances;
  if (std::same_as<T, std::vector<XidCount>>) return Shape::kFaults;
  return std::same_as<T, std::vector<Use>> ? Shape::kUses : Shape::kText;
}

}  // namespace detail

// Reads along a path of pointers to members and functions of an object. If one of them is an
// optional without a value, or an empty optional text, the figure is unknown.
//
//     kRead<&Device::health, &gpu::DeviceHealth::bar1, &gpu::DeviceMemory::used_bytes>
template <auto First, auto... Rest>
inline constexpr auto kRead = [] {
  using Owner = typename detail::OwnerOf<decltype(First)>::Type;
  using End = typename detail::PathEnd<Owner, First, Rest...>::Type;
  using Known = typename detail::KnownOf<End>::Type;
  return Reader<Owner>{.read = &detail::value_at<Owner, First, Rest...>,
                       .shape = detail::shape_of<Known>(),
                       .is_optional = !std::same_as<Known, End>};
}();

// Of a number. It decides how the number is written for people, and the base unit of its metric.
enum class Unit : uint8_t {
  kNumber,  // none; written without separators
  kCount,
  kProcesses,
  kBytes,
  kBytesPerSecond,
  kPercent,
  kCelsius,
  kMilliwatts,
  kMegahertz,
  kNanoseconds
};

// A kind of JSON object: its heading in docs/json.md, and its schema in openapi.json with the
// description there.
struct ObjectType {
  std::string_view name;
  std::string_view schema;
  std::string_view description = {};
};

// Figures of a T that are an object of their own in its JSON: the memory of a device, its BAR1.
template <typename T>
struct Group {
  std::string_view key;
  const ObjectType* type;
  std::string_view meaning;
  // While it is unknown, the object is null. Without this function it is always known.
  bool (*is_known)(const T&) = nullptr;
};

// Where the detailed view shows a figure, in this order.
enum class Section : uint8_t {
  kIdentity,
  kMemory,
  kHostMemory,
  kInstanceMemory,
  kBalance,
  kBar1,
  kActivity,
  kTraffic,
  kErrors,
  kOwner,
  kUse,
  kAllocator,
  kProgress
};

// As `after`: before all other cells.
inline constexpr std::string_view kFirst = "(first)";

// A line of the detailed view. Cells of one name share a line: "3 for corrected errors; one waits
// for a reset".
struct DetailCell {
  Section section = Section::kIdentity;
  std::string_view name = {};
  std::string_view after = {};
  std::string_view words = {};  // after the number; of a flag, instead of it
  bool is_optional = false;     // no line if the figure, or its group, is unknown
};

// A column of the CSV.
struct CsvCell {
  std::string_view name = {};
  std::string_view after = {};
  bool is_late = false;  // added after the first version, so one of the last columns
};

// Of metrics. A foreign counter has a name that OpenMetrics does not allow for counters.
enum class Kind : uint8_t { kGauge, kCounter, kInfo, kForeignCounter };

// One of the series of a metric: a value for each of its labels, and its number.
struct Point {
  std::vector<std::string> labels;
  uint64_t number = 0;
};

// A metric, in base units. Its series have the labels of the object, and those that are named here.
template <typename T>
struct MetricCell {
  std::string_view name = {};
  std::string_view after = {};
  Kind kind = Kind::kGauge;
  std::string_view help = {};                        // with the source
  std::string_view labels = {};                      // names with spaces between them
  std::string_view label_value = {};                 // of the only label, if it is the same always
  std::vector<Point> (*points)(const T&) = nullptr;  // of several series, instead of the value
  Reader<T> unless = {};                             // no series if this is known
};

// A metric under the name that dcgm-exporter has for it, with its units.
template <typename T>
struct DcgmCell {
  std::string_view name = {};
  std::string_view after = {};
  Kind kind = Kind::kGauge;
  std::string_view help = {};
  std::string_view labels = {};
  std::vector<Point> (*points)(const T&) = nullptr;
  // In docs/metrics.md next to the name, instead of the row's metric.
  std::string_view ours = {};
};

// A metric of the history. Numbers are part of the file's format: add, never change.
struct HistoryCell {
  uint32_t number = 0;         // 0: the history does not keep it
  std::string_view name = {};  // if not the key
};

template <typename T>
struct Figure {
  const Group<T>* in = nullptr;
  std::string_view key = {};  // of the JSON; a row without one is for other views alone
  Reader<T> value = {};
  Reader<T> limit = {};       // metrics omit a number above it: it is impossible
  bool is_of_device = false;  // bytes of a device's memory: more than the device has is impossible
  Unit unit = Unit::kNumber;
  std::span<const std::string_view> words = {};  // a text is one of these
  std::string_view meaning = {};                 // in docs/json.md; once for each ObjectType
  DetailCell detail = {};
  CsvCell csv = {};
  MetricCell<T> metric = {};
  DcgmCell<T> dcgm = {};
  HistoryCell history = {};
};

// The table of a type's figures.
template <typename T>
[[nodiscard]] std::span<const Figure<T>> figures_of();
template <>
std::span<const Figure<Device>> figures_of();
template <>
std::span<const Figure<gpu::MigInstance>> figures_of();
template <>
std::span<const Figure<XidCount>> figures_of();
template <>
std::span<const Figure<Process>> figures_of();
template <>
std::span<const Figure<Use>> figures_of();

// What an object of the type is in the JSON.
template <typename T>
[[nodiscard]] const ObjectType& type_of();
template <>
const ObjectType& type_of<Device>();
template <>
const ObjectType& type_of<gpu::MigInstance>();
template <>
const ObjectType& type_of<XidCount>();
template <>
const ObjectType& type_of<Process>();
template <>
const ObjectType& type_of<Use>();

struct Place {
  std::string_view name;
  std::string_view after;
};

// The order in which a view shows its cells, as indices of `places`.
[[nodiscard]] std::vector<size_t> order_of(std::span<const Place> places);

// The rows that a view shows, in its order: those whose cell has a name and belongs to it.
template <typename T, typename Cell, std::predicate<const Cell&> Belongs>
[[nodiscard]] std::vector<const Figure<T>*> arranged(Cell Figure<T>::* cell, Belongs belongs) {
  std::vector<const Figure<T>*> shown;
  std::vector<Place> places;
  for (const Figure<T>& row : figures_of<T>()) {
    const Cell& candidate = row.*cell;
    if (candidate.name.empty() || !belongs(candidate)) continue;
    shown.push_back(&row);
    places.push_back({candidate.name, candidate.after});
  }
  std::vector<const Figure<T>*> result;
  for (const size_t index : order_of(places)) result.push_back(shown[index]);
  return result;
}

template <typename T, typename Cell>
[[nodiscard]] std::vector<const Figure<T>*> arranged(Cell Figure<T>::* cell) {
  return arranged<T>(cell, [](const Cell&) { return true; });
}

}  // namespace vram::watch::figures
