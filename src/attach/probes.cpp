#include "attach/probes.hpp"

#include "attach/elf_file.hpp"
#include "base/file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <optional>
#include <unistd.h>
#include <utility>

namespace vram::attach {
namespace {

constexpr uint32_t kProbeNote = 3;
// PyTorch's library has a few hundred bytes of notes, a Python interpreter a few kilobytes.
constexpr uint64_t kMaxNoteBytes = uint64_t{16} << 20;

uint64_t padded(uint64_t bytes) { return (bytes + 3) & ~uint64_t{3}; }

struct Addresses {
  uint64_t location;
  uint64_t base;  // where .stapsdt.base was when the note was written
  uint64_t semaphore;
};

// The text up to the next 0, which is skipped.
std::optional<std::string_view> take_text(std::string_view& bytes) {
  const size_t end = bytes.find('\0');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view text = bytes.substr(0, end);
  bytes.remove_prefix(end + 1);
  return text;
}

// A program that moves a finished library (prelink) adjusts .stapsdt.base, but not the notes.
std::optional<Probe> parse_note(const ElfFile& file, std::string_view content,
                                std::string_view provider) {
  Addresses addresses{};
  if (content.size() < sizeof addresses) return std::nullopt;
  std::memcpy(&addresses, content.data(), sizeof addresses);
  content.remove_prefix(sizeof addresses);
  const auto own_provider = take_text(content);
  const auto name = take_text(content);
  const auto operands = take_text(content);
  if (!operands || *own_provider != provider) return std::nullopt;
  const Elf64_Shdr* const base = file.section(".stapsdt.base");
  const uint64_t moved = base != nullptr ? base->sh_addr - addresses.base : 0;
  const auto offset = file.offset_of(addresses.location + moved);
  const auto semaphore =
      addresses.semaphore != 0 ? file.offset_of(addresses.semaphore + moved) : uint64_t{0};
  if (!offset || !semaphore) return std::nullopt;
  return Probe{std::string(*name), *offset, *semaphore, std::string(*operands)};
}

}  // namespace

Result<std::vector<Probe>> read_probes(const std::string& path, std::string_view provider) {
  const Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!descriptor.is_open())
    return fail(Code::kIo, "cannot read {}: {}", path, std::strerror(errno));
  ElfFile file(descriptor.number());
  std::vector<Probe> probes;
  if (!file.read_headers()) return probes;
  const Elf64_Shdr* const section = file.section(".note.stapsdt");
  if (section == nullptr) return probes;
  const auto notes = file.contents(*section, kMaxNoteBytes);
  if (!notes) return fail(Code::kBadInput, "{}: its probes' notes cannot be read", path);
  std::string_view rest = *notes;
  Elf64_Nhdr note{};
  while (rest.size() >= sizeof note) {
    std::memcpy(&note, rest.data(), sizeof note);
    rest.remove_prefix(sizeof note);
    const uint64_t name_bytes = padded(note.n_namesz);
    const uint64_t whole = name_bytes + padded(note.n_descsz);
    if (whole > rest.size()) return fail(Code::kBadInput, "{}: a probe's note is damaged", path);
    if (note.n_type == kProbeNote) {
      auto probe = parse_note(file, rest.substr(name_bytes, note.n_descsz), provider);
      if (probe) probes.push_back(std::move(*probe));
    }
    rest.remove_prefix(whole);
  }
  if (!probes.empty() && !file.is_x86_64())
    return fail(Code::kUnsupported, "{}: expected a library for x86-64", path);
  return probes;
}

}  // namespace vram::attach
