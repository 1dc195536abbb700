#include "explain/site/site.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <span>
#include <utility>

namespace vram::explain {
namespace {

constexpr uint32_t kNotComputed = 0xffffffff;

// Directories and files directly below torch/ in every release: "…/torch/nn/…" is torch even when
// it was built from source outside site-packages, while a user's own folder called torch stays the
// user's.
constexpr std::array<std::string_view, 28> kTorchParts = {"nn",
                                                          "autograd",
                                                          "optim",
                                                          "cuda",
                                                          "utils",
                                                          "amp",
                                                          "fx",
                                                          "_dynamo",
                                                          "_inductor",
                                                          "_functorch",
                                                          "_higher_order_ops",
                                                          "_library",
                                                          "_prims",
                                                          "_refs",
                                                          "_decomp",
                                                          "distributed",
                                                          "profiler",
                                                          "ao",
                                                          "jit",
                                                          "functional.py",
                                                          "_tensor.py",
                                                          "_ops.py",
                                                          "_jit_internal.py",
                                                          "serialization.py",
                                                          "storage.py",
                                                          "_compile.py",
                                                          "compiler",
                                                          "_C"};

std::string normalized(std::string_view path) {
  std::string text(path);
  std::replace(text.begin(), text.end(), '\\', '/');
  return text;
}

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) ==
           std::tolower(static_cast<unsigned char>(y));
  });
}

