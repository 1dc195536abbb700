// The parser of one request, which keeps of its head what answers depend on, and its body only if
// it is a POST: what a client sends takes little memory, however many headers and bytes those are.
// Part of http_server, included by nothing else.
#pragma once

#include "serve/http_server.hpp"

#include <boost/beast/http/basic_parser.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace vram::serve {

class RequestParser final : public boost::beast::http::basic_parser<true> {
 public:
  explicit RequestParser(const ServerLimits& limits);

  // Known once the request's first line was read.
  [[nodiscard]] boost::beast::http::verb method() const { return method_; }
  [[nodiscard]] const std::string& target() const { return target_; }
  [[nodiscard]] bool is_http11() const { return is_http11_; }

  // Known once the whole head was read.
  struct Headers {
    size_t hosts = 0;  // how often there is one
    std::string host;
    std::string accept;
    std::string accept_encoding;
    std::string authorization;
    std::string content_type;
    std::string origin;
    std::string fetch_site;
  };
  [[nodiscard]] const Headers& headers() const { return headers_; }
  // Of a POST, once it was read; of other requests nothing is kept.
  [[nodiscard]] std::string take_body() { return std::move(body_); }
  // What the base class does not know as an encoding it takes for no body at all, and reads what
  // comes as the next request: a proxy may see other requests there than we do.
  [[nodiscard]] bool is_encoding_understood() const {
    return encodings_ == 0 || (encodings_ == 1 && is_http11_ && is_chunked_);
  }

 private:
  using Verb = boost::beast::http::verb;
  using Field = boost::beast::http::field;
  using Text = boost::beast::string_view;
  using ErrorCode = boost::beast::error_code;

  void on_request_impl(Verb method, Text method_text, Text target, int version,
                       ErrorCode& error) override;
  void on_response_impl(int, Text, int, ErrorCode&) override {}
  void on_field_impl(Field field, Text name, Text value, ErrorCode& error) override;
  void on_header_impl(ErrorCode&) override {}
  void on_body_init_impl(const boost::optional<uint64_t>&, ErrorCode&) override {}
  size_t on_body_impl(Text body, ErrorCode& error) override { return keep(body, error); }
  void on_chunk_header_impl(uint64_t, Text, ErrorCode&) override {}
  size_t on_chunk_body_impl(uint64_t, Text body, ErrorCode& error) override {
    return keep(body, error);
  }
  void on_finish_impl(ErrorCode&) override {}
  size_t keep(Text body, ErrorCode& error);

  const uint64_t max_kept_bytes_;
  Verb method_ = Verb::unknown;
  std::string target_;
  bool is_http11_ = false;
  Headers headers_;
  size_t encodings_ = 0;
  bool is_chunked_ = false;  // by the last of them
  std::string body_;
};

inline RequestParser::RequestParser(const ServerLimits& limits)
    : max_kept_bytes_(limits.json_bytes) {
  header_limit(limits.header_bytes);
  body_limit(limits.body_bytes);
}

inline void RequestParser::on_request_impl(Verb method, Text, Text target, int version,
                                           ErrorCode&) {
  method_ = method;
  target_ = std::string(target);
  is_http11_ = version >= 11;
}

inline size_t RequestParser::keep(Text body, ErrorCode& error) {
  if (method_ != Verb::post) return body.size();
  if (body_.size() + body.size() > max_kept_bytes_) {
    error = boost::beast::http::error::body_limit;
    return 0;
  }
  body_.append(body.data(), body.size());
  return body.size();
}

inline void RequestParser::on_field_impl(Field field, Text name, Text value, ErrorCode&) {
  if (is_header_done()) return;  // behind the body
  if (field == Field::transfer_encoding) {
    ++encodings_;
    is_chunked_ = boost::beast::iequals(value, "chunked");
  }
  if (field == Field::host) ++headers_.hosts;
  const auto keep_first = [&](Field wanted, std::string& kept) {
    if (field == wanted && kept.empty()) kept = std::string(value);
  };
  keep_first(Field::host, headers_.host);
  keep_first(Field::accept, headers_.accept);
  keep_first(Field::accept_encoding, headers_.accept_encoding);
  keep_first(Field::authorization, headers_.authorization);
  keep_first(Field::content_type, headers_.content_type);
  keep_first(Field::origin, headers_.origin);
  if (boost::beast::iequals(name, "Sec-Fetch-Site") && headers_.fetch_site.empty())
    headers_.fetch_site = std::string(value);
}

}  // namespace vram::serve
