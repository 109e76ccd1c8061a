// A packet of any bytes, down to the operations in its body: taken apart, or refused, without a
// look beyond its end; what was taken apart and is put together again is the same.

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "input.h"
#include "network/packet.h"
#include "transport/codec.h"
#include "transport/operation.h"

namespace {

using namespace mtl;
using fuzz::require;

void look_into_echo(std::span<const std::byte> packet) {
  const auto echo = network::decode_echo(packet);
  if (!echo) return;
  require(packet.size() >= network::kHeader + network::kEchoHeader + network::kCrc,
          "an echo has its header");
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
    case transport::Type::kOpen:
      transport::decode_open(packet->body);
      break;
    case transport::Type::kReject:
      transport::decode_reject(packet->body);
      break;
    case transport::Type::kData:
      look_into_operations(*packet);
      break;
    case transport::Type::kAck: {
      const transport::AckBody body(packet->body);
      for (std::size_t i = 0; i < body.words(); ++i) body.word(i);
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
  require(network::decode(again).dst == header.dst && network::decode(again).src == header.src,
          "a network header is written as it was read");
  if (header.proto == static_cast<std::uint8_t>(network::Proto::kEcho)) look_into_echo(packet);
  look_into_transport(packet);
  return 0;
}
