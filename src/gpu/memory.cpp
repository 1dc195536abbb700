#include "gpu/memory.hpp"

namespace vram::gpu {

std::string_view to_string(Status status) {
  switch (status) {
    case Status::kOk:
      return "ok";
    case Status::kOutOfMemory:
      return "out of memory";
    case Status::kNotReady:
      return "not ready";
    case Status::kInvalidValue:
      return "invalid value";
    case Status::kNotSupported:
      return "not supported";
    case Status::kFault:
      return "device fault";
  }
  return "unknown";
}

}  // namespace vram::gpu
