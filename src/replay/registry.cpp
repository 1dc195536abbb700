#include "replay/registry.hpp"

#include "replay/peers/cuda_async.hpp"
#include "replay/peers/torch_options.hpp"

#include <array>

namespace vram::replay {
namespace {

Result<> check_torch(Settings settings) {
  const Result<TorchSettings> parsed = parse_torch_settings(settings);
  if (!parsed) return tl::unexpected(parsed.error());
  return {};
}

Result<> check_no_settings(Settings settings) {
  if (settings.empty()) return {};
  return fail(Code::kBadInput, "cuda_async takes no settings, not \"{}\"", settings.front().first);
}

}  // namespace

std::span<const Peer> peers() {
  static const std::array<Peer, 2> kPeers{{
      {.name = "torch",
       .summary = "PyTorch's caching allocator; expandable_segments=True for its other kind",
       .is_model = false,
       .model_note = {},
       .keys = torch_keys(),
       .check = check_torch,
       .make = make_torch},
      {.name = "cuda_async",
       .summary =
           "the driver's stream-ordered pool (cudaMallocAsync), as PyTorch's backend uses it",
       .is_model = true,
       .model_note = "observed on an H200 with CUDA 13",
       .keys = {},
       .check = check_no_settings,
       .make = make_cuda_async},
  }};
  return kPeers;
}

const Peer* find_peer(std::string_view name) {
  for (const Peer& peer : peers()) {
    if (peer.name == name) return &peer;
  }
  return nullptr;
}

std::string list_keys(std::string_view peer, std::span<const PeerKey> keys) {
  if (keys.empty()) return fmt::format("{} takes no settings", peer);
  std::string text = fmt::format("valid keys of {}:", peer);
  for (const PeerKey& key : keys) {
    text += fmt::format("{} {}={}", &key == keys.data() ? "" : ",", key.name, key.form);
  }
  return text;
}

}  // namespace vram::replay
