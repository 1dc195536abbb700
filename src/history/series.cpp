#include "history/series.hpp"

#include "base/text.hpp"
#include "watch/process_texts.hpp"
#include "watch/sources.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace vram::history {
namespace {

constexpr int kCommandColumns = 200;
constexpr size_t kMaxBootIdBytes = 64;
constexpr uint64_t kSeed = 0xcbf29ce484222325;  // FNV-1a's

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15;
  return hash ^ (hash >> 29);
}
uint64_t mix(uint64_t hash, std::string_view text) {
  for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  return mix(hash, text.size());
}

}  // namespace

uint64_t this_boot() {
  static const uint64_t kHash = [] {
    const auto file = watch::read_start("/proc/sys/kernel/random/boot_id", kMaxBootIdBytes);
    return mix(kSeed, file ? std::string_view(file->text) : std::string_view());
  }();
  return kHash;
}

int64_t floor_to(int64_t value, int64_t unit) {
  const int64_t rest = value % unit;
  return value - (rest < 0 ? rest + unit : rest);
}

HistoryDevice history_device(const watch::Device& device) {
  std::string key = watch::key_of(device.identity);
  if (key.empty()) key = fmt::format("device {}", device.identity.index);
  return {std::move(key), device.identity.name.value_or(""), device.identity.index,
          device.sample.memory.total_bytes};
}

HistoryProcess history_process(const watch::ProcessFacts& facts) {
  HistoryProcess process;
  process.pid = facts.pid;
  process.start_ticks = facts.start_ticks;
  process.user = facts.user;
  if (facts.command) process.command = shorten_end(valid_utf8(*facts.command), kCommandColumns);
  if (facts.container) process.container = facts.container->id;
  if (facts.pod) {
    const watch::Pod& pod = *facts.pod;
    process.pod = pod.name ? fmt::format("{}/{}", pod.space.value_or(""), *pod.name) : pod.uid;
  }
  process.slurm_job = facts.slurm_job;
  return process;
}

int64_t process_id(const watch::ProcessFacts& facts) {
  const uint64_t start = facts.start_ticks ? *facts.start_ticks + 1 : 0;
  const uint64_t hash = mix(mix(this_boot(), facts.pid), start);
  return static_cast<int64_t>(hash >> 1) | 1;
}

}  // namespace vram::history
