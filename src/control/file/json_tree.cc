#include "control/file/json_tree.h"

#include <boost/json/basic_parser_impl.hpp>

#include "control/file/message_file.h"

namespace mtl::control {

namespace json = boost::json;

namespace {

/// Builds the tree from the parser's events. The parser does not tell where they are, so it is fed
/// byte by byte, and note() remembers where the token at hand began.
class TreeBuilder {
 public:
  static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_key_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_string_size = static_cast<std::size_t>(-1);

  /// The next byte of the text, before the parser sees it.
  void note(char byte, std::size_t offset) {
    constexpr std::string_view kBetween = " \t\r\n,:";
    if (in_token_ || kBetween.find(byte) != std::string_view::npos) return;
    in_token_ = true;
    start_ = offset;
  }
  JsonValue take() { return std::move(root_); }

  // Names and signatures are the parser's.
  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }
  bool on_array_begin(json::error_code&) { return open(JsonValue::Kind::kArray); }
  bool on_array_end(std::size_t, json::error_code&) { return close(); }
  bool on_object_begin(json::error_code&) { return open(JsonValue::Kind::kObject); }
  bool on_object_end(std::size_t, json::error_code&) { return close(); }
  bool on_string_part(json::string_view s, std::size_t, json::error_code&) { return gather(s); }
  bool on_string(json::string_view s, std::size_t, json::error_code&) {
    gather(s);
    JsonValue& value = add(JsonValue::Kind::kString);
    value.text.swap(text_);
    return done();
  }
  bool on_key_part(json::string_view s, std::size_t, json::error_code&) { return gather(s); }
  bool on_key(json::string_view s, std::size_t, json::error_code&) {
    gather(s);
    open_.back()->keys.push_back(std::move(text_));
    open_.back()->key_offsets.push_back(start_);
    return done();
  }
  bool on_number_part(json::string_view s, json::error_code&) { return gather(s); }
  bool on_int64(std::int64_t, json::string_view s, json::error_code&) { return number(s); }
  bool on_uint64(std::uint64_t, json::string_view s, json::error_code&) { return number(s); }
  bool on_double(double, json::string_view s, json::error_code&) { return number(s); }
  bool on_bool(bool value, json::error_code&) {
    add(JsonValue::Kind::kBool).boolean = value;
    return done();
  }
  bool on_null(json::error_code&) {
    add(JsonValue::Kind::kNull);
    return done();
  }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return done(); }

 private:
  bool gather(json::string_view s) {
    text_.append(s.data(), s.size());
    return true;
  }
  bool done() {
    in_token_ = false;
    text_.clear();
    return true;
  }
  JsonValue& add(JsonValue::Kind kind) {
    JsonValue& value = open_.empty() ? root_ : open_.back()->items.emplace_back();
    value.kind = kind;
    value.offset = start_;
    return value;
  }
  bool number(json::string_view s) {
    gather(s);
    add(JsonValue::Kind::kNumber).text.swap(text_);
    return done();
  }
  bool open(JsonValue::Kind kind) {
    // Stable: items of a value that is open grow only when the value after it is closed.
    open_.push_back(&add(kind));
    return done();
  }
  bool close() {
    open_.pop_back();
    return done();
  }

  JsonValue root_;
  std::vector<JsonValue*> open_;
  std::string text_;
  bool in_token_ = false;
  std::size_t start_ = 0;
};

}  // namespace

std::string_view name(JsonValue::Kind kind) {
  switch (kind) {
    case JsonValue::Kind::kNull:
      return "null";
    case JsonValue::Kind::kBool:
      return "true or false";
    case JsonValue::Kind::kNumber:
      return "a number";
    case JsonValue::Kind::kString:
      return "a text";
    case JsonValue::Kind::kArray:
      return "a list";
    case JsonValue::Kind::kObject:
      return "an object";
  }
  return "a value";
}

bool parse_json_tree(std::string_view text, JsonValue& root, JsonFault& fault) {
  json::parse_options options;
  options.max_depth = static_cast<std::size_t>(kMaxMessageDepth);
  json::basic_parser<TreeBuilder> parser(options);
  json::error_code ec;
  for (std::size_t i = 0; i < text.size(); ++i) {
    parser.handler().note(text[i], i);
    const std::size_t taken = parser.write_some(true, text.data() + i, 1, ec);
    // A byte that is not taken, without an error: the document ended before it.
    if (!ec && taken == 0) ec = json::error::extra_data;
    if (ec) {
      fault = {i, "not JSON: " + ec.message()};
      return false;
    }
  }
  parser.write_some(false, text.data(), 0, ec);
  if (ec) {
    fault = {text.size(), "not JSON: " + ec.message() + " (the text ends too early)"};
    return false;
  }
  root = parser.handler().take();
  return true;
}

}  // namespace mtl::control
