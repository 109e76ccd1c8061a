#include "control/file/text_file.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "control/file/diagnose.h"

namespace mtl::control {

namespace pb = google::protobuf;
using InfoTree = pb::TextFormat::ParseInfoTree;

namespace {

/// Keeps the first error: what follows it in the parser's view is often its echo.
class FirstError final : public pb::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (!message_.empty()) return;
    position_ = {line + 1, column + 1};
    message_ = message;
  }
  Position position() const { return position_; }
  const std::string& message() const { return message_; }

 private:
  Position position_;
  std::string message_;
};

/// The message type of full name `name` that `root` is made of.
const pb::Descriptor* type_named(const pb::Descriptor& root, const std::string& name) {
  return root.file()->pool()->FindMessageTypeByName(name);
}

/// A field called `name` with an enum type, in `root` or what it is made of.
const pb::FieldDescriptor* enum_field(const pb::Descriptor& root, const std::string& name) {
  const auto* file = root.file();
  std::vector<const pb::Descriptor*> types;
  for (int i = 0; i < file->message_type_count(); ++i) types.push_back(file->message_type(i));
  for (std::size_t i = 0; i < types.size(); ++i) {
    const auto* field = types[i]->FindFieldByName(name);
    if (field != nullptr && field->enum_type() != nullptr) return field;
    for (int j = 0; j < types[i]->nested_type_count(); ++j) {
      types.push_back(types[i]->nested_type(j));
    }
  }
  return nullptr;
}

/// A type that has a field `name` and may stand around a `type`, itself or further out; or nullptr.
const pb::Descriptor* around_with(const pb::Descriptor& type, const std::string& name) {
  const auto* file = type.file();
  std::vector<const pb::Descriptor*> around{&type};
  for (std::size_t i = 0; i < around.size(); ++i) {
    for (int m = 0; m < file->message_type_count(); ++m) {
      const auto* outer = file->message_type(m);
      if (std::find(around.begin(), around.end(), outer) != around.end()) continue;
      bool holds = false;
      for (int f = 0; f < outer->field_count(); ++f) {
        holds = holds || outer->field(f)->message_type() == around[i];
      }
      if (!holds) continue;
      if (outer->FindFieldByName(name) != nullptr) return outer;
      around.push_back(outer);
    }
  }
  return nullptr;
}

std::string_view line_of(std::string_view text, int line) {
  for (; line > 1; --line) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  text = text.substr(0, text.find('\n'));
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  text.remove_prefix(begin);
  text = text.substr(0, text.find_last_not_of(" \t\r") + 1);
  return text.substr(0, 80);
}

/// The names in `before"first"between"second"`, if the sentence is of that form.
std::optional<std::pair<std::string, std::string>> two_names(std::string_view sentence,
                                                             std::string_view before,
                                                             std::string_view between) {
  const auto quoted = [&sentence](std::string_view text, std::string& name) {
    if (!sentence.starts_with(text)) return false;
    sentence.remove_prefix(text.size());
    const std::size_t end = sentence.find('"', 1);
    if (!sentence.starts_with('"') || end == std::string_view::npos || end == 1) return false;
    name = sentence.substr(1, end - 1);
    sentence.remove_prefix(end + 1);
    return true;
  };
  std::pair<std::string, std::string> names;
  if (!quoted(before, names.first) || !quoted(between, names.second) || !sentence.empty()) {
    return std::nullopt;
  }
  return names;
}

/// The parser's sentence, with what was meant where it can be known; else with the line, so that
/// the reader sees what the parser saw.
std::string improve(const std::string& message, const pb::Descriptor& root, std::string_view text,
                    int line) {
  std::string out = message;
  while (!out.empty() && out.back() == '.') out.pop_back();
  if (const auto names = two_names(out, "Message type ", " has no field named ")) {
    if (const auto* type = type_named(root, names->first)) {
      return unknown_field(*type, names->second, around_with(*type, names->second));
    }
  }
  if (const auto names = two_names(out, "Unknown enumeration value of ", " for field ")) {
    if (const auto* field = enum_field(root, names->second)) {
      return unknown_value(*field, names->first);
    }
  }
  const std::string_view seen = line_of(text, line);
  return seen.empty() ? out : out + " (the line is: " + std::string(seen) + ")";
}

