#include "conformance/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/byte_order.h"
#include "base/crc32c.h"
#include "conformance/hex.h"
#include "link/codec.h"

namespace mtl::conformance {
namespace {

using Bytes = std::span<const std::byte>;
using Fields = std::vector<DescribedField>;

constexpr std::size_t kEtherTypeAt = 12;
constexpr std::size_t kLinkCrcAt = 12;   // within the link header
constexpr std::size_t kShownBytes = 64;  // of a payload or of a body that cannot be taken apart

template <class T>
void add(Fields& fields, std::string_view field, const T& value) {
  fields.push_back({std::string(field), fmt::format("{}", value)});
}

/// Bytes as digits, cut to what a reader can use.
std::string digits(Bytes bytes) {
  if (bytes.size() <= kShownBytes) return to_hex(bytes);
  return fmt::format("{}.. ({} bytes, CRC-32C {:08x})", to_hex(bytes.first(kShownBytes)),
                     bytes.size(), crc32c_portable(bytes));
}

std::string crc_text(std::uint32_t found, std::uint32_t right) {
  return found == right ? fmt::format("{:08x} good", found)
                        : fmt::format("{:08x} WRONG, {:08x} is right", found, right);
}

std::string_view kind_name(unsigned kind) {
  constexpr std::array<std::string_view, link::kKinds> kNames{"DATA", "STATUS", "NACK", "INIT",
                                                              "CLOSE"};
  return kind < kNames.size() ? kNames[kind] : "unknown kind";
}

std::string flags_text(std::uint8_t flags) {
  std::string text = fmt::format("{}", flags);
  if ((flags & link::kFlagReplay) != 0) text += " REPLAY";
  if ((flags & link::kFlagEcho) != 0) text += " ECHO";
  if ((flags & link::kFlagPoll) != 0) text += " POLL";
  return text;
}

void add_packet(Fields& fields, Bytes packet) {
  if (packet.size() < link::kMinPacket) return add(fields, "packet", digits(packet));
  const std::byte* p = packet.data();
  const std::size_t crc_at = packet.size() - 4;
  add(fields, "hop_limit", load8(p));
  add(fields, "packet flags", load8(p + 1));
  add(fields, "class", load8(p + 2) >> 4);
  add(fields, "proto", load8(p + 2) & 0x0F);
  add(fields, "byte 3", load8(p + 3));
  add(fields, "dst", load16(p + 4));
  add(fields, "src", load16(p + 6));
  add(fields, "entropy", load16(p + 8));
  add(fields, "partition", load16(p + 10));
  add(fields, "payload",
      digits(packet.subspan(link::kNetworkHeader, crc_at - link::kNetworkHeader)));
  add(fields, "packet CRC",
      crc_text(load32(p + crc_at), crc32c_portable(packet.subspan(2, crc_at - 2))));
}

void add_init(Fields& fields, Bytes body) {
  if (body.size() != link::kInitBody) return add(fields, "body", digits(body));
  const std::byte* p = body.data();
  add(fields, "nonce", load32(p));
  add(fields, "peer_nonce", load32(p + 4));
  add(fields, "node", load16(p + 8));
  add(fields, "port", load16(p + 10));
  add(fields, "mtu", load16(p + 12));
  add(fields, "INIT epoch", load8(p + 14));
  add(fields, "vcs", load8(p + 15));
  add(fields, "cell", load16(p + 16));
  add(fields, "window", load16(p + 18));
  for (std::size_t vc = 0; vc < kVcs; ++vc) {
    add(fields, fmt::format("capacity[{}]", vc), load16(p + 20 + 2 * vc));
  }
  add(fields, "capabilities", load32(p + 36));
}

void add_status(Fields& fields, Bytes body) {
  if (body.size() != link::kStatusBody) return add(fields, "body", digits(body));
  const std::byte* p = body.data();
  for (std::size_t vc = 0; vc < kVcs; ++vc) {
    add(fields, fmt::format("allocation[{}]", vc), load16(p + 2 * vc));
  }
  add(fields, "t_tx", load32(p + 16));
  add(fields, "t_echo", load32(p + 20));
}

void add_ranges(Fields& fields, Bytes body) {
  if (body.size() % link::kNackRange != 0) return add(fields, "body", digits(body));
  for (std::size_t at = 0; at < body.size(); at += link::kNackRange) {
    add(fields, fmt::format("range {}", at / link::kNackRange),
        fmt::format("{} x {}", load16(body.data() + at), load16(body.data() + at + 2)));
  }
}

void add_close(Fields& fields, Bytes body) {
  if (body.size() != link::kCloseBody) return add(fields, "body", digits(body));
  add(fields, "reason", load8(body.data()));
  add(fields, "zeros", digits(body.subspan(1)));
}

void add_body(Fields& fields, unsigned kind, Bytes body) {
  switch (static_cast<link::Kind>(kind)) {
    case link::Kind::kData:
      return add_packet(fields, body);
    case link::Kind::kStatus:
      return add_status(fields, body);
    case link::Kind::kNack:
      return add_ranges(fields, body);
    case link::Kind::kInit:
      return add_init(fields, body);
    case link::Kind::kClose:
      return add_close(fields, body);
  }
  add(fields, "body", digits(body));
}

/// L1, over what the frame's own length says is the body.
std::uint32_t header_crc(Bytes header, unsigned kind, Bytes body) {
  const bool data = kind == static_cast<unsigned>(link::Kind::kData);
  const Bytes covered = data ? body.first(std::min(body.size(), link::kNetworkHeader)) : body;
  std::vector<std::byte> all(header.begin(), header.begin() + kLinkCrcAt);
  all.insert(all.end(), covered.begin(), covered.end());
  return crc32c_portable(all);
}

void add_link_header(Fields& fields, Bytes header, Bytes body) {
  const std::byte* p = header.data();
  const unsigned kind = load8(p) & 0x0FU;
  add(fields, "version", load8(p) >> 4);
  add(fields, "kind", fmt::format("{} {}", kind, kind_name(kind)));
  add(fields, "epoch", load8(p + 1));
  add(fields, "length", load16(p + 2));
  add(fields, "seq", load16(p + 4));
  add(fields, "ack", load16(p + 6));
  add(fields, "vc", load8(p + 8) >> 4);
  add(fields, "credit_vc", load8(p + 8) & 0x0F);
  add(fields, "flags", flags_text(load8(p + 9)));
  add(fields, "credit", load16(p + 10));
  add(fields, "header CRC", crc_text(load32(p + kLinkCrcAt), header_crc(header, kind, body)));
}

std::string padding_text(Bytes padding) {
  const bool zeros =
      std::all_of(padding.begin(), padding.end(), [](std::byte b) { return b == std::byte{0}; });
  return zeros ? fmt::format("{} zeros", padding.size()) : digits(padding);
}

const std::string* value_of(const Fields& fields, std::string_view field) {
  const auto at =
      std::find_if(fields.begin(), fields.end(), [&](const auto& f) { return f.name == field; });
  return at == fields.end() ? nullptr : &at->value;
}

struct FieldRule {
  std::string_view field;
  std::string_view rule;
};
/// Which rule decides a field. Names with an index stand without it.
constexpr FieldRule kFieldRules[] = {
    {"frame bytes", "P4"},   {"to MAC", "P2"},      {"from MAC", "C3"},   {"EtherType", "P1"},
    {"version", "L3"},       {"kind", "L26"},       {"epoch", "L3"},      {"length", "L3"},
    {"seq", "L10, L18"},     {"ack", "L2"},         {"vc", "N1"},         {"credit_vc", "L24"},
    {"flags", "L17, L18a"},  {"credit", "L20"},     {"header CRC", "L1"}, {"hop_limit", "N6"},
    {"packet flags", "N12"}, {"class", "N1"},       {"proto", "N11"},     {"dst", "N7"},
    {"src", "N11"},          {"entropy", "N11"},    {"partition", "N11"}, {"payload", "N11"},
    {"packet CRC", "N2"},    {"nonce", "L4"},       {"peer_nonce", "L6"}, {"INIT epoch", "L4"},
    {"vcs", "L6"},           {"allocation", "L20"}, {"t_tx", "C1"},       {"t_echo", "L19"},
    {"range", "L15"},        {"reason", "L8"},      {"padding", "P4"},
};

std::string rule_of(std::string_view field) {
  const std::string_view plain = field.substr(0, field.find('['));
  for (const FieldRule& entry : kFieldRules) {
    const bool indexed = entry.field == "range" && field.starts_with("range ");
    if (entry.field == plain || indexed) return std::string(entry.rule);
  }
  return {};
}

/// Names of both, those of `got` alone behind the common name that they follow.
std::vector<std::string> merged_names(const Fields& expected, const Fields& got) {
  std::vector<std::string> names;
  for (const auto& field : expected) names.push_back(field.name);
  auto place = names.begin();
  for (const auto& field : got) {
    const auto found = std::find(names.begin(), names.end(), field.name);
    place = (found == names.end() ? names.insert(place, field.name) : found) + 1;
  }
  return names;
}

}  // namespace

std::vector<DescribedField> describe(std::span<const std::byte> frame) {
  Fields fields;
  add(fields, "frame bytes", frame.size());
  if (frame.size() < link::kFrameHeader) {
    add(fields, "content", digits(frame));
    return fields;
  }
  Mac destination;
  Mac source;
  std::memcpy(destination.data(), frame.data(), destination.size());
  std::memcpy(source.data(), frame.data() + destination.size(), source.size());
  add(fields, "to MAC", to_text(destination));
  add(fields, "from MAC", to_text(source));
  add(fields, "EtherType", fmt::format("{:04x}", load16(frame.data() + kEtherTypeAt)));

  const Bytes header = frame.subspan(link::kEthernetHeader, link::kLinkHeader);
  const Bytes rest = frame.subspan(link::kFrameHeader);
  const std::size_t length = std::min<std::size_t>(load16(header.data() + 2), rest.size());
  add_link_header(fields, header, rest.first(length));
  add_body(fields, load8(header.data()) & 0x0FU, rest.first(length));
  add(fields, "padding", padding_text(rest.subspan(length)));
  return fields;
}

std::vector<FieldDifference> differing_fields(std::span<const std::byte> expected,
                                              std::span<const std::byte> got) {
  const Fields left = describe(expected);
  const Fields right = describe(got);
  std::vector<FieldDifference> differences;
  for (const std::string& field : merged_names(left, right)) {
    const std::string* l = value_of(left, field);
    const std::string* r = value_of(right, field);
    if (l != nullptr && r != nullptr && *l == *r) continue;
    differences.push_back({field, l == nullptr ? "" : *l, r == nullptr ? "" : *r, rule_of(field)});
  }
  return differences;
}

std::string summary(std::span<const std::byte> frame) {
  if (frame.size() < link::kFrameHeader) return fmt::format("{} bytes, too short", frame.size());
  const std::byte* p = frame.data() + link::kEthernetHeader;
  const unsigned kind = load8(p) & 0x0FU;
  return fmt::format("{} epoch {} seq {} ack {} vc {} credit_vc {} flags {} credit {} length {}",
                     kind_name(kind), load8(p + 1), load16(p + 4), load16(p + 6), load8(p + 8) >> 4,
                     load8(p + 8) & 0x0F, flags_text(load8(p + 9)), load16(p + 10), load16(p + 2));
}

std::string side_by_side(const std::optional<std::vector<std::byte>>& expected,
                         const std::optional<std::vector<std::byte>>& got,
                         const std::string& indent) {
  const Fields left = expected ? describe(*expected) : Fields{};
  const Fields right = got ? describe(*got) : Fields{};
  const auto names = merged_names(left, right);
  std::size_t width = std::string_view("expected").size();
  for (const auto& field : left) width = std::max(width, field.value.size());
  std::string text = fmt::format("{}  {:<13}  {:<{}} | got\n", indent, "field", "expected", width);
  for (const std::string& field : names) {
    const std::string* l = value_of(left, field);
    const std::string* r = value_of(right, field);
    const bool same = l != nullptr && r != nullptr && *l == *r;
    const std::string rule = same ? std::string() : rule_of(field);
    text += fmt::format("{}{} {:<13}  {:<{}} | {}{}\n", indent, same ? ' ' : '*', field,
                        l == nullptr ? "-" : *l, width, r == nullptr ? "-" : *r,
                        rule.empty() ? "" : "   (" + rule + ")");
  }
  return text;
}

std::uint32_t right_header_crc(std::span<const std::byte> frame) {
  const Bytes header = frame.subspan(link::kEthernetHeader, link::kLinkHeader);
  const Bytes rest = frame.subspan(link::kFrameHeader);
  const std::size_t length = std::min<std::size_t>(load16(header.data() + 2), rest.size());
  return header_crc(header, load8(header.data()) & 0x0FU, rest.first(length));
}

std::string time_text(Time at) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const std::int64_t n = nanos(at);
  const std::int64_t part = n % kSecond;
  return fmt::format("{}.{:03} {:03} {:03} s", n / kSecond, part / 1'000'000, part / 1'000 % 1'000,
                     part % 1'000);
}

}  // namespace mtl::conformance
