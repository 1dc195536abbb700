#include "replay/peers/vram.hpp"

#include "replay/peers/settings.hpp"

#include <array>
#include <limits>

namespace vram::replay {
namespace {

constexpr std::array kVramKeys{
    PeerKey{"handle_size",
            "SIZE, a piece of physical memory, of a large request up to two in one; a multiple of "
            "2MiB"},
    PeerKey{"growth_divisor", "NUMBER, new memory comes in this part of the peak at least"},
    PeerKey{"slack_permille",
            "NUMBER, how far reserved may pass the peak before free pieces are "
            "mapped as one range"},
    PeerKey{"patience_permille",
            "NUMBER, and by how much more before a stream waits for another's memory"},
    PeerKey{"stitched_percent", "NUMBER, how much of the reserved bytes may be mapped so"},
};

constexpr uint64_t kMaxNumber = 1'000'000;

bool read_number(std::string_view value, uint64_t minimum, uint32_t& into) {
  const auto number = read_whole_number(value);
  if (!number || *number < minimum || *number > kMaxNumber) return false;
  into = static_cast<uint32_t>(*number);
  return true;
}

bool read(std::string_view key, std::string_view value, pool::Options& into) {
  if (key == "growth_divisor") return read_number(value, 1, into.growth_divisor);
  if (key == "slack_permille") return read_number(value, 0, into.slack_permille);
  if (key == "patience_permille") return read_number(value, 0, into.patience_permille);
  if (key == "stitched_percent") return read_number(value, 0, into.stitched_percent);
  const auto bytes = read_size(value);
  return bytes.value_or(1) % (2 * kMiB) == 0 && *bytes > 0 && keep(bytes, into.handle_bytes);
}

}  // namespace

std::span<const PeerKey> vram_keys() { return kVramKeys; }

Result<pool::Options> parse_vram_settings(Settings settings) {
  return parse_settings<pool::Options>("vram", kVramKeys, settings, read);
}

namespace {

// A program may catch the error and try again thousands of times.
pool::Options without_holders(pool::Options options) {
  options.finds_holders = false;
  return options;
}

}  // namespace

Vram::Vram(const pool::Options& options, const PeerContext& context)
    : program_(context.program),
      device_(context.segments.gpu(), context.lag_ns),
      pool_(device_, without_holders(options)),
      blocks_(context.program.block_count) {
  if (context.limit_bytes) pool_.limit(*context.limit_bytes);
}

uint64_t Vram::malloc(const Request& request) {
  device_.set_now(request.time_ns);
  const gpu::StreamHandle stream = program_.stream_handles[request.stream];
  const pool::Allocation got = pool_.allocate(request.size_bytes, stream);
  blocks_[request.block] = got.block;
  take_figures();
  return got.address;
}

void Vram::free(uint32_t block, int64_t time_ns) {
  device_.set_now(time_ns);
  if (pool_.is_live(blocks_[block])) pool_.free(blocks_[block]);
  take_figures();
}

void Vram::free_later(uint32_t block, int64_t time_ns) {
  device_.set_now(time_ns);
  if (pool_.is_live(blocks_[block])) pool_.hold(blocks_[block]);
  take_figures();
}

void Vram::complete(uint32_t block, int64_t time_ns) {
  device_.set_now(time_ns);
  pool_.finish(blocks_[block]);
  take_figures();
}

void Vram::empty_cache() {
  (void)device_.synchronize();
  (void)pool_.trim(std::numeric_limits<uint64_t>::max());
  take_figures();
}

uint64_t Vram::largest_free_bytes(const Request& request) const {
  static_cast<void>(request);
  return pool_.largest_free_bytes();
}

void Vram::take_figures() {
  const pool::Stats& stats = pool_.stats();
  usage_ = {.requested_bytes = stats.requested_bytes.current,
            .allocated_bytes = stats.allocated_bytes.current,
            .active_bytes = stats.active_bytes.current,
            .reserved_bytes = stats.reserved_bytes.current};
  counters_ = {.device_allocs = stats.num_device_alloc,
               .device_frees = stats.num_device_free,
               .retries = stats.num_alloc_retries,
               .stream_waits = stats.stream_waits,
               .peak_reserved_bytes = stats.reserved_bytes.peak};
}

std::unique_ptr<Allocator> make_vram(Settings settings, const PeerContext& context) {
  return std::make_unique<Vram>(*parse_vram_settings(settings), context);
}

}  // namespace vram::replay
