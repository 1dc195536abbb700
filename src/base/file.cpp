#include "base/file.hpp"

#include "base/bytes.hpp"
#include "base/check.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace vram {
namespace {

constexpr size_t kBufferBytes = 256 * 1024;

tl::unexpected<Error> system_failure(std::string_view what, const std::string& path) {
  const int error = errno;
  const Code code = error == ENOENT ? Code::kNotFound : Code::kIo;
  return fail(code, "{} {}: {}", what, path, std::strerror(error));
}

}  // namespace

Result<InputFile> InputFile::open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return system_failure("cannot open", path);
  InputFile file(path, descriptor, 0);
  struct stat status{};
  if (::fstat(descriptor, &status) != 0) return system_failure("cannot examine", path);
  if (S_ISDIR(status.st_mode))
    return fail(Code::kBadInput, "{} is a directory, expected a file", path);
  if (S_ISREG(status.st_mode)) file.size_bytes_ = static_cast<uint64_t>(status.st_size);
  return file;
}

InputFile::InputFile(std::string path, int descriptor, uint64_t size_bytes)
    : path_(std::move(path)), descriptor_(descriptor), size_bytes_(size_bytes) {}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_bytes_(other.size_bytes_) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<size_t> InputFile::read(std::span<std::byte> buffer) {
  ssize_t count = 0;
  do {
    count = ::read(descriptor_, buffer.data(), buffer.size());
  } while (count < 0 && errno == EINTR);
  if (count < 0) return system_failure("cannot read", path_);
  return static_cast<size_t>(count);
}

Result<size_t> InputFile::read_at(uint64_t offset, std::span<std::byte> buffer) const {
  size_t done = 0;
  while (done < buffer.size()) {
    const ssize_t count = ::pread(descriptor_, buffer.data() + done, buffer.size() - done,
                                  static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_failure("cannot read", path_);
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

Result<std::string> read_whole(const std::string& path, uint64_t max_bytes) {
  auto file = InputFile::open(path);
  if (!file) return tl::unexpected(std::move(file.error()));
  std::string text;
  while (text.size() <= max_bytes) {
    const size_t known = text.size();
    text.resize(known + std::min<uint64_t>(kBufferBytes, max_bytes + 1 - known));
    const auto count = file->read(std::as_writable_bytes(std::span(text).subspan(known)));
    if (!count) return tl::unexpected(count.error());
    text.resize(known + *count);
    if (*count == 0) return text;
  }
  return fail(Code::kTooLarge, "{}: expected a file of at most {}, found more", path,
              format_bytes(max_bytes));
}

namespace {

// mkstemp makes it private. An output has the permissions that any new file gets, or those of the
// file that it replaces.
void set_permissions(int descriptor, const OutputTarget& target) {
  if (target.kind == OutputTarget::Kind::kFile) return pass_permissions_on(target, descriptor);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  (void)::fchmod(descriptor, 0666 & ~mask);
}

}  // namespace

Result<AtomicFile> AtomicFile::create(const std::string& path, Replace replace) {
  auto target = find_output_target(path, replace);
  if (!target) return tl::unexpected(target.error());
  if (target->kind == OutputTarget::Kind::kInPlace) {
    auto file = open_in_place(*target, Opening::kWaits);
    if (!file) return tl::unexpected(file.error());
    return AtomicFile(path, replace, "", *std::move(file));
  }
  std::string temporary = target->path + ".tmp-XXXXXX";
  Descriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!file.is_open()) return system_failure("cannot create a temporary file next to", path);
  set_permissions(file.number(), *target);
  return AtomicFile(path, replace, std::move(temporary), std::move(file));
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      replace_(other.replace_),
      temporary_path_(std::exchange(other.temporary_path_, "")),
      buffer_(std::move(other.buffer_)),
      file_(std::move(other.file_)) {}

AtomicFile::~AtomicFile() {
  if (!temporary_path_.empty()) ::unlink(temporary_path_.c_str());
}

Result<> AtomicFile::write(std::string_view bytes) {
  VRAM_CHECK(file_.is_open());
  buffer_.append(bytes);
  return buffer_.size() < kBufferBytes ? Result<>() : flush();
}

Result<> AtomicFile::flush() {
  size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t count = ::write(file_.number(), buffer_.data() + done, buffer_.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_failure("cannot write", path_);
    done += static_cast<size_t>(count);
  }
  buffer_.clear();
  return {};
}

Result<> AtomicFile::commit() {
  if (auto flushed = flush(); !flushed) return flushed;
  if (is_in_place()) return {};
  // Data before name: after a crash the name shows the whole file or the old one.
  if (::fsync(file_.number()) != 0 && errno != EINVAL) return system_failure("cannot write", path_);
  // Again: somebody may have put another file there, or have begun to write it.
  const auto target = find_output_target(path_, replace_);
  if (!target) return tl::unexpected(target.error());
  if (target->kind == OutputTarget::Kind::kInPlace)
    return fail(Code::kIo, "cannot replace {}: it has become a pipe or a device", path_);
  if (::rename(temporary_path_.c_str(), target->path.c_str()) != 0)
    return system_failure("cannot replace", path_);
  file_ = Descriptor();
  temporary_path_.clear();
  return {};
}

}  // namespace vram
