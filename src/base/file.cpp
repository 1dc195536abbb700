// size: the rules about which files are written and replaced, in one place.
#include "base/file.hpp"

#include "base/bytes.hpp"
#include "base/export_marks.hpp"
#include "base/result.hpp"
#include "base/system_text.hpp"

#include <fmt/format.h>

#include <algorithm>
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
#include <vector>

namespace vram {
namespace {

constexpr size_t kBufferBytes = 256 * 1024;

tl::unexpected<Error> system_failure(std::string_view what, const std::string& path) {
  const int error = errno;
  const Code code = error == ENOENT ? Code::kNotFound : Code::kIo;
  return fail(code, "{} {}: {}", tr(what), path, system_text(error));
}

}  // namespace

int above_standard_files(int descriptor) {
  if (descriptor < 0 || descriptor > STDERR_FILENO) return descriptor;
  const int above = fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  (void)close(descriptor);
  errno = error;
  return above;
}

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
  VRAM_TRY_ASSIGN(auto file, InputFile::open(path));
  std::string text;
  while (text.size() <= max_bytes) {
    const size_t known = text.size();
    text.resize(known + std::min<uint64_t>(kBufferBytes, max_bytes + 1 - known));
    VRAM_TRY_ASSIGN(const auto count,
                    file.read(std::as_writable_bytes(std::span(text).subspan(known))));
    text.resize(known + count);
    if (count == 0) return text;
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

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// The name by which a file without one is given a name. Containers may have no /proc.
std::string name_in_proc(int descriptor) { return fmt::format("/proc/self/fd/{}", descriptor); }

// A file without a name, which the kernel removes with the process, however that ends. Not open:
// not all filesystems have such files.
Descriptor open_unnamed(const std::string& folder) {
  Descriptor file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.is_open() && ::access(name_in_proc(file.number()).c_str(), F_OK) != 0)
    return Descriptor();
  return file;
}

bool has_name(int descriptor) {
  struct stat status{};
  return ::fstat(descriptor, &status) != 0 || status.st_nlink != 0;
}

constexpr int kMaxNames = 1000;

// Gives the file a new name in the folder. Empty: see errno.
std::string give_name(int descriptor, const std::string& folder) {
  const std::string source = name_in_proc(descriptor);
  for (int i = 0; i < kMaxNames; ++i) {
    std::string name = fmt::format("{}/vram.tmp-{}-{}", folder, ::getpid(), i);
    if (::linkat(AT_FDCWD, source.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0)
      return name;
    if (errno != EEXIST) break;
  }
  return "";
}

}  // namespace

Result<AtomicFile> AtomicFile::create(const std::string& path, Replace replace) {
  VRAM_TRY_ASSIGN(auto target, find_output_target(path, replace));
  if (target.kind == OutputTarget::Kind::kInPlace) {
    VRAM_TRY_ASSIGN(auto file, open_in_place(target, Opening::kWaits));
    return AtomicFile(path, replace, "", std::move(file));
  }
  std::string folder = folder_of(target.path);  // until it is named
  Descriptor unnamed = open_unnamed(folder);
  AtomicFile file(path, replace, std::move(folder), std::move(unnamed));
  if (file.file_.is_open())
    set_permissions(file.file_.number(), target);
  else
    VRAM_TRY(file.create_named(target));
  return file;
}

Result<> AtomicFile::create_named(const OutputTarget& target) {
  std::string name = target.path + ".tmp-XXXXXX";
  Descriptor named(::mkostemp(name.data(), O_CLOEXEC));
  if (!named.is_open()) return system_failure("cannot create a temporary file next to", path_);
  temporary_path_ = std::move(name);
  file_ = std::move(named);
  set_permissions(file_.number(), target);
  return {};
}

// Some filesystems (FUSE, of networks) have files without a name, but cannot give them one.
Result<> AtomicFile::copy_to_named(const OutputTarget& target) {
  const Descriptor unnamed = std::move(file_);
  VRAM_TRY(create_named(target));
  std::vector<char> room(kBufferBytes);
  for (off_t offset = 0;;) {
    const ssize_t count = ::pread(unnamed.number(), room.data(), room.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_failure("cannot write", path_);
    if (count == 0) break;
    VRAM_TRY(write({room.data(), static_cast<size_t>(count)}));
    offset += count;
  }
  VRAM_TRY(flush());
  if (::fsync(file_.number()) != 0 && errno != EINVAL) return system_failure("cannot write", path_);
  return {};
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      replace_(other.replace_),
      temporary_path_(std::exchange(other.temporary_path_, "")),
      buffer_(std::move(other.buffer_)),
      file_(std::move(other.file_)) {}

AtomicFile::~AtomicFile() {
  if (file_.is_open() && !temporary_path_.empty() && has_name(file_.number()))
    ::unlink(temporary_path_.c_str());
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
  VRAM_TRY(flush());
  if (is_in_place()) return {};
  // Data before name: after a crash the name shows the whole file or the old one.
  if (::fsync(file_.number()) != 0 && errno != EINVAL) return system_failure("cannot write", path_);
  // Again: another program may have put a file there, or have begun to write it.
  VRAM_TRY_ASSIGN(const auto target, find_output_target(path_, replace_));
  if (target.kind == OutputTarget::Kind::kInPlace)
    return fail(Code::kIo, "cannot replace {}: it has become a pipe or a device", path_);
  if (!has_name(file_.number())) {
    std::string name = give_name(file_.number(), temporary_path_);
    if (name.empty())
      VRAM_TRY(copy_to_named(target));
    else
      temporary_path_ = std::move(name);
  }
  if (::rename(temporary_path_.c_str(), target.path.c_str()) != 0)
    return system_failure("cannot replace", path_);
  file_ = Descriptor();
  temporary_path_.clear();
  return {};
}

namespace {

void skip(std::string_view& text, std::string_view characters) {
  text.remove_prefix(std::min(text.find_first_not_of(characters), text.size()));
}

bool take(std::string_view& text, std::string_view start) {
  if (!text.starts_with(start)) return false;
  text.remove_prefix(start.size());
  return true;
}

bool is_json_line(std::string_view head) {
  if (!take(head, kJsonLinesStart)) return false;
  skip(head, "0123456789");
  return head.starts_with(kJsonLinesNext);
}

// A document whose first member names its schema, or an array of them.
bool is_document(std::string_view head) {
  constexpr std::string_view kSpace = " \n";
  if (take(head, "[")) skip(head, kSpace);
  if (!take(head, "{")) return false;
  skip(head, kSpace);
  return head.starts_with(R"("schema": "vram.)");
}

bool is_text(std::string_view tail) {
  if (!tail.ends_with('\n')) return false;
  tail.remove_suffix(1);
  const size_t before = tail.rfind('\n');
  return before != std::string_view::npos && tail.substr(before + 1).starts_with(kTextEnd);
}

// For another program, in a format that states its writer.
bool is_export(std::string_view head, std::string_view tail) {
  const auto names_us_at = [&](size_t offset) {
    return head.size() > offset && head.substr(offset).starts_with(kTextEnd);
  };
  constexpr char kPerfettoPacket = 0x0a;
  const bool is_perfetto = head.starts_with(kPerfettoPacket) && names_us_at(kPerfettoTextAt);
  const bool is_gzip = head.starts_with(kCommentedGzip) && names_us_at(kGzipCommentAt);
  const bool is_parquet = head.starts_with(kParquetEnd) && tail.ends_with(kParquetEnd) &&
                          tail.find(kParquetWriter) != tail.npos;
  const bool is_plan = head.starts_with(kPlanJsonStart) ||
                       (head.starts_with(kPlanYamlStart) && names_us_at(kPlanYamlStart.size()));
  return is_perfetto || is_gzip || is_parquet || is_plan || head.starts_with(kSpeedscopeStart) ||
         head.starts_with(kChromeTraceStart) || head.starts_with(kSnapshotStart);
}

}  // namespace

// An HTML report: web/src/report.html begins with it.
constexpr std::string_view kPageStart = "<!doctype html>\n<!-- vram report -->\n";
// Pictures of a report (src/pictures): an SVG, and a PNG whose first chunk behind the header names
// its writer.
constexpr std::string_view kSvgStart =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- vram report -->\n";
constexpr std::string_view kPngStart = "\x89PNG\r\n\x1a\n";
constexpr std::string_view kPngWriter("tEXtSoftware\0vram report ", 25);

bool is_own_png(std::string_view head) {
  constexpr size_t kWriterAt = 37;  // behind IHDR and the chunk's length
  return head.starts_with(kPngStart) && head.size() > kWriterAt &&
         head.substr(kWriterAt).starts_with(kPngWriter);
}

bool is_own_format(std::string_view head, std::string_view tail) {
  constexpr std::array kStarts = {kVtraceStart, kCsvStart,  kBaselineStart, kJunitStart,
                                  kSarifStart,  kPageStart, kSvgStart};
  const auto begins = [&](std::string_view start) { return head.starts_with(start); };
  return std::ranges::any_of(kStarts, begins) || is_json_line(head) || is_document(head) ||
         is_text(tail) || is_export(head, tail) || is_own_png(head);
}

bool is_history(std::string_view head) {
  constexpr std::string_view kSqlite("SQLite format 3\0", 16);
  constexpr size_t kApplicationAt = 68;
  if (!head.starts_with(kSqlite) || head.size() < kApplicationAt + sizeof(uint32_t)) return false;
  uint32_t application = 0;  // big-endian
  for (size_t i = 0; i < sizeof application; ++i)
    application = application << 8 | static_cast<uint8_t>(head[kApplicationAt + i]);
  return application == kHistoryApplication;
}

namespace {

constexpr int kMaxLinks = 40;  // as the kernel has it
constexpr int kMaxChanges = 10;

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
    VRAM_TRY_ASSIGN(const auto real, follow_links(path));
    if (const auto own = own_descriptor(real)) return OutputTarget{Kind::kInPlace, real, *own};
    struct stat found{};
    if (lstat(real.c_str(), &found) != 0) {
      if (errno == ENOENT) return OutputTarget{Kind::kNew, real};
      return cannot_examine(path, errno);
    }
    if (S_ISDIR(found.st_mode)) return fail(Code::kIo, "{} is a folder: name a file in it", path);
    if (S_ISBLK(found.st_mode) && replace == Replace::kOwn) {
      return fail(Code::kBadInput, "{} is a block device and is left unchanged: name a file", path);
    }
    if (!S_ISREG(found.st_mode)) return OutputTarget{Kind::kInPlace, real};
    VRAM_TRY_ASSIGN(auto target, examine_file(real, found, replace));
    if (target) return *std::move(target);
  }
  return fail(Code::kIo, "{} is repeatedly replaced by another process", path);
}

void pass_permissions_on(const OutputTarget& target, int descriptor) {
  (void)!::fchown(descriptor, target.uid, target.gid);
  (void)::fchmod(descriptor, target.mode);
}

Result<Descriptor> open_in_place(const OutputTarget& target, Opening opening) {
  const int mode = O_WRONLY | O_NOCTTY | O_CLOEXEC | (opening == Opening::kAtOnce ? O_NONBLOCK : 0);
  Descriptor file(above_standard_files(target.descriptor >= 0
                                           ? fcntl(target.descriptor, F_DUPFD_CLOEXEC, 0)
                                           : open(target.path.c_str(), mode)));
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
