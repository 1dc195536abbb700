// Decides where an output path leads and whether it may be written. Every command, the recorder and
// the C library use it.
//
//     no file ...................................... creates it
//     an empty file, or one that vram wrote ........ replaces it, atomically
//     any other file ............................... refuses, unless told to replace it
//     a file that is locked, as recordings are ..... refuses
//     a block device ............................... refuses, unless told to replace it
//     a pipe, a terminal, another device ........... writes in place
//     an open descriptor, such as /dev/stdout ...... writes in place
//
// Symbolic links are followed: the file that they point to is replaced, and the links stay.
#pragma once

#include "base/descriptor.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <string>
#include <sys/types.h>

namespace vram {

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

}  // namespace vram
