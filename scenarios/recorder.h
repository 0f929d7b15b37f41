// The ordered event log of a run: stamped with the node, hashed, and written as JSON Lines.
//
// A line is canonical: {"t":NANOSECONDS,"node":"NAME","event":"NAME",then the fields in their order}. The digest is BLAKE2b-256
// over all lines, whether they are written or not, and over the network's own trace hash.
#pragma once

#include <sodium.h>

#include <cstdint>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/env/event_log.h"

namespace peerbed {

enum class EventDetail : std::uint8_t {
  none,     ///< nothing is written
  summary,  ///< one line per event name: how often, first and last time
  all,
};

class Recorder {
 public:
  /// `path`: where the lines go; empty: nowhere.
  Recorder(EventDetail detail, const std::string& path);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// A log that stamps `node` on what it is told. It lives as long as the recorder.
  [[nodiscard]] EventLog& log_of(std::string_view node);
  void record(TimePoint at, std::string_view node, std::string_view name, std::span<const EventField> fields);

  [[nodiscard]] std::uint64_t recorded() const { return recorded_; }
  /// Ends the log; call once. Errors: the disk is full.
  [[nodiscard]] Result<std::string> finish(std::uint64_t trace_hash);

 private:
  class NodeLog final : public EventLog {
   public:
    NodeLog(Recorder& recorder, std::string_view node) : recorder_(recorder), node_(node) {}
    using EventLog::record;
    void record(TimePoint at, std::string_view name, std::span<const EventField> fields) override {
      recorder_.record(at, node_, name, fields);
    }

   private:
    Recorder& recorder_;
    std::string node_;
  };
  struct Tally {
    std::uint64_t count = 0;
    std::int64_t first = 0, last = 0;
  };

  EventDetail detail_;
  std::FILE* file_ = nullptr;
  bool write_failed_ = false;
  std::deque<NodeLog> logs_;
  crypto_generichash_state hash_{};
  std::string line_, pending_;
  std::uint64_t recorded_ = 0;
  std::map<std::string, Tally, std::less<>> tallies_;
};

/// Appends `text` as a JSON string. What is not UTF-8 must not come here: names and texts of events are ours.
void append_json_string(std::string& out, std::string_view text);

}  // namespace peerbed
