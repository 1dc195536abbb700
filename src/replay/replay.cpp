#include "replay/replay.hpp"

#include "replay/capacity.hpp"
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
  if (result.may_depend_on_addresses) {
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

}  // namespace vram::replay
