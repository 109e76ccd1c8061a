#include "control/file/message_file.h"

#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include "base/fd.h"
#include "control/file/diagnose.h"
#include "control/file/json_file.h"
#include "control/file/text_file.h"

namespace mtl::control {

namespace pb = google::protobuf;

Position Locations::find(std::string_view path) const {
  for (;;) {
    if (const auto found = positions_.find(path); found != positions_.end()) return found->second;
    if (path.empty()) return {};
    // "ports[1].link.window" -> "ports[1].link" -> "ports[1]" -> "ports" -> "".
    const std::size_t cut = path.find_last_of(".[");
    path = cut == std::string_view::npos ? std::string_view() : path.substr(0, cut);
  }
}

std::string Locations::where(std::string_view path) const {
  const Position position = find(path);
  if (position.line == 0) return file_.empty() ? "" : file_ + ": ";
  return file_ + ":" + std::to_string(position.line) + ":" + std::to_string(position.column) + ": ";
}

Result<FileFormat> format_of(const std::filesystem::path& file) {
  const std::string ending = file.extension().string();
  if (ending == ".textproto" || ending == ".txtpb") return FileFormat::kText;
  if (ending == ".json") return FileFormat::kJson;
  return Error{file.string() +
               ": the name does not tell the format; let it end in .textproto or "
               ".txtpb (protobuf text format) or .json"};
}

namespace {

/// Path of the first text in `message`, itself at `path`, with a byte 0: the system would take it
/// for the text's end, and use another file or socket than the one named.
std::optional<std::string> text_with_zero(const pb::Message& message, const std::string& path) {
  const pb::Reflection& of = *message.GetReflection();
  std::vector<const pb::FieldDescriptor*> fields;
  of.ListFields(message, &fields);
  for (const pb::FieldDescriptor* field : fields) {
    const int size = field->is_repeated() ? of.FieldSize(message, field) : 1;
    for (int i = 0; i < size; ++i) {
      std::string at = path.empty() ? field->name() : path + "." + field->name();
      if (field->is_repeated()) at += "[" + std::to_string(i) + "]";
      if (field->cpp_type() == pb::FieldDescriptor::CPPTYPE_STRING) {
        const std::string text = field->is_repeated() ? of.GetRepeatedString(message, field, i)
                                                      : of.GetString(message, field);
        if (text.find('\0') != std::string::npos) return at;
      } else if (field->cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE) {
        const pb::Message& inner = field->is_repeated() ? of.GetRepeatedMessage(message, field, i)
                                                        : of.GetMessage(message, field);
        if (auto found = text_with_zero(inner, at)) return found;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

Result<Locations> parse_message(std::string_view text, FileFormat format, std::string file,
                                pb::Message& message) {
  if (text.size() > kMaxMessageFile) {
    return Error{file + ": " + std::to_string(text.size()) + " bytes are more than the " +
                 std::to_string(kMaxMessageFile) + " that are read; is it the right file?"};
  }
  if (const std::size_t bad = bad_utf8(text); bad != text.size()) {
    const Position at = position_of(text, bad);
    return Error{file + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) +
                 ": not UTF-8; save the file as UTF-8 text"};
  }
  message.Clear();
  auto locations = format == FileFormat::kText ? parse_text(text, std::move(file), message)
                                               : parse_json(text, std::move(file), message);
  if (!locations) return locations;
  if (const auto field = text_with_zero(message, "")) {
    return Error{locations->where(*field) + *field + " has a byte 0; leave it out"};
  }
  return locations;
}

namespace {

Result<std::string> read_file(const std::string& file) {
  // A pipe that nobody writes to would be waited for.
  const Fd fd(::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) {
    if (errno == ENOENT) return Error{file + ": there is no such file"};
    return Error{file + ": cannot be opened: " + std::strerror(errno)};
  }
  if (S_ISDIR(status.st_mode)) return Error{file + ": is a directory; name a file in it"};
  if (!S_ISREG(status.st_mode)) {
    return Error{file + ": is no file, but a pipe or a device; name a file"};
  }
  std::string text;
  std::array<char, 65536> piece;
  // Bounded, also if it grows: one piece beyond the limit is enough for parse_message() to refuse
  // it.
  while (text.size() <= kMaxMessageFile) {
    const ssize_t read = ::read(fd.get(), piece.data(), piece.size());
    if (read < 0) return Error{file + ": cannot be read: " + std::strerror(errno)};
    if (read == 0) break;
    text.append(piece.data(), static_cast<std::size_t>(read));
  }
  return text;
}

}  // namespace

Result<Locations> load_message(const std::filesystem::path& file, pb::Message& message) {
  const auto format = format_of(file);
  if (!format) return format.error();
  const auto text = read_file(file.string());
  if (!text) return text.error();
  return parse_message(*text, *format, file.string(), message);
}

std::string to_text(const pb::Message& message, FileFormat format) {
  std::string out;
  if (format == FileFormat::kText) {
    pb::TextFormat::Printer printer;
    printer.SetUseShortRepeatedPrimitives(true);
    printer.PrintToString(message, &out);
    return out;
  }
  pb::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  // Fails only for messages that are not UTF-8 or nest without end, which parse_message() lets not
  // in.
  if (!pb::util::MessageToJsonString(message, &out, options).ok()) out.clear();
  return out;
}

}  // namespace mtl::control
