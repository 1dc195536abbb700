#include "record/file/file_sink.hpp"

#include "base/descriptor.hpp"
#include "record/traffic.hpp"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace vram::record {
namespace {

constexpr int kMaxTemporaries = 1000;

// The files that this process is writing, for the child of a fork.
std::array<std::atomic<int>, 8>& open_files() {
  static std::array<std::atomic<int>, 8> all = {-1, -1, -1, -1, -1, -1, -1, -1};
  return all;
}

void change_open_file(int from, int to) {
  for (std::atomic<int>& file : open_files()) {
    int expected = from;
    if (file.compare_exchange_strong(expected, to)) return;
  }
}

bool is_same(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

tl::unexpected<Error> cant_be_written(const std::string& path, int error) {
  return fail(error == EEXIST ? Code::kBadInput : Code::kIo, "{}: can't be written: {}", path,
              std::strerror(error));  // NOLINT(concurrency-mt-unsafe)
}

}  // namespace

FileSink::FileSink(std::string path, std::string temporary, int descriptor)
    : path_(std::move(path)), temporary_(std::move(temporary)), descriptor_(descriptor) {
  change_open_file(-1, descriptor_);
}

FileSink::~FileSink() {
  if (!temporary_.empty()) (void)unlink(temporary_.c_str());
  change_open_file(descriptor_, -1);
  (void)close(descriptor_);
}

void FileSink::close_all_in_child() {
  for (std::atomic<int>& file : open_files())
    if (const int descriptor = file.exchange(-1); descriptor >= 0) (void)close(descriptor);
}

Result<std::unique_ptr<FileSink>> FileSink::create_beside(const std::string& path) {
  for (int i = 0; i < kMaxTemporaries; ++i) {
    std::string temporary = fmt::format("{}.{}.{}.new", path, getpid(), i);
    const int descriptor = open(
        temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (descriptor < 0 && errno == EEXIST) continue;
    if (descriptor < 0) return cant_be_written(path, errno);
    (void)flock(descriptor, LOCK_EX | LOCK_NB);  // fails where the file system has no locks
    return std::unique_ptr<FileSink>(new FileSink(path, std::move(temporary), descriptor));
  }
  return cant_be_written(path, EEXIST);
}

Result<std::unique_ptr<FileSink>> FileSink::create(const std::string& path, Existing existing) {
  const Traffic::DiskCall call(traffic());
  auto made = create_beside(path);
  if (!made) return made;
  FileSink& sink = **made;
  bool is_done = sink.take_name();
  if (!is_done && errno == EEXIST && existing == Existing::kReplaceUnlessLive)
    is_done = sink.replace_unless_live();
  if (auto named = sink.named(is_done); !named) return tl::unexpected(named.error());
  return made;
}

// EEXIST: the name is taken.
bool FileSink::take_name() {
  if (renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE) == 0)
    return true;
  if (errno != EINVAL && errno != ENOSYS) return false;
  // A file system that can't, as NFS.
  if (link(temporary_.c_str(), path_.c_str()) == 0) return unlink(temporary_.c_str()) == 0;
  if (errno == EEXIST) return false;
  struct stat found{};
  if (lstat(path_.c_str(), &found) == 0) {
    errno = EEXIST;
    return false;
  }
  return rename(temporary_.c_str(), path_.c_str()) == 0;
}

// EEXIST: it is live. Whoever replaces a file holds its lock meanwhile, so two do not.
bool FileSink::replace_unless_live() {
  struct stat named{};
  if (lstat(path_.c_str(), &named) != 0) return take_name();
  if (S_ISLNK(named.st_mode)) return rename(temporary_.c_str(), path_.c_str()) == 0;
  if (!S_ISREG(named.st_mode)) {
    errno = S_ISDIR(named.st_mode) ? EISDIR : EPERM;
    return false;
  }
  const Descriptor file(open(path_.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat opened{};
  const bool is_live =
      file.is_open() && flock(file.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  const bool has_changed =
      file.is_open() && (fstat(file.number(), &opened) != 0 || lstat(path_.c_str(), &named) != 0 ||
                         !is_same(opened, named));
  if (is_live || has_changed) {
    errno = EEXIST;
    return false;
  }
  return rename(temporary_.c_str(), path_.c_str()) == 0;
}

Result<> FileSink::named(bool is_done) {
  if (!is_done) return cant_be_written(path_, errno);
  temporary_.clear();
  return {};
}

Result<std::unique_ptr<FileSink>> FileSink::follow(const FileSink& before,
                                                   const std::string& old_path) {
  const Traffic::DiskCall call(traffic());
  const std::string& path = before.path_;
  auto made = create_beside(path);
  if (!made) return made;
  FileSink& sink = **made;
  struct stat own{};
  struct stat named{};
  if (lstat(path.c_str(), &named) != 0) {  // somebody has removed it
    if (auto done = sink.named(sink.take_name()); !done) return tl::unexpected(done.error());
    return made;
  }
  if (fstat(before.descriptor_, &own) != 0 || !is_same(own, named))
    return fail(Code::kIo, "{}: another file has been put in its place", path);
  // Under a second name before the first one passes on; without hard links it has none for a
  // moment.
  const std::string aside = old_path + ".new";
  (void)unlink(aside.c_str());
  const bool is_kept = link(path.c_str(), aside.c_str()) == 0
                           ? rename(aside.c_str(), old_path.c_str()) == 0
                           : rename(path.c_str(), old_path.c_str()) == 0;
  if (!is_kept) return fail(Code::kIo, "{}: can't be renamed to {}", path, old_path);
  if (auto done = sink.named(rename(sink.temporary_.c_str(), path.c_str()) == 0); !done)
    return tl::unexpected(done.error());
  return made;
}

bool FileSink::is_live(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  return file.is_open() && flock(file.number(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

Result<> FileSink::write(std::string_view bytes) {
  const Traffic::DiskCall call(traffic());
  while (!bytes.empty() && failure_ == 0) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count >= 0) {
      bytes.remove_prefix(static_cast<size_t>(count));
      size_bytes_ += static_cast<uint64_t>(count);
    } else if (errno != EINTR) {
      failure_ = errno;
    }
  }
  if (failure_ == 0) return {};
  return cant_be_written(path_, failure_);
}

}  // namespace vram::record
