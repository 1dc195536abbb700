#include "base/settings_file.hpp"

#include "base/bytes.hpp"
#include "base/file.hpp"
#include "base/system_text.hpp"
#include "base/threads.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace vram {
namespace {

constexpr size_t kPieceBytes = 16 * 1024;

tl::unexpected<Error> unreadable(std::string_view what, const std::string& path) {
  const int error = errno;
  return fail(error == ENOENT ? Code::kNotFound : Code::kIo, "{} {}: {}", tr(what), path,
              system_text(error));
}

Result<SettingsFile> read_now(const std::string& path, uint64_t max_bytes) {
  // Opening a FIFO for reading waits for a writer unless O_NONBLOCK is set.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (file.number() < 0) return unreadable("cannot open", path);
  struct stat found{};
  if (fstat(file.number(), &found) != 0) return unreadable("cannot examine", path);
  if (!S_ISREG(found.st_mode))
    return fail(Code::kBadInput, "{} is no plain file: name one, not a folder, FIFO or device",
                path);
  SettingsFile settings{.text = {}, .mode = found.st_mode & 0777U, .owner = found.st_uid};
  while (settings.text.size() <= max_bytes) {
    const size_t known = settings.text.size();
    settings.text.resize(known + kPieceBytes);
    const ssize_t count = read(file.number(), settings.text.data() + known, kPieceBytes);
    settings.text.resize(known + (count > 0 ? static_cast<size_t>(count) : 0));
    if (count < 0 && errno != EINTR) return unreadable("cannot read", path);
    if (count == 0) return settings;
  }
  return fail(Code::kTooLarge, "{}: expected a file of at most {}, found more", path,
              format_bytes(max_bytes));
}

}  // namespace

Result<SettingsFile> read_settings(const std::string& path, uint64_t max_bytes,
                                   std::chrono::milliseconds timeout) {
  // Shared with the thread, which may outlive this call.
  const auto found = std::make_shared<std::optional<Result<SettingsFile>>>();
  DetachableThread reader([found, path, max_bytes] { *found = read_now(path, max_bytes); });
  if (reader.join_for(timeout)) return *std::move(*found);
  return fail(Code::kIo,
              "cannot read {}: no answer within {} ms; is it on a mount whose server does not "
              "answer?",
              path, timeout.count());
}

}  // namespace vram
