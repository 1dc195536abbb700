// Made-up samples for tests of the history, and folders for its files.
#pragma once

#include "base/time.hpp"
#include "history/history.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace vram::history::testing {

inline constexpr int64_t kMinute = 60 * kSignedSecondNs;
inline constexpr int64_t kHour = 60 * kMinute;
// 2026-11-22 00:00:00 UTC: the beginning of a day, hour and minute.
inline constexpr int64_t kDayBegin = int64_t{1'795'305'600} * kSignedSecondNs;

// A sample of one device, "GPU-a", with this used memory; the steady clock equals the other.
inline watch::Sampled sample_at(int64_t time_ns, std::optional<uint64_t> used_bytes,
                                const std::string& uuid = "GPU-a") {
  watch::Sampled sampled;
  sampled.begin_ns = static_cast<uint64_t>(time_ns);
  sampled.snapshot.time_ns = time_ns;
  watch::Device device;
  device.identity.uuid = uuid;
  device.identity.name = "Fast 100";
  device.sample.memory.total_bytes = 1000;
  device.sample.memory.used_bytes = used_bytes;
  sampled.snapshot.devices.push_back(std::move(device));
  return sampled;
}

inline watch::Process process_on(uint32_t device, uint32_t pid, uint64_t start,
                                 uint64_t used_bytes) {
  watch::Process process;
  watch::ProcessFacts& facts = process.facts.edit();
  facts.pid = pid;
  facts.start_ticks = start;
  facts.user = "ann";
  facts.command = "python train.py";
  watch::Use use;
  use.device = device;
  use.process.pid = pid;
  use.process.used_bytes = used_bytes;
  process.uses.push_back(use);
  return process;
}

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "vram-history-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] std::string file(const std::string& name = "history.db") const {
    return (path_ / name).string();
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // Names that have this in them.
  [[nodiscard]] std::vector<std::string> names_with(const std::string& part) const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      if (entry.path().filename().string().find(part) != std::string::npos)
        names.push_back(entry.path().filename().string());
    return names;
  }

 private:
  std::filesystem::path path_;
};

inline History opened(const std::string& path, HistoryOptions options = {}) {
  auto history = History::open(path, std::move(options));
  if (!history) {
    ADD_FAILURE() << history.error().message;
    std::abort();
  }
  return std::move(*history);
}

inline HistoryQuery used_by(int64_t step_ns) {
  HistoryQuery query;
  query.metric = "used_bytes";
  query.step_ns = step_ns;
  return query;
}

inline std::vector<HistoryPoint> points_of(const History& history, const HistoryQuery& query) {
  auto series = history.query(query);
  if (!series) {
    ADD_FAILURE() << series.error().message;
    return {};
  }
  EXPECT_EQ(series->size(), 1u);
  return series->empty() ? std::vector<HistoryPoint>() : series->front().points;
}

}  // namespace vram::history::testing
