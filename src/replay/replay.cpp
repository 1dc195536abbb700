#include "replay/replay.hpp"

#include "replay/capacity.hpp"
#include "replay/registry.hpp"
#include "replay/run.hpp"

namespace vram::replay {

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
  if (options.search_min_capacity) {
    if (const auto found = find_min_capacity(program, *peer, spec, options)) {
      result.min_capacity_bytes = found->capacity_bytes;
      result.min_capacity_retries = found->retries;
    }
  }
  return result;
}

}  // namespace vram::replay
