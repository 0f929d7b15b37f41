#include "topologies/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

namespace peerbed {
namespace {

constexpr std::size_t kListed = 12;

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

template <class Word>
std::optional<std::string_view> nearest_of(std::string_view word, std::span<const Word> known) {
  if (word.size() > 100) return std::nullopt;  // nobody mistyped that
  const std::string folded = lower(word);
  std::optional<std::string_view> best;
  std::size_t best_distance = std::max<std::size_t>(1, (word.size() + 1) / 3) + 1;
  for (const Word& candidate : known) {
    const std::size_t distance = edit_distance(folded, lower(candidate));
    if (distance >= best_distance) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

template <class Word>
std::string tail(std::string_view word, std::span<const Word> known) {
  if (const auto near = nearest_of(word, known)) return fmt::format("; did you mean '{}'?", *near);
  if (known.empty()) return {};
  const std::span<const Word> listed = known.first(std::min(known.size(), kListed));
  return fmt::format("; known are {}{}", fmt::join(listed, ", "), listed.size() < known.size() ? ", …" : "");
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::optional<std::string_view> nearest(std::string_view word, std::span<const std::string_view> known) {
  return nearest_of(word, known);
}
std::optional<std::string_view> nearest(std::string_view word, std::span<const std::string> known) {
  return nearest_of(word, known);
}
std::string did_you_mean(std::string_view word, std::span<const std::string_view> known) { return tail(word, known); }
std::string did_you_mean(std::string_view word, std::span<const std::string> known) { return tail(word, known); }

}  // namespace peerbed
