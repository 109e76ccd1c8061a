#include "tools/mtctl/capture_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <system_error>
#include <utility>

#include "link/codec.h"

namespace mtl::tools {

using capture::Captured;
using capture::Collector;
using conformance::CaptureWriter;

Result<CaptureFiles> CaptureFiles::open(Options options) {
  CaptureFiles files(std::move(options));
  if (auto fine = files.clear_former(); !fine) return fine.error();
  if (auto made = files.next(); !made) return made.error();
  return files;
}

std::filesystem::path CaptureFiles::name(std::uint64_t number) const {
  if (options_.file_bytes == 0) return options_.path;
  std::filesystem::path name = options_.path;
  name.replace_filename(fmt::format("{}_{:05}{}", options_.path.stem().string(), number,
                                    options_.path.extension().string()));
  return name;
}

/// Of a row of files, those that are there already.
std::vector<std::filesystem::path> CaptureFiles::former() const {
  const std::string begin = options_.path.stem().string() + "_";
  const std::string end = options_.path.extension().string();
  std::filesystem::path folder = options_.path.parent_path();
  if (folder.empty()) folder = ".";
  std::vector<std::filesystem::path> found;
  std::error_code error;  // of a folder that cannot be read, next() tells
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string there = entry.path().filename().string();
    if (there.size() < begin.size() + end.size() || !there.starts_with(begin) ||
        !there.ends_with(end)) {
      continue;
    }
    const std::string number = there.substr(begin.size(), there.size() - begin.size() - end.size());
    if (number.size() < 5 || number.find_first_not_of("0123456789") != std::string::npos) continue;
    found.push_back(entry.path());
  }
  return found;
}

/// In the middle of a capture it would be too late to say that a file is there already; and the end
/// of a longer row would stay behind this one, and be taken for its end.
Result<void> CaptureFiles::clear_former() const {
  if (options_.file_bytes == 0) return {};
  for (const auto& file : former()) {
    if (!options_.replace) {
      return Error{fmt::format(
          "{}: is there already; write to another file (-w), or replace it (--overwrite)",
          file.string())};
    }
    std::error_code error;
    if (!std::filesystem::remove(file, error) && error) {
      return Error{fmt::format("{}: cannot be replaced: {}; write to another file (-w)",
                               file.string(), error.message())};
    }
  }
  return {};
}

Result<void> CaptureFiles::next() {
  const std::filesystem::path path = name(++number_);
  auto writer = CaptureWriter::create(path, options_.replace, "mtctl " MTLINK_VERSION,
                                      options_.about, options_.wait);
  if (!writer) return writer.error();
  writer_ = std::move(*writer);
  kept_.push_back({path.string()});
  described_ = 0;
  began_.reset();
  for (OfInterface& interface : interfaces_) {
    interface.frames = 0;
    interface.before = interface.missed;
  }
  if (options_.files != 0 && kept_.size() > options_.files) {
    std::error_code error;
    const File& oldest = kept_.front();
    if (!std::filesystem::remove(oldest.name, error) && error) {
      return Error{fmt::format("{}: cannot be removed to make room for the next file: {}",
                               oldest.name, error.message())};
    }
    removed_ += oldest.frames;
    kept_.pop_front();
  }
  return {};
}

/// Those that have come since, and in a new file all.
Result<void> CaptureFiles::add_interfaces(const Collector& collector) {
  for (const std::size_t count = collector.interfaces(); described_ < count; ++described_) {
    if (described_ == interfaces_.size()) interfaces_.emplace_back();
    const capture::Interface interface = collector.interface(described_);
    conformance::WrittenInterface written{interface.name, interface.about, interface.mac,
                                          options_.snap};
    if (interface.vlan != VlanId{}) {
      written.about += fmt::format(", VLAN {}", interface.vlan.value());
      if (written.snap_length != 0) written.snap_length += link::kVlanTag;  // put in afterwards
    }
    if (auto added = writer_->add_interface(written); !added) {
      return added;
    }
  }
  return {};
}

Result<void> CaptureFiles::write(const Captured& frame, Time at, const Collector& collector) {
  if (options_.file_bytes != 0 && began_ && writer_->size() >= options_.file_bytes) {
    if (auto ended = end(at); !ended) return ended;
    if (auto made = next(); !made) return made;
  }
  if (auto added = add_interfaces(collector); !added) return added;
  if (!began_) began_ = at;
  last_ = at;
  ++frames_;
  ++kept_.back().frames;
  OfInterface& interface = interfaces_[frame.interface];
  ++interface.frames;
  interface.missed += frame.missed;
  const std::string comment = capture::describe(frame.verdict);
  return writer_->write({static_cast<std::uint32_t>(frame.interface), at, frame.bytes, frame.length,
                         frame.direction == capture::Direction::kOut, frame.missed, comment});
}

Result<void> CaptureFiles::end(Time at) {
  for (std::size_t i = 0; i < described_; ++i) {
    const auto number = static_cast<std::uint32_t>(i);
    const OfInterface& interface = interfaces_[i];
    const std::uint64_t missed = interface.missed - interface.before;
    if (auto told =
            writer_->write_statistics(number, began_.value_or(at), at, interface.frames + missed,
                                      missed + writer_->lost(number));
        !told) {
      return told;
    }
  }
  return writer_->close();
}

Result<void> CaptureFiles::close(const Collector& collector, Time at) {
  if (auto added = add_interfaces(collector); !added) return added;
  for (std::size_t i = 0; i < interfaces_.size(); ++i) {
    interfaces_[i].missed = std::max(interfaces_[i].missed, collector.missed(i));
  }
  return end(at);
}

Result<void> CaptureFiles::close_early(const Collector& collector) {
  if (auto added = add_interfaces(collector); !added) return added;
  return end(last_);
}

std::uint64_t CaptureFiles::missed() const {
  return std::accumulate(
      interfaces_.begin(), interfaces_.end(), std::uint64_t{0},
      [](std::uint64_t sum, const OfInterface& interface) { return sum + interface.missed; });
}

std::vector<std::string> CaptureFiles::names() const {
  std::vector<std::string> out;
  for (const File& file : kept_) out.push_back(file.name);
  return out;
}

}  // namespace mtl::tools
