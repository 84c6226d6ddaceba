//! Pictures: their types and shapes, and files that are none.

use png::{BitDepth, ColorType, Encoder};

use super::*;

/// The file of a picture of 3 x 2 pixels.
fn picture(color: ColorType, depth: BitDepth, palette: Option<&[u8]>, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![];
    let mut encoder = Encoder::new(&mut bytes, 3, 2);
    encoder.set_color(color);
    encoder.set_depth(depth);
    if let Some(palette) = palette {
        encoder.set_palette(palette);
    }
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(data).unwrap();
    writer.finish().unwrap();
    bytes
}

#[test]
fn pictures_are_read_whatever_their_kind() {
    let folder = Folder::new();
    let grey: Vec<u8> = (0..6).map(|k| k * 40).collect();
    let read = |bytes: &[u8]| folder.read("a.png", bytes).unwrap();
    let found = read(&picture(ColorType::Grayscale, BitDepth::Eight, None, &grey));
    assert_eq!(found, Array::from_slice(&[2, 3], &grey).unwrap());
    let colours: Vec<u8> = (0..18).collect();
    let found = read(&picture(ColorType::Rgb, BitDepth::Eight, None, &colours));
    assert_eq!(found, Array::from_slice(&[2, 3, 3], &colours).unwrap());
    // A bit for each pixel, from the left.
    let found = read(&picture(ColorType::Grayscale, BitDepth::One, None, &[0b101_00000, 0b010_00000]));
    assert_eq!(found, Array::from_slice(&[2, 3], &[255u8, 0, 255, 0, 255, 0]).unwrap());
    let palette = [1u8, 2, 3, 250, 251, 252];
    let found = read(&picture(ColorType::Indexed, BitDepth::Eight, Some(&palette), &[0, 1, 0, 1, 1, 0]));
    let expected: Vec<u8> =
        [0, 1, 0, 1, 1, 0].into_iter().flat_map(|k: usize| palette[3 * k..][..3].to_vec()).collect();
    assert_eq!(found, Array::from_slice(&[2, 3, 3], &expected).unwrap());
    let wide: Vec<u8> = (0..6u16).flat_map(|k| (k * 10_000).to_be_bytes()).collect();
    let found = read(&picture(ColorType::Grayscale, BitDepth::Sixteen, None, &wide));
    assert_eq!(found, Array::from_slice(&[2, 3], &[0u16, 10_000, 20_000, 30_000, 40_000, 50_000]).unwrap());
}

#[test]
fn what_is_written_reads_back() {
    let folder = Folder::new();
    for shape in [&[2, 3][..], &[2, 3, 2], &[2, 3, 3], &[2, 3, 4], &[1, 1]] {
        let count: usize = shape.iter().product();
        let small = Array::from_slice(shape, &(0..24u8).map(|k| k * 10).collect::<Vec<_>>()[..count]).unwrap();
        let wide = Array::from_slice(shape, &(0..24u16).map(|k| k * 2_700).collect::<Vec<_>>()[..count]).unwrap();
        for array in [small, wide] {
            let bytes = folder.written("a.png", &array);
            assert_eq!(folder.read("b.png", &bytes).unwrap(), array);
        }
    }
    // One channel is grey.
    let bytes = folder.written("a.png", &Array::from_slice(&[1, 2, 1], &[3u8, 4]).unwrap());
    assert_eq!(folder.read("b.png", &bytes).unwrap(), Array::from_slice(&[1, 2], &[3u8, 4]).unwrap());
}

#[test]
fn what_is_no_picture_is_an_error() {
    let folder = Folder::new();
    let good = picture(ColorType::Grayscale, BitDepth::Eight, None, &[7; 6]);
    let code = |bytes: &[u8]| folder.read("a.png", bytes).map(drop).map_err(|e| e.code()).unwrap_err();
    assert_eq!(code(b"1 2 3"), codes::PNG);
    assert_eq!(code(b""), codes::PNG);
    for cut in [8, 20, 40, good.len() - 20] {
        assert_eq!(code(&good[..cut]), codes::PNG, "{cut}");
    }
    // A header that claims 2^31 pixels in each direction.
    let mut huge = good.clone();
    huge[16..24].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]);
    assert!([codes::PNG, codes::RATIO, codes::TOO_LARGE].contains(&code(&huge)));
    let save = |array: &Array| save(&[(folder.place("b.png"), array.as_ref())], Packing::Stored).unwrap_err();
    assert_eq!(save(&Array::from_slice(&[1, 2], &[1.0f32, 2.0]).unwrap()).code(), codes::UNWRITABLE_DTYPE);
    for shape in [&[2][..], &[0, 2], &[2, 2, 5], &[1, 2, 2, 2]] {
        let array = Array::zeros(Dtype::U8, shape).unwrap();
        assert_eq!(save(&array).code(), codes::UNWRITABLE_SHAPE, "{shape:?}");
    }
    let message = drawn(&save(&Array::zeros(Dtype::U8, &[2, 2, 5]).unwrap()));
    assert!(message.contains("the .png format has no array of shape [2, 2, 5]"), "{message}");
}
