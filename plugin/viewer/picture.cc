#include "viewer/picture.h"

#include <fmt/core.h>
#include <png.h>

#include <cstring>

#include <costate/error.h>

#include "core/new_file.h"

namespace costate::viewer {
namespace {

std::vector<unsigned char> Encode(const std::string& path, const Image& image) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.width);
  png.height = static_cast<png_uint_32>(image.height);
  png.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(png);
  std::vector<unsigned char> bytes(size);
  if (!png_image_write_to_memory(&png, bytes.data(), &size, 0, image.rgb.data(), 3 * image.width, nullptr)) {
    throw Error(ErrorCode::kFile, fmt::format("'{}' cannot be written as PNG: {}", path, png.message));
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace

Image InRows(const std::vector<Image>& images, int most, int gap) {
  const int n = static_cast<int>(images.size()), rows = (n + most - 1) / most, columns = (n + rows - 1) / rows;
  const int width = images[0].width, height = images[0].height;
  Image all;
  all.width = columns * (width + gap) - gap;
  all.height = rows * (height + gap) - gap;
  all.rgb.assign(3 * static_cast<std::size_t>(all.width) * all.height, 255);
  for (int i = 0; i < n; ++i) {
    const std::size_t left = static_cast<std::size_t>(i % columns) * (width + gap), top = i / columns * (height + gap);
    const Image& image = images[static_cast<std::size_t>(i)];
    for (std::size_t row = 0; row < static_cast<std::size_t>(height); ++row)
      std::memcpy(&all.rgb[3 * ((top + row) * all.width + left)], &image.rgb[3 * row * width], 3 * width);
  }
  return all;
}

void WritePng(const std::string& path, const Image& image, bool force) {
  const std::vector<unsigned char> bytes = Encode(path, image);
  WriteNewFile(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, force);
}

}  // namespace costate::viewer