void collect(const pb::Message& message, const InfoTree& tree, const std::string& prefix,
             Locations& out) {
  std::vector<const pb::FieldDescriptor*> fields;
  // Not ListFields(): a field written with its default value has a place too.
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    fields.push_back(message.GetDescriptor()->field(i));
  }
  for (const auto* field : fields) {
    const bool repeated = field->is_repeated();
    const int count = repeated ? message.GetReflection()->FieldSize(message, field) : 1;
    const bool is_message = field->cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE;
    for (int i = 0; i < count; ++i) {
      const int index = repeated ? i : -1;
      const auto at = tree.GetLocation(field, index);
      if (at.line < 0) continue;
      const std::string name = prefix + field->name();
      const std::string path = repeated ? name + "[" + std::to_string(i) + "]" : name;
      if (repeated && i == 0) out.add(name, {at.line + 1, at.column + 1});
      out.add(path, {at.line + 1, at.column + 1});
      const InfoTree* nested = is_message ? tree.GetTreeForNested(field, index) : nullptr;
      if (nested == nullptr) continue;
      const auto* reflection = message.GetReflection();
      collect(repeated ? reflection->GetRepeatedMessage(message, field, i)
                       : reflection->GetMessage(message, field),
              *nested, path + ".", out);
    }
  }
}

std::string at_text(const Locations& locations, Position at) {
  std::string where = locations.file() + ":";
  if (at.line > 0) where += std::to_string(at.line) + ":" + std::to_string(at.column) + ":";
  return where + " ";
}

/// A value of an enumeration that is given by a number which it does not have: proto3 takes it for
/// one of a later version, we have no use for it.
struct UnknownNumber {
  const pb::FieldDescriptor* field;
  int number;
  Position at;
};

std::optional<UnknownNumber> find_unknown_number(const pb::Message& message, const InfoTree& tree) {
  const auto* reflection = message.GetReflection();
  std::vector<const pb::FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const auto* field : fields) {
    const bool repeated = field->is_repeated();
    const int count = repeated ? reflection->FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const int index = repeated ? i : -1;
      if (field->cpp_type() == pb::FieldDescriptor::CPPTYPE_ENUM) {
        const int number = repeated ? reflection->GetRepeatedEnumValue(message, field, i)
                                    : reflection->GetEnumValue(message, field);
        if (field->enum_type()->FindValueByNumber(number) != nullptr) continue;
        const auto at = tree.GetLocation(field, index);
        return UnknownNumber{field, number, {at.line + 1, at.column + 1}};
      }
      if (field->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE) continue;
      const InfoTree* nested = tree.GetTreeForNested(field, index);
      if (nested == nullptr) continue;
      const auto found =
          find_unknown_number(repeated ? reflection->GetRepeatedMessage(message, field, i)
                                       : reflection->GetMessage(message, field),
                              *nested);
      if (found) return found;
    }
  }
  return std::nullopt;
}

}  // namespace

Lines::Lines(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') begins_.push_back(i + 1);
  }
}

Position Lines::at(std::size_t offset) const {
  const auto next = std::upper_bound(begins_.begin(), begins_.end(), offset);
  return {static_cast<int>(next - begins_.begin()), static_cast<int>(offset - *(next - 1)) + 1};
}

Position position_of(std::string_view text, std::size_t offset) {
  return Lines(text.substr(0, offset)).at(offset);
}

Result<Locations> parse_text(std::string_view text, std::string file, pb::Message& message) {
  FirstError errors;
  InfoTree tree;
  pb::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.WriteLocationsTo(&tree);
  parser.SetRecursionLimit(kMaxMessageDepth);
  pb::io::ArrayInputStream in(text.data(), static_cast<int>(text.size()));
  Locations locations(std::move(file));
  if (!parser.Parse(&in, &message)) {
    const Position at = errors.position();
    return Error{at_text(locations, at) +
                 improve(errors.message(), *message.GetDescriptor(), text, at.line)};
  }
  if (const auto unknown = find_unknown_number(message, tree)) {
    return Error{at_text(locations, unknown->at) +
                 unknown_value(*unknown->field, std::to_string(unknown->number))};
  }
  collect(message, tree, "", locations);
  return locations;
}

}  // namespace mtl::control
