// Captures of every form, made byte by byte here, and what is wrong with damaged ones.

#include "conformance/capture_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

namespace mtl::conformance {
namespace {

/// Bytes of a file in one byte order.
class Bytes {
 public:
  explicit Bytes(bool big) : big_(big) {}
  Bytes& u8(std::uint8_t value) { return number(value, 1); }
  Bytes& u16(std::uint16_t value) { return number(value, 2); }
  Bytes& u32(std::uint32_t value) { return number(value, 4); }
  Bytes& u64(std::uint64_t value) { return number(value, 8); }
  Bytes& add(const std::vector<std::uint8_t>& more) {
    all_.insert(all_.end(), more.begin(), more.end());
    return *this;
  }
  Bytes& pad() {
    while (all_.size() % 4 != 0) all_.push_back(0);
    return *this;
  }
  Bytes& option(std::uint16_t code, const std::vector<std::uint8_t>& value) {
    u16(code).u16(static_cast<std::uint16_t>(value.size())).add(value);
    return pad();
  }
  Bytes& block(std::uint32_t type, const Bytes& body) {
    const auto length = static_cast<std::uint32_t>(body.all_.size() + 12);
    return u32(type).u32(length).add(body.all_).u32(length);
  }
  Bytes make() const { return Bytes(big_); }
  const std::vector<std::uint8_t>& all() const { return all_; }
  std::vector<std::uint8_t>& all() { return all_; }
  bool big() const { return big_; }

 private:
  Bytes& number(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) {
      const int shift = 8 * (big_ ? bytes - 1 - i : i);
      all_.push_back(static_cast<std::uint8_t>(value >> shift));
    }
    return *this;
  }

  bool big_;
  std::vector<std::uint8_t> all_;
};

struct Read {
  std::uint64_t number;
  std::uint32_t interface;
  std::int64_t at;
  std::vector<std::uint8_t> bytes;
  std::size_t length;
  friend bool operator==(const Read&, const Read&) = default;
};

class Capture : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string("capture_reader_") + info->name();
    std::replace(name.begin(), name.end(), '/', '_');
    path_ = std::filesystem::path(testing::TempDir()) / name;
  }
  void TearDown() override { std::filesystem::remove(path_); }

  /// What the file gives; its error, if it ended with one, in error_.
  std::vector<Read> read(const std::vector<std::uint8_t>& file) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char*>(file.data()),
               static_cast<std::streamsize>(file.size()));
    error_.clear();
    std::vector<Read> all;
    auto reader = CaptureReader::open(path_);
    if (!reader) {
      error_ = reader.error().message;
      return all;
    }
    CaptureRecord record;
    for (;;) {
      const auto more = reader->next(record);
      if (!more) error_ = more.error().message;
      if (!more || !*more) break;
      Read one{record.number, record.interface, nanos(record.at), {}, record.length};
      for (const std::byte b : record.bytes) one.bytes.push_back(std::to_integer<std::uint8_t>(b));
      all.push_back(std::move(one));
    }
    interfaces_ = reader->interfaces();
    cut_off_ = reader->cut_off();
    return all;
  }

  std::filesystem::path path_;
  std::string error_;
  std::vector<CaptureInterface> interfaces_;
  bool cut_off_ = false;
};

Bytes classic(bool big, std::uint32_t magic, std::uint32_t link_type = 1) {
  Bytes file(big);
  file.u32(magic).u16(2).u16(4).u32(0).u32(0).u32(65535).u32(link_type);
  return file;
}

Bytes section(bool big) {
  Bytes file(big);
  file.block(0x0A0D0D0A, file.make().u32(0x1A2B3C4D).u16(1).u16(0).u64(~std::uint64_t{0}));
  return file;
}

Bytes interface_block(const Bytes& file, std::uint16_t link_type = 1) {
  return file.make().u16(link_type).u16(0).u32(0);
}

