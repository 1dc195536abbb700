#include "watch/process_files.hpp"

#include "base/descriptor.hpp"
#include "base/file.hpp"

#include <cstdint>
#include <fcntl.h>
#include <span>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace vram::watch {
namespace {

// Of <linux/openat2.h>, by hand: it is newer than the headers that wheels are built with.
struct OpenHow {
  uint64_t flags = 0;
  uint64_t mode = 0;
  uint64_t resolve = 0;
};
constexpr long kOpenat2 = 437;  // on every architecture
constexpr uint64_t kResolveNoMagicLinks = 0x02;
constexpr uint64_t kResolveInRoot = 0x10;

bool is_plain_file(const Descriptor& file) {
  struct stat facts{};
  return file.is_open() && fstat(file.number(), &facts) == 0 && S_ISREG(facts.st_mode);
}

}  // namespace

std::optional<FileStart> read_start(const std::string& path, size_t max_bytes) {
  const auto file = InputFile::open(path);
  if (!file) return std::nullopt;
  FileStart start{std::string(max_bytes, '\0')};
  const auto size = file->read_at(0, std::as_writable_bytes(std::span(start.text)));
  if (!size) return std::nullopt;
  start.is_cut = *size == max_bytes;
  start.text.resize(*size);
  return start;
}

std::optional<FileStart> read_inside(const std::string& root_folder, const std::string& path,
                                     size_t max_bytes) {
  const Descriptor root(open(root_folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root.is_open()) return std::nullopt;
  // First as a place only: opening a device or a pipe would already do something.
  OpenHow how{.flags = O_PATH | O_CLOEXEC, .resolve = kResolveInRoot | kResolveNoMagicLinks};
  const Descriptor place(
      static_cast<int>(syscall(kOpenat2, root.number(), path.c_str(), &how, sizeof how)));
  if (!is_plain_file(place)) return std::nullopt;
  return read_start(fmt::format("/proc/self/fd/{}", place.number()), max_bytes);
}

}  // namespace vram::watch
