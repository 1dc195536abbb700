#include "cli/recordings.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/result.hpp"
#include "cli/output.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace vram::cli {
namespace {

namespace fs = std::filesystem;

bool is_recording(const fs::path& path) {
  constexpr std::array<std::string_view, 3> kPackings = {".gz", ".zst", ".xz"};
  const bool is_packed = std::ranges::find(kPackings, path.extension().string()) != kPackings.end();
  const std::string kind = (is_packed ? path.stem() : path).extension().string();
  const bool is_old_part = path.stem().extension() == ".old";
  return (kind == ".vtrace" && !is_old_part) || kind == ".pickle" || kind == ".pkl";
}

Result<std::vector<std::string>> recordings_in(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (is_recording(it->path()) && it->is_regular_file(error))
      paths.push_back(it->path().string());
  }
  if (error) return fail(Code::kBadInput, "{}: can't be read: {}", folder, error.message());
  if (paths.empty()) {
    return fail(Code::kBadInput, "{}: expected recordings (.vtrace, .pickle) in it, found none",
                folder);
  }
  std::ranges::sort(paths);
  return paths;
}

// "4711", or "rank0.4711".
bool names_a_process(std::string_view word) {
  constexpr std::string_view kRank = "rank";
  const auto skip_digits = [&word] {
    const size_t digits = std::min(word.find_first_not_of("0123456789"), word.size());
    word.remove_prefix(digits);
    return digits > 0;
  };
  if (word.starts_with(kRank)) {
    word.remove_prefix(kRank.size());
    if (!skip_digits() || !word.starts_with('.')) return false;
    word.remove_prefix(1);
  }
  return skip_digits() && word.empty();
}

}  // namespace

std::vector<std::string> left_by_processes(const std::string& path) {
  const std::string first = fs::path(path).stem().string() + ".";
  const std::string last = fs::path(path).extension().string();
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(fs::path(path).parent_path(), error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    const bool fits =
        name.size() > first.size() + last.size() && name.starts_with(first) && name.ends_with(last);
    if (fits && names_a_process(std::string_view(name).substr(
                    first.size(), name.size() - first.size() - last.size())))
      names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

std::optional<uint64_t> rank_in_name(const std::string& path) {
  constexpr std::string_view kRank = ".rank";
  const std::string name = fs::path(path).filename().string();
  const size_t at = name.rfind(kRank);
  if (at == std::string::npos) return std::nullopt;
  uint64_t rank = 0;
  const char* const end = name.data() + name.size();
  const auto read = std::from_chars(name.data() + at + kRank.size(), end, rank);
  const bool is_number = read.ec == std::errc() && (read.ptr == end || *read.ptr == '.');
  return is_number ? std::optional(rank) : std::nullopt;
}

Result<Recordings> find_recordings(const std::vector<std::string>& words) {
  Recordings found;
  for (const std::string& word : words) {
    std::error_code error;
    if (!fs::is_directory(word, error)) {
      found.paths.push_back(word);
      continue;
    }
    VRAM_TRY_ASSIGN(const auto inside, recordings_in(word));
    found.paths.insert(found.paths.end(), inside.begin(), inside.end());
    found.is_folder = true;
  }
  const auto has_rank = [](const std::string& path) { return rank_in_name(path).has_value(); };
  found.are_named_ranks = found.paths.size() > 1 && std::ranges::all_of(found.paths, has_rank);
  return found;
}

Option max_size_option(trace::OpenOptions& target) {
  return {"--max-size", "SIZE", tr("maximum size of a decompressed recording (1TiB)"),
          value(target.max_decompressed_bytes, parse_bytes)};
}

Result<trace::Trace> open_with_progress(const std::string& path, trace::OpenOptions options,
                                        const Console& console) {
  Progress progress(console, path);
  options.progress = progress.callback();
  return trace::open_trace(path, options);
}

}  // namespace vram::cli