TEST_P(Capture, ClassicMicroseconds) {
  Bytes file = classic(GetParam(), 0xA1B2C3D4);
  file.u32(3).u32(999'999).u32(3).u32(100).add({1, 2, 3});
  file.u32(4).u32(0).u32(2).u32(2).add({4, 5});
  EXPECT_EQ(read(file.all()), (std::vector<Read>{{1, 0, 3'999'999'000, {1, 2, 3}, 100},
                                                 {2, 0, 4'000'000'000, {4, 5}, 2}}));
  EXPECT_EQ(error_, "");
  EXPECT_FALSE(cut_off_);
}

TEST_P(Capture, ClassicNanoseconds) {
  Bytes file = classic(GetParam(), 0xA1B23C4D);
  file.u32(0x80000000).u32(123'456'789).u32(1).u32(1).add({9});
  EXPECT_EQ(read(file.all()), (std::vector<Read>{{1, 0, 2'147'483'648'123'456'789, {9}, 1}}));
}

TEST_P(Capture, ClassicWithFcs) {
  // The link type says that each frame ends with two 16-bit words of FCS.
  Bytes file = classic(GetParam(), 0xA1B2C3D4, 0x24000001);
  file.u32(0).u32(0).u32(6).u32(6).add({1, 2, 3, 4, 5, 6});
  file.u32(0).u32(0).u32(3).u32(6).add({1, 2, 3});
  EXPECT_EQ(read(file.all()), (std::vector<Read>{{1, 0, 0, {1, 2}, 2}, {2, 0, 0, {1, 2}, 2}}));
  EXPECT_TRUE(interfaces_.at(0).ethernet());
}

// The interface says how long its FCS are, a packet's flags say otherwise (bits 5 to 8).
TEST_P(Capture, PcapngWithFcs) {
  Bytes file = section(GetParam());
  file.block(1, interface_block(file).option(13, {4}).option(0, {}));
  const auto packet = [&](std::uint32_t flags) {
    Bytes bytes(GetParam());
    file.block(6, file.make()
                      .u32(0)
                      .u32(0)
                      .u32(0)
                      .u32(6)
                      .u32(6)
                      .add({1, 2, 3, 4, 5, 6})
                      .pad()
                      .option(2, bytes.u32(flags).all())
                      .option(0, {}));
  };
  packet(1);  // inbound: nothing of the FCS
  packet(2U << 5 | 1);
  EXPECT_EQ(read(file.all()),
            (std::vector<Read>{{1, 0, 0, {1, 2}, 2}, {2, 0, 0, {1, 2, 3, 4}, 4}}));
}

TEST_P(Capture, ManyInterfacesEachWithItsTimes) {
  Bytes file = section(GetParam());
  file.block(1, interface_block(file).option(2, {'e', 't', 'h', '0'}).option(0, {}));
  file.block(1, interface_block(file).option(9, {9}));          // nanoseconds
  file.block(1, interface_block(file).option(9, {0x80 | 20}));  // 2^-20 s
  Bytes offset = file.make();
  offset.u64(100);
  file.block(1, interface_block(file, 113).option(14, offset.all()));  // 100 s later; SLL
  const auto packet = [&](std::uint32_t interface, std::uint64_t at,
                          const std::vector<std::uint8_t>& bytes, std::uint32_t length) {
    file.block(6, file.make()
                      .u32(interface)
                      .u32(static_cast<std::uint32_t>(at >> 32))
                      .u32(static_cast<std::uint32_t>(at))
                      .u32(static_cast<std::uint32_t>(bytes.size()))
                      .u32(length)
                      .add(bytes)
                      .pad());
  };
  packet(0, 5'000'001, {1, 2, 3}, 3);
  packet(1, 5'000'000'001, {4}, 64);
  packet(2, (5U << 20) + (1U << 19), {}, 0);
  packet(3, 1'000'000, {5}, 1);
  file.block(5, file.make().u32(1).u32(0).u32(0).option(5, [&] {
    Bytes drops = file.make();
    return drops.u64(17).all();
  }()));
  EXPECT_EQ(read(file.all()), (std::vector<Read>{{1, 0, 5'000'001'000, {1, 2, 3}, 3},
                                                 {2, 1, 5'000'000'001, {4}, 64},
                                                 {3, 2, 5'500'000'000, {}, 0},
                                                 {4, 3, 101'000'000'000, {5}, 1}}));
  EXPECT_EQ(error_, "");
  ASSERT_EQ(interfaces_.size(), 4U);
  EXPECT_EQ(interfaces_[0].name, "eth0");
  EXPECT_EQ(interfaces_[1].missed, 17U);
  EXPECT_FALSE(interfaces_[3].ethernet());
}

TEST_P(Capture, OlderAndSimplerPackets) {
  Bytes file = section(GetParam());
  file.block(1, file.make().u16(1).u16(0).u32(2));  // snap length 2
  file.block(2, file.make().u16(0).u16(0).u32(0).u32(7).u32(1).u32(1).add({8}).pad());
  file.block(3, file.make().u32(5).add({1, 2}).pad());
  EXPECT_EQ(read(file.all()), (std::vector<Read>{{1, 0, 7'000, {8}, 1}, {2, 0, 0, {1, 2}, 5}}));
}

// A packet tells how many were missed since the one before, statistics how many in all.
TEST_P(Capture, WhatTheCaptureItselfMissed) {
  const auto u64 = [&](std::uint64_t value) {
    Bytes bytes(GetParam());
    return bytes.u64(value).all();
  };
  Bytes file = section(GetParam());
  for (int i = 0; i < 3; ++i) file.block(1, interface_block(file));
  const auto dropped = [&](std::uint64_t count) {
    file.block(6, file.make()
                      .u32(0)
                      .u32(0)
                      .u32(1)
                      .u32(1)
                      .u32(1)
                      .add({1})
                      .pad()
                      .option(4, u64(count))
                      .option(0, {}));
  };
  dropped(2);
  dropped(3);
  file.block(2, file.make().u16(1).u16(4).u32(0).u32(1).u32(1).u32(1).add({1}).pad());
  file.block(2, file.make().u16(1).u16(0xFFFF).u32(0).u32(1).u32(1).u32(1).add({1}).pad());
  file.block(5, file.make().u32(2).u32(0).u32(0).option(5, u64(6)).option(7, u64(1)));
  file.block(5, file.make().u32(2).u32(0).u32(0).option(5, u64(7)).option(7, u64(1)));
  EXPECT_EQ(read(file.all()).size(), 4U);
  ASSERT_EQ(interfaces_.size(), 3U);
  EXPECT_EQ(interfaces_[0].missed, 5U);
  EXPECT_EQ(interfaces_[1].missed, 4U);
  EXPECT_EQ(interfaces_[2].missed, 8U);
}

TEST_P(Capture, SectionsOfEitherByteOrder) {
  Bytes file = section(GetParam());
  file.block(1, interface_block(file));
  file.block(6, file.make().u32(0).u32(0).u32(1).u32(1).u32(1).add({1}).pad());
  Bytes second = section(!GetParam());
  second.block(0x80000001, second.make().u32(0));  // unknown: passed over
  second.block(1, interface_block(second));
  second.block(6, second.make().u32(0).u32(0).u32(2).u32(1).u32(1).add({2}).pad());
  file.add(second.all());
  EXPECT_EQ(read(file.all()), (std::vector<Read>{{1, 0, 1'000, {1}, 1}, {2, 1, 2'000, {2}, 1}}));
  ASSERT_EQ(interfaces_.size(), 2U);
  EXPECT_EQ(interfaces_[0].section, 0U);
  EXPECT_EQ(interfaces_[1].section, 1U);
}

TEST_P(Capture, EndsWithinARecord) {
  Bytes file = classic(GetParam(), 0xA1B2C3D4);
  file.u32(0).u32(0).u32(1).u32(1).add({1});
  const std::size_t whole = file.all().size();
  file.u32(0).u32(0).u32(4).u32(4).add({1, 2, 3, 4});
  for (std::size_t length = whole + 1; length < file.all().size(); ++length) {
    const std::vector<std::uint8_t> part(file.all().begin(),
                                         file.all().begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_EQ(read(part).size(), 1U);
    EXPECT_EQ(error_, "");
    EXPECT_TRUE(cut_off_) << length;
  }
}

TEST_P(Capture, EachLengthOfAPcapng) {
  Bytes file = section(GetParam());
  file.block(1, interface_block(file).option(9, {9}));
  file.block(6, file.make().u32(0).u32(0).u32(1).u32(3).u32(3).add({1, 2, 3}).pad());
  for (std::size_t length = 0; length < file.all().size(); ++length) {
    const std::vector<std::uint8_t> part(file.all().begin(),
                                         file.all().begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_TRUE(read(part).empty());
  }
  EXPECT_EQ(read(file.all()).size(), 1U);
}

TEST_P(Capture, DamagedOnesSayWhereAndWhat) {
  Bytes huge = classic(GetParam(), 0xA1B2C3D4);
  huge.u32(0).u32(0).u32(0x7FFFFFFF).u32(1);
  read(huge.all());
  EXPECT_NE(error_.find("at byte 24"), std::string::npos) << error_;
  Bytes time = classic(GetParam(), 0xA1B2C3D4);
  time.u32(0).u32(1'000'000).u32(0).u32(0);
  read(time.all());
  EXPECT_NE(error_.find("parts of a second"), std::string::npos) << error_;

  const auto ng = [&](const auto& add) {
    Bytes file = section(GetParam());
    file.block(1, interface_block(file));
    add(file);
    EXPECT_TRUE(read(file.all()).empty());
    return error_;
  };
  EXPECT_NE(ng([](Bytes& f) { f.u32(6).u32(13).u32(0).u32(0).u32(0); }).find("a block of 13"),
            std::string::npos);
  EXPECT_NE(ng([](Bytes& f) { f.u32(6).u32(12).u32(16); }).find("ends otherwise"),
            std::string::npos);
  EXPECT_NE(ng([](Bytes& f) {
              f.block(6, f.make().u32(1).u32(0).u32(0).u32(0).u32(0));
            }).find("no block describes"),
            std::string::npos);
  EXPECT_NE(ng([](Bytes& f) {
              f.block(6, f.make().u32(0).u32(0).u32(0).u32(100).u32(100).u32(0));
            }).find("100 bytes"),
            std::string::npos);
  EXPECT_NE(ng([](Bytes& f) {
              f.block(6, f.make().u32(0).u32(0xFFFFFFFF).u32(0).u32(0).u32(0));
            }).find("centuries"),
            std::string::npos);
  EXPECT_NE(ng([](Bytes& f) { f.block(1, interface_block(f).option(9, {20})); }).find("finer"),
            std::string::npos);
}

// 2^32 s either way of 1970, offset included: differences must fit, too.
TEST_P(Capture, HowFarTimesGo) {
  const auto with = [&](std::int64_t offset, std::uint64_t seconds) {
    Bytes file = section(GetParam());
    Bytes bytes(GetParam());
    bytes.u64(static_cast<std::uint64_t>(offset));
    file.block(1, interface_block(file).option(9, {0}).option(14, bytes.all()));
    file.block(6, file.make()
                      .u32(0)
                      .u32(static_cast<std::uint32_t>(seconds >> 32))
                      .u32(static_cast<std::uint32_t>(seconds))
                      .u32(0)
                      .u32(0));
    const auto all = read(file.all());
    return all.empty() ? error_ : std::to_string(all[0].at);
  };
  const std::int64_t most = 1LL << 32;
  EXPECT_EQ(with(most - 1, 0), "4294967295000000000");
  EXPECT_EQ(with(1, static_cast<std::uint64_t>(most) - 2), "4294967295000000000");
  EXPECT_EQ(with(-most, 0), "-4294967296000000000");
  for (const auto& error : {with(most - 1, 1), with(most, 0), with(-most - 1, 0), with(most, 5),
                            with(INT64_MIN, 0), with(INT64_MAX, UINT32_MAX)}) {
    EXPECT_NE(error.find("centuries"), std::string::npos) << error;
  }
}

TEST_P(Capture, WhatIsNoCapture) {
  read({});
  EXPECT_NE(error_.find("no pcap"), std::string::npos) << error_;
  read({'{', ' ', '}', '\n', '\n'});
  EXPECT_NE(error_.find("7b207d0a"), std::string::npos) << error_;
  EXPECT_FALSE(CaptureReader::open(path_.string() + ".none"));
  const auto folder = CaptureReader::open(testing::TempDir());
  ASSERT_FALSE(folder);
  EXPECT_NE(folder.error().message.find("cannot be read"), std::string::npos);
}

// Records of many sizes across the buffer's ends, and one longer than it.
TEST_P(Capture, AnySizeOfRecord) {
  Bytes file = classic(GetParam(), 0xA1B2C3D4);
  std::vector<std::size_t> sizes;
  for (std::size_t size = 1; size < 70'000; size += 997) sizes.push_back(size);
  sizes.push_back(3 << 20);
  sizes.push_back(5);
  for (const std::size_t size : sizes) {
    const auto length = static_cast<std::uint32_t>(size);
    file.u32(0).u32(0).u32(length).u32(length);
    file.add(std::vector<std::uint8_t>(size, static_cast<std::uint8_t>(size)));
  }
  const auto all = read(file.all());
  EXPECT_EQ(error_, "");
  ASSERT_EQ(all.size(), sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(all[i].bytes,
              std::vector<std::uint8_t>(sizes[i], static_cast<std::uint8_t>(sizes[i])));
  }
}

INSTANTIATE_TEST_SUITE_P(Orders, Capture, testing::Bool(),
                         [](const auto& param) { return param.param ? "Big" : "Little"; });

}  // namespace
}  // namespace mtl::conformance
