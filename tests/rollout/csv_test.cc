// Numbers go through text and come back with the same bits; a table that is not what it should be is named by its line.
#include "rollout/csv.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>

#include "support/engine_test.h"
#include "support/matrix_near.h"
#include "support/temporary_folder.h"

namespace costate {
namespace {

// rows of numbers through a file and back
MatrixXd ThroughAFile(const MatrixXd& values, const std::vector<std::string>& header) {
  support::TemporaryFolder folder;
  NewFolder run(folder.File("run"), false);
  FileWriter file(&run, "table.csv");
  CsvWriter csv(&file, header);
  for (Eigen::Index i = 0; i < values.rows(); ++i) {
    csv.Cells(values.row(i).transpose());
    csv.EndRow();
  }
  file.Close();
  return ReadCsv("table.csv", support::ReadFile(run.path() / "table.csv"), header);
}

TEST(Csv, KeepsEveryBit) {
  std::mt19937_64 random(1);
  MatrixXd values(200, 5);
  for (Eigen::Index i = 0; i < values.size(); ++i) {
    const std::uint64_t bits = random();
    std::memcpy(values.data() + i, &bits, sizeof(bits));
    if (!std::isfinite(values(i))) values(i) = 0.1;
  }
  values.row(0) << 0.0, -0.0, 0.1, std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::max();
  EXPECT_TRUE(support::BitwiseEqual(ThroughAFile(values, {"a", "b", "c", "d", "e"}), values));
}

TEST(Csv, KeepsInfinityAndReadsAnEmptyCellAsNaN) {
  const MatrixXd values = ReadCsv("t", "a,b,c\n1,,inf\n,-inf,nan\n", {"a", "b", "c"});
  EXPECT_EQ(values(0, 0), 1);
  EXPECT_TRUE(std::isnan(values(0, 1)));
  EXPECT_EQ(values(0, 2), INFINITY);
  EXPECT_TRUE(std::isnan(values(1, 0)));
  EXPECT_EQ(values(1, 1), -INFINITY);
  EXPECT_TRUE(std::isnan(values(1, 2)));
}

TEST(Csv, QuotesNamesThatNeedIt) {
  EXPECT_EQ(CsvHeader({"a", "b,c", "d \"e\""}), "a,\"b,c\",\"d \"\"e\"\"\"");
  const MatrixXd values = MatrixXd::Constant(2, 3, 1.0 / 3);
  EXPECT_TRUE(support::BitwiseEqual(ThroughAFile(values, {"a", "b,c", "d \"e\""}), values));
}

TEST(Csv, NamesTheLineThatIsWrong) {
  const std::vector<std::string> header = {"a", "b"};
  EXPECT_ERROR(ReadCsv("t.csv", "a,c\n1,2\n", header), ErrorCode::kFile, "t.csv, line 1", "header");
  EXPECT_ERROR(ReadCsv("t.csv", "", header), ErrorCode::kFile, "t.csv, line 1");
  EXPECT_ERROR(ReadCsv("t.csv", "a,b\n1,2\n3,x\n", header), ErrorCode::kFile, "t.csv, line 3", "'x' is not a number");
  EXPECT_ERROR(ReadCsv("t.csv", "a,b\n1,2\n3\n", header), ErrorCode::kFile, "line 3", "has 1 cells, the header has 2");
  EXPECT_ERROR(ReadCsv("t.csv", "a,b\n1,2,3\n", header), ErrorCode::kFile, "line 2", "has 3 cells, the header has 2");
  EXPECT_ERROR(ReadCsv("t.csv", "a,b\n1,2", header), ErrorCode::kFile, "cut off");
  EXPECT_ERROR(ReadCsv("t.csv", "a,b\n1e999,2\n", header), ErrorCode::kFile, "'1e999' is not a number");
  EXPECT_EQ(ReadCsv("t.csv", "a,b\n", header).rows(), 0);
}

}  // namespace
}  // namespace costate
