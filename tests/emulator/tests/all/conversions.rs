//! `cvt` between all types, and instructions that move bits without computing.

use half::{bf16, f16};

use crate::rows::{check, holds, inputs, ones, results, width};

/// A number of a type, exactly.
#[derive(Clone, Copy)]
enum Number {
    Integer(i128),
    Float(f64),
}

const INTEGERS: [&str; 8] = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"];
const FLOATS: [&str; 4] = ["f16", "bf16", "f32", "f64"];

fn number(ty: &str, bits: u64) -> Number {
    match ty {
        "f16" => Number::Float(f16::from_bits(bits as u16).to_f64()),
        "bf16" => Number::Float(bf16::from_bits(bits as u16).to_f64()),
        "f32" => Number::Float(f32::from_bits(bits as u32).into()),
        "f64" => Number::Float(f64::from_bits(bits)),
        _ => {
            let up = 128 - width(ty);
            let value = (bits as i128) << up;
            Number::Integer(if ty.starts_with('s') { value >> up } else { (value as u128 >> up) as i128 })
        }
    }
}

/// The least and the greatest of an integer type.
fn range(ty: &str) -> (i128, i128) {
    let bits = width(ty);
    if ty.starts_with('s') { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

#[test]
fn integers_to_integers() {
    for from in INTEGERS {
        for to in INTEGERS {
            // Registers have at least 16 bits, and an 8-bit result is extended to them.
            let (held, load) = (to.replace('8', "16"), from.replace('8', "16"));
            // There is no saturating form if nothing can be out of range.
            let ((least, most), (lower, upper)) = (range(from), range(to));
            let exceeds = least < lower || most > upper;
            for saturate in [false, true].into_iter().take(1 + usize::from(exceeds)) {
                let code = format!("cvt.{}{to}.{from} %d, %a;", if saturate { "sat." } else { "" });
                holds(&code, &held, &[&load], |v| {
                    let Number::Integer(value) = number(from, v[0] & ones(width(from))) else { unreachable!() };
                    let (least, most) = range(to);
                    let value = if saturate { value.clamp(least, most) } else { value };
                    let Number::Integer(value) = number(to, value as u64 & ones(width(to))) else { unreachable!() };
                    value as u64
                });
            }
        }
    }
}

#[test]
fn floats_to_integers() {
    type Round = fn(f64) -> f64;
    let roundings: [(&str, Round); 4] =
        [("rni", f64::round_ties_even), ("rzi", f64::trunc), ("rmi", f64::floor), ("rpi", f64::ceil)];
    for from in FLOATS {
        for to in &INTEGERS[2..] {
            for (name, round) in roundings {
                holds(&format!("cvt.{name}.{to}.{from} %d, %a;"), to, &[from], |v| {
                    let Number::Float(value) = number(from, v[0]) else { unreachable!() };
                    let (least, most) = range(to);
                    if value.is_nan() {
                        // As the manual says: zero, except for conversions that go through 64 bits.
                        return if from == "f64" || width(to) == 64 { 1 << (width(to) - 1) } else { 0 };
                    }
                    (round(value) as i128).clamp(least, most) as u64
                });
            }
        }
    }
}

#[test]
fn integers_to_floats() {
    for from in &INTEGERS[2..] {
        let value = |v: &[u64]| match number(from, v[0]) {
            Number::Integer(value) => value,
            Number::Float(_) => unreachable!(),
        };
        holds(&format!("cvt.rn.f32.{from} %d, %a;"), "f32", &[from], |v| (value(v) as f32).to_bits().into());
        holds(&format!("cvt.rn.f64.{from} %d, %a;"), "f64", &[from], |v| (value(v) as f64).to_bits());
        // Through a double, which represents all numbers that fit into 16 bits well enough.
        holds(&format!("cvt.rn.f16.{from} %d, %a;"), "f16", &[from], |v| {
            f16::from_f64(value(v).clamp(-100_000, 100_000) as f64).to_bits().into()
        });
        holds(&format!("cvt.rz.f32.{from} %d, %a;"), "f32", &[from], |v| {
            let (exact, near) = (value(v), value(v) as f32);
            let past = (near as i128).abs() > exact.abs();
            let down = if near > 0.0 { near.next_down() } else { near.next_up() };
            (if past { down } else { near }).to_bits().into()
        });
        holds(&format!("cvt.rp.f32.{from} %d, %a;"), "f32", &[from], |v| {
            let (exact, near) = (value(v), value(v) as f32);
            (if (near as i128) < exact { near.next_up() } else { near }).to_bits().into()
        });
    }
}

#[test]
fn floats_to_floats() {
    let nan = |value: f64, bits: u64, canonical: u64| if value.is_nan() { canonical } else { bits };
    for from in FLOATS {
        let value = |v: &[u64]| match number(from, v[0]) {
            Number::Float(value) => value,
            Number::Integer(_) => unreachable!(),
        };
        let single = |f: f64| nan(f, (f as f32).to_bits().into(), 0x7fff_ffff);
        if from != "f64" {
            holds(&format!("cvt.f64.{from} %d, %a;"), "f64", &[from], |v| {
                nan(value(v), value(v).to_bits(), u64::MAX >> 1)
            });
        }
        match from {
            "f64" => holds("cvt.rn.f32.f64 %d, %a;", "f32", &[from], |v| single(value(v))),
            "f32" => {}
            _ => holds(&format!("cvt.f32.{from} %d, %a;"), "f32", &[from], |v| single(value(v))),
        }
        let directed = |v: &[u64], up: bool| {
            let (exact, near) = (value(v), value(v) as f32);
            let past = if up { f64::from(near) < exact } else { f64::from(near) > exact };
            single(match (past, up) {
                (false, _) => near.into(),
                (true, true) => near.next_up().into(),
                (true, false) => near.next_down().into(),
            })
        };
        if from == "f64" {
            holds("cvt.rp.f32.f64 %d, %a;", "f32", &[from], |v| directed(v, true));
            holds("cvt.rm.f32.f64 %d, %a;", "f32", &[from], |v| directed(v, false));
        }
        let rni: &str = &format!("cvt.rni.{from}.{from} %d, %a;");
        if from == "f32" {
            holds(rni, from, &[from], |v| single(value(v).round_ties_even()));
            holds("cvt.sat.f32.f32 %d, %a;", from, &[from], |v| {
                let value = value(v);
                single(if value > 0.0 { value.min(1.0) } else { 0.0 })
            });
        }
    }
    let rounded = |v: &[u64], bits: u16| if f32::from_bits(v[0] as u32).is_nan() { 0x7fff } else { bits.into() };
    holds("cvt.rn.f16.f32 %d, %a;", "f16", &["f32"], |v| {
        rounded(v, f16::from_f32(f32::from_bits(v[0] as u32)).to_bits())
    });
    holds("cvt.rn.bf16.f32 %d, %a;", "bf16", &["f32"], |v| {
        rounded(v, bf16::from_f32(f32::from_bits(v[0] as u32)).to_bits())
    });
    holds("cvt.rn.bf16x2.f32 %d, %a, %b;", "bf16x2", &["f32", "f32"], |v| {
        let half = |b: u64| rounded(&[b], bf16::from_f32(f32::from_bits(b as u32)).to_bits());
        half(v[0]) << 16 | half(v[1])
    });
    holds("cvt.rn.f16x2.f32 %d, %a, %b;", "f16x2", &["f32", "f32"], |v| {
        let half = |b: u64| rounded(&[b], f16::from_f32(f32::from_bits(b as u32)).to_bits());
        half(v[0]) << 16 | half(v[1])
    });
}

#[test]
fn every_half_goes_there_and_back() {
    let rows: Vec<Vec<u64>> = (0..1 << 16).map(|bits| vec![bits]).collect();
    for ty in ["f16", "bf16"] {
        let code = format!("{{ .reg .f32 %w; cvt.f32.{ty} %w, %a; cvt.rn.{ty}.f32 %d, %w; }}");
        check(&code, ty, &[ty], &rows, |v| match number(ty, v[0]) {
            Number::Float(value) if value.is_nan() => 0x7fff,
            _ => v[0],
        });
    }
}

#[test]
fn moves_keep_bits() {
    // A move need not preserve the payload of a NaN.
    holds("mov.f32 %d, %a;", "f32", &["f32"], |v| v[0]);
    holds("mov.b64 %d, %a;", "f64", &["f64"], |v| v[0]);
    holds("{ .reg .b32 %l, %h; mov.b64 {%l, %h}, %a; mov.b64 %d, {%h, %l}; }", "b64", &["b64"], |v| {
        v[0].rotate_left(32)
    });
    holds("{ .reg .b16 %l, %h; mov.b32 {%l, %h}, %a; mov.b32 %d, {%h, %l}; }", "b32", &["b32"], |v| {
        (v[0] as u32).rotate_left(16).into()
    });
    holds(
        "{ .reg .b16 %h<4>; mov.b64 {%h0, %h1, %h2, %h3}, %a; mov.b64 %d, {%h3, %h2, %h1, %h0}; }",
        "b64",
        &["b64"],
        |v| (0..4).map(|i| (v[0] >> (16 * i) & 0xffff) << (48 - 16 * i)).sum(),
    );
    // A name means what its innermost braces say.
    holds("mov.u32 %x, %a; { .reg .u32 %x; mov.u32 %x, 5; } mov.u32 %d, %x;", "u32", &["u32"], |v| v[0]);
    let constants = |code: &str, ty: &str| results(code, ty, &["u32"], &inputs(&["u32"])[..1])[0];
    assert_eq!(constants("mov.f32 %d, 0fBF800000;", "f32"), 0xbf80_0000);
    assert_eq!(constants("mov.f32 %d, -1.5;", "f32"), 0xbfc0_0000);
    assert_eq!(constants("mov.f64 %d, 0d3FF0000000000001;", "f64"), 0x3ff0_0000_0000_0001);
    assert_eq!(constants("mov.b32 %d, -1;", "b32"), 0xffff_ffff);
    assert_eq!(constants("mov.u64 %d, 0xFFFFFFFFFFFFFFFF;", "u64"), u64::MAX);
    assert_eq!(constants("mov.s64 %d, -9223372036854775808;", "s64"), 1 << 63);
    assert_eq!(constants("mov.u32 %d, 0b101;", "u32"), 5);
    assert_eq!(constants("mov.u32 %d, 017U;", "u32"), 15);
}
