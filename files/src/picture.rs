//! Pictures as `.png`: `u8[h, w]` in grey and `u8[h, w, c]` with two to four channels (grey and
//! alpha, colour, colour and alpha), or `u16` if the file has 16 bits for each.

use std::fs::File;
use std::io::{self, BufReader, Write};

use ir::Dtype;
use ir::array::{ArrayError, ArrayRef};
use png::{BitDepth, ColorType, Decoder, DecodingError, Encoder, EncodingError, Transformations};

use super::error::Fault;
use super::npy::is_swapped;
use super::place::Format;

/// Deflated data stands for at most this many times its size.
const RATIO: u64 = 1032;

/// A picture that has been opened: its pixels are not yet read.
pub(super) struct Reader {
    decoder: png::Reader<BufReader<File>>,
    dtype: Dtype,
}

/// The type and the shape of a picture in a file of a length.
pub(super) fn open(file: File, length: u64) -> Result<(Reader, Dtype, Vec<usize>), Fault> {
    let mut decoder = Decoder::new(BufReader::new(file));
    // Palettes become colours, and 1 to 4 bits become 8.
    decoder.set_transformations(Transformations::EXPAND);
    let decoder = decoder.read_info().map_err(fault)?;
    let (color, depth) = decoder.output_color_type();
    let dtype = if depth == BitDepth::Sixteen { Dtype::U16 } else { Dtype::U8 };
    let size = |n: u32| usize::try_from(n).map_err(|_| Fault::from(ArrayError::TooLarge));
    let (height, width) = (size(decoder.info().height)?, size(decoder.info().width)?);
    let shape = match color.samples() {
        1 => vec![height, width],
        channels => vec![height, width, channels],
    };
    // The file's own pixels, before palettes and small depths expand.
    let bits = u128::try_from(height * decoder.info().bits_per_pixel()).unwrap_or(u128::MAX);
    let claimed = u64::try_from(bits.saturating_mul(width as u128) / 8).unwrap_or(u64::MAX);
    if claimed > length.saturating_mul(RATIO) {
        return Err(Fault::Ratio { claimed, packed: length });
    }
    Ok((Reader { decoder, dtype }, dtype, shape))
}

impl Reader {
    /// Reads the pixels, row by row.
    pub(super) fn read(mut self, into: &mut [u8]) -> Result<(), Fault> {
        self.decoder.next_frame(into).map_err(fault)?;
        // The end of the file may be damaged too.
        self.decoder.finish().map_err(fault)?;
        if is_swapped(self.dtype, false) {
            into.chunks_exact_mut(self.dtype.bytes()).for_each(<[u8]>::reverse);
        }
        Ok(())
    }
}

fn fault(error: DecodingError) -> Fault {
    match error {
        DecodingError::IoError(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
            Fault::Png("the file ends early".to_owned())
        }
        DecodingError::IoError(e) => e.into(),
        other => Fault::Png(other.to_string().trim_end_matches('.').to_owned()),
    }
}

/// Writes a picture.
pub(super) fn write(array: &ArrayRef<'_>, to: &mut impl Write) -> Result<(), Fault> {
    let shape = || Fault::UnwritableShape(array.shape().to_vec(), Format::Png);
    let (height, width, color) = match *array.shape() {
        [height, width] | [height, width, 1] => (height, width, ColorType::Grayscale),
        [height, width, 2] => (height, width, ColorType::GrayscaleAlpha),
        [height, width, 3] => (height, width, ColorType::Rgb),
        [height, width, 4] => (height, width, ColorType::Rgba),
        _ => return Err(shape()),
    };
    let size = |n: usize| u32::try_from(n).ok().filter(|n| (1..1 << 31).contains(n)).ok_or_else(shape);
    let mut encoder = Encoder::new(to, size(width)?, size(height)?);
    encoder.set_color(color);
    encoder.set_depth(if array.dtype() == Dtype::U16 { BitDepth::Sixteen } else { BitDepth::Eight });
    let mut writer = encoder.write_header().map_err(unwritten)?;
    if is_swapped(array.dtype(), false) {
        let mut bytes = array.bytes().to_vec();
        bytes.chunks_exact_mut(array.dtype().bytes()).for_each(<[u8]>::reverse);
        writer.write_image_data(&bytes).map_err(unwritten)?;
    } else {
        writer.write_image_data(array.bytes()).map_err(unwritten)?;
    }
    writer.finish().map_err(unwritten)
}

fn unwritten(error: EncodingError) -> Fault {
    match error {
        EncodingError::IoError(e) => e.into(),
        other => Fault::Png(other.to_string()),
    }
}
