#include "show/top/rows.hpp"

#include "show/top/tree.hpp"

#include <algorithm>
#include <tuple>

namespace vram::show::top {
namespace {

using watch::Process;
using watch::Use;

// What a row is sorted by, made once a row: texts are made of several facts.
struct Key {
  std::optional<uint64_t> figure;
  std::string text;
};

Key key_of(const Row& row, Field field) {
  switch (field) {
    case Field::kPid:
      return {row.pid, ""};
    case Field::kGpu:
      return {row.use->device, ""};
    case Field::kMig:
      return {row.use->process.gpu_instance, ""};
    default:
      break;
  }
  const FieldInfo& info = info_of(field);
  if (info.is_figure) return {figure_of(field, *row.process, *row.use), ""};
  return {std::nullopt, info.text(*row.process, *row.use)};
}

auto tie_of(const Row& row) {
  const gpu::DeviceProcess& process = row.use->process;
  return std::tuple(row.pid, row.use->device, process.gpu_instance, process.compute_instance);
}

struct Keyed {
  Row row;
  Key key;
};

// Unknown figures come last, whichever way the known ones go.
bool is_before(const Keyed& a, const Keyed& b, bool is_descending) {
  if (a.key.figure.has_value() != b.key.figure.has_value()) return a.key.figure.has_value();
  if (a.key.figure && *a.key.figure != *b.key.figure)
    return is_descending ? *a.key.figure > *b.key.figure : *a.key.figure < *b.key.figure;
  if (a.key.text != b.key.text)
    return is_descending ? a.key.text > b.key.text : a.key.text < b.key.text;
  return tie_of(a.row) < tie_of(b.row);
}

std::vector<Row> sorted_rows(std::vector<Row> rows, const RowOrder& order) {
  std::vector<Keyed> keyed;
  keyed.reserve(rows.size());
  for (Row& row : rows) {
    Key key = key_of(row, order.sort);
    keyed.push_back({std::move(row), std::move(key)});
  }
  const bool is_descending = info_of(order.sort).is_figure != order.is_inverted;
  std::ranges::sort(keyed,
                    [&](const Keyed& a, const Keyed& b) { return is_before(a, b, is_descending); });
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = std::move(keyed[i].row);
  return rows;
}

}  // namespace

RowId Row::id() const {
  if (process == nullptr || use == nullptr) return {{pid, std::nullopt}, 0, {}, {}};
  return {{pid, process->facts->start_ticks},
          use->device,
          use->process.gpu_instance,
          use->process.compute_instance};
}

std::vector<Row> rows_of(const watch::Snapshot& snapshot, const Filter& filter,
                         std::optional<uint32_t> device, const RowOrder& order) {
  std::vector<Row> rows;
  for (const Process& process : snapshot.processes) {
    for (const Use& use : process.uses) {
      if (device && use.device != *device) continue;
      if (!filter.matches(process, use)) continue;
      rows.push_back({&process, &use, process.facts->pid, "", 0, false});
    }
  }
  rows = sorted_rows(std::move(rows), order);
  return order.is_tree ? as_tree(std::move(rows), order.folded) : rows;
}

}  // namespace vram::show::top
