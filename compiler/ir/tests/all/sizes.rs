//! Sizes and affine expressions, compared with arithmetic, and as text.

use ir::size::{Atom, SizeError};
use ir::{Affine, Size, SymbolId};

fn n() -> Size {
    Size::symbol(SymbolId::from_u32(0))
}

fn m() -> Size {
    Size::symbol(SymbolId::from_u32(1))
}

fn k(value: i64) -> Size {
    Size::constant(value)
}

fn text(size: &Size) -> String {
    size.display(&|symbol| if symbol.as_u32() == 0 { "n" } else { "m" }).to_string()
}

fn at(n: i64, m: i64) -> impl Fn(SymbolId) -> i64 {
    move |symbol| if symbol.as_u32() == 0 { n } else { m }
}

#[test]
fn quotients_are_simple_where_they_can_be() {
    assert_eq!(n().floor_div(&k(1)), n());
    assert_eq!(k(-7).floor_div(&k(2)), k(-4));
    assert_eq!((&(&k(6) * &n()) + &k(9)).floor_div(&k(3)), &(&k(2) * &n()) + &k(3));
    for kept in [n().floor_div(&k(2)), k(5).floor_div(&k(0)), k(5).floor_div(&k(-1)), n().floor_div(&m())] {
        assert!(
            matches!(kept.terms(), [(product, 1)] if matches!(product.as_slice(), [Atom::FloorDiv(..)])),
            "{kept:?}"
        );
    }
    assert_eq!((&k(6) * &n()).exact_div(&k(3)), Some(&k(2) * &n()));
    assert_eq!((&k(6) * &n()).exact_div(&k(4)), None);
}

#[test]
fn quotients_are_those_of_arithmetic() {
    for value in -20..20 {
        for by in 1..6 {
            assert_eq!(n().floor_div(&k(by)).eval(&at(value, 0)), Ok(value.div_euclid(by)));
            let up = value.div_euclid(by) + i64::from(value.rem_euclid(by) > 0);
            assert_eq!(n().ceil_div(&k(by)).eval(&at(value, 0)), Ok(up), "{value} / {by}");
            assert_eq!(k(value).ceil_div(&k(by)), k(up), "{value} / {by}");
        }
    }
    for by in [0, -1] {
        assert_eq!(n().floor_div(&m()).eval(&at(7, by)), Err(SizeError::DivisionByZero));
        assert_eq!(n().floor_div(&m()).wrapping(&at(7, by)), 0);
    }
    assert_eq!(n().floor_div(&m()).eval(&at(7, 1)), Ok(7));
}

#[test]
fn what_overflows_has_no_value_and_a_wrapped_one() {
    let wide = &(&k(i64::MAX) * &n()) + &n();
    assert!(wide.is_overflow());
    assert_eq!(wide.eval(&at(0, 0)), Err(SizeError::Overflow));
    assert_eq!(wide.wrapping(&at(3, 0)), i64::MAX.wrapping_mul(3).wrapping_add(3));
    // Neither a later sum that does not overflow nor an enclosing quotient makes it exact.
    assert!((&wide + &k(1)).is_overflow());
    assert!((&(&(&k(i64::MAX) * &n()) + &m()) + &(&n() + &m())).is_overflow());
    assert!(wide.floor_div(&m()).is_overflow() && m().floor_div(&wide).is_overflow());
    assert!(!n().floor_div(&m()).is_overflow());
    assert_eq!((&n() * &n()).eval(&at(1 << 32, 0)), Err(SizeError::Overflow));
    assert_eq!((&n() + &m()).eval(&at(i64::MAX, 1)), Err(SizeError::Overflow));
}

#[test]
fn parts_of_sizes() {
    let size = &(&k(3) * &n()) - &k(7);
    assert_eq!((size.constant_part(), n().constant_part(), k(2).constant_part()), (-7, 0, 2));
    assert_eq!(
        (n().as_symbol(), (&k(2) * &n()).as_symbol(), k(1).as_symbol()),
        (Some(SymbolId::from_u32(0)), None, None)
    );
    let swapped =
        (&size.floor_div(&m()) + &m()).substitute(&|symbol| if symbol.as_u32() == 0 { &m() + &k(1) } else { n() });
    assert_eq!(text(&swapped), "n + (3 * m - 4) / n");
}

#[test]
fn sizes_are_written_as_one_writes_them() {
    let cases = [
        (k(0), "0"),
        (k(-3), "-3"),
        (&k(4) - &n(), "-n + 4"),
        (&(&m() - &n()) - &k(1), "m - n - 1"),
        (&(&k(-2) * &n()) + &m(), "m - 2 * n"),
        (&(&n() * &m()) + &(&k(2) * &n()), "2 * n + n * m"),
        ((&n() + &k(1)).floor_div(&k(2)), "(n + 1) / 2"),
        (&k(-1) * &n().floor_div(&m()), "-(n / m)"),
        (&n().floor_div(&k(2)) + &k(1), "n / 2 + 1"),
    ];
    for (size, expected) in cases {
        assert_eq!(text(&size).replace(' ', ""), expected.replace(' ', ""));
    }
}

#[test]
fn products_of_expressions() {
    let i: Affine<u32> = Affine::index(0);
    let size: Affine<u32> = Affine::size(n());
    assert_eq!(i.mul(&size), Some(i.scale(&n())));
    assert_eq!(size.mul(&i), Some(i.scale(&n())));
    assert_eq!(i.mul(&i), None);
    assert_eq!(i.scale(&k(0)), Affine::constant(0));
    // Terms with size 0 are removed.
    let sum = i.scale(&n()).add(&Affine::index(1).scale(&m()));
    let gone = sum.map_sizes(&|size| if *size == n() { k(0) } else { size.clone() });
    assert_eq!(gone, Affine::index(1).scale(&m()));
    assert_eq!(sum.map_sizes(&Size::clone), sum);
}
