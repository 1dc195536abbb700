#include "attach/python.hpp"

#include "attach/elf_file.hpp"
#include "base/file.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <mutex>
#include <sys/uio.h>

namespace vram::attach {
namespace {

constexpr size_t kMaxThreads = 65'536;
constexpr uint64_t kMaxTextBytes = 4096;
constexpr uint64_t kMaxLocationBytes = uint64_t{1} << 20;
// PyObject's type, PyVarObject's size, the bytes of a bytes object.
constexpr uint64_t kType = 8;
constexpr uint64_t kSize = 16;
constexpr uint64_t kBytes = 32;
constexpr uint64_t kTextState = 32;

struct Texts {
  std::mutex lock;
  std::vector<record::FrameText> all;
};

Texts& texts() {
  static Texts kTexts;
  return kTexts;
}

// The entries of a code object's location table (its format is described in CPython's sources).
class LocationReader {
 public:
  explicit LocationReader(std::string_view table) : rest_(table) {}
  struct Entry {
    uint32_t units = 0;  // instructions that it covers
    int32_t line_delta = 0;
    bool has_line = true;
  };
  [[nodiscard]] std::optional<Entry> next() {
    if (rest_.empty()) return std::nullopt;
    const uint8_t head = take();
    Entry entry{.units = (head & 7u) + 1};
    const unsigned code = (head >> 3) & 15u;
    constexpr unsigned kShortForms = 10;
    constexpr unsigned kNoColumns = 13;
    constexpr unsigned kLong = 14;
    constexpr unsigned kNone = 15;
    if (code == kNone) entry.has_line = false;
    if (code == kLong || code == kNoColumns) entry.line_delta = take_signed();
    if (code >= kShortForms && code < kNoColumns)
      entry.line_delta = static_cast<int32_t>(code - kShortForms);
    while (!rest_.empty() && (static_cast<uint8_t>(rest_.front()) & 0x80) == 0) (void)take();
    return entry;
  }

