// "did you mean …?" for every name that a user may mistype.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace peerbed {

/// Insertions, deletions, substitutions and swaps of neighbours (optimal string alignment), each counted as one.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

/// The known word that is most likely meant, if any is near enough. Of equally near ones the first.
[[nodiscard]] std::optional<std::string_view> nearest(std::string_view word, std::span<const std::string_view> known);
[[nodiscard]] std::optional<std::string_view> nearest(std::string_view word, std::span<const std::string> known);

/// The tail of a sentence: "; did you mean 'delay'?", else "; known are rate, delay" (cut after a dozen), else nothing.
[[nodiscard]] std::string did_you_mean(std::string_view word, std::span<const std::string_view> known);
[[nodiscard]] std::string did_you_mean(std::string_view word, std::span<const std::string> known);

}  // namespace peerbed
