// Pictures as pixels and as PNG files.
#ifndef COSTATE_PLUGIN_VIEWER_PICTURE_H_
#define COSTATE_PLUGIN_VIEWER_PICTURE_H_

#include <string>
#include <vector>

namespace costate::viewer {

/// 8 bits a channel, red green blue, the first row on top.
struct Image {
  int width = 0, height = 0;
  std::vector<unsigned char> rgb;  ///< 3 width height
};

/// Images of one size, so many in a row at most, rows as long as each other; white between them and where none is left.
Image InRows(const std::vector<Image>& images, int most, int gap);

/// Writes the file whole or not at all (core/new_file.h).
/// @param force  replace an existing file; otherwise Error{kFile}.
/// @throws Error{kFile} with the path and the system's reason.
void WritePng(const std::string& path, const Image& image, bool force);

}  // namespace costate::viewer

#endif  // COSTATE_PLUGIN_VIEWER_PICTURE_H_
