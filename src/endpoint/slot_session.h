#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "control/client.h"
#include "endpoint/endpoint.h"
#include "phy/local_port.h"

namespace mtl::endpoint {

/// A slot of the local mtswitchd as long as the daemon lives: the control connection that holds it,
/// and what the slot says its endpoint is.
class SlotSession {
 public:
  /// Claims a slot.
  static Result<std::unique_ptr<SlotSession>> claim(const SlotChoice& choice);

  const Settings& settings() const { return settings_; }
  /// Buffers that the endpoint of the slot needs: credits stand for buffers that exist.
  std::uint32_t buffers() const;
  /// The slot's port; takes the descriptors of the claim, so once for each claim.
  Result<std::unique_ptr<phy::LocalPort>> attach(BufferPool& pool);

  /// Whether the daemon has ended the connection. Never waits.
  bool lost() const { return client_.gone(); }
  /// Claims the same slot again, waiting for some 100 ms at most. Errors also if the slot is not
  /// what it was; its rate may be another one.
  Result<void> claim_again();

 private:
  SlotSession(SlotChoice choice, control::Client client, control::SlotLease lease,
              const Settings& settings);

  SlotChoice choice_;
  control::Client client_;
  control::SlotLease lease_;
  Settings settings_;
};

}  // namespace mtl::endpoint
