#include "pictures/flame.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/text.hpp"
#include "explain/site/site.hpp"
#include "pictures/ink.hpp"
#include "pictures/theme.hpp"
#include "show/names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace vram::pictures {
namespace {

constexpr double kEdge = 16;
constexpr double kFrameRow = 18;
constexpr double kFlameSize = 11;
constexpr double kTop = 56;
constexpr double kMinFrameWidth = 0.7;
constexpr size_t kMaxFrames = 256;

struct FlameNode {
  std::string name;
  bool is_user = false;  // the user's own code
  uint64_t bytes = 0;
  std::map<std::string, size_t> by_name;  // of the children
  std::vector<std::unique_ptr<FlameNode>> children;

  FlameNode& child(std::string child_name, bool is_users) {
    const auto [entry, is_new] = by_name.try_emplace(child_name, children.size());
    if (is_new) {
      children.push_back(std::make_unique<FlameNode>());
      children.back()->name = std::move(child_name);
      children.back()->is_user = is_users;
    }
    return *children[entry->second];
  }
};

void add_holder(const explain::Holder& holder, FlameNode& root) {
  root.bytes += holder.requested_bytes;
  FlameNode* node = &root;
  if (holder.stack.empty()) {
    node = &node->child(show::holder_text(explain::Dimension::kStack, holder.name), false);
    node->bytes += holder.requested_bytes;
    return;
  }
  // Deeper frames would be in no picture.
  const size_t depth = std::min(holder.stack.size(), kMaxFrames);
  for (auto each = holder.stack.rbegin();
       each != holder.stack.rbegin() + static_cast<int64_t>(depth); ++each) {
    node = &node->child(explain::frame_name(*each), explain::is_user_file(each->file));
    node->bytes += holder.requested_bytes;
  }
}

class FlamePicture {
 public:
  FlamePicture(const explain::DeviceView& view, const explain::State& state, const Frame& frame)
      : view_(view), state_(state), frame_(frame), theme_(theme(frame.is_dark)) {}

  [[nodiscard]] Scene draw(const FlameNode& root);

 private:
  void draw_node(const FlameNode& node, Point corner, double width, size_t depth);
  void draw_head(const FlameNode& root);

  const explain::DeviceView& view_;
  const explain::State& state_;
  const Frame& frame_;
  const Theme& theme_;
  Scene scene_;
  size_t max_depth_ = 0;
  size_t deepest_ = 0;
  uint64_t hidden_ = 0;
};

void FlamePicture::draw_node(const FlameNode& node, Point corner, double width, size_t depth) {
  if (width < kMinFrameWidth) return;
  if (depth > max_depth_) {
    ++hidden_;
    return;
  }
  deepest_ = std::max(deepest_, depth);
  const Colour colour = depth == 0     ? theme_.steps[0]
                        : node.is_user ? colour_of_name(theme_, node.name)
                                       : theme_.grid;
  Area box = rectangle(corner, std::max(width - 1, kMinFrameWidth), kFrameRow - 1, colour);
  constexpr size_t kMaxHover = 200;
  box.hover =
      fmt::format("{}: {}", limit_bytes(printable(node.name), kMaxHover), format_bytes(node.bytes));
  scene_.items.emplace_back(std::move(box));
  const double room = width - 9;
  const std::string full = fmt::format("{}  {}", printable(node.name), format_bytes(node.bytes));
  const bool is_short = room > 24 && text_width(full, kFlameSize) > room;
  const std::string words =
      is_short ? fit_end(node.name, kFlameSize, room) : fit_end(full, kFlameSize, room);
  if (room > 24 && !words.empty())
    scene_.items.emplace_back(Label{
        {corner.x + 4, corner.y + 12.5}, words, kFlameSize, theme_.ink, Anchor::kStart, true});
  std::vector<const FlameNode*> order;
  for (const auto& child : node.children) order.push_back(child.get());
  std::ranges::stable_sort(order, std::greater<>(), &FlameNode::bytes);
  double x = corner.x;
  for (const FlameNode* child : order) {
    const double share = static_cast<double>(child->bytes) / static_cast<double>(node.bytes);
    draw_node(*child, {x, corner.y + kFrameRow}, width * share, depth + 1);
    x += width * share;
  }
}

void FlamePicture::draw_head(const FlameNode& root) {
  const double width = frame_.width - 2 * kEdge;
  scene_.title = title_of(frame_, view_);
  scene_.description = trf("where {} of live memory were allocated, {}", format_bytes(root.bytes),
                           show::when(view_.clock.kind(), view_.report, state_.moment));
  if (hidden_ > 0)
    scene_.description += " · " + trf("{} left out", counted(hidden_, "deeper frame"));
  scene_.items.emplace_back(
      Label{{kEdge, 25}, fit_end(scene_.title, 15, width), 15, theme_.ink, Anchor::kStart, true});
  scene_.items.emplace_back(
      Label{{kEdge, 43}, fit_end(scene_.description, kFlameSize, width), kFlameSize, theme_.muted});
}

Scene FlamePicture::draw(const FlameNode& root) {
  max_depth_ = static_cast<size_t>(std::max(1.0, (frame_.height - kTop - kEdge) / kFrameRow)) - 1;
  scene_.width = frame_.width;
  scene_.background = theme_.surface;
  draw_node(root, {kEdge, kTop}, frame_.width - 2 * kEdge, 0);
  draw_head(root);
  scene_.height = kTop + static_cast<double>(deepest_ + 1) * kFrameRow + kEdge;
  return std::move(scene_);
}

}  // namespace

Result<Scene> draw_flame(const explain::DeviceView& view, const explain::State& state,
                         const Frame& frame) {
  if (!view.trace.has_stacks)
    return fail(Code::kBadInput,
                "a flame graph needs stacks, and this recording has none: record with stacks");
  FlameNode root;
  root.name = tr("live memory");
  for (const explain::Breakdown& breakdown : state.breakdowns) {
    if (breakdown.by != explain::Dimension::kStack) continue;
    for (const explain::Holder& holder : breakdown.holders) add_holder(holder, root);
  }
  return FlamePicture(view, state, frame).draw(root);
}

}  // namespace vram::pictures
