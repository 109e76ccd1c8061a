#include "control/file/json_object.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <cctype>

// Boost.JSON rather than protobuf's own printer: that one writes 64-bit numbers as strings, and
// counters are to be summed with jq as they come.
namespace mtl::control {
namespace {

using boost::json::array;
using boost::json::object;
using boost::json::value;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

value enum_json(const EnumValueDescriptor* enumerator) {
  std::string name = enumerator->name();
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return value(name);
}

value singular(const Message& message, const Reflection& reflection, const FieldDescriptor* field) {
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return value(reflection.GetInt32(message, field));
    case FieldDescriptor::CPPTYPE_INT64:
      return value(reflection.GetInt64(message, field));
    case FieldDescriptor::CPPTYPE_UINT32:
      return value(reflection.GetUInt32(message, field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return value(reflection.GetUInt64(message, field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return value(reflection.GetDouble(message, field));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return value(reflection.GetFloat(message, field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return value(reflection.GetBool(message, field));
    case FieldDescriptor::CPPTYPE_ENUM:
      return enum_json(reflection.GetEnum(message, field));
    case FieldDescriptor::CPPTYPE_STRING:
      return value(reflection.GetString(message, field));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return value(to_json(reflection.GetMessage(message, field)));
  }
  return {};
}

value element(const Message& message, const Reflection& reflection, const FieldDescriptor* field,
              int i) {
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return value(reflection.GetRepeatedInt32(message, field, i));
    case FieldDescriptor::CPPTYPE_INT64:
      return value(reflection.GetRepeatedInt64(message, field, i));
    case FieldDescriptor::CPPTYPE_UINT32:
      return value(reflection.GetRepeatedUInt32(message, field, i));
    case FieldDescriptor::CPPTYPE_UINT64:
      return value(reflection.GetRepeatedUInt64(message, field, i));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return value(reflection.GetRepeatedDouble(message, field, i));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return value(reflection.GetRepeatedFloat(message, field, i));
    case FieldDescriptor::CPPTYPE_BOOL:
      return value(reflection.GetRepeatedBool(message, field, i));
    case FieldDescriptor::CPPTYPE_ENUM:
      return enum_json(reflection.GetRepeatedEnum(message, field, i));
    case FieldDescriptor::CPPTYPE_STRING:
      return value(reflection.GetRepeatedString(message, field, i));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return value(to_json(reflection.GetRepeatedMessage(message, field, i)));
  }
  return {};
}

}  // namespace

object to_json(const Message& message) {
  const Reflection& reflection = *message.GetReflection();
  const auto* type = message.GetDescriptor();
  object result;
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    if (field->is_repeated()) {
      array elements;
      for (int k = 0; k < reflection.FieldSize(message, field); ++k)
        elements.push_back(element(message, reflection, field, k));
      result[field->name()] = std::move(elements);
    } else if (!field->has_presence() || reflection.HasField(message, field)) {
      result[field->name()] = singular(message, reflection, field);
    }
  }
  return result;
}

}  // namespace mtl::control
