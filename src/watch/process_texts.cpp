#include "watch/process_texts.hpp"

#include "base/file.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fcntl.h>
#include <span>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace vram::watch {
namespace {

constexpr size_t kMaxNameLength = 253;

// Without the character that the end of the text may have cut in two.
void drop_partial_character(std::string& text) {
  const auto byte = [&] { return static_cast<unsigned char>(text.back()); };
  while (!text.empty() && (byte() & 0xC0U) == 0x80) text.pop_back();
  if (!text.empty() && byte() >= 0xC0) text.pop_back();
}

}  // namespace

std::string command_of(std::string_view cmdline, std::string_view name, bool is_cut) {
  std::string command(cmdline.substr(0, cmdline.find_last_not_of('\0') + 1));
  if (command.empty()) return "[" + printable(name) + "]";
  // A program given with -c has lines, which a list has no room for.
  std::ranges::replace_if(command, [](char c) { return c == '\0' || c == '\n' || c == '\t'; }, ' ');
  if (!is_cut) return printable(command);
  drop_partial_character(command);
  return printable(command) + "…";
}

std::string program_name(std::string_view command) {
  const bool is_thread = command.starts_with('[') && command.find(' ') == std::string_view::npos;
  if (is_thread) return std::string(command);  // of the kernel: "[kworker/0]"
  const std::string_view word = command.substr(0, command.find(' '));
  return std::string(word.substr(word.rfind('/') + 1));
}

std::optional<std::string> shown_command(std::optional<std::string> command, CommandLines shown) {
  if (!command || shown == CommandLines::kFull) return command;
  if (shown == CommandLines::kOff) return std::nullopt;
  return program_name(*command);
}

std::optional<uint32_t> effective_uid(std::string_view status) {
  constexpr std::string_view kLine = "\nUid:\t";
  const size_t at = status.find(kLine);
  if (at == std::string_view::npos) return std::nullopt;
  status.remove_prefix(at + kLine.size());
  // "real<tab>effective<tab>saved<tab>of files"
  const size_t begin = status.find('\t');
  const size_t end = begin == std::string_view::npos ? begin : status.find('\t', begin + 1);
  if (end == std::string_view::npos) return std::nullopt;
  uint32_t uid = 0;
  const char* const last = status.data() + end;
  const auto [stop, error] = std::from_chars(status.data() + begin + 1, last, uid);
  if (error != std::errc{} || stop != last) return std::nullopt;
  return uid;
}

std::optional<std::string_view> variable_in(std::string_view environment, std::string_view name) {
  while (true) {
    const size_t end = environment.find('\0');
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view variable = environment.substr(0, end);
    if (variable.starts_with(name) && variable.substr(name.size()).starts_with('=')) {
      return variable.substr(name.size() + 1);
    }
    environment.remove_prefix(end + 1);
  }
}

bool is_kubernetes_name(std::string_view text) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  };
  return !text.empty() && text.size() <= kMaxNameLength && std::ranges::all_of(text, is_allowed);
}

namespace {

// Of <linux/openat2.h>, by hand: it is newer than the headers that wheels are built with.
struct OpenHow {
  uint64_t flags = 0;
  uint64_t mode = 0;
  uint64_t resolve = 0;
};
constexpr long kOpenat2 = 437;  // on every architecture
constexpr uint64_t kResolveNoMagicLinks = 0x02;
constexpr uint64_t kResolveInRoot = 0x10;

bool is_plain_file(const Descriptor& file) {
  struct stat facts{};
  return file.is_open() && fstat(file.number(), &facts) == 0 && S_ISREG(facts.st_mode);
}

}  // namespace

std::optional<FileStart> read_start(const std::string& path, size_t max_bytes) {
  const auto file = InputFile::open(path);
  if (!file) return std::nullopt;
  FileStart start{std::string(max_bytes, '\0')};
  const auto size = file->read_at(0, std::as_writable_bytes(std::span(start.text)));
  if (!size) return std::nullopt;
  start.is_cut = *size == max_bytes;
  start.text.resize(*size);
  return start;
}

std::optional<FileStart> read_inside(const std::string& root_folder, const std::string& path,
                                     size_t max_bytes) {
  const Descriptor root(open(root_folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root.is_open()) return std::nullopt;
  // First as a place only: opening a device or a pipe would already do something.
  OpenHow how{.flags = O_PATH | O_CLOEXEC, .resolve = kResolveInRoot | kResolveNoMagicLinks};
  const Descriptor place(
      static_cast<int>(syscall(kOpenat2, root.number(), path.c_str(), &how, sizeof how)));
  if (!is_plain_file(place)) return std::nullopt;
  return read_start(fmt::format("/proc/self/fd/{}", place.number()), max_bytes);
}

}  // namespace vram::watch
