#include "replay/registry.hpp"

#include "base/language.hpp"
#include "base/result.hpp"
#include "replay/peers/cuda_async.hpp"
#include "replay/peers/cupy.hpp"
#include "replay/peers/gmlake.hpp"
#include "replay/peers/paddle.hpp"
#include "replay/peers/rmm_pool.hpp"
#include "replay/peers/tf_bfc.hpp"
#include "replay/peers/torch_options.hpp"
#include "replay/peers/vram.hpp"

#include <array>

namespace vram::replay {
namespace {

template <auto Parse>
Result<> check(Settings settings) {
  VRAM_TRY(Parse(settings));
  return {};
}

Result<> check_no_settings(Settings settings) {
  if (settings.empty()) return {};
  return fail(Code::kBadInput, "cuda_async: expected no settings, found \"{}\"",
              settings.front().first);
}

}  // namespace

// size: a table
std::span<const Peer> peers() {
  static const std::array kPeers{
      Peer{.name = "torch",
           .summary =
               tr_later("PyTorch's caching allocator; expandable_segments=True for its other mode"),
           .is_model = false,
           .model_note = tr_later("recordings of an H200, call by call"),
           .keys = torch_keys(),
           .check = check<parse_torch_settings>,
           .make = make_torch,
           .needs_capacity = nullptr,
           .has_memory_fraction = true},
      Peer{.name = "vram",
           .summary = tr_later("vram's own pool: vram run --pool, or vram.enable() in the program"),
           .is_model = false,
           .model_note = tr_later("it is the same code"),
           .keys = vram_keys(),
           .check = check<parse_vram_settings>,
           .make = make_vram},
      Peer{.name = "cuda_async",
           .summary = tr_later(
               "the driver's stream-ordered pool, used as by PyTorch's cudaMallocAsync backend"),
           .is_model = true,
           .model_note =
               tr_later("CUDA 13 on an H200 that keeps up: reserved peaks of nine programs within "
                        "1.4 %, three of them equal"),
           .keys = {},
           .check = check_no_settings,
           .make = make_cuda_async},
      Peer{.name = "cupy",
           .summary = tr_later("CuPy's default memory pool"),
           .is_model = true,
           .model_note =
               tr_later("CuPy 14.2 on an H200: reserved peaks of seven programs within 0.8 %, "
                        "three of them equal"),
           .keys = cupy_keys(),
           .check = check<parse_cupy_settings>,
           .make = make_cupy},
      Peer{.name = "rmm_pool",
           .summary = tr_later("RAPIDS RMM's pool_memory_resource; initially empty, unless "
                               "initial_pool_size is set"),
           .is_model = true,
           .model_note = tr_later(
               "RMM 26.10 on an H200: reserved peaks and segments of seven programs, all equal"),
           .keys = rmm_pool_keys(),
           .check = check<parse_rmm_pool_settings>,
           .make = make_rmm_pool},
      Peer{.name = "tf_bfc",
           .summary = tr_later("TensorFlow's and JAX's BFC allocator, which grows as needed; "
                               "allow_growth=False reserves the whole capacity at the start"),
           .is_model = true,
           .model_note =
               tr_later("JAX 0.11 on an H200: reserved peaks of four programs, three equal, one "
                        "twice as large"),
           .keys = tf_bfc_keys(),
           .check = check<parse_tf_bfc_settings>,
           .make = make_tf_bfc,
           .needs_capacity = tf_bfc_needs_capacity},
      Peer{.name = "paddle",
           .summary = tr_later("PaddlePaddle's auto_growth allocator"),
           .is_model = true,
           .model_note = tr_later("the published source; not compared with a running PaddlePaddle"),
           .keys = paddle_keys(),
           .check = check<parse_paddle_settings>,
           .make = make_paddle},
      Peer{.name = "gmlake",
           .summary =
               tr_later("GMLake: PyTorch's allocator, which joins free blocks with virtual memory"),
           .is_model = true,
           .model_note =
               tr_later("the published algorithm; the original can't run on today's PyTorch"),
           .keys = gmlake_keys(),
           .check = check<parse_gmlake_settings>,
           .make = make_gmlake},
  };
  return kPeers;
}

const Peer* find_peer(std::string_view name) {
  for (const Peer& peer : peers()) {
    if (peer.name == name) return &peer;
  }
  return nullptr;
}

std::string list_keys(std::string_view peer, std::span<const PeerKey> keys) {
  if (keys.empty()) return trf("{} takes no settings", peer);
  std::string text = trf("valid keys of {}:", peer);
  for (const PeerKey& key : keys) {
    text += fmt::format("{} {}={}", &key == keys.data() ? "" : ",", key.name, key.form);
  }
  return text;
}

}  // namespace vram::replay
