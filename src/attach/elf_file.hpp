// ElfFile: the parts of an ELF file that lead to its notes and symbols. A library of gigabytes is
// not read as a whole, and nothing in it is trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <elf.h>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vram::attach {

class ElfFile {
 public:
  explicit ElfFile(int descriptor) : descriptor_(descriptor) {}

  // False: no 64-bit little-endian ELF file with sections.
  [[nodiscard]] bool read_headers();
  [[nodiscard]] const Elf64_Shdr* section(std::string_view name) const;
  [[nodiscard]] std::optional<uint64_t> offset_of(uint64_t address) const;
  [[nodiscard]] std::optional<std::string> contents(const Elf64_Shdr& section,
                                                    uint64_t max_bytes) const;
  // The value of a symbol that the file exports.
  [[nodiscard]] std::optional<uint64_t> symbol(std::string_view name) const;
  // Where the file's first byte is in memory, relative to its own addresses.
  [[nodiscard]] uint64_t first_address() const;
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

}  // namespace vram::attach
