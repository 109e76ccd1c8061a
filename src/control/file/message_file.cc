#include "control/file/message_file.h"

#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

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
  return format == FileFormat::kText ? parse_text(text, std::move(file), message)
                                     : parse_json(text, std::move(file), message);
}

namespace {

Result<std::string> read_file(const std::filesystem::path& file) {
  std::error_code ec;
  const auto status = std::filesystem::status(file, ec);
  if (status.type() == std::filesystem::file_type::not_found) {
    return Error{file.string() + ": there is no such file"};
  }
  if (std::filesystem::is_directory(status)) {
    return Error{file.string() + ": is a directory; name a file in it"};
  }
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  if (!in) return Error{file.string() + ": cannot be opened: " + std::strerror(errno)};
  std::string text;
  std::array<char, 65536> piece;
  // Bounded, whatever the file turns out to be (a pipe, a device, growing): one piece beyond the
  // limit is enough for parse_message() to refuse it.
  while (text.size() <= kMaxMessageFile && in) {
    in.read(piece.data(), piece.size());
    text.append(piece.data(), static_cast<std::size_t>(in.gcount()));
  }
  if (in.bad()) return Error{file.string() + ": cannot be read: " + std::strerror(errno)};
  return text;
}

}  // namespace

Result<Locations> load_message(const std::filesystem::path& file, pb::Message& message) {
  const auto format = format_of(file);
  if (!format) return format.error();
  const auto text = read_file(file);
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
