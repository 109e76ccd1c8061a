#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "endpoint/endpoint.h"

namespace mtl::mtperf {

/// A slot of the local mtswitchd, or a Linux interface of its own.
struct EndpointChoice {
  endpoint::SlotChoice slot;
  std::string interface;              ///< not empty: this instead of a slot
  std::optional<std::uint16_t> node;  ///< of the endpoint; with `interface` required
};

/// An endpoint and what its device stands on, which outlives it.
struct OpenedEndpoint {
  std::shared_ptr<void> environment;
  std::unique_ptr<endpoint::Endpoint> endpoint;
};

/// Claims or opens it. Errors name what is missing.
Result<OpenedEndpoint> open_endpoint(const EndpointChoice& choice);

}  // namespace mtl::mtperf
