// BoardPage: the binary layout of a status page. The board is a folder of shared memory in which
// each publishing process has one page, a file named by its pid, which vram's programs read. If
// containers share the folder and another container's process has the name, the page is <pid>.<pid
// namespace>; processes of that namespace find it by pid, others do not.
//
//     Board (the owner writes) ──▶ BoardPage ◀── board_reader (the same user, and root)
//
// A sequence number guards the figures: odd during a write, and different after each write. If a
// reader finds the number even and unchanged, it has read one consistent post. The request area is
// separate: other processes write requests, the owner answers.
#pragma once

#include "base/file.hpp"
#include "base/result.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <sys/stat.h>
#include <type_traits>
#include <utility>

namespace vram::record {

inline constexpr size_t kBoardPageBytes = 4096;
inline constexpr uint64_t kBoardMagic = 0x3144524F424D5256;  // "VRMBORD1"
inline constexpr uint32_t kBoardVersion = 2;
inline constexpr size_t kBoardDevices = 16;
inline constexpr size_t kScopeBytes = 64;
inline constexpr uint64_t kBoardUnknown = UINT64_MAX;  // of any figure: unknown is not zero

// Who owns a page: a pid alone is used again, with the time of the start it is not.
struct BoardOwner {
  uint32_t pid = 0;
  uint32_t uid = 0;
  uint64_t start_ticks = 0;    // /proc/<pid>/stat, field 22
  uint64_t pid_namespace = 0;  // in which the pid counts: the inode of /proc/self/ns/pid
  friend bool operator==(const BoardOwner&, const BoardOwner&) = default;
};

struct BoardDevice {
  uint64_t device = 0;
  uint64_t allocated_bytes = kBoardUnknown;
  uint64_t reserved_bytes = kBoardUnknown;
  uint64_t peak_bytes = kBoardUnknown;    // of allocated_bytes, as the process counts it
  uint64_t cached_bytes = kBoardUnknown;  // what a trim would release
  // Since the process started, with the meanings of torch.cuda.memory_stats().
  uint64_t num_alloc_retries = kBoardUnknown;
  uint64_t num_ooms = kBoardUnknown;
  uint64_t num_device_alloc = kBoardUnknown;
  uint64_t num_device_free = kBoardUnknown;
};

struct BoardFigures {
  uint64_t posted_ns = 0;            // CLOCK_MONOTONIC; 0: never
  uint64_t step = kBoardUnknown;     // how many the process has done
  uint64_t step_ns = kBoardUnknown;  // how long the last one took
  char scope[kScopeBytes] = {};      // what it is doing; "" if unknown
  uint64_t device_count = 0;
  BoardDevice devices[kBoardDevices];
};

// What a request asks for; kBoardUnknown: not stated.
//   - To release memory: on which device (as the process numbers it), at least how many bytes; all
//     of what is not stated.
//   - To record: how many steps, or how many ns; what is not stated does not end the recording.
//   - To list its segments: nothing.
struct PageOrder {
  uint64_t device_or_steps = kBoardUnknown;
  uint64_t bytes_or_ns = kBoardUnknown;
};

// A request. The requester (page_requester) holds the file's lock, increments `writing`, writes the
// request, and increments `wanted`; the owner writes its answer, then sets `answered` to the value
// of `wanted` that it has seen.
struct BoardRequest {
  uint64_t wanted = 0;           // the number of the request
  uint64_t device_or_steps = 0;  // as in PageOrder
  uint64_t bytes_or_ns = 0;
  uint64_t answered = 0;
  uint64_t answer_bytes = 0;  // released, or in the file of the answer; unknown: it failed
  uint64_t writing = 0;  // the number of the request whose words are being written; above `wanted`:
                         // it was taken back
};

enum class BoardSlot : uint8_t { kTrim, kRecord, kSegments };

struct BoardPage {
  uint64_t magic = kBoardMagic;
  uint32_t version = kBoardVersion;
  uint32_t page_bytes = kBoardPageBytes;
  BoardOwner owner;
  char command[216] = {};  // /proc/self/cmdline with spaces, truncated
  uint64_t sequence = 0;
  BoardFigures figures;
  char unused_figures[1560] = {};  // for figures to come
  BoardRequest request;            // to release memory
  BoardRequest recording;          // to record
  uint64_t records = 0;            // 1: a flight recorder answers requests to record
  BoardRequest segments;           // to list its segments (segment_list.hpp)
  uint64_t lists_segments = 0;     // 1: such requests are answered
  char unused_requests[864] = {};
};
static_assert(offsetof(BoardPage, sequence) == 256);
static_assert(offsetof(BoardPage, request) == 3072);
static_assert(offsetof(BoardPage, recording) == 3120);
static_assert(offsetof(BoardPage, segments) == 3176);
static_assert(sizeof(BoardPage) == kBoardPageBytes);
static_assert(std::is_trivially_copyable_v<BoardPage>);

[[nodiscard]] constexpr size_t offset_of(BoardSlot slot) {
  switch (slot) {
    case BoardSlot::kRecord:
      return offsetof(BoardPage, recording);
    case BoardSlot::kSegments:
      return offsetof(BoardPage, segments);
    default:
      return offsetof(BoardPage, request);
  }
}

// The file in which the owner answers a request to record; no pid has such a name.
[[nodiscard]] std::string answered_recording(const std::string& folder, uint32_t pid,
                                             uint64_t number);

inline constexpr const char* kSharedMemoryFolder = "/dev/shm";
// Returns the folder of a user's pages: /dev/shm/vram-<uid>, or <runtime folder>/vram if that is
// not available, for example because another user created it. The runtime folder is
// $XDG_RUNTIME_DIR for this user, else /run/user/<uid>; it is not the first choice because it is
// removed when the user logs out, while a training job continues.
[[nodiscard]] std::string board_folder_of(uint32_t uid);
[[nodiscard]] std::string second_board_folder_of(uint32_t uid);
inline constexpr const char* kRuntimeFolders = "/run/user";
// Returns this process, or another one. A process that does not exist or has ended has start 0.
[[nodiscard]] BoardOwner this_process();
[[nodiscard]] uint64_t start_ticks_of(uint32_t pid);
// Returns this process's pid namespace; 0: unknown.
[[nodiscard]] uint64_t own_pid_namespace();
inline constexpr uint64_t kFirstPidNamespace = 0xEFFFFFFC;  // the machine's own

// PageFile: the file of a status page, treated as untrusted: another program may
// have put a link, a pipe or a short file in its place, and may change it at any time. Uses read
// and write calls and never maps it: if the file shrinks, that is an error and no SIGBUS.
//
//     folder, pid ──▶ PageFile ──▶ board_reader (reads), PageRequester (asks), sweep (removes)
//
// Use it from one thread at a time.

enum class OwnerState : uint8_t {
  kAlive,
  kDead,  // it left its page behind; perhaps another process has its pid by now
  // Its pid is of another namespace (a container); its state is unknown.
  kOtherNamespace,
};

class PageFile {
 public:
  enum class Access : uint8_t { kRead, kReadAndWrite };
  // Prefers the process of this pid namespace among those with this pid. kNotFound: no page of that
  // pid. kBadInput: not a page of that pid, or not of the folder's user. kUnsupported: a page of
  // another version.
  [[nodiscard]] static Result<PageFile> open(const std::string& folder, uint32_t pid,
                                             Access access = Access::kRead);

  // That of the path, whichever process of this pid has it.
  [[nodiscard]] static Result<PageFile> open_path(const std::string& path, uint32_t pid,
                                                  Access access = Access::kRead);
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const BoardOwner& owner() const { return owner_; }
  [[nodiscard]] const std::string& command() const { return command_; }
  [[nodiscard]] OwnerState owner_state() const;
  [[nodiscard]] struct stat facts() const;  // zeros if unknown
  // Returns whether this process alone holds the page's lock, until the file is closed. Requesters
  // and sweepers need it. Does not wait.
  [[nodiscard]] bool lock() const;

  // All of it, or false.
  [[nodiscard]] bool read_at(void* to, size_t bytes, size_t offset) const;
  [[nodiscard]] bool write_at(const void* from, size_t bytes, size_t offset) const;

 private:
  PageFile(std::string path, Descriptor file) : path_(std::move(path)), file_(std::move(file)) {}
  [[nodiscard]] Result<> read_owner(uint32_t pid);
  std::string path_;
  Descriptor file_;
  BoardOwner owner_;
  std::string command_;
};

}  // namespace vram::record
