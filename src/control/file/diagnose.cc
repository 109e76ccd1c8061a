#include "control/file/diagnose.h"

#include <algorithm>
#include <boost/locale/utf.hpp>
#include <cctype>

#include "control/file/message_file.h"

namespace mtl::control {

namespace pb = google::protobuf;

namespace {

std::string join(const std::vector<std::string_view>& words) {
  std::string out;
  for (const auto word : words) {
    if (!out.empty()) out += ", ";
    out += word;
  }
  return out;
}

std::string in_quotes(std::string_view word) {
  return "\"" + std::string(word) + "\"";
}

std::string suggestion(std::string_view word, const std::vector<std::string_view>& known) {
  const std::string_view meant = nearest(word, known);
  return meant.empty() ? "." : "; did you mean " + in_quotes(meant) + "?";
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  const auto same = [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) ==
           std::tolower(static_cast<unsigned char>(y));
  };
  // Rows of the table: two ago, the last one, this one.
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t exchange = last[j - 1] + (same(a[i - 1], b[j - 1]) ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, exchange});
      const bool swap = i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]);
      if (swap) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::string unknown_field(const pb::Descriptor& type, std::string_view name,
                          const pb::Descriptor* around) {
  std::vector<std::string_view> known;
  for (int i = 0; i < type.field_count(); ++i) known.push_back(type.field(i)->name());
  const std::string hint = around == nullptr ? suggestion(name, known)
                                             : ", but " + around->name() +
                                                   ", in which it stands, has: is a } missing "
                                                   "before it?";
  std::string out = type.name() + " has no field " + in_quotes(name) + hint;
  if (known.empty()) return out + " It has none";
  return out + " " + (around == nullptr ? "It" : type.name()) + " has: " + join(known);
}

std::string unknown_value(const pb::FieldDescriptor& field, std::string_view name) {
  std::vector<std::string_view> known;
  for (int i = 0; i < field.enum_type()->value_count(); ++i) {
    const auto* value = field.enum_type()->value(i);
    if (value->number() != 0) known.push_back(value->name());
  }
  return field.name() + " has no value " + in_quotes(name) + suggestion(name, known) +
         " It takes: " + join(known);
}

std::string takes(const pb::FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_INT32:
      return "a whole number from -2147483648 to 2147483647";
    case pb::FieldDescriptor::CPPTYPE_INT64:
      return "a whole number of 64 bits";
    case pb::FieldDescriptor::CPPTYPE_UINT32:
      return "a whole number from 0 to 4294967295";
    case pb::FieldDescriptor::CPPTYPE_UINT64:
      return "a whole number from 0 to 18446744073709551615";
    case pb::FieldDescriptor::CPPTYPE_DOUBLE:
    case pb::FieldDescriptor::CPPTYPE_FLOAT:
      return "a number";
    case pb::FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case pb::FieldDescriptor::CPPTYPE_ENUM:
      return "one of the names of " + field.enum_type()->name();
    case pb::FieldDescriptor::CPPTYPE_STRING:
      return "a text in quotes";
    case pb::FieldDescriptor::CPPTYPE_MESSAGE:
      return "a " + field.message_type()->name() + " in braces";
  }
  return "a value";
}

std::size_t bad_utf8(std::string_view text) {
  const char* p = text.data();
  const char* const end = p + text.size();
  while (p != end) {
    const char* const start = p;
    const auto code = boost::locale::utf::utf_traits<char>::decode(p, end);
    if (code == boost::locale::utf::illegal || code == boost::locale::utf::incomplete) {
      return static_cast<std::size_t>(start - text.data());
    }
  }
  return text.size();
}

}  // namespace mtl::control