std::vector<std::string_view> components(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    if (end > 0) parts.push_back(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return parts;
}

bool starts_with_ignoring_case(std::string_view text, std::string_view start) {
  return text.size() >= start.size() && equals_ignoring_case(text.substr(0, start.size()), start);
}

// "python3.12", "pypy3.10", "Python312": a directory named for an interpreter.
bool is_interpreter_name(std::string_view name) {
  for (const std::string_view start : {"python", "pypy"}) {
    if (!starts_with_ignoring_case(name, start)) continue;
    const std::string_view rest = name.substr(start.size());
    if (!rest.empty() && std::all_of(rest.begin(), rest.end(), [](char c) {
          return std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.' || c == 't';
        })) {
      return true;
    }
  }
  return false;
}

// POSIX keeps the library in lib/python3.12/ (a zip: lib/python312.zip/), Windows in
// Python312\Lib\ or, for conda, envs\name\Lib\ and miniconda3\Lib\.
bool is_library_of_interpreter(const std::vector<std::string_view>& parts, size_t i) {
  const std::string_view part = parts[i];
  if (is_interpreter_name(part) && i > 0 && starts_with_ignoring_case(parts[i - 1], "lib"))
    return true;
  if (part.ends_with(".zip") && is_interpreter_name(part.substr(0, part.size() - 4))) return true;
  if (part != "Lib" || i == 0) return false;
  const std::string_view parent = parts[i - 1];
  const bool conda = parent.find("conda") != std::string_view::npos ||
                     parent.find("miniforge") != std::string_view::npos;
  return conda || is_interpreter_name(parent) || (i >= 2 && parts[i - 2] == "envs");
}

bool is_foreign_directory(const std::vector<std::string_view>& parts, size_t i) {
  const std::string_view part = parts[i];
  if (part == "site-packages" || part == "dist-packages") return true;
  if (part.starts_with("torchinductor_") || part == "torch_extensions") return true;
  if (part == "torch") {
    return std::find(kTorchParts.begin(), kTorchParts.end(), parts[i + 1]) != kTorchParts.end();
  }
  return is_library_of_interpreter(parts, i);
}

// Code that has no file. Of these only what a person typed is the user's.
bool is_typed_code(std::string_view name) {
  return name == "<stdin>" || name.starts_with("<ipython-input") || name.starts_with("<command-") ||
         name.starts_with("<cell");
}

bool is_python_source(std::string_view path) {
  return path.ends_with(".py") || path.ends_with(".pyw") || path.ends_with(".ipynb") ||
         path.ends_with(".pyx");
}

// The last 'File "…", line N, in f' of a Python traceback: FX keeps the user's own line as such a
// text.
struct Source {
  std::string_view file;
  uint32_t line = 0;
  std::string_view function;
};

Source last_traceback_line(std::string_view text) {
  constexpr std::string_view kFile = "File \"";
  constexpr std::string_view kLine = "\", line ";
  constexpr std::string_view kIn = ", in ";
  Source found;
  const size_t at = text.rfind(kFile);
  if (at == std::string_view::npos) return found;
  const std::string_view rest = text.substr(at + kFile.size());
  const size_t line_at = rest.find(kLine);
  if (line_at == std::string_view::npos) return found;
  found.file = rest.substr(0, line_at);
  const std::string_view tail = rest.substr(line_at + kLine.size());
  std::from_chars(tail.data(), tail.data() + tail.size(), found.line);
  const size_t in_at = tail.find(kIn);
  if (in_at == std::string_view::npos) return found;
  const std::string_view function = tail.substr(in_at + kIn.size());
  found.function = function.substr(0, function.find('\n'));
  return found;
}

// How PyTorch takes memory for any tensor of any caller: its recorder and the unwinder, which stand
// innermost in stacks with C++ frames, the allocator, the dispatcher, and the factories of empty
// tensors. The same for all memory, so none of it says where a block comes from.
constexpr std::array<std::string_view, 9> kPlumbingStarts = {"c10::",
                                                             "at::detail::",
                                                             "at::_ops::",
                                                             "at::(anonymous namespace)::",
                                                             "at::empty",
                                                             "at::native::empty",
                                                             "torch::unwind::",
                                                             "torch::CapturedTraceback::",
                                                             "torch::cuda::(anonymous namespace)"};
constexpr std::array<std::string_view, 4> kRecorderFiles = {
    "memory_snapshot.cpp", "combined_traceback.cpp", "unwind.cpp", "CUDACachingAllocator.cpp"};

std::string_view base_name(std::string_view path) {
  const size_t slash = path.find_last_of("/\\");
  return slash == std::string_view::npos || slash + 1 == path.size() ? path
                                                                     : path.substr(slash + 1);
}

bool is_allocator_internal(std::string_view function, std::string_view file) {
  const bool is_recorder =
      std::ranges::find(kRecorderFiles, base_name(file)) != kRecorderFiles.end();
  return is_recorder || function.find("gather_with_cpp") != std::string_view::npos ||
         std::ranges::any_of(kPlumbingStarts,
                             [&](std::string_view start) { return function.starts_with(start); });
}

// C++ names come with their parameters, which say less than they are long.
std::string_view without_parameters(std::string_view function) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)";
  size_t at = function.find('(');
  while (at != std::string_view::npos && function.substr(at).starts_with(kAnonymous))
    at = function.find('(', at + kAnonymous.size());
  const bool is_cpp = at != std::string_view::npos && at > 0 && function.find("::") < at;
  return is_cpp && !function.substr(0, at).ends_with("operator") ? function.substr(0, at)
                                                                 : function;
}

std::string limited(std::string_view text) { return limit_bytes(text, trace::kMaxNameBytes); }

Source find_source(const trace::Tables& tables, const trace::Frame& frame) {
  if (frame.fx_trace != 0) {
    const Source users = last_traceback_line(tables.strings[frame.fx_trace]);
    if (!users.file.empty()) return users;
  }
  const std::string_view file = tables.strings[frame.file];
  return {file == "??" ? std::string_view() : file, frame.line,
          without_parameters(tables.strings[frame.function])};
}

std::string name_of(const Source& source) {
  std::string name = limited(base_name(source.file));
  if (source.line != 0 && !source.file.empty()) name += fmt::format(":{}", source.line);
  if (!source.function.empty()) name += (name.empty() ? "" : " ") + limited(source.function);
  return name.empty() ? "unknown" : name;
}

}  // namespace

bool is_user_file(std::string_view path) {
  if (path.empty()) return false;
  if (path.front() == '<') return is_typed_code(path);
  if (!is_python_source(path)) return false;
  const std::string text = normalized(path);
  const std::vector<std::string_view> parts = components(text);
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    if (is_foreign_directory(parts, i)) return false;
  }
  return true;
}

