#include "phy/dpdk/mbuf_pool.h"

#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_stack.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <new>
#include <typeinfo>
#include <utility>

#include "phy/dpdk/eal.h"

namespace mtl::phy {
namespace {

constexpr std::uint32_t kCache = 128;
constexpr std::size_t kBurst = 32;  // moved between a thread's cache and the caller at once
// Any thread may take and give, without a lock. Last in, first out: the few buffers that are in
// turn stay in this core's caches, where DPDK's default, a ring, would walk through all the memory
// of the pool. Named, because available() looks into it.
constexpr const char* kFreeList = "lf_stack";
// A whole cache line, so that the packet's data begins on one too.
constexpr std::uint16_t kPrivate = 64;
// From an mbuf to the data of one that is free: a direct one, of which the Buffer lies behind the
// header.
constexpr std::size_t kData = sizeof(rte_mbuf) + kPrivate + RTE_PKTMBUF_HEADROOM;
static_assert(sizeof(Buffer) <= kPrivate && alignof(Buffer) <= 8);
static_assert(std::is_trivially_destructible_v<Buffer>);
static_assert(RTE_PKTMBUF_HEADROOM >= kHeadroom);
static_assert(kMaxMbufRoom == UINT16_MAX - RTE_PKTMBUF_HEADROOM);

struct FreePool {
  void operator()(rte_mempool* pool) const { rte_mempool_free(pool); }
};

void unmap(rte_mempool_memhdr* chunk, void*) noexcept {
  munmap(chunk->addr, chunk->len);
}

/// As rte_pktmbuf_pool_create_by_ops(), but in pages of its own. nullptr and rte_errno.
rte_mempool* create_apart(const char* name, std::uint32_t size, std::uint32_t cache,
                          std::uint16_t data_room) {
  std::unique_ptr<rte_mempool, FreePool> pool(rte_mempool_create_empty(
      name, size, static_cast<unsigned>(sizeof(rte_mbuf)) + kPrivate + data_room, cache,
      sizeof(rte_pktmbuf_pool_private), SOCKET_ID_ANY, RTE_MEMPOOL_F_NO_IOVA_CONTIG));
  if (pool == nullptr) return nullptr;
  rte_pktmbuf_pool_private sizes{};
  sizes.mbuf_data_room_size = data_room;
  sizes.mbuf_priv_size = kPrivate;
  rte_mempool_objsz object{};
  const std::size_t bytes =
      std::size_t{rte_mempool_calc_obj_size(pool->elt_size, pool->flags, &object)} * size;
  if (rte_mempool_set_ops_byname(pool.get(), kFreeList, nullptr) != 0) return nullptr;
  rte_pktmbuf_pool_init(pool.get(), &sizes);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    rte_errno = ENOMEM;
    return nullptr;
  }
  const int made = rte_mempool_populate_iova(pool.get(), static_cast<char*>(memory), RTE_BAD_IOVA,
                                             bytes, unmap, nullptr);
  if (made < 0) munmap(memory, bytes);
  if (made != static_cast<int>(size)) {
    rte_errno = made < 0 ? -made : ENOMEM;
    return nullptr;
  }
  rte_mempool_obj_iter(pool.get(), rte_pktmbuf_init, nullptr);
  return pool.release();
}

/// Whether nobody but the one who gives it back has it.
bool last_reference(const rte_mbuf* mbuf) {
  return rte_mbuf_refcnt_read(mbuf) == 1 && RTE_MBUF_DIRECT(mbuf);
}

}  // namespace

// A thread's cache holds up to one and a half times its size before it flushes; others cannot take
// what lies there, so the pool has that much more.
std::uint32_t MbufPool::size(const MbufPoolConfig& config) {
  return config.count + config.threads * (kCache * 3 / 2);
}

std::uint64_t MbufPool::memory(const MbufPoolConfig& config) {
  // Object header and trailer, mbuf, Buffer, data; each rounded to cache lines, and the free list.
  const std::uint64_t object = RTE_ALIGN_CEIL(
      std::uint64_t{64} + sizeof(rte_mbuf) + kPrivate + RTE_PKTMBUF_HEADROOM + config.room + 64,
      std::uint64_t{64});
  constexpr std::uint64_t kFixed = 2U << 20;  // caches of all lcores, pool header, page rounding
  return size(config) * (object + sizeof(rte_stack_lf_elem)) + kFixed;
}

Result<std::unique_ptr<MbufPool>> MbufPool::create(const MbufPoolConfig& config) {
  if (config.count == 0 || config.room == 0 || config.room > kMaxMbufRoom)
    return Error{"a pool of " + std::to_string(config.count) + " buffers of " +
                 std::to_string(config.room) + " bytes cannot be made: at least 1 buffer of 1 to " +
                 std::to_string(kMaxMbufRoom) + " bytes"};
  static std::atomic<unsigned> serial{0};
  const std::string name = "mtl_pool_" + std::to_string(serial++);
  const std::uint32_t size = MbufPool::size(config);
  // DPDK refuses a cache of more than two thirds of the pool; total() is larger than that.
  const std::uint32_t cache = std::min(kCache, size * 2 / 3);
  const auto data_room = static_cast<std::uint16_t>(RTE_PKTMBUF_HEADROOM + config.room);
  const std::uint64_t kib = config.apart ? available_kib() : 0;
  if (kib > 0 && kib < memory(config) >> 10)
    return Error{"no memory for " + std::to_string(size) + " buffers of " +
                 std::to_string(config.room) + " bytes: they take " +
                 std::to_string((memory(config) >> 20) + 1) + " MiB and this machine has " +
                 std::to_string(kib >> 10) + " MiB available; configure fewer or smaller buffers"};
  rte_mempool* mempool = config.apart
                             ? create_apart(name.c_str(), size, cache, data_room)
                             : rte_pktmbuf_pool_create_by_ops(name.c_str(), size, cache, kPrivate,
                                                              data_room, SOCKET_ID_ANY, kFreeList);
  if (mempool == nullptr && config.apart)
    return Error{
        "no memory for " + std::to_string(size) + " buffers of " + std::to_string(config.room) +
        " bytes (" + rte_strerror(rte_errno) +
        "): each pool that is added takes some 1 MiB of what DPDK got at its start; restart, "
        "which makes one pool for all, or configure fewer or smaller buffers"};
  if (mempool == nullptr)
    return Error{"no memory for " + std::to_string(size) + " buffers of " +
                 std::to_string(config.room) + " bytes (" + rte_strerror(rte_errno) +
                 "): give DPDK " + std::to_string((memory(config) >> 20) + 1) +
                 " MiB more, or configure fewer or smaller buffers"};
  return std::unique_ptr<MbufPool>(new MbufPool(mempool, config.room, size));
}

