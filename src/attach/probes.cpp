#include "attach/probes.hpp"

#include "base/file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace vram::attach {
namespace {

constexpr uint32_t kProbeNote = 3;
// PyTorch's library has a few hundred bytes of notes, a Python interpreter a few kilobytes.
constexpr uint64_t kMaxNoteBytes = uint64_t{16} << 20;

// The parts of an ELF file that lead to its notes. A library of gigabytes is not read as a whole.
class ElfFile {
 public:
  explicit ElfFile(int descriptor) : descriptor_(descriptor) {}

  // False: no 64-bit little-endian ELF file with sections.
  [[nodiscard]] bool read_headers();
  [[nodiscard]] const Elf64_Shdr* section(std::string_view name) const;
  [[nodiscard]] std::optional<uint64_t> offset_of(uint64_t address) const;
  [[nodiscard]] std::optional<std::string> contents(const Elf64_Shdr& section,
                                                    uint64_t max_bytes) const;
  [[nodiscard]] bool is_x86_64() const { return header_.e_machine == EM_X86_64; }

 private:
  [[nodiscard]] bool read(uint64_t offset, void* to, size_t bytes) const;
  template <typename Entry>
  [[nodiscard]] bool read_table(uint64_t offset, size_t count, size_t entry_bytes,
                                std::vector<Entry>& table) const {
    if (entry_bytes != sizeof(Entry)) return false;
    table.resize(count);
    return read(offset, table.data(), count * sizeof(Entry));
  }

  int descriptor_;
  uint64_t file_bytes_ = 0;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Shdr> sections_;
  std::vector<Elf64_Phdr> segments_;
  std::string names_;
};

bool ElfFile::read(uint64_t offset, void* to, size_t bytes) const {
  return pread(descriptor_, to, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

bool ElfFile::read_headers() {
  struct stat status{};
  if (fstat(descriptor_, &status) != 0 || !read(0, &header_, sizeof header_)) return false;
  file_bytes_ = static_cast<uint64_t>(status.st_size);
  const auto& identity = header_.e_ident;
  if (std::memcmp(identity, ELFMAG, SELFMAG) != 0 || identity[EI_CLASS] != ELFCLASS64 ||
      identity[EI_DATA] != ELFDATA2LSB)
    return false;
  if (!read_table(header_.e_shoff, header_.e_shnum, header_.e_shentsize, sections_) ||
      !read_table(header_.e_phoff, header_.e_phnum, header_.e_phentsize, segments_))
    return false;
  if (header_.e_shstrndx >= sections_.size()) return false;
  auto names = contents(sections_[header_.e_shstrndx], kMaxNoteBytes);
  if (names) names_ = std::move(*names);
  return names.has_value();
}

const Elf64_Shdr* ElfFile::section(std::string_view name) const {
  for (const Elf64_Shdr& section : sections_) {
    if (section.sh_name >= names_.size()) continue;
    if (std::string_view(names_.c_str() + section.sh_name) == name) return &section;
  }
  return nullptr;
}

std::optional<uint64_t> ElfFile::offset_of(uint64_t address) const {
  for (const Elf64_Phdr& segment : segments_) {
    if (segment.p_type != PT_LOAD || address < segment.p_vaddr) continue;
    const uint64_t within = address - segment.p_vaddr;
    const uint64_t offset = segment.p_offset + within;
    if (within < segment.p_filesz && offset < file_bytes_) return offset;
  }
  return std::nullopt;
}

std::optional<std::string> ElfFile::contents(const Elf64_Shdr& section, uint64_t max_bytes) const {
  if (section.sh_type == SHT_NOBITS || section.sh_size > max_bytes) return std::nullopt;
  std::string bytes(section.sh_size, '\0');
  if (!read(section.sh_offset, bytes.data(), bytes.size())) return std::nullopt;
  return bytes;
}

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
