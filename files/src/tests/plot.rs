//! Plots: lines through what is finite, whatever the shape and the numbers.

use super::*;

fn plot(folder: &Folder, array: &Array) -> String {
    String::from_utf8(folder.written("a.svg", array)).unwrap()
}

/// The stretches that are drawn for these elements.
fn stretches(folder: &Folder, shape: &[usize], elements: &[f64]) -> usize {
    let strokes = |array: &Array| plot(folder, array).matches("stroke-width=\"2\"").count();
    strokes(&Array::from_slice(shape, elements).unwrap())
}

#[test]
fn a_row_is_a_line_with_gaps() {
    let folder = Folder::new();
    assert_eq!(stretches(&folder, &[4], &[0.5, 0.25, 2.0, 1.0]), 1);
    assert_eq!(stretches(&folder, &[2, 3], &[0.5, 0.25, 2.0, 1.0, 1.0, 1.0]), 2);
    assert_eq!(stretches(&folder, &[5], &[0.5, 0.25, f64::NAN, 1.0, 2.0]), 2);
    assert_eq!(stretches(&folder, &[3], &[f64::INFINITY, f64::NAN, f64::NAN]), 0);
}

#[test]
fn any_array_of_one_or_two_axes_has_a_plot() {
    let folder = Folder::new();
    for dtype in Dtype::ALL {
        for shape in [&[0][..], &[1], &[5], &[0, 3], &[3, 0], &[1, 1], &[120, 2]] {
            let picture = plot(&folder, &Array::zeros(dtype, shape).unwrap());
            assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"), "{dtype} {shape:?}");
        }
    }
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, 5e-324, -0.0, 1.0];
    for first in odd {
        for second in odd {
            let picture = plot(&folder, &Array::from_slice(&[3], &[first, second, 1.0]).unwrap());
            assert!(!picture.contains("NaN") && !picture.contains("inf"), "{first} {second}\n{picture}");
        }
    }
}

#[test]
fn long_lines_keep_their_extremes_and_stay_small() {
    let folder = Folder::new();
    let mut elements = vec![0.0f32; 1_000_000];
    elements[777_777] = 1.0;
    let picture = plot(&folder, &Array::from_slice(&[1_000_000], &elements).unwrap());
    assert!(picture.len() < 100_000, "{}", picture.len());
    elements[777_777] = 0.0;
    assert_ne!(picture, plot(&folder, &Array::from_slice(&[1_000_000], &elements).unwrap()));
}

#[test]
fn a_plot_is_not_read_and_has_one_or_two_axes() {
    let folder = Folder::new();
    assert_eq!(folder.read("a.svg", b"<svg/>").unwrap_err().code(), codes::ONLY_WRITTEN);
    for shape in [&[][..], &[1, 1, 1]] {
        let array = Array::zeros(Dtype::F32, shape).unwrap();
        let error = save(&[(folder.place("b.svg"), array.as_ref())], Packing::Stored).unwrap_err();
        assert_eq!(error.code(), codes::UNWRITABLE_SHAPE);
    }
}
