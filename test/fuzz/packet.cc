// A packet of any bytes, down to the operations in its body: taken apart, or refused, without a
// look beyond its end; what was taken apart and is put together again is the same.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <vector>

#include "input.h"
#include "network/packet.h"
#include "transport/codec.h"
#include "transport/operation.h"

namespace {

using namespace mtl;
using fuzz::require;

/// Whether `again` is what was read, but for the bytes that are reserved, which are written as 0.
void require_same(std::span<const std::byte> again, std::span<const std::byte> read,
                  std::initializer_list<std::size_t> reserved, const char* what) {
  std::vector<std::byte> wanted(read.begin(), read.end());
  for (const std::size_t at : reserved) wanted[at] = std::byte{0};
  require(std::equal(again.begin(), again.end(), wanted.begin(), wanted.end()), what);
}

void look_into_echo(std::span<const std::byte> packet) {
  const auto echo = network::decode_echo(packet);
  if (!echo) return;
  require(packet.size() >= network::kHeader + network::kEchoHeader + network::kCrc,
          "an echo has its header");
  std::array<std::byte, network::kEchoHeader> again;
  network::encode(*echo, again.data());
  require_same(again, packet.subspan(network::kHeader, again.size()), {1, 6, 7},
               "an echo is written as it was read");
}

void require_same(const transport::Operation& a, const transport::Operation& b) {
  require(a.opcode == b.opcode && a.flags == b.flags && a.key == b.key && a.offset == b.offset &&
              a.imm == b.imm && a.tag == b.tag && a.id == b.id && a.total == b.total &&
              a.at == b.at && a.limit == b.limit && a.status == b.status && a.psn == b.psn &&
              a.op == b.op && a.type == b.type &&
              std::equal(a.data.begin(), a.data.end(), b.data.begin(), b.data.end()),
          "an operation is written as it was read");
}

void look_into_operations(const transport::Packet& packet) {
  const auto count = transport::count_operations(packet.flow(), packet.unordered(), packet.body);
  if (!count) return;
  transport::OperationReader reader(packet.body);
  transport::Operation operation;
  std::vector<std::byte> room(packet.body.size());
  transport::OperationWriter writer(room);
  std::size_t read = 0;
  while (reader.next(operation)) {
    ++read;
    const auto* begin = operation.data.data();
    require(operation.data.empty() ||
                (begin >= packet.body.data() &&
                 begin + operation.data.size() <= packet.body.data() + packet.body.size()),
            "data lies in the body");
    require(transport::head_size(operation) <= transport::kMaxHead, "no head is longer");
    require(
        transport::head_size(operation) + transport::padded(operation.data.size()) <= writer.left(),
        "it takes as much room again");
    writer.put_head(operation);
    writer.put_data(operation.data);
  }
  require(read == *count, "as many are read as were counted");
  require(writer.size() == packet.body.size(), "all of the body is operations");
  const auto again = transport::count_operations(packet.flow(), packet.unordered(), room);
  require(again == count, "what was written can be read");
  transport::OperationReader first(packet.body), second(room);
  transport::Operation written;
  while (first.next(operation)) {
    require(second.next(written), "as many are written as were read");
    require_same(operation, written);
  }
}

void look_into_transport(std::span<const std::byte> bytes) {
  const auto packet = transport::decode(bytes);
  if (!packet) return;
  require(packet->body.size() + transport::kOverhead == bytes.size(), "the rest is body");
  std::array<std::byte, transport::kHeader> header, came;
  transport::encode(packet->header, header.data());
  std::memcpy(came.data(), &bytes[network::kHeader], came.size());
  came[1] &= std::byte{0x0F};  // the rest is reserved, and ignored
  require(header == came, "a header that was let through is written as it was");
  switch (packet->header.type) {
    case transport::Type::kOpen: {
      std::array<std::byte, transport::kOpenBody> again;
      transport::encode(transport::decode_open(packet->body), again.data());
      // It may be longer (T3): a later version's.
      require_same(again, packet->body.first(again.size()), {},
                   "an OPEN is written as it was read");
      break;
    }
    case transport::Type::kReject: {
      std::array<std::byte, transport::kRejectBody> again;
      transport::encode(transport::decode_reject(packet->body), again.data());
      require_same(again, packet->body, {1, 2, 3}, "a REJECT is written as it was read");
      break;
    }
    case transport::Type::kData:
      look_into_operations(*packet);
      break;
    case transport::Type::kAck: {
      const transport::AckBody body(packet->body);
      std::vector<std::uint32_t> words;
      for (std::size_t i = 0; i < body.words(); ++i) words.push_back(body.word(i));
      std::vector<std::byte> again(packet->body.size());
      transport::encode_ack(body.held(), words, again.data());
      require_same(again, packet->body, {}, "an ACK is written as it was read");
      require(body.extent() <= body.words() * transport::kWordBits, "no bit beyond the words");
      break;
    }
    case transport::Type::kClose:
      break;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < network::kMinPacket) return 0;
  // Of its own size: a look beyond it is found.
  const std::vector<std::byte> packet(reinterpret_cast<const std::byte*>(data),
                                      reinterpret_cast<const std::byte*>(data) + size);
  const network::Header header = network::decode(packet);
  std::array<std::byte, network::kHeader> again;
  network::encode(header, again.data());
  require_same(again, std::span(packet).first(again.size()), {3},
               "a network header is written as it was read");
  if (header.proto == static_cast<std::uint8_t>(network::Proto::kEcho)) look_into_echo(packet);
  look_into_transport(packet);
  return 0;
}
