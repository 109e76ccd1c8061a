// Stamps where libcrypto fails, which it does not by itself.
#include "topology/stamp.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <memory>

#include "topology/shapes.h"

// In the place of libcrypto's.
int EVP_Digest(const void*, std::size_t, unsigned char*, unsigned int*, const EVP_MD*, ENGINE*) {
  return 0;
}

namespace mtl::topology {
namespace {

TEST(Stamp, WhatLibcryptoDoesNotMakeIsNoStamp) {
  EXPECT_FALSE(node_digest(NodeId(1), {}));
  EXPECT_FALSE(fabric_digest({}));
  Wanted wanted;
  wanted.topology = "fc8";
  auto built = Graph::build(*generate(wanted));
  const auto routes = make_routes(std::make_shared<const Graph>(std::get<Graph>(std::move(built))));
  ASSERT_TRUE(routes);
  const auto digests = node_digests(*routes);
  ASSERT_FALSE(digests);
  EXPECT_NE(digests.error().message.find("libcrypto makes no SHA-256"), std::string::npos);
}

}  // namespace
}  // namespace mtl::topology
