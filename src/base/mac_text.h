#pragma once

#include <string>

#include "base/ids.h"

namespace mtl {

/// "02:00:00:00:00:0c", as Linux and the configuration write it.
std::string mac_text(const Mac& mac);

}  // namespace mtl
