#include "record/file/file_sink.hpp"

#include "base/file.hpp"
#include "base/result.hpp"
#include "record/process.hpp"
#include "record/threads.hpp"

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

tl::unexpected<Error> write_error(const std::string& path, int error) {
  return fail(error == EEXIST ? Code::kBadInput : Code::kIo, "{}: can't be written: {}", path,
              std::strerror(error));  // NOLINT(concurrency-mt-unsafe)
}

tl::unexpected<Error> misplaced(const std::string& path) {
  return fail(Code::kIo, "{}: another file has been put in its place", path);
}

Result<OutputTarget> target_of_old(const std::string& path, Replace replace) {
  auto target = find_output_target(path_with(path, "old"), replace);
  if (target && target->kind == OutputTarget::Kind::kInPlace)
    return fail(Code::kIo, "{} is a pipe or a device, expected room for a file", target->path);
  return target;
}

Result<> check_continuation(const OutputTarget& target, Replace replace) {
  if (target.kind == OutputTarget::Kind::kInPlace) {
    return fail(
        Code::kIo,
        "{} is not a regular file, so a recording there cannot have a size limit: name a file, or "
        "omit the limit",
        target.path);
  }
  return target_of_old(target.path, replace).map([](const OutputTarget&) {});
}

}  // namespace

FileSink::FileSink(std::string path, std::string temporary, Replace replace, int descriptor)
    : path_(std::move(path)),
      temporary_(std::move(temporary)),
      replace_(replace),
      descriptor_(descriptor) {
  change_open_file(-1, descriptor_);
}

FileSink::~FileSink() {
  if (!temporary_.empty()) (void)unlink(temporary_.c_str());
  change_open_file(descriptor_, -1);
  (void)flock(descriptor_, LOCK_UN);  // a child that was just forked may not have closed it yet
  (void)close(descriptor_);
}

void FileSink::close_all_in_child() {
  for (std::atomic<int>& file : open_files())
    if (const int descriptor = file.exchange(-1); descriptor >= 0) (void)close(descriptor);
}

