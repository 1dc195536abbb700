// A request and its response, as values: what passes between the protocol (http_server) and those
// who know what to answer (guard, router, api). No type of a network library here.
#pragma once

#include "serve/body.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vram::serve {

enum class Method : uint8_t { kGet, kHead, kOther };  // kOther: one of HTTP's that changes things

using Query = std::vector<std::pair<std::string, std::string>>;  // decoded, in the order given

struct Request {
  Method method = Method::kGet;
  std::string path;  // decoded; begins with a slash
  Query query;
  // Headers, empty where there are none.
  std::string host;
  std::string accept;
  std::string accept_encoding;
  std::string authorization;
  std::string client;        // "127.0.0.1:52144"
  bool came_locally = true;  // to an address that only this machine reaches
};

struct Response {
  int status = 200;
  std::string content_type;
  std::shared_ptr<const Body> body;
  std::vector<std::pair<std::string, std::string>> headers;
};

using Handler = std::function<Response(const Request&)>;

}  // namespace vram::serve
