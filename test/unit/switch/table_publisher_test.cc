#include "switch/table_publisher.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace mtl::switchd {
namespace {

/// A table whose one route names its version twice: by the destination and by the port.
network::RouteTable table(std::uint16_t version) {
  const std::vector<network::Route> routes{
      {NodeId(version), {{network::NextHop{PortId(version), 0}}}}};
  return std::move(*network::RouteTable::build(routes, 60000));
}

std::uint16_t version_of(const network::RouteTable& t) {
  return t.routes()[0].dst.value();
}

TEST(TablePublisher, IsInForceAtOnceAndDoneWhenEveryReaderHasLetGo) {
  TablePublisher tables(2, table(1));
  tables.online(0);
  tables.online(1);
  ASSERT_EQ(version_of(*tables.load()), 1);
  int done = 0;
  tables.publish(table(2), [&] { ++done; });
  EXPECT_EQ(version_of(*tables.load()), 2);
  EXPECT_EQ(version_of(tables.current()), 2);
  EXPECT_EQ(tables.reclaim(), 1u);
  tables.quiescent(0);
  EXPECT_EQ(tables.reclaim(), 1u);
  EXPECT_EQ(done, 0);
  tables.quiescent(1);
  EXPECT_EQ(tables.reclaim(), 0u);
  EXPECT_EQ(done, 1);
  tables.offline(0);
  tables.offline(1);
}

TEST(TablePublisher, WaitsForNoSleeper) {
  TablePublisher tables(2, table(1));
  tables.online(0);
  tables.online(1);
  tables.offline(1);
  int done = 0;
  tables.publish(table(2), [&] { ++done; });
  tables.quiescent(0);
  EXPECT_EQ(tables.reclaim(), 0u);
  EXPECT_EQ(done, 1);
  tables.offline(0);
}

TEST(TablePublisher, FreesInTheOrderOfPublication) {
  TablePublisher tables(1, table(1));
  tables.online(0);
  std::vector<int> done;
  for (int i = 0; i < 3; ++i) {
    tables.publish(table(static_cast<std::uint16_t>(2 + i)), [&done, i] { done.push_back(i); });
  }
  EXPECT_EQ(tables.reclaim(), 3u);
  tables.quiescent(0);
  EXPECT_EQ(tables.reclaim(), 0u);
  EXPECT_EQ(done, (std::vector<int>{0, 1, 2}));
  tables.offline(0);
}

// Readers that look at the table in every pass and sleep now and then, while a thousand tables are
// published: what they see is whole and never older than before (a table freed too early shows
// under AddressSanitizer, a race under ThreadSanitizer).
TEST(TablePublisher, ReadersSeeWholeTablesWhileTheyAreReplaced) {
  constexpr unsigned kReaders = 2;
  constexpr std::uint16_t kTables = 1000;
  TablePublisher tables(kReaders, table(1));
  std::atomic<bool> stop{false};
  std::atomic<unsigned> faults{0};
  std::vector<std::thread> readers;
  for (unsigned id = 0; id < kReaders; ++id) {
    readers.emplace_back([&, id] {
      std::uint16_t last = 0;
      tables.online(id);
      for (unsigned pass = 0; !stop; ++pass) {
        tables.quiescent(id);
        const network::RouteTable* t = tables.load();
        const std::uint16_t version = version_of(*t);
        const auto tiers = t->tiers(NodeId(version));
        if (tiers.size() != 1 || tiers[0][0].port.value() != version || version < last) ++faults;
        last = version;
        if (pass % 64 == 0) {
          tables.offline(id);
          std::this_thread::yield();
          tables.online(id);
        }
      }
      tables.offline(id);
    });
  }
  int done = 0;
  for (std::uint16_t version = 2; version <= kTables; ++version) {
    tables.publish(table(version), [&] { ++done; });
    while (tables.reclaim() > 8) std::this_thread::yield();
  }
  while (tables.reclaim() > 0) std::this_thread::yield();
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(done, kTables - 1);
  EXPECT_EQ(faults, 0u);
}

}  // namespace
}  // namespace mtl::switchd
