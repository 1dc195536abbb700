// Why a call of this thread failed, in words: what vram_last_error() answers.
#pragma once

#include <string>
#include <vram/vram.h>

namespace vram::capi {

[[nodiscard]] std::string& last_error();

[[nodiscard]] inline vram_status refuse(vram_status status, const char* why) {
  last_error() = why;
  return status;
}

}  // namespace vram::capi
