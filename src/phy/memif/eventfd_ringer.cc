#include "phy/memif/eventfd_ringer.h"

#include <linux/aio_abi.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <system_error>

namespace mtl::phy {
namespace {

/// Rings whose completions wait to be taken; then they are taken together.
constexpr unsigned kOutstanding = 32;

Error system_error(const std::string& what) {
  return Error{what + ": " + std::generic_category().message(errno)};
}

}  // namespace

Result<EventfdRinger> EventfdRinger::open() {
  EventfdRinger ringer;
  ringer.nothing_ = Fd(::memfd_create("nothing", MFD_CLOEXEC));
  if (!ringer.nothing_) {
    return system_error("cannot make a memory file; raise the limit of open files");
  }
  aio_context_t context = 0;
  if (::syscall(SYS_io_setup, kOutstanding, &context) != 0) {
    return system_error(
        "the kernel gives no AIO context, by which peers are woken; raise fs.aio-max-nr, or let a "
        "sandbox allow io_setup");
  }
  ringer.context_ = context;
  return ringer;
}

EventfdRinger::~EventfdRinger() {
  if (context_ != 0) ::syscall(SYS_io_destroy, static_cast<aio_context_t>(context_));
}

bool EventfdRinger::submit(int eventfd) {
  iocb read{};
  read.aio_lio_opcode = IOCB_CMD_PREAD;
  read.aio_fildes = static_cast<std::uint32_t>(nothing_.get());
  read.aio_flags = IOCB_FLAG_RESFD;
  read.aio_resfd = static_cast<std::uint32_t>(eventfd);
  iocb* const list = &read;
  return ::syscall(SYS_io_submit, static_cast<aio_context_t>(context_), 1L, &list) == 1;
}

bool EventfdRinger::ring(int eventfd) {
  if (submit(eventfd)) return true;
  if (errno != EAGAIN) return false;
  std::array<io_event, kOutstanding> done;
  (void)::syscall(SYS_io_getevents, static_cast<aio_context_t>(context_), 0L,
                  static_cast<long>(done.size()), done.data(), nullptr);
  return submit(eventfd);
}

}  // namespace mtl::phy
