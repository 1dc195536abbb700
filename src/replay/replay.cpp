#include "replay/replay.hpp"

#include "base/language.hpp"
#include "base/text.hpp"
#include "replay/capacity.hpp"
#include "replay/peers/torch_options.hpp"
#include "replay/peers/vram_rules.hpp"
#include "replay/registry.hpp"
#include "replay/run.hpp"

#include <algorithm>
#include <utility>

namespace vram::replay {
namespace {

ReplayResult try_layouts(const Program& program, const Peer& peer, const AllocatorSpec& spec,
                         ReplayOptions options, ReplayResult first) {
  ReplayResult shown = std::move(first);
  const uint32_t tried = std::max(options.address_layouts, 1u);
  uint32_t completed = shown.completed ? 1 : 0;
  for (uint32_t i = 1; i < tried; ++i) {
    ++options.address_layout;
    ReplayResult other = run(program, peer, spec, options);
    shown.gave_up = shown.gave_up || other.gave_up;
    if (!other.completed) continue;
    ++completed;
    if (!shown.completed) shown = std::move(other);
  }
  shown.layouts_tried = tried;
  shown.layouts_completed = completed;
  return shown;
}

}  // namespace

Result<ReplayResult> replay(const Program& program, const AllocatorSpec& spec,
                            const ReplayOptions& options) {
  const Peer* peer = find_peer(spec.name);
  if (peer == nullptr) return tl::unexpected(parse_spec(spec.to_string()).error());
  if (const Result<> checked = peer->check(spec.settings); !checked) {
    return tl::unexpected(checked.error());
  }
  if (!options.capacity_bytes && peer->needs_capacity != nullptr &&
      peer->needs_capacity(spec.settings)) {
    return fail(Code::kBadInput,
                "{} takes the whole device at once, and its size is not known: name it with "
                "--capacity 16GiB",
                spec.to_string());
  }
  ReplayResult result = run(program, *peer, spec, options);
  if (result.may_depend_on_addresses && !result.gave_up) {
    result = try_layouts(program, *peer, spec, options, std::move(result));
  }
  if (options.search_min_capacity) {
    if (const auto found = find_min_capacity(program, *peer, spec, options)) {
      result.min_capacity_bytes = found->capacity_bytes;
      result.min_capacity_retries = found->retries;
    }
  }
  return result;
}

namespace {

// Where the first setting ends: at a comma outside brackets.
size_t end_of_setting(std::string_view text) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '[' ? 1 : text[i] == ']' ? -1 : 0;
    if (text[i] == ',' && depth <= 0) return i;
  }
  return text.size();
}

std::string list_names() {
  std::string names;
  for (const Peer& peer : peers())
    names += fmt::format("{}{}", names.empty() ? "" : ", ", peer.name);
  return names;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> split_settings(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> settings;
  while (!text.empty()) {
    const size_t end = end_of_setting(text);
    const std::string_view piece = trimmed(text.substr(0, end), " ");
    text.remove_prefix(std::min(end + 1, text.size()));
    if (piece.empty()) continue;
    const size_t mark = std::min(piece.find_first_of("=:"), piece.size());
    settings.emplace_back(trimmed(piece.substr(0, mark), " "),
                          trimmed(piece.substr(std::min(mark + 1, piece.size())), " "));
  }
  return settings;
}

std::string AllocatorSpec::to_string() const {
  std::string text = name;
  for (const auto& [key, value] : settings) {
    text += fmt::format("{}{}={}", &key == &settings.front().first ? ":" : ",", key, value);
  }
  return text;
}

Result<AllocatorSpec> parse_spec(std::string_view text) {
  const size_t colon = std::min(text.find(':'), text.size());
  AllocatorSpec spec;
  spec.name = trimmed(text.substr(0, colon), " ");
  spec.settings = split_settings(text.substr(std::min(colon + 1, text.size())));
  const Peer* peer = find_peer(spec.name);
  if (peer == nullptr) {
    return fail(Code::kBadInput,
                "no allocator is called \"{}\"; known: {}; write NAME or NAME:key=value,key=value",
                spec.name, list_names());
  }
  if (const Result<> checked = peer->check(spec.settings); !checked) {
    return tl::unexpected(checked.error());
  }
  return spec;
}

std::vector<std::pair<std::string, std::string>> known_allocators() {
  std::vector<std::pair<std::string, std::string>> list;
  for (const Peer& peer : peers()) {
    list.emplace_back(peer.name, tr(peer.summary));
    if (peer.name == "torch") {
      list.emplace_back(kExpandableSpec, tr("PyTorch's with expandable segments"));
    }
  }
  return list;
}

AllocatorSpec recorded_spec(const trace::Trace& trace) {
  if (recorded_vram(trace)) return {"vram", {}};
  return {"torch", recorded_torch_settings(trace)};
}

}  // namespace vram::replay
