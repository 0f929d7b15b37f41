#include "sim/des/bucket_queue.h"

#include <algorithm>
#include <bit>

namespace peerbed::sim {
namespace {

constexpr std::size_t kEntriesPerBucket = 96;
constexpr std::size_t kSampleSize = 1024;

}  // namespace

std::uint32_t BucketQueue::grow(std::size_t bucket) {
  std::uint32_t index;
  if (free_chunks_.empty()) {
    index = static_cast<std::uint32_t>(chunks_.size());
    chunks_.emplace_back();
  } else {
    index = free_chunks_.back();
    free_chunks_.pop_back();
  }
  chunks_[index].next = heads_[bucket];
  chunks_[index].count = 0;
  heads_[bucket] = index;
  return index;
}

void BucketQueue::take(std::size_t bucket, std::vector<QueueEntry>& out) {
  for (std::uint32_t at = heads_[bucket]; at != kNone;) {
    const Chunk& chunk = chunks_[at];
    out.insert(out.end(), chunk.entries, chunk.entries + chunk.count);
    free_chunks_.push_back(at);
    at = chunk.next;
  }
  heads_[bucket] = kNone;
}

void BucketQueue::open_next() {
  for (;;) {
    while (next_bucket_ < heads_.size() && heads_[next_bucket_] == kNone) ++next_bucket_;
    if (next_bucket_ < heads_.size()) break;
    lay_row();
  }
  take(next_bucket_, run_);
  ++next_bucket_;
  open_end_ = row_start_ + (static_cast<std::uint64_t>(next_bucket_) << width_log2_);
  std::sort(run_.begin(), run_.end(), [](const QueueEntry& a, const QueueEntry& b) { return b < a; });
}

/// Lays a new row over `far_`. Its width comes from the median distance to the earliest entry, so that a few events in hours do
/// not make one bucket of everything else.
void BucketQueue::lay_row() {
  std::uint64_t earliest = ~std::uint64_t{0};
  for (const QueueEntry& entry : far_) earliest = std::min(earliest, entry.time);
  sample_.clear();
  const std::size_t stride = far_.size() / kSampleSize + 1;
  for (std::size_t i = 0; i < far_.size(); i += stride) sample_.push_back(far_[i].time - earliest);
  const auto middle = sample_.begin() + static_cast<std::ptrdiff_t>(sample_.size() / 2);
  std::nth_element(sample_.begin(), middle, sample_.end());

  // Half of the entries lie within the median. A hold model spreads about evenly over twice that.
  const std::size_t buckets = std::bit_ceil(std::max<std::size_t>(far_.size() / kEntriesPerBucket, 64));
  const std::uint64_t width = std::max<std::uint64_t>(2 * (*middle) / buckets, 1);
  width_log2_ = static_cast<unsigned>(std::bit_width(width) - 1);
  row_start_ = earliest;
  // Times fill 63 bits and the row is at most twice the median wide: the sum may leave 64 bits, so it stops at their end.
  row_end_ = row_start_ + std::min<std::uint64_t>(std::uint64_t{buckets} << width_log2_, ~std::uint64_t{0} - row_start_);
  open_end_ = row_start_;
  next_bucket_ = 0;
  heads_.assign(buckets, kNone);

  spare_.clear();
  for (const QueueEntry& entry : far_) {
    if (entry.time < row_end_) {
      put(static_cast<std::size_t>((entry.time - row_start_) >> width_log2_), entry);
    } else {
      spare_.push_back(entry);
    }
  }
  far_.swap(spare_);
}

void BucketQueue::drain_to(std::vector<QueueEntry>& out) {
  out.insert(out.end(), run_.begin(), run_.end());
  run_.clear();
  early_.drain_to(out);
  for (std::size_t i = next_bucket_; i < heads_.size(); ++i) take(i, out);
  out.insert(out.end(), far_.begin(), far_.end());
  far_.clear();
  heads_.clear();
  next_bucket_ = 0;
  open_end_ = row_start_ = row_end_ = 0;
  size_ = 0;
}

void BucketQueue::assign(const std::vector<QueueEntry>& entries) {
  far_.assign(entries.begin(), entries.end());
  size_ = entries.size();
  // Nothing is open and the row is empty: the first look lays it. Until then every push joins the far ones.
  open_end_ = row_start_ = row_end_ = 0;
}

std::size_t BucketQueue::memory_bytes() const {
  return (run_.capacity() + far_.capacity() + spare_.capacity()) * sizeof(QueueEntry) + early_.memory_bytes() +
         heads_.capacity() * sizeof(std::uint32_t) + chunks_.capacity() * sizeof(Chunk) +
         free_chunks_.capacity() * sizeof(std::uint32_t) + sample_.capacity() * sizeof(std::uint64_t);
}

}  // namespace peerbed::sim
