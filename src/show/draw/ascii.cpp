#include "show/draw/ascii.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <array>

namespace vram::show {
namespace {

struct StandIn {
  std::string_view glyph;
  char ascii;
};

constexpr std::array kStandIns = {
    StandIn{"█", '#'},  StandIn{"▇", '#'},  StandIn{"▆", '='}, StandIn{"▅", '='}, StandIn{"▄", '-'},
    StandIn{"▃", '-'},  StandIn{"▂", '_'},  StandIn{"▁", '_'}, StandIn{"▏", ' '}, StandIn{"▎", ' '},
    StandIn{"▍", ' '},  StandIn{"▌", '='},  StandIn{"▋", '='}, StandIn{"▊", '='}, StandIn{"▉", '='},
    StandIn{"░", ':'},  StandIn{"▒", '%'},  StandIn{"▓", '+'}, StandIn{"╱", '/'}, StandIn{"│", '|'},
    StandIn{"┤", '+'},  StandIn{"└", '+'},  StandIn{"┬", '+'}, StandIn{"─", '-'}, StandIn{"╵", '|'},
    StandIn{"╷", '|'},  StandIn{"▼", 'v'},  StandIn{"✖", 'X'}, StandIn{"✔", '*'}, StandIn{"▲", '!'},
    StandIn{"→", '>'},  StandIn{"·", '-'},  StandIn{"…", '~'}, StandIn{"–", '-'}, StandIn{"—", '-'},
    StandIn{"×", 'x'},  StandIn{"÷", '/'},  StandIn{"µ", 'u'}, StandIn{"≥", '>'}, StandIn{"≤", '<'},
    StandIn{"’", '\''}, StandIn{"‘", '\''}, StandIn{"“", '"'}, StandIn{"”", '"'}, StandIn{"←", '<'},
    StandIn{"├", '+'},  StandIn{"┌", '+'},  StandIn{"┐", '+'}, StandIn{"┘", '+'}, StandIn{"•", '*'},
};

size_t sequence_length(std::string_view utf8) {
  size_t length = 1;
  while (length < utf8.size() && (static_cast<unsigned char>(utf8[length]) & 0xC0U) == 0x80U) {
    ++length;
  }
  return length;
}

std::string stand_in(std::string_view glyph) {
  const auto* found = std::ranges::find(kStandIns, glyph, &StandIn::glyph);
  if (found != kStandIns.end()) return {found->ascii};
  return std::string(static_cast<size_t>(display_width(glyph)), '?');
}

}  // namespace

std::string to_ascii(std::string_view utf8) {
  std::string out;
  out.reserve(utf8.size());
  while (!utf8.empty()) {
    const size_t length = sequence_length(utf8);
    const bool is_ascii = static_cast<unsigned char>(utf8.front()) < 0x80;
    out += is_ascii ? std::string(utf8.substr(0, length)) : stand_in(utf8.substr(0, length));
    utf8.remove_prefix(length);
  }
  return out;
}

}  // namespace vram::show
