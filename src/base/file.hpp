// Files, with readable error messages. Output is written to a temporary file in the same folder and
// renamed when it is complete: readers never see an incomplete file, and a failure keeps the
// previous one.
#pragma once

#include "base/result.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <sys/file.h>
#include <sys/types.h>
#include <unistd.h>
#include <utility>

namespace vram {

// Descriptor: a file descriptor that is closed with its holder. Any thread, one at a time.
class Descriptor {
 public:
  // -1: none, as of a call that failed.
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0) (void)::close(number_);
  }

  [[nodiscard]] int number() const { return number_; }
  // Gives up ownership: the caller closes it.
  [[nodiscard]] int release() { return std::exchange(number_, -1); }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }

 private:
  int number_;
};

// The same open file under a number above those of standard input, output and error, or -1; closes
// `descriptor` if it is one of these. Where a program has closed them, open() returns their
// numbers, and what other code prints would be written into the file.
[[nodiscard]] int above_standard_files(int descriptor);

// A Descriptor whose lock, if it has one (flock), ends with its holder. Closing is not enough: a
// process that was just forked, or is about to execute a program, has a copy of the descriptor,
// which would keep the file locked.
class LockedDescriptor : public Descriptor {
 public:
  using Descriptor::Descriptor;
  LockedDescriptor(LockedDescriptor&&) noexcept = default;
  LockedDescriptor& operator=(LockedDescriptor&&) noexcept = default;
  ~LockedDescriptor() {
    if (is_open()) (void)::flock(number(), LOCK_UN);
  }
};

// The first and last bytes of the files that vram writes. They identify vram's files before one is
// replaced; writers take them from here.

inline constexpr std::string_view kVtraceStart = "\x89vtrace\n";
inline constexpr std::string_view kCsvStart = "device,device_kind,index,time_ns,";
// {"device":0,"device_kind":"gpu", …
inline constexpr std::string_view kJsonLinesStart = R"({"device":)";
inline constexpr std::string_view kJsonLinesNext = R"(,"device_kind":")";
inline constexpr std::string_view kBaselineStart = "# vram baseline ";
inline constexpr std::string_view kJunitStart =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- vram diff -->\n";
// SARIF, whose properties are the first member.
inline constexpr std::string_view kSarifStart =
    "{\n  \"properties\": {\n    \"writer\": \"vram diff\"\n  },\n  \"$schema\"";
// The last line of a text, after the line's beginning the version of the program.
inline constexpr std::string_view kTextEnd = "Written by vram ";

// In the header of an SQLite database: whose it is. "VRAM": a history.
inline constexpr uint32_t kHistoryApplication = 0x5652414d;

// As much of both ends of a file as is_own_format() needs.
inline constexpr size_t kFormatBytes = 256;

// Returns whether vram wrote a file with these first and last bytes (which may overlap): a complete
// or truncated recording, an exported one, a report as JSON or text, a baseline, or a comparison as
// JUnit XML or SARIF.
[[nodiscard]] bool is_own_format(std::string_view head, std::string_view tail);

// Returns whether a file with these first bytes is a history, in any state. is_own_format()
// excludes histories, so no report replaces one.
[[nodiscard]] bool is_history(std::string_view head);

// Decides where an output path leads and whether it may be written. Every command, the recorder and
// the C library use it.
//
//     no file ...................................... creates it
//     an empty file, or one that vram wrote ........ replaces it, atomically
//     any other file ............................... refuses, except with kAny
//     a file that is locked, as recordings are ..... refuses
//     a block device ............................... refuses, except with kAny
//     a pipe, a terminal, another device ........... writes in place
//     an open descriptor, such as /dev/stdout ...... writes in place
//
// Symbolic links are followed: the file that they point to is replaced, and the links stay.

enum class Replace : uint8_t {
  kOwn,  // only files that vram wrote; see is_own_format()
  kAny,  // any file, at the user's request
};

struct OutputTarget {
  enum class Kind : uint8_t { kNew, kFile, kInPlace };
  Kind kind = Kind::kNew;
  std::string path;     // links followed; of an open descriptor: as it was named
  int descriptor = -1;  // kInPlace: of this process, which `path` names; -1: it is to be opened
  // For kFile: keeps the file locked while this object lives, so that no other process starts to
  // write it. Closed if the file cannot be read.
  LockedDescriptor file = LockedDescriptor();
  mode_t mode = 0;  // kFile: permissions and owner
  uid_t uid = 0;
  gid_t gid = 0;
};

// "-" is standard output. kBadInput: only kAny may replace the existing file. kIo: it cannot be
// written at all. The message says what to do, except how to request kAny.
[[nodiscard]] Result<OutputTarget> find_output_target(const std::string& path, Replace replace);

// To the file that is to replace it: as much of permissions and owner as this process may change.
void pass_permissions_on(const OutputTarget& target, int descriptor);

enum class Opening : uint8_t {
  kWaits,   // waits until a named pipe has a reader
  kAtOnce,  // fails instead; later writes may block
};

// Opens a new descriptor for a target that is written in place.
[[nodiscard]] Result<Descriptor> open_in_place(const OutputTarget& target, Opening opening);

// A file opened for reading, front to back or at an offset. Closed on destruction. One thread at a
// time.
class InputFile {
 public:
  [[nodiscard]] static Result<InputFile> open(const std::string& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  // Reads up to buffer.size() bytes; 0 means the end. Retries interrupted reads.
  [[nodiscard]] Result<size_t> read(std::span<std::byte> buffer);
  [[nodiscard]] Result<size_t> read_at(uint64_t offset, std::span<std::byte> buffer) const;
  // Bytes in the file; unknown (0) for pipes.
  [[nodiscard]] uint64_t size_bytes() const { return size_bytes_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  InputFile(std::string path, int descriptor, uint64_t size_bytes);
  std::string path_;
  int descriptor_ = -1;
  uint64_t size_bytes_ = 0;
};

// Reads a whole file that is expected to be small. kTooLarge: it has more than `max_bytes`; it is
// not read further.
[[nodiscard]] Result<std::string> read_whole(const std::string& path, uint64_t max_bytes);

// A file that appears under its name only when commit() succeeds. It inherits the permissions of
// the file that it replaces, and its owner if this process may set it. If the target is not a
// regular file, it is written in place (find_output_target()).
class AtomicFile {
 public:
  // kBadInput: the existing file may not be replaced; see find_output_target().
  [[nodiscard]] static Result<AtomicFile> create(const std::string& path,
                                                 Replace replace = Replace::kOwn);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();  // without commit(): the temporary file is removed

  // True: output is visible immediately, and commit() only flushes the rest.
  [[nodiscard]] bool is_in_place() const { return temporary_path_.empty(); }
  [[nodiscard]] Result<> write(std::string_view bytes);
  [[nodiscard]] Result<> commit();

 private:
  AtomicFile(std::string path, Replace replace, std::string temporary_path, Descriptor file)
      : path_(std::move(path)),
        replace_(replace),
        temporary_path_(std::move(temporary_path)),
        file_(std::move(file)) {}
  [[nodiscard]] Result<> flush();
  [[nodiscard]] Result<> create_named(const OutputTarget& target);
  [[nodiscard]] Result<> copy_to_named(const OutputTarget& target);
  std::string path_;
  Replace replace_;
  std::string temporary_path_;  // empty: in place; of a file without a name: its folder
  std::string buffer_;
  Descriptor file_;
};

}  // namespace vram
