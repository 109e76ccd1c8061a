#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

struct nlmsghdr;

namespace mtl::phy {

/// A Linux interface as the kernel tells of it.
/// What the kernel tells of a TUN or TAP interface.
struct TunState {
  bool tap = false;
  bool multi_queue = false;
  std::optional<std::uint32_t> owner = {};  ///< the user who may use it without CAP_NET_ADMIN
  std::optional<std::uint32_t> group = {};  ///< likewise
  friend bool operator==(const TunState&, const TunState&) = default;
};

struct InterfaceState {
  std::string name;
  bool exists = false;
  int index = 0;  ///< another one means another interface, whatever its name
  bool ethernet = false;
  bool admin_up = false;  ///< `ip link set up`
  bool lower_up = false;  ///< the medium has carrier
  std::uint32_t mtu = 0;  ///< bytes behind the Ethernet header
  Mac mac{};
  std::optional<TunState> tun = {};  ///< of these alone

  bool carrier() const { return exists && admin_up && lower_up; }
  friend bool operator==(const InterfaceState&, const InterfaceState&) = default;
};

/// Asks the kernel for one interface of the calling thread's network namespace, at once. exists is
/// false when there is none of that name; an Error when the kernel could not be asked.
Result<InterfaceState> query_interface(const std::string& name);

/// Follows interfaces by rtnetlink, in the network namespace of the thread that opened it. Driven
/// by an event loop: when fd() is readable, process(). One thread.
class CarrierMonitor {
 public:
  /// Called by process() with the state of a watched interface: once when it is first known, and
  /// whenever it changed. It may watch() and unwatch().
  using Handler = std::function<void(const InterfaceState&)>;

  /// `receive_buffer`: bytes of the socket's receive buffer, 0: the kernel's default.
  static Result<std::unique_ptr<CarrierMonitor>> open(Handler handler, int receive_buffer = 0);
  ~CarrierMonitor();
  CarrierMonitor(const CarrierMonitor&) = delete;
  CarrierMonitor& operator=(const CarrierMonitor&) = delete;

  /// Follows the interface of this name, which need not exist. Its state comes by the handler.
  void watch(const std::string& name);
  void unwatch(std::string_view name);

  int fd() const { return fd_; }
  /// Takes in everything that has come; never waits. What the kernel had to drop (many changes at
  /// once) is asked for again. Also called once a second, it heals what the kernel refused to list.
  /// Error: the socket is broken.
  Result<void> process();
  /// Times that the kernel had dropped messages.
  std::uint64_t overflows() const { return overflows_; }

 private:
  struct Watched {
    InterfaceState state;
    bool known = false;  ///< reported at least once
    bool seen = false;   ///< in the dump that is running
  };

  CarrierMonitor(int fd, Handler handler);
  Result<void> request_dump();
  void finish_dump();
  void handle(const nlmsghdr& message);
  /// Bytes of the next message in buffer_; 0: skip it; below 0: errno, EAGAIN when there is none.
  ssize_t next_datagram();
  void link_is(const InterfaceState& now);
  void link_gone(int index);
  void report(Watched& watched, const InterfaceState& now);
  void report_changes();

  int fd_;
  Handler handler_;
  std::vector<std::byte> buffer_;
  std::vector<Watched> watched_;
  std::vector<InterfaceState> changes_;
  bool dumping_ = false;
  bool dump_again_ = false;
  std::uint64_t overflows_ = 0;
};

}  // namespace mtl::phy
