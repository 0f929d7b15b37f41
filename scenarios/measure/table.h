// A small CSV file of expected values: a header, then rows of plain texts without quotes.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"

namespace peerbed {

class Table {
 public:
  struct Row {
    std::size_t line = 0;
    std::vector<std::pair<std::string, std::string>> values;  ///< the columns that were not asked for
  };

  [[nodiscard]] static Result<Table> load(const std::string& path);
  [[nodiscard]] static Result<Table> parse(std::string_view text);

  /// The one row where each column has the wanted value. "a/b" means the columns a and b, joined by a slash; case does
  /// not matter, so that `eim/apdf` finds EIM,APDF.
  [[nodiscard]] Result<Row> find(std::span<const std::pair<std::string, std::string>> wanted) const;
  [[nodiscard]] std::size_t rows() const { return rows_.size(); }

 private:
  std::vector<std::string> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace peerbed
