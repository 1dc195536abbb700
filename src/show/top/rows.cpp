#include "show/top/rows.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

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

namespace {

constexpr size_t kNone = SIZE_MAX;
constexpr uint32_t kInit = 1;         // everybody's last parent says nothing
constexpr size_t kMaxTreeDepth = 64;  // deeper branches are not drawn, their rows are
constexpr int kMinChildren = 2;

struct Node {
  std::vector<Row> rows;  // of one process; none: of a parent that uses no GPU
  uint32_t pid = 0;
  size_t parent = kNone;
  std::vector<size_t> children;
  size_t rank = 0;  // of the first row of the family
  size_t descendants = 0;
};

const watch::ProcessFacts& facts_of(const Node& node) { return *node.rows.front().process->facts; }

class Tree {
 public:
  explicit Tree(std::vector<Row> rows) {
    gather(std::move(rows));
    find_parents();
    break_cycles();
    add_launchers();
    hang_up();
  }
  [[nodiscard]] std::vector<Row> draw(const std::set<uint32_t>& folded) {
    std::vector<Row> rows;
    for (const size_t root : roots_) draw_node(root, "", "", 0, folded, rows);
    return rows;
  }

 private:
  void gather(std::vector<Row> rows) {
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto [known, is_new] = by_pid_.try_emplace(rows[i].pid, nodes_.size());
      if (is_new) nodes_.push_back({{}, rows[i].pid, kNone, {}, i, 0});
      nodes_[known->second].rows.push_back(std::move(rows[i]));
    }
  }
  void find_parents() {
    for (Node& node : nodes_) {
      const watch::ProcessFacts& facts = facts_of(node);
      if (!facts.parent_pid || *facts.parent_pid == node.pid) continue;
      const auto parent = by_pid_.find(*facts.parent_pid);
      if (parent == by_pid_.end()) continue;
      const auto& began = facts_of(nodes_[parent->second]).start_ticks;
      if (began && facts.start_ticks && *began > *facts.start_ticks) continue;
      node.parent = parent->second;
    }
  }
  // Of each circle the one with the smallest number becomes a root.
  void break_cycles() {
    for (const auto& [pid, index] : by_pid_) {
      size_t above = nodes_[index].parent;
      for (size_t steps = 0; above != kNone && above != index && steps < nodes_.size(); ++steps)
        above = nodes_[above].parent;
      if (above == index) nodes_[index].parent = kNone;
    }
  }
  void add_launchers() {
    std::map<uint32_t, std::vector<size_t>> orphans;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const auto& parent = facts_of(nodes_[i]).parent_pid;
      if (nodes_[i].parent == kNone && parent && *parent > kInit && !by_pid_.contains(*parent))
        orphans[*parent].push_back(i);
    }
    for (const auto& [pid, children] : orphans) {
      if (children.size() < kMinChildren) continue;
      for (const size_t child : children) nodes_[child].parent = nodes_.size();
      nodes_.push_back({{}, pid, kNone, {}, SIZE_MAX, 0});
    }
  }
  void hang_up() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (size_t above = nodes_[i].parent; above != kNone; above = nodes_[above].parent) {
        nodes_[above].rank = std::min(nodes_[above].rank, nodes_[i].rank);
        ++nodes_[above].descendants;
      }
    }
    for (size_t i = 0; i < nodes_.size(); ++i)
      (nodes_[i].parent == kNone ? roots_ : nodes_[nodes_[i].parent].children).push_back(i);
    const auto rank = [this](size_t index) { return nodes_[index].rank; };
    std::ranges::sort(roots_, {}, rank);
    for (Node& node : nodes_) std::ranges::sort(node.children, {}, rank);
  }
  void draw_node(size_t index, const std::string& own, const std::string& below, size_t depth,
                 const std::set<uint32_t>& folded, std::vector<Row>& rows) {
    Node& node = nodes_[index];
    if (node.rows.empty()) node.rows.push_back({nullptr, nullptr, node.pid, "", 0, false});
    const bool is_folded = folded.contains(node.pid) && !node.children.empty();
    for (Row& row : node.rows) {
      row.branch = &row == node.rows.data() ? own : below;
      row.descendants = node.descendants;
      row.is_folded = is_folded;
      rows.push_back(std::move(row));
    }
    if (is_folded) return;
    for (const size_t child : node.children) {
      const bool is_last = child == node.children.back();
      const bool has_room = depth < kMaxTreeDepth;
      draw_node(child, has_room ? below + (is_last ? "└─ " : "├─ ") : below,
                has_room ? below + (is_last ? "   " : "│  ") : below, depth + 1, folded, rows);
    }
  }

  std::vector<Node> nodes_;
  std::map<uint32_t, size_t> by_pid_;
  std::vector<size_t> roots_;
};

}  // namespace

std::vector<Row> as_tree(std::vector<Row> sorted, const std::set<uint32_t>& folded) {
  return Tree(std::move(sorted)).draw(folded);
}

}  // namespace vram::show::top
