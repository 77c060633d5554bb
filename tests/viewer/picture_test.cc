#include "viewer/picture.h"

#include <gtest/gtest.h>
#include <png.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <costate/error.h>

#include "core/new_file.h"
#include "support/engine_test.h"
#include "support/temporary_folder.h"

namespace costate::viewer {
namespace {

namespace fs = std::filesystem;

Image Gradient(int width, int height) {
  Image image{width, height, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int value : {x, y, x * y}) image.rgb.push_back(static_cast<unsigned char>(value));
    }
  }
  return image;
}

Image Decode(const std::string& path) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  EXPECT_TRUE(png_image_begin_read_from_file(&png, path.c_str())) << png.message;
  png.format = PNG_FORMAT_RGB;
  Image image{static_cast<int>(png.width), static_cast<int>(png.height),
              std::vector<unsigned char>(PNG_IMAGE_SIZE(png))};
  EXPECT_TRUE(png_image_finish_read(&png, nullptr, image.rgb.data(), 0, nullptr)) << png.message;
  return image;
}

std::size_t FilesIn(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(Picture, APngHoldsTheSamePixels) {
  const support::TemporaryFolder folder;
  const Image image = Gradient(123, 45);
  WritePng(folder.File("a.png"), image, false);
  const Image back = Decode(folder.File("a.png"));
  EXPECT_EQ(back.width, 123);
  EXPECT_EQ(back.height, 45);
  EXPECT_EQ(back.rgb, image.rgb);
  EXPECT_EQ(FilesIn(folder.path()), 1u);
}

TEST(Picture, IsReadableByWhomTheUmaskAllows) {
  const support::TemporaryFolder folder;
  const mode_t before = umask(022);
  WritePng(folder.File("a.png"), Gradient(8, 8), false);
  umask(before);
  struct stat status {};
  ASSERT_EQ(stat(folder.File("a.png").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0644u);
}

TEST(Picture, ReplacesAFileOnlyByForce) {
  const support::TemporaryFolder folder;
  const std::string path = folder.Write("a.png", "something else");
  EXPECT_ERROR(WritePng(path, Gradient(8, 8), false), ErrorCode::kFile, "a.png", "--force");
  EXPECT_ERROR(CheckWritable(path, false), ErrorCode::kFile, "a.png", "--force");
  EXPECT_EQ(support::ReadFile(path), "something else");
  WritePng(path, Gradient(8, 8), true);
  EXPECT_EQ(Decode(path).width, 8);
}

TEST(Picture, NamesAFolderThatDoesNotExist) {
  const support::TemporaryFolder folder;
  EXPECT_ERROR(WritePng(folder.File("no/a.png"), Gradient(8, 8), false), ErrorCode::kFile, "no", "does not exist");
  EXPECT_ERROR(WritePng(folder.path().string(), Gradient(8, 8), true), ErrorCode::kFile, "is a folder");
}

// a limit on the size of files stops the same write(2) that a full disk does
TEST(Picture, LeavesNothingBehindWhenWritingFails) {
  const support::TemporaryFolder folder;
  Image noise = Gradient(400, 400);
  unsigned seed = 1;
  for (unsigned char& value : noise.rgb)
    value = static_cast<unsigned char>((seed = seed * 1664525u + 1013904223u) >> 24);

  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_ERROR(WritePng(folder.File("a.png"), noise, false), ErrorCode::kFile, "a.png", "File too large");
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  EXPECT_EQ(FilesIn(folder.path()), 0u);
}

TEST(Picture, FramesStandInRowsInOrder) {
  Image last = Gradient(3, 2);
  last.rgb.assign(last.rgb.size(), 7);
  const Image all = InRows({Gradient(3, 2), Gradient(3, 2), last}, 2, 2);
  ASSERT_EQ(all.width, 8);
  ASSERT_EQ(all.height, 6);
  auto pixel = [&all](int x, int y, int channel) { return all.rgb[3 * (y * all.width + x) + channel]; };
  EXPECT_EQ(pixel(2, 1, 0), 2);
  EXPECT_EQ(pixel(3, 0, 0), 255);
  EXPECT_EQ(pixel(4, 1, 2), 255);
  EXPECT_EQ(pixel(5, 0, 0), 0);
  EXPECT_EQ(pixel(7, 1, 0), 2);
  EXPECT_EQ(pixel(1, 3, 1), 255);  // between rows
  EXPECT_EQ(pixel(1, 4, 1), 7);
  EXPECT_EQ(pixel(6, 5, 1), 255);  // where none is left
  const Image row = InRows({Gradient(3, 2), Gradient(3, 2), last}, 5, 2);
  EXPECT_EQ(row.width, 13);
  EXPECT_EQ(row.height, 2);
}

}  // namespace
}  // namespace costate::viewer
