// What kinds of device a port may have, and what is said of each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "switch/config/node_config.h"

namespace mtl::switchd {
namespace {

using mtlink::config::NodeConfig;
using testing::HasSubstr;

Result<Plan> plan_ports(const std::string& ports) {
  Host host;
  host.longest_frame = [](const std::string& interface) -> Result<std::uint32_t> {
    static const std::map<std::string, std::uint32_t> known{{"va", 1514}, {"jumbo", 9014}};
    const auto found = known.find(interface);
    if (found == known.end()) return Error{"there is no interface \"" + interface + "\" here"};
    return found->second;
  };
  const auto file = control::parse<NodeConfig>("node: 258\n" + ports, control::FileFormat::kText,
                                               "lab.textproto");
  if (!file) return file.error();
  return plan_node(*file, host);
}

Plan good(const std::string& ports) {
  auto plan = plan_ports(ports);
  EXPECT_TRUE(plan) << plan.error().message;
  return plan ? std::move(*plan) : Plan{};
}

std::string error(const std::string& ports) {
  const auto plan = plan_ports(ports);
  return plan ? "(no error)" : plan.error().message;
}

unsigned mtu(const std::string& device) {
  const Plan plan = good("ports { " + device + " }");
  return plan.node.ports.empty() ? 0 : plan.node.ports[0].link.mtu;
}

TEST(AfXdp, CarriesAPageLess256) {
  EXPECT_EQ(mtu("af_xdp { interface: \"va\" }"), 1484u);
  EXPECT_EQ(mtu("af_xdp { interface: \"jumbo\" }"), 4096u - 256 - 30);
  EXPECT_EQ(mtu("vlan: 5 af_xdp { interface: \"jumbo\" }"), 4096u - 256 - 30 - 4);
  EXPECT_THAT(error("ports { af_xdp { interface: \"jumbo\" } link { mtu: 3811 } }"),
              HasSubstr("ports[0].link.mtu"));
}

TEST(AfXdp, RingsArePowersOfTwo) {
  EXPECT_THAT(error("ports { af_xdp { interface: \"va\" frames: 1000 } }"),
              HasSubstr("ports[0].af_xdp.frames is 1000, not a power of two; take 1024"));
  EXPECT_THAT(error("ports { af_xdp { interface: \"va\" frames: 32768 } }"),
              HasSubstr("it must be 64..16384"));
  EXPECT_THAT(error("ports { af_xdp { } }"), HasSubstr("ports[0].af_xdp.interface is missing"));
  EXPECT_THAT(error("ports { af_xdp { interface: \"nowhere\" } }"),
              HasSubstr("there is no interface \"nowhere\" here"));
}

TEST(Tap, ANewOneTakesTheMtuThatIsSaidAndOneThatIsThereHasItsOwn) {
  EXPECT_EQ(mtu("tap { interface: \"mt0\" }"), 1484u);
  EXPECT_EQ(mtu("tap { interface: \"mt0\" } link { mtu: 20000 }"), 20000u);
  EXPECT_EQ(mtu("tap { interface: \"jumbo\" }"), 8984u);
  EXPECT_THAT(error("ports { tap { interface: \"va\" } link { mtu: 20000 } }"),
              HasSubstr("ports[0].link.mtu"));
}

TEST(Tap, HasAnAddressThatIsNotTheInterfaces) {
  // 02:4D, node 258 = 0x0102, port 0.
  const Plan plan = good("ports { tap { interface: \"mt0\" } }");
  EXPECT_EQ(plan.node.ports[0].link.mac,
            (Mac{std::byte{2}, std::byte{0x4D}, std::byte{1}, std::byte{2}, {}, {}}));
  const Plan own = good("ports { mac: \"02:00:00:00:00:07\" tap { interface: \"mt0\" } }");
  EXPECT_EQ(own.node.ports[0].link.mac, (Mac{std::byte{2}, {}, {}, {}, {}, std::byte{7}}));
}

TEST(Pcap, HasAnInterfaceOrFiles) {
  EXPECT_EQ(mtu("pcap { interface: \"va\" }"), 1484u);
  EXPECT_EQ(mtu("pcap { send_file: \"/tmp/x\" }"), 1484u);
  EXPECT_EQ(mtu("pcap { send_file: \"/tmp/x\" } link { mtu: 9000 }"), 9000u);
  EXPECT_THAT(error("ports { pcap { } }"), HasSubstr("no interface and no files"));
  EXPECT_THAT(error("ports { pcap { interface: \"va\" send_file: \"x\" } }"),
              HasSubstr("give one or the other"));
  EXPECT_THAT(error("ports { pcap { receive_file: \"x\" send_file: \"x\" } }"),
              HasSubstr("ports[0].pcap.send_file is the file that frames are read from"));
  EXPECT_THAT(error("ports { pcap { send_file: \"a,b\" } }"), HasSubstr("no path with ','"));
}

TEST(Ring, JoinsExactlyTwoPorts) {
  const std::string end = "ring { name: \"r\" } }\n";
  const Plan plan = good("ports { port: 0 " + end + "ports { port: 1 " + end);
  EXPECT_EQ(plan.node.ports[0].link.mtu, 9000u);
  EXPECT_NE(plan.node.ports[0].link.mac, plan.node.ports[1].link.mac);
  // Capacities of 8 x 144 cells, 64 in hand, 256 held back; 512 under way and 384 idle.
  EXPECT_EQ(plan.ports[0].buffers, 8u * 144 + 64 + 256 + 512 + 384);
  EXPECT_THAT(error("ports { port: 0 " + end), HasSubstr("which 1 port(s) name; a ring joins two"));
  EXPECT_THAT(error("ports { port: 0 " + end + "ports { port: 1 " + end + "ports { port: 2 " + end),
              HasSubstr("which 3 port(s) name"));
  EXPECT_THAT(error("ports { ring { name: \"a ring\" } }"), HasSubstr("ports[0].ring.name"));
  EXPECT_THAT(error("ports { ring { name: \"12345678901234567\" } }"),
              HasSubstr("1 to 16 letters"));
}

TEST(Shared, AnInterfaceHasOneKindOfPort) {
  EXPECT_THAT(error("ports { port: 0 vlan: 5 af_packet { interface: \"va\" } }\n"
                    "ports { port: 1 vlan: 6 af_xdp { interface: \"va\" } }\n"),
              HasSubstr("the kind of device must be the same"));
  EXPECT_THAT(error("ports { port: 0 vlan: 5 af_xdp { interface: \"va\" } }\n"
                    "ports { port: 1 vlan: 6 af_xdp { interface: \"va\" frames: 64 } }\n"),
              HasSubstr("ports[1].af_xdp.frames differs"));
  EXPECT_THAT(error("ports { port: 0 af_xdp { interface: \"va\" } }\n"
                    "ports { port: 1 af_xdp { interface: \"va\" } }\n"),
              HasSubstr("nothing tells their frames apart"));
  EXPECT_THAT(error("ports { port: 0 pcap { send_file: \"x\" } }\n"
                    "ports { port: 1 pcap { send_file: \"x\" } }\n"),
              HasSubstr("is on file x"));
}

TEST(Ethdev, PointsToTheFormThatADeviceHas) {
  for (const auto& [devargs, form] :
       {std::pair{"net_af_packet0,iface=va", "af_packet { interface: ... }"},
        std::pair{"net_af_xdp0,iface=va", "af_xdp { interface: ... }"},
        std::pair{"net_tap0", "tap { interface: ... }"}, std::pair{"net_pcap1", "pcap { ... }"},
        std::pair{"net_ring0", "ring { name: ... }"}}) {
    EXPECT_THAT(error("ports { ethdev { devargs: \"" + std::string(devargs) + "\" } }"),
                HasSubstr(form));
  }
}

TEST(Ethdev, P3_RefusesBondingThatMixesUpTheOrder) {
  const auto with = [](const std::string& devargs) {
    return error("ports { ethdev { devargs: \"net_bonding0" + devargs + "\" } }");
  };
  for (const char* mode : {"1", "2", "4"}) {
    EXPECT_EQ(with(",slave=0000:03:00.0,mode=" + std::string(mode)), "(no error)");
  }
  for (const char* mode : {"0", "3", "5", "6", "12"}) {
    EXPECT_THAT(with(",mode=" + std::string(mode) + ",slave=x"), HasSubstr("out of order"));
  }
  EXPECT_THAT(with(",slave=x"), HasSubstr("bonds in mode 0"));
}

TEST(Describe, NamesTheDevice) {
  const std::string text = describe(
      good("ports { port: 0 af_xdp { interface: \"va\" } }\nports { port: 1 tap { interface: "
           "\"mt0\" } }\n"
           "ports { port: 2 ring { name: \"r\" } }\nports { port: 3 ring { name: \"r\" } }\n"
           "ports { port: 4 pcap { receive_file: \"in\" send_file: \"out\" } }\n"
           "ports { port: 5 pcap { interface: \"jumbo\" } }\n"));
  for (const char* part :
       {"af_xdp va,", "tap mt0,", "ring r,", "pcap from in to out,", "pcap jumbo,"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

}  // namespace
}  // namespace mtl::switchd
