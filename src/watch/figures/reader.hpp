// Reads one figure of a struct, whatever its type, by a path of pointers to members. Pure
// functions.
#pragma once

#include "base/shared.hpp"
#include "watch/snapshot.hpp"

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace vram::watch::figures {

// A figure of an object, which must outlive it. std::monostate is unknown.
using Value = std::variant<std::monostate, bool, uint64_t, int64_t, double, std::string_view,
                           const std::vector<std::string>*, const std::vector<gpu::MigInstance>*,
                           const std::vector<XidCount>*, const std::vector<Use>*>;

// What a known value is: the alternatives of Value, in their order.
enum class Shape : uint8_t {
  kUnknown,
  kFlag,
  kCount,
  kSigned,
  kRatio,
  kText,
  kTexts,
  kInstances,
  kFaults,
  kUses
};

// Reads a figure of a T.
template <typename T>
struct Reader {
  Value (*read)(const T&) = nullptr;
  Shape shape = Shape::kUnknown;
  bool is_optional = false;  // may be unknown in an object that is there

  explicit operator bool() const { return read != nullptr; }
  Value operator()(const T& object) const { return read(object); }
};

namespace detail {

template <typename Step>
struct OwnerOf;
template <typename Member, typename T>
struct OwnerOf<Member T::*> {
  using Type = T;
};
template <typename Result, typename T>
struct OwnerOf<Result (*)(const T&)> {
  using Type = T;
};

template <typename T>
struct KnownOf {
  using Type = T;
  static const T* in(const T& part) { return &part; }
};
template <typename T>
struct KnownOf<std::optional<T>> {
  using Type = T;
  static const T* in(const std::optional<T>& part) { return part ? &*part : nullptr; }
};
template <>
struct KnownOf<std::optional<std::string>> {
  using Type = std::string;
  static const std::string* in(const std::optional<std::string>& part) {
    return part && !part->empty() ? &*part : nullptr;
  }
};

template <typename T>
struct KnownOf<Shared<T>> {
  using Type = T;
  static const T* in(const Shared<T>& part) { return &*part; }
};

template <typename T, auto First, auto... Rest>
struct PathEnd {
  using Part = std::remove_cvref_t<std::invoke_result_t<decltype(First), const T&>>;
  using Type = typename PathEnd<typename KnownOf<Part>::Type, Rest...>::Type;
};
template <typename T, auto Last>
struct PathEnd<T, Last> {
  using Type = std::remove_cvref_t<std::invoke_result_t<decltype(Last), const T&>>;
};

inline Value value_of(bool flag) { return flag; }
inline Value value_of(std::unsigned_integral auto count) { return uint64_t{count}; }
inline Value value_of(std::signed_integral auto number) { return int64_t{number}; }
inline Value value_of(double ratio) { return ratio; }
inline Value value_of(std::string_view text) { return text; }
inline Value value_of(const std::string& text) { return std::string_view(text); }
template <typename Item>
Value value_of(const std::vector<Item>& items) {
  return &items;
}

template <typename T, auto First, auto... Rest>
Value value_at(const T& object) {
  const auto& part = std::invoke(First, object);
  const auto* known = KnownOf<std::remove_cvref_t<decltype(part)>>::in(part);
  if (known == nullptr) return {};
  if constexpr (sizeof...(Rest) == 0)
    return value_of(*known);
  else
    return value_at<std::remove_cvref_t<decltype(*known)>, Rest...>(*known);
}

template <typename T>
consteval Shape shape_of() {
  if (std::same_as<T, bool>) return Shape::kFlag;
  if (std::unsigned_integral<T>) return Shape::kCount;
  if (std::signed_integral<T>) return Shape::kSigned;
  if (std::floating_point<T>) return Shape::kRatio;
  if (std::same_as<T, std::vector<std::string>>) return Shape::kTexts;
  if (std::same_as<T, std::vector<gpu::MigInstance>>) return Shape::kInstances;
  if (std::same_as<T, std::vector<XidCount>>) return Shape::kFaults;
  return std::same_as<T, std::vector<Use>> ? Shape::kUses : Shape::kText;
}

}  // namespace detail

// Reads along a path of pointers to members and functions of an object. If one of them is an
// optional without a value, or an empty optional text, the figure is unknown.
//
//     kRead<&Device::health, &gpu::DeviceHealth::bar1, &gpu::DeviceMemory::used_bytes>
template <auto First, auto... Rest>
inline constexpr auto kRead = [] {
  using Owner = typename detail::OwnerOf<decltype(First)>::Type;
  using End = typename detail::PathEnd<Owner, First, Rest...>::Type;
  using Known = typename detail::KnownOf<End>::Type;
  return Reader<Owner>{.read = &detail::value_at<Owner, First, Rest...>,
                       .shape = detail::shape_of<Known>(),
                       .is_optional = !std::same_as<Known, End>};
}();

}  // namespace vram::watch::figures
