#include "base/output_target.hpp"

#include "base/own_formats.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <span>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace vram {
namespace {

constexpr int kMaxLinks = 40;  // as the kernel has it
constexpr int kMaxChanges = 10;

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string real_path(const std::string& path) {
  std::array<char, PATH_MAX> room{};
  return realpath(path.c_str(), room.data()) != nullptr ? room.data() : "";
}

// N of /proc/self/fd/N, however that is named.
std::optional<int> own_descriptor(const std::string& path) {
  const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
  int number = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size() || number < 0) return std::nullopt;
  const std::string folder = real_path(folder_of(path));
  if (folder.empty() || folder != real_path("/proc/self/fd")) return std::nullopt;
  return number;
}

tl::unexpected<Error> cannot_examine(const std::string& path, int error) {
  return fail(Code::kIo, "cannot examine {}: {}", path,
              std::strerror(error));  // NOLINT(concurrency-mt-unsafe)
}

// The path behind all links, of which the last may lead to nothing; links in /proc are none that
// could be followed by their text.
Result<std::string> follow_links(const std::string& named) {
  std::string path = named;
  for (int links = 0; links < kMaxLinks; ++links) {
    struct stat found{};
    if (lstat(path.c_str(), &found) != 0 || !S_ISLNK(found.st_mode) || own_descriptor(path))
      return path;
    std::array<char, PATH_MAX> to{};
    const ssize_t length = readlink(path.c_str(), to.data(), to.size() - 1);
    if (length <= 0) return cannot_examine(named, errno);
    const std::string text(to.data(), static_cast<size_t>(length));
    path = text.front() == '/' ? text : folder_of(path) + "/" + text;
  }
  return cannot_examine(named, ELOOP);
}

bool is_same(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

std::string_view read_at(int file, std::span<char> room, uint64_t offset) {
  const ssize_t count = pread(file, room.data(), room.size(), static_cast<off_t>(offset));
  return {room.data(), count < 0 ? 0 : static_cast<size_t>(count)};
}

bool is_own_file(int file, uint64_t size_bytes) {
  std::array<char, kFormatBytes> head{};
  std::array<char, kFormatBytes> tail{};
  const uint64_t last = size_bytes > kFormatBytes ? size_bytes - kFormatBytes : 0;
  return is_own_format(read_at(file, head, 0), read_at(file, tail, last));
}

// Nothing: it is another file by now.
Result<std::optional<OutputTarget>> examine_file(const std::string& path, const struct stat& found,
                                                 Replace replace) {
  OutputTarget target{.kind = OutputTarget::Kind::kFile,
                      .path = path,
                      .mode = found.st_mode & 0777U,
                      .uid = found.st_uid,
                      .gid = found.st_gid};
  target.file =
      LockedDescriptor(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!target.file.is_open()) {
    if (errno == ENOENT || errno == ELOOP) return std::nullopt;
    if (replace == Replace::kAny) return target;
    return fail(Code::kBadInput,
                "cannot read {} ({}), so it may not be a file written by vram, and it is left "
                "unchanged: name another file, or remove this one first",
                path, std::strerror(errno));  // NOLINT(concurrency-mt-unsafe)
  }
  const int file = target.file.number();
  if (flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return fail(Code::kIo,
                "{} is being written by another recording or command: name another file, or wait "
                "until it has ended",
                path);
  }
  struct stat opened{};
  struct stat named{};
  if (fstat(file, &opened) != 0 || lstat(path.c_str(), &named) != 0 || !is_same(opened, named))
    return std::nullopt;
  const auto size_bytes = static_cast<uint64_t>(opened.st_size);
  if (replace == Replace::kAny || size_bytes == 0 || is_own_file(file, size_bytes)) return target;
  return fail(
      Code::kBadInput,
      "{} was not written by vram and is left unchanged: name another file, or remove this one "
      "first",
      path);
}

}  // namespace

Result<OutputTarget> find_output_target(const std::string& path, Replace replace) {
  using Kind = OutputTarget::Kind;
  if (path == "-") return OutputTarget{Kind::kInPlace, path, STDOUT_FILENO};
  for (int changes = 0; changes < kMaxChanges; ++changes) {
    const auto real = follow_links(path);
    if (!real) return tl::unexpected(real.error());
    if (const auto own = own_descriptor(*real)) return OutputTarget{Kind::kInPlace, *real, *own};
    struct stat found{};
    if (lstat(real->c_str(), &found) != 0) {
      if (errno == ENOENT) return OutputTarget{Kind::kNew, *real};
      return cannot_examine(path, errno);
    }
    if (S_ISDIR(found.st_mode)) return fail(Code::kIo, "{} is a folder: name a file in it", path);
    if (S_ISBLK(found.st_mode) && replace == Replace::kOwn) {
      return fail(Code::kBadInput, "{} is a block device and is left unchanged: name a file", path);
    }
    if (!S_ISREG(found.st_mode)) return OutputTarget{Kind::kInPlace, *real};
    auto target = examine_file(*real, found, replace);
    if (!target) return tl::unexpected(target.error());
    if (*target) return *std::move(*target);
  }
  return fail(Code::kIo, "{} is repeatedly replaced by another process", path);
}

void pass_permissions_on(const OutputTarget& target, int descriptor) {
  (void)!::fchown(descriptor, target.uid, target.gid);
  (void)::fchmod(descriptor, target.mode);
}

Result<Descriptor> open_in_place(const OutputTarget& target, Opening opening) {
  const int mode = O_WRONLY | O_NOCTTY | O_CLOEXEC | (opening == Opening::kAtOnce ? O_NONBLOCK : 0);
  Descriptor file(target.descriptor >= 0 ? fcntl(target.descriptor, F_DUPFD_CLOEXEC, 0)
                                         : open(target.path.c_str(), mode));
  if (!file.is_open()) {
    if (errno == ENXIO)
      return fail(Code::kIo, "cannot write {}: no process reads this pipe, or it is a socket",
                  target.path);
    return fail(Code::kIo, "cannot write {}: {}", target.path,
                std::strerror(errno));  // NOLINT(concurrency-mt-unsafe)
  }
  if (target.descriptor < 0 && opening == Opening::kAtOnce)
    (void)fcntl(file.number(), F_SETFL, fcntl(file.number(), F_GETFL) & ~O_NONBLOCK);
  return file;
}

}  // namespace vram
