// A message of any bytes at the control socket, from either side: read, checked and, if it is let
// through, written again as the same; a request is refused with a reason.

#include <google/protobuf/stubs/logging.h>

#include <cstdint>
#include <string>

#include "control/file/json_object.h"
#include "control/framing.h"
#include "control/request_check.h"
#include "input.h"
#include "mtlink/control.pb.h"

namespace {

using mtl::fuzz::require;

template <class Message>
bool read(Message& message, const std::string& bytes) {
  if (!message.ParseFromString(bytes)) return false;
  mtl::control::to_json(message);
  const auto framed = mtl::control::frame(message, mtl::control::kMaxResponse);
  require(static_cast<bool>(framed), "what is short can be framed");
  require(mtl::control::frame_length(framed->data()) + mtl::control::kLengthBytes == framed->size(),
          "a frame is as long as it says");
  return true;
}

}  // namespace

// Texts that are not UTF-8 are told of one by one.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  google::protobuf::SetLogHandler(nullptr);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  mtlink::control::Response response;
  read(response, bytes);
  mtlink::control::Request request;
  if (!read(request, bytes)) return 0;
  const auto checked = mtl::control::check_request(request);
  if (!checked) {
    require(!checked.error().message.empty(), "a refusal has a reason");
    return 0;
  }
  // What stands in it now is in range, defaults included.
  const std::string once = request.SerializeAsString();
  require(static_cast<bool>(mtl::control::check_request(request)), "what was let through stays so");
  require(request.SerializeAsString() == once, "defaults are put in once");
  return 0;
}
