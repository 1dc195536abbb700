#include "cli/page_server.hpp"

#include "cli/signals.hpp"
#include "pages/html.hpp"
#include "serve/guard.hpp"
#include "serve/http_server.hpp"
#include "serve/router.hpp"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <poll.h>
#include <string>
#include <utility>
#include <vector>

namespace vram::cli {
namespace {

using serve::Body;
using Bodies = std::map<std::string, std::shared_ptr<const Body>, std::less<>>;

// Compressed as the page expects them.
Bodies bodies_of(pages::Page page) {
  Bodies bodies;
  const auto add = [&](const pages::Block& block) {
    bodies.emplace(block.name, std::make_shared<Body>(pages::deflated(block.bytes)));
  };
  add(pages::json_block("head", page.head));
  for (auto* blocks : {&page.first, &page.rest}) {
    for (pages::Block& block : *blocks) {
      add(block);
      block.bytes.clear();
      block.bytes.shrink_to_fit();
    }
  }
  return bodies;
}

std::vector<serve::Route> routes_of(Bodies bodies) {
  const auto shell = std::make_shared<Body>(pages::served_shell());
  const auto shared = std::make_shared<const Bodies>(std::move(bodies));
  return {
      {.path = "/",
       .parameters = {},
       .about = "the page",
       .answer =
           [shell](const serve::Request&, std::string_view) {
             return serve::Response{
                 .content_type = "text/html; charset=utf-8", .body = shell, .headers = {}};
           }},
      {.path = "/blocks/{name}",
       .parameters = {},
       .about = "a block of its data",
       .answer =
           [shared](const serve::Request&, std::string_view name) {
             const auto found = shared->find(name);
             if (found == shared->end())
               return serve::error_response(404, "the page has no block of this name");
             return serve::Response{
                 .content_type = "application/octet-stream", .body = found->second, .headers = {}};
           }},
  };
}

}  // namespace

Result<> serve_page(pages::Page page, const serve::Address& address, Console& console) {
  if (!serve::is_loopback(address.ip)) {
    return fail(Code::kBadInput,
                "--serve shows a page to this machine alone, found {}: use 127.0.0.1 or [::1], and "
                "for another machine ssh -L, or --html",
                address.text());
  }
  const ServiceSignals signals;
  serve::ServerLimits limits;
  limits.held_bytes = size_t{4} << 30;  // a block of a large recording is one answer
  const std::vector addresses = {address};
  VRAM_TRY_ASSIGN(const auto server, serve::HttpServer::open(addresses, limits));
  const auto guard = std::make_shared<const serve::Guard>(
      serve::Guard{.inner = serve::Router(routes_of(bodies_of(std::move(page)))),
                   .token = std::make_shared<const serve::Token>(std::string()),
                   .has_changes = false,
                   .refused = [](const serve::Request&, std::string_view) {}});
  serve::ServerHooks hooks;
  hooks.handle = [guard](const serve::Request& request) { return (*guard)(request); };
  server->start(std::move(hooks));
  VRAM_TRY(console.print(
      trf("http://{}/\nCtrl-C ends the server.\n", server->addresses().front().text())));
  pollfd polled{.fd = signals.descriptor(), .events = POLLIN, .revents = 0};
  while (true) {
    (void)poll(&polled, 1, -1);
    while (const auto request = signals.take())
      if (*request == ServiceRequest::kEnd) return {};
  }
}

}  // namespace vram::cli