UserFrames::UserFrames(const trace::Tables& tables)
    : tables_(tables),
      file_is_user_(tables.strings.size(), int8_t{-1}),
      index_of_stack_(tables.stacks.size(), kNotComputed),
      frame_of_stack_(tables.stacks.size(), kNotComputed) {}

bool UserFrames::is_user(trace::FrameId id) {
  const trace::Frame& frame = tables_.frames[id];
  if (frame.fx_trace != 0) return true;
  int8_t& known = file_is_user_[frame.file];
  if (known < 0) known = is_user_file(tables_.strings[frame.file]) ? 1 : 0;
  return known == 1;
}

size_t UserFrames::index(trace::StackId stack) {
  uint32_t& known = index_of_stack_[stack];
  if (known != kNotComputed) return known;
  const auto frames = tables_.stacks[stack];
  const auto found =
      std::find_if(frames.begin(), frames.end(), [&](trace::FrameId id) { return is_user(id); });
  known = static_cast<uint32_t>(found - frames.begin());
  return known;
}

trace::FrameId UserFrames::frame(trace::StackId stack) {
  uint32_t& known = frame_of_stack_[stack];
  if (known == kNotComputed) known = find_frame(stack);
  return known;
}

trace::FrameId UserFrames::find_frame(trace::StackId stack) {
  const auto frames = tables_.stacks[stack];
  if (frames.empty()) return 0;
  const size_t user = index(stack);
  if (user < frames.size()) return frames[user];
  trace::FrameId found = frames.front();
  bool has_found = false;
  for (const trace::FrameId id : frames) {
    const std::string_view file = tables_.strings[tables_.frames[id].file];
    if (is_allocator_internal(tables_.strings[tables_.frames[id].function], file)) continue;
    if (!file.empty() && file != "??") return id;
    if (!std::exchange(has_found, true)) found = id;
  }
  return found;
}

size_t user_frame_index(const trace::Tables& tables, trace::StackId stack) {
  const auto frames = tables.stacks[stack];
  const auto found = std::find_if(frames.begin(), frames.end(), [&](trace::FrameId id) {
    const trace::Frame& frame = tables.frames[id];
    return frame.fx_trace != 0 || is_user_file(tables.strings[frame.file]);
  });
  return static_cast<size_t>(found - frames.begin());
}

Frame source_of(const trace::Tables& tables, const trace::Frame& frame) {
  const Source source = find_source(tables, frame);
  return {limited(source.function), limited(source.file), source.line};
}

std::string frame_name(const trace::Tables& tables, const trace::Frame& frame) {
  return name_of(find_source(tables, frame));
}

std::string frame_name(const Frame& frame) {
  return name_of({frame.file, frame.line, frame.function});
}

std::string fit_name(std::string name, uint64_t& room_bytes) {
  constexpr size_t kTruncatedBytes = 64;
  if (name.size() > room_bytes) name = limit_bytes(name, kTruncatedBytes);
  room_bytes -= std::min<uint64_t>(room_bytes, name.size());
  return name;
}

std::vector<Frame> report_stack(const trace::Tables& tables, trace::StackId stack,
                                uint64_t& room_bytes) {
  std::vector<Frame> frames;
  const std::span<const trace::FrameId> ids = tables.stacks[stack];
  for (const trace::FrameId id : ids) {
    const trace::Frame& frame = tables.frames[id];
    Frame shown{limited(tables.strings[frame.function]), limited(tables.strings[frame.file]),
                frame.line};
    const uint64_t bytes = sizeof(Frame) + shown.function.size() + shown.file.size();
    if (bytes > room_bytes) {
      frames.push_back({fmt::format("({} more frames)", ids.size() - frames.size()), "", 0});
      break;
    }
    room_bytes -= bytes;
    frames.push_back(std::move(shown));
  }
  return frames;
}

}  // namespace vram::explain
