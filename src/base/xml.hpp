// Text for XML, and for HTML, which reads it alike.
#pragma once

#include <string>
#include <string_view>

namespace vram {

// printable() as the text of an element or of an attribute. XML 1.0 allows neither U+FFFE nor
// U+FFFF, not even as references: they become U+FFFD.
[[nodiscard]] std::string xml_text(std::string_view bytes);

}  // namespace vram
