#include "gpu/drm/files.hpp"

#include <algorithm>
#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

namespace vram::gpu::drm {
namespace {

constexpr size_t kMaxLineLength = 256;

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

template <typename Visit>
void for_each_name(DIR* folder, size_t most, Visit visit) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): each folder has a stream of its own
  for (const dirent* entry = nullptr; most > 0 && (entry = readdir(folder)) != nullptr;) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    visit(entry->d_name);
    --most;
  }
}

}  // namespace

Files::Read Files::read_some(const std::string& path) {
  ++opened_;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return {};
  size_t size = 0;
  bool is_complete = false;
  while (size < buffer_.size()) {
    const ssize_t got = ::read(file, buffer_.data() + size, buffer_.size() - size);
    if (got < 0 && errno == EINTR) continue;
    is_complete = got == 0;
    if (got <= 0) break;
    size += static_cast<size_t>(got);
  }
  ::close(file);
  return {{buffer_.data(), size}, is_complete};
}

std::string_view Files::read(const std::string& path) {
  const std::string_view all = read_some(path).text;
  return all.substr(0, all.rfind('\n') + 1);  // npos + 1: nothing
}

std::optional<std::string_view> Files::read_whole(const std::string& path) {
  const Read all = read_some(path);
  // Some files give whole lines alone: none where there is too little room for one, as at the end.
  if (!all.is_complete || all.text.size() > kMaxBytes - kMaxLineLength ||
      !(all.text.empty() || all.text.ends_with('\n')))
    return std::nullopt;
  return all.text;
}

std::vector<std::string> Files::names_in(const std::string& folder) {
  ++opened_;
  std::vector<std::string> names;
  const Folder open(opendir(folder.c_str()));
  if (!open) return names;
  for_each_name(open.get(), kMaxEntries, [&](const char* name) { names.emplace_back(name); });
  std::ranges::sort(names);
  return names;
}

std::vector<uint32_t> Files::numbers_in(const std::string& folder) {
  ++opened_;
  std::vector<uint32_t> numbers;
  const Folder open(opendir(folder.c_str()));
  if (!open) return numbers;
  for_each_name(open.get(), kMaxEntries, [&](const char* name) {
    if (const auto number = as_small_number(name)) numbers.push_back(*number);
  });
  std::ranges::sort(numbers);
  return numbers;
}

std::vector<Link> Files::links_in(const std::string& folder) {
  ++opened_;
  std::vector<Link> links;
  const Folder open(opendir(folder.c_str()));
  if (!open) return links;
  std::array<char, 256> target{};  // a longer one is none of ours
  for_each_name(open.get(), kMaxLinks, [&](const char* name) {
    const auto number = as_small_number(name);
    if (!number) return;
    ++links_read_;
    const ssize_t size = readlinkat(dirfd(open.get()), name, target.data(), target.size());
    if (size > 0) links.push_back({*number, {target.data(), static_cast<size_t>(size)}});
  });
  return links;
}

bool Files::exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

uint64_t Files::size_of(const std::string& path) {
  struct stat status{};
  return stat(path.c_str(), &status) == 0 ? static_cast<uint64_t>(status.st_size) : 0;
}

}  // namespace vram::gpu::drm
