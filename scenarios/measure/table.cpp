#include "scenarios/measure/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "topologies/suggest.h"

namespace peerbed {

namespace {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::size_t at = 0;
  while (true) {
    const auto end = text.find(separator, at);
    parts.emplace_back(text.substr(at, end - at));
    if (end == std::string_view::npos) return parts;
    at = end + 1;
  }
}

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

}  // namespace

Result<Table> Table::load(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (in) text << in.rdbuf();
  if (!in) return bad_input(fmt::format("the table {} cannot be read: {}", path, std::strerror(errno)));
  return parse(text.str());
}

Result<Table> Table::parse(std::string_view text) {
  Table table;
  for (std::string& line : split(text, '\n')) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (table.columns_.empty()) {
      table.columns_ = split(line, ',');
      continue;
    }
    auto row = line.empty() ? std::vector<std::string>{} : split(line, ',');
    if (!row.empty() && row.size() != table.columns_.size())
      return bad_input(fmt::format("line {} of the table has {} columns, its header {}", table.rows_.size() + 2, row.size(), table.columns_.size()));
    table.rows_.push_back(std::move(row));
  }
  return table;
}

Result<Table::Row> Table::find(std::span<const std::pair<std::string, std::string>> wanted) const {
  std::vector<bool> asked(columns_.size(), false);
  std::vector<std::pair<std::vector<std::size_t>, std::string>> conditions;
  for (const auto& [joined, value] : wanted) {
    std::vector<std::size_t> indexes;
    for (const auto& name : split(joined, '/')) {
      const auto found = std::find(columns_.begin(), columns_.end(), name);
      if (found == columns_.end()) return bad_input(fmt::format("the table has no column '{}'{}", name, did_you_mean(name, columns_)));
      indexes.push_back(static_cast<std::size_t>(found - columns_.begin()));
      asked[indexes.back()] = true;
    }
    conditions.emplace_back(std::move(indexes), lower(value));
  }
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i].empty()) continue;
    const bool fits = std::all_of(conditions.begin(), conditions.end(), [&](const auto& condition) {
      std::string joined;
      for (const auto index : condition.first) joined += (joined.empty() ? "" : "/") + lower(rows_[i][index]);
      return joined == condition.second;
    });
    if (!fits) continue;
    Row row;
    row.line = i + 2;
    for (std::size_t c = 0; c < columns_.size(); ++c)
      if (!asked[c]) row.values.emplace_back(columns_[c], rows_[i][c]);
    return row;
  }
  std::string sought;
  for (const auto& [joined, value] : wanted) sought += fmt::format("{}{} = {}", sought.empty() ? "" : ", ", joined, value);
  return bad_input(fmt::format("the table has no row with {}", sought));
}

}  // namespace peerbed
