#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <string_view>
#include <vector>

/// Sentences about what a message does and does not have, shared by the two formats.
namespace mtl::control {

/// `Port has no field "mtuu"; did you mean "mtu"? It has: port, name, ...`
/// With `around`, a type around it that has such a field, that a brace may be missing instead.
std::string unknown_field(const google::protobuf::Descriptor& type, std::string_view name,
                          const google::protobuf::Descriptor* around = nullptr);

/// `profile has no value "LAB1"; did you mean "LAB"? It takes: LAB, FAST`. The UNSPECIFIED value of
/// number 0 is not offered.
std::string unknown_value(const google::protobuf::FieldDescriptor& field, std::string_view name);

/// What may stand for one value of the field: "a whole number from 0 to 4294967295", "a text", ...
std::string takes(const google::protobuf::FieldDescriptor& field);

/// Where `text` stops being well-formed UTF-8, which all text of a message must be; its size if
/// nowhere.
std::size_t bad_utf8(std::string_view text);

}  // namespace mtl::control
