#include "attach/elf_file.hpp"

#include <cstring>
#include <span>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace vram::attach {
namespace {

// The names and symbols of a large library have tens of megabytes.
constexpr uint64_t kMaxTableBytes = uint64_t{256} << 20;

}  // namespace

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
  auto names = contents(sections_[header_.e_shstrndx], kMaxTableBytes);
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

uint64_t ElfFile::first_address() const {
  for (const Elf64_Phdr& segment : segments_)
    if (segment.p_type == PT_LOAD) return segment.p_vaddr - segment.p_offset;
  return 0;
}

std::optional<uint64_t> ElfFile::symbol(std::string_view name) const {
  const Elf64_Shdr* const table = section(".dynsym");
  const Elf64_Shdr* const names = section(".dynstr");
  if (table == nullptr || names == nullptr) return std::nullopt;
  const auto symbols = contents(*table, kMaxTableBytes);
  const auto texts = contents(*names, kMaxTableBytes);
  if (!symbols || !texts) return std::nullopt;
  for (size_t at = 0; at + sizeof(Elf64_Sym) <= symbols->size(); at += sizeof(Elf64_Sym)) {
    Elf64_Sym symbol{};
    std::memcpy(&symbol, symbols->data() + at, sizeof symbol);
    if (symbol.st_name >= texts->size() || symbol.st_shndx == SHN_UNDEF) continue;
    if (std::string_view(texts->c_str() + symbol.st_name) == name) return symbol.st_value;
  }
  return std::nullopt;
}

}  // namespace vram::attach
