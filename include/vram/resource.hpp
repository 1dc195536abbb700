// vram::memory_resource: a vram pool with the interface of std::pmr, for C++ programs and
// libraries.
//
//     vram::memory_resource gpu(0);                          // the pool of device 0
//     void* block = gpu.allocate(bytes, stream);             // or throws vram::out_of_memory
//     gpu.deallocate(block, bytes, stream);
//
// It allocates device memory, which the host cannot write, so it does not derive from
// std::pmr::memory_resource. Otherwise its names and rules are those of std::pmr: equal resources
// can free each other's blocks, and alignments are powers of two (up to 512 bytes).
//
// Header only; requires C++17 and libvram.so. Every function may be called from any thread.
#ifndef VRAM_RESOURCE_HPP
#define VRAM_RESOURCE_HPP

#include <cstddef>
#include <new>
#include <stdexcept>
#include <string>
#include <vram/vram.h>

namespace vram {

// what() states the requested size, the free memory, who uses the rest, and what would help.
class out_of_memory : public std::bad_alloc {
 public:
  explicit out_of_memory(std::string text) : text_(std::move(text)) {}
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

class memory_resource {
 public:
  static constexpr std::size_t alignment_bytes = 512;

  // Throws std::runtime_error if there is no such device, or no pool can be opened on it.
  explicit memory_resource(int device, const vram_pool_options* options = nullptr) {
    if (vram_pool_open(device, options, &pool_) == VRAM_OK) return;
    throw std::runtime_error(std::string("vram: ") + vram_last_error());
  }
  ~memory_resource() { (void)vram_pool_close(pool_); }
  memory_resource(const memory_resource&) = delete;
  memory_resource& operator=(const memory_resource&) = delete;

  // Allocates for work in the stream. Throws out_of_memory, or std::invalid_argument for an
  // alignment that is not supported.
  [[nodiscard]] void* allocate(std::size_t bytes, vram_stream stream = nullptr,
                               std::size_t alignment = alignment_bytes) {
    if (alignment > alignment_bytes || (alignment & (alignment - 1)) != 0) {
      throw std::invalid_argument("vram: expected an alignment of a power of two up to 512 bytes");
    }
    void* block = nullptr;
    const vram_status status = vram_alloc(pool_, bytes, stream, &block);
    if (status == VRAM_OUT_OF_MEMORY) throw out_of_memory(why());
    if (status == VRAM_NOT_SUPPORTED)
      throw std::runtime_error(std::string("vram: ") + vram_last_error());
    if (status != VRAM_OK) throw std::runtime_error(vram_status_text(status));
    return block;
  }

  // Frees a block. Work that is queued in its stream may continue to use it.
  void deallocate(void* block, std::size_t /*bytes*/, vram_stream /*stream*/ = nullptr,
                  std::size_t /*alignment*/ = alignment_bytes) noexcept {
    (void)vram_free(pool_, block);
  }

  [[nodiscard]] bool is_equal(const memory_resource& other) const noexcept {
    return pool_ == other.pool_;
  }
  [[nodiscard]] vram_pool* pool() const noexcept { return pool_; }

 private:
  [[nodiscard]] std::string why() const {
    std::string text(vram_explain_oom(pool_, nullptr, 0), '\0');
    text.resize(text.size() + 1);  // for the final 0
    (void)vram_explain_oom(pool_, text.data(), text.size());
    text.resize(text.find('\0'));
    return text;
  }

  vram_pool* pool_ = nullptr;
};

[[nodiscard]] inline bool operator==(const memory_resource& a, const memory_resource& b) noexcept {
  return a.is_equal(b);
}
[[nodiscard]] inline bool operator!=(const memory_resource& a, const memory_resource& b) noexcept {
  return !a.is_equal(b);
}

}  // namespace vram

#endif
