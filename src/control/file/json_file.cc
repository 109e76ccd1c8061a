#include "control/file/json_file.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/util/json_util.h>

#include <charconv>
#include <limits>
#include <map>
#include <optional>

#include "control/file/diagnose.h"
#include "control/file/json_tree.h"
#include "control/file/text_file.h"

namespace mtl::control {

namespace pb = google::protobuf;
using Kind = JsonValue::Kind;

namespace {

/// Holds a JSON document against a message type before protobuf's own parser sees it, which names
/// neither line nor what it would have taken. Also notes where each field stands.
class Checker {
 public:
  Checker(std::string_view text, Locations& locations) : lines_(text), locations_(locations) {}

  bool object(const JsonValue& value, const pb::Descriptor& type, const std::string& prefix);
  const std::string& error() const { return error_; }

 private:
  bool field(const JsonValue& value, const pb::FieldDescriptor& field, const std::string& path);
  bool single(const JsonValue& value, const pb::FieldDescriptor& field, const std::string& path);
  bool scalar(const JsonValue& value, const pb::FieldDescriptor& field) const;
  bool enumerator(const JsonValue& value, const pb::FieldDescriptor& field);
  bool fail(std::size_t offset, const std::string& what);

  Lines lines_;
  Locations& locations_;
  std::string error_;
};

bool Checker::fail(std::size_t offset, const std::string& what) {
  const Position at = lines_.at(offset);
  error_ = locations_.file() + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) +
           ": " + what;
  return false;
}

/// JSON knows a field by its name in the .proto file or by that in camelCase.
const pb::FieldDescriptor* find_field(const pb::Descriptor& type, const std::string& key) {
  for (int i = 0; i < type.field_count(); ++i) {
    if (type.field(i)->name() == key || type.field(i)->json_name() == key) return type.field(i);
  }
  return nullptr;
}

bool Checker::object(const JsonValue& value, const pb::Descriptor& type,
                     const std::string& prefix) {
  std::map<const pb::FieldDescriptor*, std::string> seen;
  std::map<const pb::OneofDescriptor*, std::string> chosen;
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    const std::string& key = value.keys[i];
    const std::size_t offset = value.key_offsets[i];
    const auto* known = find_field(type, key);
    const std::string path = prefix + (known == nullptr ? key : known->name());
    if (known == nullptr) return fail(offset, path + ": " + unknown_field(type, key));
    if (!seen.emplace(known, key).second) {
      return fail(offset, path + " is given twice; keep one of them");
    }
    if (value.items[i].kind == Kind::kNull) continue;
    const auto* oneof = known->real_containing_oneof();
    if (oneof != nullptr) {
      const auto [other, first] = chosen.emplace(oneof, key);
      if (!first) {
        return fail(offset, path + " cannot stand beside " + other->second + "; keep one of them");
      }
    }
    locations_.add(path, lines_.at(offset));
    if (!field(value.items[i], *known, path)) return false;
  }
  return true;
}

bool Checker::field(const JsonValue& value, const pb::FieldDescriptor& field,
                    const std::string& path) {
  if (field.is_map() || !field.is_repeated()) return single(value, field, path);
  if (value.kind != Kind::kArray) {
    return fail(value.offset,
                path + " takes a list in brackets, not " + std::string(name(value.kind)));
  }
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    const std::string item = path + "[" + std::to_string(i) + "]";
    locations_.add(item, lines_.at(value.items[i].offset));
    if (!single(value.items[i], field, item)) return false;
  }
  return true;
}

bool Checker::single(const JsonValue& value, const pb::FieldDescriptor& field,
                     const std::string& path) {
  if (field.cpp_type() == pb::FieldDescriptor::CPPTYPE_ENUM) {
    return enumerator(value, field);
  }
  if (field.cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE) {
    // Maps and the well-known types have forms of their own, which protobuf's parser knows.
    const auto& type = *field.message_type();
    if (field.is_map() || type.full_name().rfind("google.protobuf.", 0) == 0) return true;
    if (value.kind == Kind::kObject) return object(value, type, path + ".");
  } else if (scalar(value, field)) {
    return true;
  }
  const std::string given =
      value.kind == Kind::kNumber ? value.text : std::string(name(value.kind));
  return fail(value.offset, path + " takes " + takes(field) + ", not " + given);
}

bool Checker::enumerator(const JsonValue& value, const pb::FieldDescriptor& field) {
  const auto& type = *field.enum_type();
  if (value.kind == Kind::kString && type.FindValueByName(value.text) != nullptr) return true;
  int number = 0;
  const char* const end = value.text.data() + value.text.size();
  if (value.kind == Kind::kNumber && std::from_chars(value.text.data(), end, number).ptr == end &&
      type.FindValueByNumber(number) != nullptr) {
    return true;
  }
  const bool has_text = value.kind == Kind::kString || value.kind == Kind::kNumber;
  return fail(value.offset,
              unknown_value(field, has_text ? value.text : std::string(name(value.kind))));
}

template <class Integer>
bool whole(const std::string& text) {
  Integer number = 0;
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number);
  return result.ec == std::errc() && result.ptr == end;
}

bool Checker::scalar(const JsonValue& value, const pb::FieldDescriptor& field) const {
  // Protobuf's JSON also takes numbers as strings: 64 bits do not fit JavaScript's numbers.
  const bool number = value.kind == Kind::kNumber || value.kind == Kind::kString;
  switch (field.cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_INT32:
      return number && whole<std::int32_t>(value.text);
    case pb::FieldDescriptor::CPPTYPE_INT64:
      return number && whole<std::int64_t>(value.text);
    case pb::FieldDescriptor::CPPTYPE_UINT32:
      return number && whole<std::uint32_t>(value.text);
    case pb::FieldDescriptor::CPPTYPE_UINT64:
      return number && whole<std::uint64_t>(value.text);
    case pb::FieldDescriptor::CPPTYPE_DOUBLE:
    case pb::FieldDescriptor::CPPTYPE_FLOAT:
      return number;
    case pb::FieldDescriptor::CPPTYPE_BOOL:
      return value.kind == Kind::kBool;
    default:
      return value.kind == Kind::kString;
  }
}

}  // namespace

Result<Locations> parse_json(std::string_view text, std::string file, pb::Message& message) {
  Locations locations(std::move(file));
  JsonValue root;
  JsonFault fault;
  if (!parse_json_tree(text, root, fault)) {
    const Position at = position_of(text, fault.offset);
    return Error{locations.file() + ":" + std::to_string(at.line) + ":" +
                 std::to_string(at.column) + ": " + fault.message};
  }
  if (root.kind != Kind::kObject) {
    return Error{locations.file() + ":1:1: a " + message.GetDescriptor()->name() +
                 " is an object in braces, not " + std::string(name(root.kind))};
  }
  Checker checker(text, locations);
  if (!checker.object(root, *message.GetDescriptor(), "")) return Error{checker.error()};
  const pb::StringPiece piece(text.data(), text.size());
  const auto status = pb::util::JsonStringToMessage(piece, &message);
  if (!status.ok()) return Error{locations.file() + ": " + std::string(status.message())};
  return locations;
}

}  // namespace mtl::control