MbufPool::~MbufPool() {
  rte_mempool_free(mempool_);
}

Buffer* MbufPool::fresh(rte_mbuf* mbuf, std::byte* data, std::uint32_t length,
                        std::uint32_t headroom, std::uint32_t tailroom) {
  return new (reinterpret_cast<std::byte*>(mbuf) + sizeof(rte_mbuf)) Buffer{.data = data,
                                                                            .length = length,
                                                                            .headroom = headroom,
                                                                            .tailroom = tailroom,
                                                                            .pool = this,
                                                                            .notes = {}};
}

Buffer* MbufPool::adopt(rte_mbuf* mbuf) {
  return fresh(mbuf, rte_pktmbuf_mtod(mbuf, std::byte*), mbuf->data_len, mbuf->data_off,
               static_cast<std::uint32_t>(mbuf->buf_len - mbuf->data_off - mbuf->data_len));
}

rte_mbuf* MbufPool::mbuf(const Buffer& buffer) {
  auto* address = reinterpret_cast<const std::byte*>(&buffer) - sizeof(rte_mbuf);
  return reinterpret_cast<rte_mbuf*>(const_cast<std::byte*>(address));
}

bool MbufPool::holds(const Buffer& buffer) {
  return typeid(*buffer.pool) == typeid(MbufPool);
}

// The Buffer of an mbuf of the pool that was free: so it is direct, and its header is as it was.
Buffer* MbufPool::fresh_empty(rte_mbuf* mbuf) {
  return fresh(mbuf, reinterpret_cast<std::byte*>(mbuf) + kData, 0, RTE_PKTMBUF_HEADROOM, room_);
}

Buffer* MbufPool::take() {
  rte_mbuf* mbuf = rte_mbuf_raw_alloc(mempool_);
  return mbuf == nullptr ? nullptr : fresh_empty(mbuf);
}

[[gnu::flatten]] std::size_t MbufPool::take_burst(std::span<Buffer*> out) {
  std::array<void*, kBurst> mbufs;
  std::size_t taken = 0;
  while (taken < out.size()) {
    const std::size_t n = std::min(out.size() - taken, mbufs.size());
    // All or none: the last ones of the pool are taken one by one.
    if (rte_mempool_get_bulk(mempool_, mbufs.data(), static_cast<unsigned>(n)) != 0) {
      return taken + BufferPool::take_burst(out.subspan(taken));
    }
    // Many buffers may have been in turn since these were used.
    for (std::size_t i = 0; i < n; ++i) {
      const auto* next = static_cast<const std::byte*>(mbufs[i]);
      __builtin_prefetch(next + sizeof(rte_mbuf), 1);
      __builtin_prefetch(next + kData, 1);
    }
    for (std::size_t i = 0; i < n; ++i) {
      out[taken++] = fresh_empty(static_cast<rte_mbuf*>(mbufs[i]));
    }
  }
  return taken;
}

void MbufPool::give(Buffer* buffer) {
  give_burst({&buffer, 1});
}

[[gnu::flatten]] void MbufPool::give_burst(std::span<Buffer* const> buffers) {
  std::array<void*, kBurst> free;
  unsigned n = 0;
  for (Buffer* buffer : buffers) {
    assert(buffer->pool == this);
    rte_mbuf* segment = mbuf(*buffer);
    if (!last_reference(segment)) [[unlikely]] {
      rte_pktmbuf_free_seg(segment);
      continue;
    }
    free[n++] = segment;
    if (n == free.size()) rte_mempool_put_bulk(mempool_, free.data(), std::exchange(n, 0));
  }
  if (n > 0) rte_mempool_put_bulk(mempool_, free.data(), n);
}

bool MbufPool::exclusive(const Buffer& buffer) const {
  return rte_mbuf_refcnt_read(mbuf(buffer)) == 1;
}

std::uint32_t MbufPool::available() const {
  const rte_mempool_cache* cache = rte_mempool_default_cache(mempool_, rte_lcore_id());
  return rte_stack_count(static_cast<rte_stack*>(mempool_->pool_data)) +
         (cache == nullptr ? 0 : cache->len);
}

std::uint32_t MbufPool::free_buffers() const {
  return rte_mempool_avail_count(mempool_);
}

std::uint32_t MbufPool::in_common() const {
  return rte_mempool_get_ops(mempool_->ops_index)->get_count(mempool_);
}

std::uint32_t MbufPool::kept_by_me() const {
  const rte_mempool_cache* cache = rte_mempool_default_cache(mempool_, rte_lcore_id());
  return cache == nullptr ? 0 : cache->len;
}

}  // namespace mtl::phy
