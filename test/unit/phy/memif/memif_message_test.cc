// The layout of memif 2.0's messages: offsets and values by hand, from the published header.

#include "phy/memif/memif_message.h"

#include <gtest/gtest.h>

#include <cstring>

namespace mtl::phy {
namespace {

MemifBytes raw(std::initializer_list<int> begin) {
  MemifBytes out{};
  std::size_t at = 0;
  for (const int byte : begin) out[at++] = static_cast<std::byte>(byte);
  return out;
}

void put(MemifBytes& bytes, std::size_t at, std::initializer_list<int> values) {
  for (const int value : values) bytes[at++] = static_cast<std::byte>(value);
}

void put(MemifBytes& bytes, std::size_t at, const char* text) {
  std::memcpy(&bytes[at], text, std::strlen(text));
}

TEST(MemifMessage, AckIsItsTypeAlone) {
  EXPECT_EQ(encode(MemifAck{}), raw({1, 0}));
  EXPECT_TRUE(std::holds_alternative<MemifAck>(*decode_memif(raw({1, 0}))));
}

TEST(MemifMessage, Hello) {
  MemifBytes bytes = raw({2, 0});
  put(bytes, 2, "vpp");
  put(bytes, 34, {0, 2, 0, 2, 63, 0, 1, 0, 2, 0, 14});
  const MemifHello hello{"vpp", 0x0200, 0x0200, 63, 1, 2, 14};
  EXPECT_EQ(encode(hello), bytes);
  const auto back = std::get<MemifHello>(*decode_memif(bytes));
  EXPECT_EQ(back.name, "vpp");
  EXPECT_EQ(back.min_version, 0x0200);
  EXPECT_EQ(back.max_version, 0x0200);
  EXPECT_EQ(back.max_region, 63);
  EXPECT_EQ(back.max_s2c_ring, 1);
  EXPECT_EQ(back.max_c2s_ring, 2);
  EXPECT_EQ(back.max_log2_ring, 14);
}

TEST(MemifMessage, Init) {
  MemifBytes bytes = raw({3, 0, 0, 2, 0x44, 0x33, 0x22, 0x11, 0});
  put(bytes, 9, "hush");
  put(bytes, 33, "dpdk");
  MemifInit init;
  init.id = 0x11223344;
  init.secret = memif_secret("hush");
  init.name = "dpdk";
  EXPECT_EQ(encode(init), bytes);
  const auto back = std::get<MemifInit>(*decode_memif(bytes));
  EXPECT_EQ(back.version, 0x0200);
  EXPECT_EQ(back.id, 0x11223344u);
  EXPECT_EQ(back.mode, 0);
  EXPECT_EQ(back.secret, memif_secret("hush"));
  EXPECT_EQ(back.name, "dpdk");
}

TEST(MemifMessage, AddRegion) {
  const MemifBytes bytes = raw({4, 0, 5, 0, 0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01});
  EXPECT_EQ(encode(MemifAddRegion{5, 0x0102030405060708}), bytes);
  const auto back = std::get<MemifAddRegion>(*decode_memif(bytes));
  EXPECT_EQ(back.index, 5);
  EXPECT_EQ(back.size, 0x0102030405060708u);
}

TEST(MemifMessage, AddRing) {
  const MemifBytes bytes = raw({5, 0, 1, 0, 7, 0, 3, 0, 0x80, 0x40, 0, 0, 10});
  EXPECT_EQ(encode(MemifAddRing{true, 7, 3, 0x4080, 10}), bytes);
  const auto back = std::get<MemifAddRing>(*decode_memif(bytes));
  EXPECT_TRUE(back.to_server);
  EXPECT_EQ(back.index, 7);
  EXPECT_EQ(back.region, 3);
  EXPECT_EQ(back.offset, 0x4080u);
  EXPECT_EQ(back.log2_ring, 10);
  EXPECT_FALSE(std::get<MemifAddRing>(*decode_memif(raw({5, 0, 0, 0}))).to_server);
}

TEST(MemifMessage, ConnectAndConnected) {
  MemifBytes bytes = raw({6, 0});
  put(bytes, 2, "memif0/0");
  EXPECT_EQ(encode(MemifConnect{"memif0/0"}), bytes);
  EXPECT_EQ(std::get<MemifConnect>(*decode_memif(bytes)).name, "memif0/0");
  bytes[0] = std::byte{7};
  EXPECT_EQ(encode(MemifConnected{"memif0/0"}), bytes);
  EXPECT_EQ(std::get<MemifConnected>(*decode_memif(bytes)).name, "memif0/0");
}

TEST(MemifMessage, Disconnect) {
  MemifBytes bytes = raw({8, 0, 9, 0, 0, 0});
  put(bytes, 6, "ID not found");
  EXPECT_EQ(encode(MemifDisconnect{9, "ID not found"}), bytes);
  const auto back = std::get<MemifDisconnect>(*decode_memif(bytes));
  EXPECT_EQ(back.code, 9u);
  EXPECT_EQ(back.reason, "ID not found");
}

TEST(MemifMessage, TextsAreCutAndMadePrintable) {
  const MemifBytes bytes = encode(MemifConnect{std::string(100, 'x')});
  EXPECT_EQ(bytes[32], std::byte{'x'});
  EXPECT_EQ(bytes[33], std::byte{0}) << "the field ends with a zero";
  MemifBytes odd = raw({8, 0});
  put(odd, 6, "a\x1b[31m\nb");
  EXPECT_EQ(std::get<MemifDisconnect>(*decode_memif(odd)).reason, "a?[31m?b");
  std::memset(&odd[6], 'y', 96);  // no zero at all
  EXPECT_EQ(std::get<MemifDisconnect>(*decode_memif(odd)).reason, std::string(96, 'y'));
}

TEST(MemifMessage, UnknownTypesAndOtherLengthsAreNone) {
  EXPECT_FALSE(decode_memif(raw({0, 0})));
  EXPECT_FALSE(decode_memif(raw({9, 0})));
  EXPECT_FALSE(decode_memif(raw({1, 1})));
  const MemifBytes ack = raw({1, 0});
  EXPECT_FALSE(decode_memif(std::span(ack).first(127)));
  EXPECT_FALSE(decode_memif({}));
}

}  // namespace
}  // namespace mtl::phy
