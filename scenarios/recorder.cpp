#include "scenarios/recorder.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "core/base/bytes.h"

namespace peerbed {

namespace {

constexpr std::size_t kWriteSize = 1 << 16;

void append_number(std::string& out, std::int64_t value) {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), end);
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out.push_back('"');
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
}

Recorder::Recorder(EventDetail detail, const std::string& path) : detail_(detail) {
  crypto_generichash_init(&hash_, nullptr, 0, 32);
  if (detail_ == EventDetail::none || path.empty()) return;
  file_ = std::fopen(path.c_str(), "wb");
  write_failed_ = file_ == nullptr;
}

Recorder::~Recorder() {
  if (file_ != nullptr) std::fclose(file_);
}

EventLog& Recorder::log_of(std::string_view node) { return logs_.emplace_back(*this, node); }

void Recorder::record(TimePoint at, std::string_view node, std::string_view name, std::span<const EventField> fields) {
  const std::int64_t t = at.time_since_epoch().count();
  line_.assign("{\"t\":");
  append_number(line_, t);
  line_.append(",\"node\":");
  append_json_string(line_, node);
  line_.append(",\"event\":");
  append_json_string(line_, name);
  for (const auto& field : fields) {
    line_.push_back(',');
    append_json_string(line_, field.key);
    line_.push_back(':');
    if (const auto* number = std::get_if<std::int64_t>(&field.value)) {
      append_number(line_, *number);
    } else {
      append_json_string(line_, std::get<std::string_view>(field.value));
    }
  }
  line_.append("}\n");
  crypto_generichash_update(&hash_, reinterpret_cast<const unsigned char*>(line_.data()), line_.size());
  ++recorded_;
  if (detail_ == EventDetail::summary) {
    auto tally = tallies_.find(name);
    if (tally == tallies_.end()) tally = tallies_.emplace(std::string(name), Tally{0, t, t}).first;
    ++tally->second.count;
    tally->second.last = t;
  }
  if (file_ == nullptr || detail_ != EventDetail::all) return;
  pending_ += line_;
  if (pending_.size() < kWriteSize) return;
  write_failed_ |= std::fwrite(pending_.data(), 1, pending_.size(), file_) != pending_.size();
  pending_.clear();
}

Result<std::string> Recorder::finish(std::uint64_t trace_hash) {
  for (const auto& [name, tally] : tallies_) {
    pending_ += "{\"event\":";
    append_json_string(pending_, name);
    pending_ += fmt::format(",\"count\":{},\"first_t\":{},\"last_t\":{}}}\n", tally.count, tally.first, tally.last);
  }
  if (file_ != nullptr) {
    write_failed_ |= std::fwrite(pending_.data(), 1, pending_.size(), file_) != pending_.size();
    write_failed_ |= std::fclose(file_) != 0;
    file_ = nullptr;
  }
  if (write_failed_) return unavailable("events.jsonl cannot be written; is the disk full?");
  std::array<std::uint8_t, 8> trace{};
  ByteWriter(trace).u64(trace_hash);
  crypto_generichash_update(&hash_, trace.data(), trace.size());
  std::array<std::uint8_t, 32> digest{};
  crypto_generichash_final(&hash_, digest.data(), digest.size());
  return to_hex(digest);
}

}  // namespace peerbed
