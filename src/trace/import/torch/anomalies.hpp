// Anomalies: contents of a file that this version does not know or cannot use, counted by kind and
// reported once. PyTorch adds keys with every release; none of them may stop a reader.
#pragma once

#include "trace/trace.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace vram::trace::torch {

class Anomalies {
 public:
  // "12 × unknown key 'x' in an entry": `what` and `where` are literals, `name` comes from the
  // file.
  void count(const char* what, uint32_t name_number, std::string_view name, const char* where);
  void count(const char* sentence, uint64_t times = 1);
  [[nodiscard]] std::vector<Note> notes() const;

 private:
  static constexpr size_t kMaxDistinct = 64;
  struct Named {
    const char* what;
    const char* where;
    uint32_t name_number;
    std::string name;
    uint64_t count;
  };
  std::vector<Named> named_;  // few: searched from the last hit
  size_t last_ = 0;
  uint64_t more_ = 0;
  std::map<std::string_view, uint64_t> sentences_;
};

}  // namespace vram::trace::torch
