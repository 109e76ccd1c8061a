#include "phy/memif/memif_message.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace mtl::phy {
namespace {

static_assert(std::endian::native == std::endian::little, "memif peers share the host's order");

constexpr std::uint16_t kToServer = 1;  // flag of ADD_RING

/// Puts fields one after the other, the type first.
class Writer {
 public:
  explicit Writer(MemifType type) { put(static_cast<std::uint16_t>(type)); }
  template <class T>
  void put(T value) {
    std::memcpy(bytes_.data() + at_, &value, sizeof value);
    at_ += sizeof value;
  }
  void text(std::string_view text, std::size_t field) {
    // The last byte stays zero: peers read a string.
    std::memcpy(bytes_.data() + at_, text.data(), std::min(text.size(), field - 1));
    at_ += field;
  }
  MemifBytes bytes() const { return bytes_; }

 private:
  MemifBytes bytes_{};
  std::size_t at_ = 0;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class T>
  T get() {
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  template <class T>
  void get(T& value) {
    value = get<T>();
  }
  std::string text(std::size_t field) {
    std::string out;
    for (std::size_t i = 0; i < field && bytes_[at_ + i] != std::byte{0}; ++i) {
      const char c = static_cast<char>(bytes_[at_ + i]);
      out += c >= ' ' && c <= '~' ? c : '?';
    }
    at_ += field;
    return out;
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

MemifBytes bytes(const MemifAck&) {
  return Writer(MemifType::kAck).bytes();
}

MemifBytes bytes(const MemifHello& m) {
  Writer out(MemifType::kHello);
  out.text(m.name, kMemifName);
  out.put(m.min_version);
  out.put(m.max_version);
  out.put(m.max_region);
  out.put(m.max_s2c_ring);
  out.put(m.max_c2s_ring);
  out.put(m.max_log2_ring);
  return out.bytes();
}

MemifBytes bytes(const MemifInit& m) {
  Writer out(MemifType::kInit);
  out.put(m.version);
  out.put(m.id);
  out.put(m.mode);
  out.put(m.secret);
  out.text(m.name, kMemifName);
  return out.bytes();
}

MemifBytes bytes(const MemifAddRegion& m) {
  Writer out(MemifType::kAddRegion);
  out.put(m.index);
  out.put(m.size);
  return out.bytes();
}

MemifBytes bytes(const MemifAddRing& m) {
  Writer out(MemifType::kAddRing);
  out.put(m.to_server ? kToServer : std::uint16_t{0});
  out.put(m.index);
  out.put(m.region);
  out.put(m.offset);
  out.put(m.log2_ring);
  return out.bytes();
}

MemifBytes bytes(const MemifConnect& m) {
  Writer out(MemifType::kConnect);
  out.text(m.name, kMemifName);
  return out.bytes();
}

MemifBytes bytes(const MemifConnected& m) {
  Writer out(MemifType::kConnected);
  out.text(m.name, kMemifName);
  return out.bytes();
}

MemifBytes bytes(const MemifDisconnect& m) {
  Writer out(MemifType::kDisconnect);
  out.put(m.code);
  out.text(m.reason, kMemifReason);
  return out.bytes();
}

MemifHello hello(Reader in) {
  MemifHello m;
  m.name = in.text(kMemifName);
  in.get(m.min_version);
  in.get(m.max_version);
  in.get(m.max_region);
  in.get(m.max_s2c_ring);
  in.get(m.max_c2s_ring);
  in.get(m.max_log2_ring);
  return m;
}

MemifInit init(Reader in) {
  MemifInit m;
  in.get(m.version);
  in.get(m.id);
  in.get(m.mode);
  in.get(m.secret);
  m.name = in.text(kMemifName);
  return m;
}

MemifAddRegion add_region(Reader in) {
  MemifAddRegion m;
  in.get(m.index);
  in.get(m.size);
  return m;
}

MemifAddRing add_ring(Reader in) {
  MemifAddRing m;
  m.to_server = (in.get<std::uint16_t>() & kToServer) != 0;
  in.get(m.index);
  in.get(m.region);
  in.get(m.offset);
  in.get(m.log2_ring);
  return m;
}

MemifDisconnect disconnect(Reader in) {
  MemifDisconnect m;
  in.get(m.code);
  m.reason = in.text(kMemifReason);
  return m;
}

}  // namespace

MemifBytes encode(const MemifMessage& message) {
  return std::visit([](const auto& m) { return bytes(m); }, message);
}

std::optional<MemifMessage> decode_memif(std::span<const std::byte> bytes) {
  if (bytes.size() != kMemifMessage) return std::nullopt;
  Reader in(bytes);
  switch (static_cast<MemifType>(in.get<std::uint16_t>())) {
    case MemifType::kAck:
      return MemifAck{};
    case MemifType::kHello:
      return hello(in);
    case MemifType::kInit:
      return init(in);
    case MemifType::kAddRegion:
      return add_region(in);
    case MemifType::kAddRing:
      return add_ring(in);
    case MemifType::kConnect:
      return MemifConnect{in.text(kMemifName)};
    case MemifType::kConnected:
      return MemifConnected{in.text(kMemifName)};
    case MemifType::kDisconnect:
      return disconnect(in);
  }
  return std::nullopt;
}

MemifSecret memif_secret(std::string_view text) {
  MemifSecret out{};
  std::memcpy(out.data(), text.data(), std::min(text.size(), out.size()));
  return out;
}

}  // namespace mtl::phy
