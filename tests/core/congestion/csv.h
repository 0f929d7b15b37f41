// Rows of the tables in tests/data/expected.
#pragma once

#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace peerbed {

using CsvRow = std::map<std::string, std::string>;

inline std::vector<CsvRow> read_expected(const std::string& name) {
  std::ifstream file(std::string(PEERBED_SOURCE_DIR) + "/tests/data/expected/" + name);
  if (!file) throw std::runtime_error("no table " + name);
  const auto split = [](const std::string& line) {
    std::vector<std::string> cells;
    std::stringstream stream(line.substr(0, line.find('\r')));
    for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
    return cells;
  };
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> head = split(line);
  std::vector<CsvRow> rows;
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = split(line);
    CsvRow row;
    for (std::size_t i = 0; i < head.size() && i < cells.size(); ++i) row[head[i]] = cells[i];
    rows.push_back(row);
  }
  if (rows.empty()) throw std::runtime_error("table " + name + " is empty");
  return rows;
}

}  // namespace peerbed
