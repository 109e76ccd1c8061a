#pragma once

#include <sys/types.h>

#include <span>
#include <vector>

#include "base/fd.h"

/// Descriptors that go with messages over a Unix stream socket (SCM_RIGHTS).
namespace mtl::control {

/// As send(2), without waiting or a signal. `fds`, kGrantFds of them at most, leave with the first
/// byte that is taken.
ssize_t send_with_fds(int socket, std::span<const char> bytes, std::span<const Fd> fds);
/// As recv(2), without waiting. What descriptors come is added to `fds`, up to one more than
/// kGrantFds, so that too many are noticed: a peer that sends them byte by byte must not fill our
/// table. The others are closed.
ssize_t receive_with_fds(int socket, std::span<char> bytes, std::vector<Fd>& fds);

}  // namespace mtl::control
