// Where an output goes that somebody named by a path, and whether it may: the one place that
// decides it, for every command, the recorder and the C library.
//
//     nothing there ................................ a new file
//     an empty file, or one that vram wrote ........ replaced, whole or not at all
//     any other file ............................... refused, unless told to replace it
//     a file that is locked, as recordings are ..... refused
//     a block device ............................... refused, unless told to replace it
//     a pipe, a terminal, another device ........... written in place
//     an open descriptor, as /dev/stdout ........... written in place
//
// Symbolic links are followed: it is the file behind them that is replaced, and they stay.
#pragma once

#include "base/descriptor.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <string>
#include <sys/types.h>

namespace vram {

enum class Replace : uint8_t {
  kOwn,  // what vram wrote, as is_own_format() knows it
  kAny,  // somebody has asked for that
};

struct OutputTarget {
  enum class Kind : uint8_t { kNew, kFile, kInPlace };
  Kind kind = Kind::kNew;
  std::string path;     // links followed; of an open descriptor: as it was named
  int descriptor = -1;  // kInPlace: of this process, which `path` names; -1: it is to be opened
  // kFile: locked while this object lives, so that nobody begins to write it. Closed where it can't
  // be read.
  Descriptor file = Descriptor();
  mode_t mode = 0;  // kFile: permissions and owner
  uid_t uid = 0;
  gid_t gid = 0;
};

// "-" is standard output. kBadInput: there is something that only kAny replaces. kIo: it can't be
// written, whatever is asked for. The message says what to do, but not how to ask for kAny.
[[nodiscard]] Result<OutputTarget> find_output_target(const std::string& path, Replace replace);

// To the file that is to replace it: as much of permissions and owner as this process may change.
void pass_permissions_on(const OutputTarget& target, int descriptor);

enum class Opening : uint8_t {
  kWaits,   // a named pipe, until somebody reads it
  kAtOnce,  // or an error; what is written then may wait
};

// A descriptor of its own for what is written in place.
[[nodiscard]] Result<Descriptor> open_in_place(const OutputTarget& target, Opening opening);

}  // namespace vram