Result<std::unique_ptr<FileSink>> FileSink::create_numbered(const std::string& path,
                                                            Replace replace) {
  for (int i = 0; i < kMaxTemporaries; ++i) {
    std::string temporary = fmt::format("{}.{}.{}.new", path, getpid(), i);
    const int descriptor = above_standard_files(open(
        temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (descriptor < 0 && errno == EEXIST) continue;
    if (descriptor < 0) return write_error(path, errno);
    // Before it is locked, which may take time: a child that is forked meanwhile closes it.
    std::unique_ptr<FileSink> sink(new FileSink(path, std::move(temporary), replace, descriptor));
    (void)flock(descriptor, LOCK_EX | LOCK_NB);  // fails where the file system has no locks
    return sink;
  }
  return write_error(path, EEXIST);
}

// Locked as a file is, so that two recordings don't mix in a pipe; a device, such as /dev/null, has
// no contents that could mix.
Result<std::unique_ptr<FileSink>> FileSink::open_in_place(const OutputTarget& target) {
  VRAM_TRY_ASSIGN(auto opened, vram::open_in_place(target, Opening::kAtOnce));
  struct stat found{};
  const bool is_device = fstat(opened.number(), &found) == 0 && S_ISCHR(found.st_mode);
  if (!is_device && flock(opened.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return fail(Code::kIo, "{} is being written by another recording", target.path);
  return std::unique_ptr<FileSink>(new FileSink(target.path, "", Replace::kOwn, opened.release()));
}

Result<std::unique_ptr<FileSink>> FileSink::create(const std::string& path, Existing existing,
                                                   Continuation continuation) {
  const Traffic::DiskCall call(traffic());
  const Replace replace = existing == Existing::kReplaceAny ? Replace::kAny : Replace::kOwn;
  const auto target = find_output_target(path, replace);
  if (existing == Existing::kKeep) {
    const bool is_taken =
        target ? target->kind == OutputTarget::Kind::kFile : access(path.c_str(), F_OK) == 0;
    if (is_taken) return write_error(path, EEXIST);
  }
  if (!target) return tl::unexpected(target.error());
  if (continuation == Continuation::kFollowed) {
    VRAM_TRY(check_continuation(*target, replace));
  }
  if (target->kind == OutputTarget::Kind::kInPlace) return open_in_place(*target);
  auto made = create_numbered(target->path, replace);
  if (!made) return made;
  FileSink& sink = **made;
  if (target->kind == OutputTarget::Kind::kFile) pass_permissions_on(*target, sink.descriptor_);
  // The file that is replaced stays locked meanwhile, so two can't replace it.
  const bool is_done = target->kind == OutputTarget::Kind::kFile
                           ? rename(sink.temporary_.c_str(), sink.path_.c_str()) == 0
                           : rename_to_free(sink.temporary_, sink.path_);
  VRAM_TRY(sink.named(is_done));
  return made;
}

bool rename_to_free(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS) return false;
  // A file system that can't, as NFS.
  if (link(from.c_str(), to.c_str()) == 0) return unlink(from.c_str()) == 0;
  if (errno == EEXIST) return false;
  struct stat found{};
  if (lstat(to.c_str(), &found) == 0) {
    errno = EEXIST;
    return false;
  }
  return rename(from.c_str(), to.c_str()) == 0;
}

Result<> FileSink::named(bool is_done) {
  if (!is_done) return write_error(path_, errno);
  temporary_.clear();
  return {};
}

Result<std::unique_ptr<FileSink>> FileSink::follow(const FileSink& before) {
  const Traffic::DiskCall call(traffic());
  const std::string& path = before.path_;
  auto made = create_numbered(path, before.replace_);
  if (!made) return made;
  FileSink& sink = **made;
  struct stat own{};
  struct stat named{};
  if (lstat(path.c_str(), &named) != 0) {  // it was removed
    VRAM_TRY(sink.named(rename_to_free(sink.temporary_, sink.path_)));
    return made;
  }
  if (fstat(before.descriptor_, &own) != 0 || !is_same(own, named)) return misplaced(path);
  VRAM_TRY_ASSIGN(const auto kept, target_of_old(path, before.replace_));
  // Under a second name before the first one passes on; without hard links it has none for a
  // moment.
  const std::string aside = fmt::format("{}.{}.new", kept.path, getpid());
  const bool is_linked = link(path.c_str(), aside.c_str()) == 0;
  const bool is_kept = rename(is_linked ? aside.c_str() : path.c_str(), kept.path.c_str()) == 0;
  if (!is_kept) return fail(Code::kIo, "{}: can't be renamed to {}", path, kept.path);
  VRAM_TRY(sink.named(rename(sink.temporary_.c_str(), path.c_str()) == 0));
  return made;
}

Result<> FileSink::copy_to(FileSink& to) const {
  std::array<char, size_t{1} << 16> buffer;
  uint64_t offset = 0;
  while (offset < size_bytes_) {
    const ssize_t count =
        pread(descriptor_, buffer.data(), buffer.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return write_error(path_, errno);
    if (count == 0) return fail(Code::kIo, "{}: truncated by another program", path_);
    VRAM_TRY(to.write({buffer.data(), static_cast<size_t>(count)}));
    offset += static_cast<uint64_t>(count);
  }
  return {};
}

Result<> FileSink::replace(const FileSink& other) {
  const Traffic::DiskCall call(traffic());
  struct stat own{};
  struct stat named{};
  if (lstat(other.path_.c_str(), &named) == 0 &&
      (fstat(other.descriptor_, &own) != 0 || !is_same(own, named)))
    return misplaced(other.path_);
  if (rename(path_.c_str(), other.path_.c_str()) != 0) return write_error(other.path_, errno);
  path_ = other.path_;
  return {};
}

void FileSink::remove() {
  struct stat own{};
  struct stat named{};
  if (lstat(path_.c_str(), &named) == 0 && fstat(descriptor_, &own) == 0 && is_same(own, named) &&
      S_ISREG(own.st_mode))
    (void)unlink(path_.c_str());
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
  return write_error(path_, failure_);
}

}  // namespace vram::record
