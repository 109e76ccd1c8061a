#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "switch/config/node_config.h"
#include "switch/config/problems.h"
#include "switch/config/routes_plan.h"

namespace mtl::switchd {

extern const char* const kNameRule;
/// Whether a node, port or slot may be called so: names stand in paths, tables and metrics.
bool good_name(const std::string& name);

/// Takes ports and slots of a configuration into a plan whose node and workers are decided.
class PortPlanner {
 public:
  PortPlanner(const mtlink::config::NodeConfig& config, const Host& host, Plan& plan,
              std::vector<KnownPeer>& peers, Problems& problems)
      : config_(config), host_(host), plan_(plan), peers_(peers), problems_(problems) {}
  void plan();

 private:
  /// One port as far as it is read.
  struct Draft {
    network::PortConfig config;
    PortPlan plan;
    std::string path;
    bool worker_given = false;
  };
  void port(const mtlink::config::Port& from, const std::string& path);
  void slot(const mtlink::config::Slot& from, const std::string& path);
  void memif_ends();
  void peer(const mtlink::config::Port& from, const std::string& path, Draft& draft);
  void addresses(const mtlink::config::Port& from, const std::string& path, Draft& draft);
  std::optional<Mac> address(const std::string& text, const std::string& path);
  void edge(const mtlink::config::Edge& from, const std::string& path, Draft& draft);
  std::vector<Partition> partitions(const google::protobuf::RepeatedField<std::uint32_t>& from,
                                    const std::string& path);
  void name(const std::string& given, const std::string& fallback, const std::string& path,
            Draft& draft);
  void vlan(const mtlink::config::Port& from, const std::string& path, Draft& draft);
  void worker(bool given, std::uint32_t index, const std::string& path, Draft& draft);
  void ring_bytes(const mtlink::config::Slot& from, const std::string& path, Draft& draft);
  /// Puts the draft under its number, if that is free.
  void keep(std::uint32_t number, const std::string& path, Draft draft);
  void share_devices();
  void share(Draft& first, Draft& draft);
  void join_rings();
  void give_workers();
  void finish();

  const mtlink::config::NodeConfig& config_;
  const Host& host_;
  Plan& plan_;
  std::vector<KnownPeer>& peers_;
  Problems& problems_;
  std::map<std::uint32_t, Draft> drafts_;
  std::map<std::uint32_t, std::string> numbers_;     ///< port number -> who has it
  std::map<std::string, std::string> names_;         ///< name -> who has it
  std::map<std::uint32_t, std::string> slot_nodes_;  ///< node id -> slot that has it
};

/// Checks an impairment and converts it.
phy::ImpairmentConfig read_impairment(const mtlink::config::Impairment& from,
                                      const std::string& path, Problems& problems);

}  // namespace mtl::switchd
