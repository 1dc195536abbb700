#include "cli/diff_sides.hpp"

#include "base/file.hpp"
#include "base/language.hpp"
#include "cli/output.hpp"
#include "cli/recordings.hpp"
#include "explain/diff/baseline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>

namespace vram::cli {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxBaselineBytes = uint64_t{16} << 20;

}  // namespace

bool is_baseline(const std::string& path) {
  if (path.ends_with(".toml")) return true;
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  auto file = InputFile::open(path);
  if (!file) return false;
  std::array<std::byte, kBaselineStart.size()> start{};
  const auto read = file->read(start);
  return read && *read == start.size() &&
         std::ranges::equal(start, kBaselineStart,
                            [](std::byte byte, char c) { return static_cast<char>(byte) == c; });
}

namespace {

Result<explain::RunPeaks> peaks_of(const std::string& path, const trace::OpenOptions& reading) {
  VRAM_TRY_ASSIGN(const auto trace, trace::open_trace(path, reading));
  VRAM_TRY_ASSIGN(auto run, explain::find_peaks(trace));
  if (!run.rank) {
    run.rank = rank_in_name(path);
    for (explain::DevicePeak& device : run.devices) device.rank = run.rank;
  }
  return run;
}

// In the order of `paths`. Recordings are independent of each other, so each thread takes the next.
std::vector<Result<explain::RunPeaks>> peaks_of_all(const std::vector<std::string>& paths,
                                                    const trace::OpenOptions& reading,
                                                    const Console& console) {
  std::vector<Result<explain::RunPeaks>> found(paths.size());
  Progress progress(console, tr("reading"));
  std::mutex drawing;
  size_t done = 0;
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < paths.size(); i = next++) {
      found[i] = peaks_of(paths[i], reading);
      const std::scoped_lock lock(drawing);
      progress.update_count(++done, paths.size(), tr("recordings"));
    }
  };
  const size_t cores = std::max(std::thread::hardware_concurrency(), 1U);
  std::vector<std::jthread> threads;
  for (size_t i = 1; i < std::min(cores, paths.size()); ++i) threads.emplace_back(work);
  work();
  threads.clear();
  return found;
}

std::string name_of(const std::vector<std::string>& words) {
  if (words.size() == 1) return words.front();
  return trf("{} and {} more", words.front(), words.size() - 1);
}

Result<LoadedSide> load_baseline(const SideRequest& request) {
  const std::string& path = request.words.front();
  if (request.words.size() > 1) {
    return fail(Code::kBadInput,
                "{} is a baseline, which contains all runs of its side: expected no further runs, "
                "found {}",
                path, request.words[1]);
  }
  VRAM_TRY_ASSIGN(const std::string text, read_whole(path, kMaxBaselineBytes));
  VRAM_TRY_ASSIGN(auto side, explain::read_baseline(text, path));
  return LoadedSide{.side = std::move(side), .incomplete = {}};
}

}  // namespace

Result<LoadedSide> load_side(const SideRequest& request, const Console& console) {
  if (std::ranges::any_of(request.words, is_baseline)) return load_baseline(request);
  VRAM_TRY_ASSIGN(const auto recordings, find_recordings(request.words));
  LoadedSide loaded;
  std::vector<explain::RunPeaks> runs;
  for (auto& run : peaks_of_all(recordings.paths, request.reading, console)) {
    if (!run) return tl::unexpected(std::move(run.error()));
    if (!run->incomplete.empty()) {
      std::string remark = fmt::format("{}: {}", run->path, run->incomplete);
      if (!request.accepts_incomplete) {
        return fail(Code::kBadInput,
                    "{}: its peak may be too low to compare; record it again, or add "
                    "--accept-incomplete",
                    remark);
      }
      loaded.incomplete.push_back(std::move(remark));
    }
    runs.push_back(*std::move(run));
  }
  loaded.side = explain::make_side(name_of(request.words), std::move(runs));
  return loaded;
}

namespace {

fs::path from_part(fs::path::const_iterator part, const fs::path& path) {
  fs::path rest;
  for (; part != path.end(); ++part) rest /= *part;
  return rest;
}

// Nothing: it is not below the root.
std::optional<std::string> below(const std::string& file, const fs::path& root) {
  const fs::path path = fs::path(file).lexically_normal();  // no ".." can lead out of the root
  if (!path.is_absolute()) return std::nullopt;
  const auto [in_root, in_path] = std::ranges::mismatch(root, path);
  if (in_root == root.end() && in_path != path.end()) return from_part(in_path, path).string();
  // The same repository in another folder. Each of its folders costs a system call.
  constexpr ptrdiff_t kMaxParts = 64;
  if (std::distance(path.begin(), path.end()) > kMaxParts) return std::nullopt;
  std::error_code error;
  for (auto begin = std::next(path.begin()); begin != path.end(); ++begin) {
    const fs::path rest = from_part(begin, path);
    if (fs::is_regular_file(root / rest, error)) return rest.string();
  }
  return std::nullopt;
}

}  // namespace

void make_relative(explain::Side& side, const std::string& root) {
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(root, error);
  std::map<std::string, std::string> known;
  for (explain::SideDevice& device : side.devices) {
    for (auto& sites : device.peak.sites) {
      for (explain::PeakSite& site : sites) {
        for (explain::Frame& call : site.calls) {
          const auto [found, is_new] = known.try_emplace(call.file, call.file);
          if (is_new) found->second = below(call.file, folder).value_or(call.file);
          call.file = found->second;
        }
      }
    }
  }
}

}  // namespace vram::cli