 private:
  uint8_t take() {
    const auto byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return byte;
  }
  // Six bits a byte, the lowest first; the lowest bit of all is the sign.
  int32_t take_signed() {
    uint32_t value = 0;
    for (unsigned shift = 0; !rest_.empty() && shift < 30; shift += 6) {
      const uint8_t byte = take();
      value |= (byte & 63u) << shift;
      if ((byte & 64u) == 0) break;
    }
    const auto size = static_cast<int32_t>(value >> 1);
    return (value & 1) != 0 ? -size : size;
  }
  std::string_view rest_;
};

}  // namespace

// Offsets in bytes, by CPython's internal headers of these versions.
struct PythonProcess::Layout {
  record::FrameLayout frame;
  uint64_t main_interpreter;
  uint64_t first_thread;
  uint64_t native_thread;
  uint64_t first_line;
  uint64_t instructions;
  uint64_t ascii_bytes;
  uint64_t compact_bytes;
};

// The same in all these versions.
namespace {
constexpr uint64_t kNextThread = 8;
constexpr uint64_t kFileName = 112;
constexpr uint64_t kQualifiedName = 128;
constexpr uint64_t kLocations = 136;
}  // namespace

const PythonProcess::Layout* PythonProcess::layout_of(uint64_t version) {
  static constexpr Layout kLayouts[] = {
      {*record::frame_layout_of(0x030b), 48, 16, 160, 72, 184, 48, 72},
      {*record::frame_layout_of(0x030c), 48, 72, 144, 68, 192, 40, 56},
      {*record::frame_layout_of(0x030d), 640, 7344, 160, 68, 200, 40, 56}};
  for (const Layout& layout : kLayouts)
    if (layout.frame.version == version) return &layout;
  return nullptr;
}

const record::FrameLayout& PythonProcess::frame_layout() const { return layout_->frame; }

bool PythonProcess::read(uint64_t address, void* to, size_t bytes) const {
  iovec own = {to, bytes};
  iovec its = {reinterpret_cast<void*>(address), bytes};
  return process_vm_readv(static_cast<pid_t>(pid_), &own, 1, &its, 1, 0) ==
         static_cast<ssize_t>(bytes);
}

Result<PythonProcess> PythonProcess::open(const Target& target) {
  VRAM_TRY_ASSIGN(const auto files, target.files());
  for (const MappedFile& mapped : files) {
    // The interpreter, or its library: not the hundreds of extensions below lib/python3.12.
    if (mapped.name.find("python", mapped.name.rfind('/')) == std::string::npos) continue;
    const Descriptor descriptor(::open(mapped.path.c_str(), O_RDONLY | O_CLOEXEC));
    ElfFile file(descriptor.number());
    if (!descriptor.is_open() || !file.read_headers()) continue;
    const auto runtime = file.symbol("_PyRuntime");
    const auto version = file.symbol("Py_Version");
    const auto code_type = file.symbol("PyCode_Type");
    if (!runtime || !code_type) continue;
    const uint64_t moved = mapped.address - file.first_address();
    const PythonProcess reader(target.pid(), *layout_of(0x030b));
    const auto number = version ? reader.read<uint64_t>(*version + moved) : std::nullopt;
    const Layout* const layout = number ? layout_of(*number >> 16) : nullptr;
    if (layout == nullptr) {
      return fail(
          Code::kUnsupported,
          "process {} runs Python {}: expected CPython 3.11, 3.12 or 3.13 for stacks", target.pid(),
          number ? fmt::format("{}.{}", *number >> 24, *number >> 16 & 0xff) : "older than 3.11");
    }
    const auto start = reader.read<record::RuntimeDescription>(*runtime + moved);
    if (layout->frame.version >= record::kFirstDescribed && start && !record::has_gil(*start)) {
      return fail(Code::kUnsupported,
                  "process {} runs Python 3.13 without the GIL, whose frames vram does not know: "
                  "expected a build with the GIL, or record without --stacks",
                  target.pid());
    }
    PythonProcess process(target.pid(), *layout);
    const auto main = process.read<uint64_t>(*runtime + moved + layout->main_interpreter);
    if (!main || *main == 0)
      return fail(Code::kIo,
                  "the memory of process {} cannot be read: expected root or CAP_SYS_PTRACE",
                  target.pid());
    process.interpreter_ = *main;
    process.code_type_ = *code_type + moved;
    return process;
  }
  return fail(Code::kNotFound, "process {} runs no Python: expected a python program for stacks",
              target.pid());
}

PythonThreads PythonProcess::threads() const {
  PythonThreads threads;
  auto state = read<uint64_t>(interpreter_ + layout_->first_thread);
  while (state && *state != 0 && threads.size() < kMaxThreads) {
    const auto number = read<uint64_t>(*state + layout_->native_thread);
    if (!number || !threads.emplace(static_cast<uint32_t>(*number), *state).second) break;
    state = read<uint64_t>(*state + kNextThread);
  }
  return threads;
}

std::optional<std::string> PythonProcess::read_text(uint64_t object) const {
  constexpr uint32_t kIsCompact = 1u << 5;
  constexpr uint32_t kIsAscii = 1u << 6;
  const auto length = read<uint64_t>(object + kSize);
  const auto state = read<uint32_t>(object + kTextState);
  if (!length || !state || (*state & kIsCompact) == 0 || *length > kMaxTextBytes)
    return std::nullopt;
  const uint64_t unit_bytes = *state >> 2 & 7u;
  std::string text(*length * unit_bytes, '\0');
  const bool is_ascii = (*state & kIsAscii) != 0;
  const uint64_t at = object + (is_ascii ? layout_->ascii_bytes : layout_->compact_bytes);
  if (!read(at, text.data(), text.size())) return std::nullopt;
  if (is_ascii) return text;
  // Rare in names and paths: every character that is no ASCII becomes U+FFFD.
  std::string shown;
  for (size_t i = 0; i < text.size(); i += unit_bytes) {
    bool is_plain = static_cast<uint8_t>(text[i]) < 0x80;
    for (size_t k = 1; k < unit_bytes; ++k) is_plain = is_plain && text[i + k] == '\0';
    shown += is_plain ? std::string(1, text[i]) : "\xef\xbf\xbd";
  }
  return shown;
}

std::optional<std::string> PythonProcess::read_bytes(uint64_t object) const {
  const auto size = read<uint64_t>(object + kSize);
  if (!size || *size > kMaxLocationBytes) return std::nullopt;
  std::string bytes(*size, '\0');
  return read(object + kBytes, bytes.data(), bytes.size()) ? std::optional(bytes) : std::nullopt;
}

uint32_t PythonProcess::line_of(const PythonFrame& frame, uint32_t first_line,
                                const std::string& table) const {
  constexpr uint64_t kUnitBytes = 2;
  const uint64_t unit = (frame.instruction - frame.code - layout_->instructions) / kUnitBytes;
  LocationReader reader(table);
  auto line = static_cast<int64_t>(first_line);
  uint64_t end = 0;
  while (const auto entry = reader.next()) {
    line += entry->line_delta;
    end += entry->units;
    if (unit < end) return entry->has_line ? static_cast<uint32_t>(line) : 0;
  }
  return 0;
}

std::optional<record::FrameText> PythonProcess::read_frame(const PythonFrame& frame) const {
  const auto type = read<uint64_t>(frame.code + kType);
  if (!type || *type != code_type_) return std::nullopt;
  const auto file = read<uint64_t>(frame.code + kFileName);
  const auto name = read<uint64_t>(frame.code + kQualifiedName);
  const auto first_line = read<uint32_t>(frame.code + layout_->first_line);
  const auto locations = read<uint64_t>(frame.code + kLocations);
  if (!file || !name || !first_line || !locations) return std::nullopt;
  const auto file_text = read_text(*file);
  const auto name_text = read_text(*name);
  const auto table = read_bytes(*locations);
  // CPython's own frame between C and Python.
  if (!file_text || !name_text || !table || *file_text == "<shim>") return std::nullopt;
  return record::FrameText{*name_text, *file_text, line_of(frame, *first_line, *table)};
}

std::optional<record::FrameNumber> PythonProcess::number(const PythonFrame& frame) {
  const auto [found, is_new] = numbers_.try_emplace({frame.code, frame.instruction});
  if (!is_new) return found->second;
  const auto text = read_frame(frame);
  if (!text) return std::nullopt;
  const std::lock_guard hold(texts().lock);
  texts().all.push_back(*text);
  found->second = static_cast<record::FrameNumber>(texts().all.size() - 1);
  return found->second;
}

record::FrameText PythonProcess::describe(record::FrameNumber number) {
  const std::lock_guard hold(texts().lock);
  return texts().all.at(number);
}

}  // namespace vram::attach
