#include "record/file/file_sink.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace vram::record {

Result<std::unique_ptr<FileSink>> FileSink::create(const std::string& path, bool must_be_new) {
  if (!must_be_new) (void)unlink(path.c_str());  // whoever reads the old one goes on reading it
  const int descriptor =
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (descriptor >= 0) return std::unique_ptr<FileSink>(new FileSink(path, descriptor));
  const int error = errno;
  return fail(error == EEXIST ? Code::kBadInput : Code::kIo, "{}: can't be written: {}", path,
              std::strerror(error));
}

FileSink::~FileSink() { (void)close(descriptor_); }

Result<> FileSink::write(std::string_view bytes) {
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
  return fail(Code::kIo, "{}: can't be written: {}", path_, std::strerror(failure_));
}

}  // namespace vram::record
