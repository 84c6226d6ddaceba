//! Instructions on integers and bits, compared with plain Rust at critical and at random values.

#![expect(clippy::unnecessary_cast, reason = "one body serves several types, of which `u64` is one")]

use crate::rows::{check, holds, inputs, ones, width};

/// For each integer type, its name and its Rust type within `$body`.
macro_rules! each_integer {
    ([$($name:literal = $t:ty),*], $ty:ident, $T:ident => $body:block) => {
        $({ let $ty = $name; type $T = $t; $body })*
    };
}

#[test]
fn integers_add_subtract_and_multiply() {
    each_integer!(["u16" = u16, "s16" = i16, "u32" = u32, "s32" = i32, "u64" = u64, "s64" = i64], ty, T => {
        let of = |op: &str, operands: &str| format!("{op}.{ty} %d, {operands};");
        holds(&of("add", "%a, %b"), ty, &[ty, ty], |v| (v[0] as T).wrapping_add(v[1] as T) as u64);
        holds(&of("sub", "%a, %b"), ty, &[ty, ty], |v| (v[0] as T).wrapping_sub(v[1] as T) as u64);
        holds(&of("mul.lo", "%a, %b"), ty, &[ty, ty], |v| (v[0] as T).wrapping_mul(v[1] as T) as u64);
        let high = |v: &[u64]| ((v[0] as T as i128).wrapping_mul(v[1] as T as i128) >> T::BITS) as T;
        holds(&of("mul.hi", "%a, %b"), ty, &[ty, ty], |v| high(v) as u64);
        holds(&of("mad.hi", "%a, %b, %c"), ty, &[ty, ty, ty], |v| high(v).wrapping_add(v[2] as T) as u64);
        holds(&of("mad.lo", "%a, %b, %c"), ty, &[ty, ty, ty], |v| {
            (v[0] as T).wrapping_mul(v[1] as T).wrapping_add(v[2] as T) as u64
        });
        holds(&of("min", "%a, %b"), ty, &[ty, ty], |v| (v[0] as T).min(v[1] as T) as u64);
        holds(&of("max", "%a, %b"), ty, &[ty, ty], |v| (v[0] as T).max(v[1] as T) as u64);
        holds(&of("sad", "%a, %b, %c"), ty, &[ty, ty, ty], |v| {
            ((v[0] as T as i128 - v[1] as T as i128).unsigned_abs() as u64).wrapping_add(v[2])
        });
    });
    holds("add.sat.s32 %d, %a, %b;", "s32", &["s32", "s32"], |v| (v[0] as i32).saturating_add(v[1] as i32) as u64);
    holds("sub.sat.s32 %d, %a, %b;", "s32", &["s32", "s32"], |v| (v[0] as i32).saturating_sub(v[1] as i32) as u64);
}

#[test]
fn integers_have_signs() {
    each_integer!(["s16" = i16, "s32" = i32, "s64" = i64], ty, T => {
        holds(&format!("abs.{ty} %d, %a;"), ty, &[ty], |v| (v[0] as T).wrapping_abs() as u64);
        holds(&format!("neg.{ty} %d, %a;"), ty, &[ty], |v| (v[0] as T).wrapping_neg() as u64);
    });
}

#[test]
fn integers_divide() {
    each_integer!(["u16" = u16, "s16" = i16, "u32" = u32, "s32" = i32, "u64" = u64, "s64" = i64], ty, T => {
        let rows: Vec<_> = inputs(&[ty, ty]).into_iter().filter(|row| row[1] != 0).collect();
        check(&format!("div.{ty} %d, %a, %b;"), ty, &[ty, ty], &rows, |v| (v[0] as T).wrapping_div(v[1] as T) as u64);
        check(&format!("rem.{ty} %d, %a, %b;"), ty, &[ty, ty], &rows, |v| (v[0] as T).wrapping_rem(v[1] as T) as u64);
    });
}

#[test]
fn products_are_wide() {
    let unsigned = |v: &[u64]| v[0] * v[1];
    holds("mul.wide.u16 %d, %a, %b;", "u32", &["u16", "u16"], unsigned);
    holds("mul.wide.u32 %d, %a, %b;", "u64", &["u32", "u32"], unsigned);
    holds("mul.wide.s16 %d, %a, %b;", "s32", &["s16", "s16"], |v| (v[0] as i16 as i64 * v[1] as i16 as i64) as u64);
    holds("mul.wide.s32 %d, %a, %b;", "s64", &["s32", "s32"], |v| (v[0] as i32 as i64 * v[1] as i32 as i64) as u64);
    holds("mad.wide.u16 %d, %a, %b, %c;", "u32", &["u16", "u16", "u32"], |v| unsigned(v).wrapping_add(v[2]));
    holds("mad.wide.u32 %d, %a, %b, %c;", "u64", &["u32", "u32", "u64"], |v| unsigned(v).wrapping_add(v[2]));
    holds("mad.wide.s16 %d, %a, %b, %c;", "s32", &["s16", "s16", "s32"], |v| {
        ((v[0] as i16 as i64 * v[1] as i16 as i64) as u64).wrapping_add(v[2])
    });
    holds("mad.wide.s32 %d, %a, %b, %c;", "s64", &["s32", "s32", "s64"], |v| {
        ((v[0] as i32 as i64 * v[1] as i32 as i64) as u64).wrapping_add(v[2])
    });
}

#[test]
fn carries_are_carried() {
    let two = |op: &str| {
        format!(
            "{{ .reg .u32 %l, %h, %m, %o; mov.b64 {{%l, %h}}, %a; mov.b64 {{%m, %o}}, %b;
            {op}.cc.u32 %l, %l, %m; {op}c.u32 %h, %h, %o; mov.b64 %d, {{%l, %h}}; }}"
        )
    };
    holds(&two("add"), "u64", &["u64", "u64"], |v| v[0].wrapping_add(v[1]));
    holds(&two("sub"), "u64", &["u64", "u64"], |v| v[0].wrapping_sub(v[1]));
    // The flag itself, of 64 bits.
    holds("add.cc.u64 %d, %a, %b; addc.cc.u64 %d, 0, 0;", "u64", &["u64", "u64"], |v| {
        v[0].checked_add(v[1]).is_none().into()
    });
    holds(
        "sub.cc.u64 %d, %a, %b; subc.u64 %d, 0, 0;",
        "u64",
        &["u64", "u64"],
        |v| if v[0] < v[1] { u64::MAX } else { 0 },
    );
    holds("add.cc.u32 %x, -1, 1; addc.cc.u32 %d, %a, %b; addc.u32 %d, %d, 0;", "u32", &["u32", "u32"], |v| {
        let sum = v[0] + v[1] + 1;
        sum + (sum >> 32)
    });
}

#[test]
fn bits_are_bits() {
    for ty in ["b16", "b32", "b64"] {
        let of = |op: &str| format!("{op}.{ty} %d, %a, %b;");
        holds(&of("and"), ty, &[ty, ty], |v| v[0] & v[1]);
        holds(&of("or"), ty, &[ty, ty], |v| v[0] | v[1]);
        holds(&of("xor"), ty, &[ty, ty], |v| v[0] ^ v[1]);
        holds(&format!("not.{ty} %d, %a;"), ty, &[ty], |v| !v[0]);
        holds(&format!("cnot.{ty} %d, %a;"), ty, &[ty], |v| u64::from(v[0] == 0));
        let bits = width(ty) as u64;
        holds(&of("shl"), ty, &[ty, "u32"], |v| if v[1] < bits { v[0] << v[1] } else { 0 });
        holds(&of("shr"), ty, &[ty, "u32"], |v| if v[1] < bits { v[0] >> v[1] } else { 0 });
    }
    for ty in ["s16", "s32", "s64"] {
        let up = 64 - width(ty);
        let shifted = move |v: &[u64]| ((v[0] << up) as i64 >> up >> v[1].min(63)) as u64;
        holds(&format!("shr.{ty} %d, %a, %b;"), ty, &[ty, "u32"], shifted);
    }
    for (ty, bits) in [("b32", 32), ("b64", 64)] {
        holds(&format!("popc.{ty} %d, %a;"), "u32", &[ty], |v| v[0].count_ones().into());
        holds(&format!("clz.{ty} %d, %a;"), "u32", &[ty], move |v| u64::from(v[0].leading_zeros()) + bits - 64);
        holds(&format!("brev.{ty} %d, %a;"), ty, &[ty], move |v| v[0].reverse_bits() >> (64 - bits));
    }
}

#[test]
fn funnels_shift() {
    let both = |v: &[u64]| v[1] << 32 | v[0];
    let words = ["b32", "b32", "u32"];
    holds("shf.l.wrap.b32 %d, %a, %b, %c;", "b32", &words, |v| both(v) << (v[2] & 31) >> 32);
    holds("shf.l.clamp.b32 %d, %a, %b, %c;", "b32", &words, |v| both(v) << v[2].min(32) >> 32);
    holds("shf.r.wrap.b32 %d, %a, %b, %c;", "b32", &words, |v| both(v) >> (v[2] & 31));
    holds("shf.r.clamp.b32 %d, %a, %b, %c;", "b32", &words, |v| both(v) >> v[2].min(32));
}

/// Bit by bit, as the manual defines it.
fn extract(value: u64, at: u64, length: u64, bits: u64, signed: bool) -> u64 {
    let (at, length) = (at & 255, length & 255);
    let bit = |index: u64| value >> index & 1;
    let sign = if signed && length > 0 { bit((at + length - 1).min(bits - 1)) } else { 0 };
    (0..bits).map(|i| if i < length && at + i < bits { bit(at + i) << i } else { sign << i }).sum()
}

#[test]
fn fields_are_found() {
    for (ty, bits, signed) in [("u32", 32, false), ("s32", 32, true), ("u64", 64, false), ("s64", 64, true)] {
        let code = format!("bfe.{ty} %d, %a, %b, %c;");
        holds(&code, ty, &[ty, "u32", "u32"], move |v| extract(v[0], v[1], v[2], bits, signed));
        let top = move |v: &[u64]| {
            let negative = signed && v[0] >> (bits - 1) & 1 == 1;
            let value = if negative { !v[0] & ones(bits as usize) } else { v[0] };
            value.checked_ilog2()
        };
        holds(&format!("bfind.{ty} %d, %a;"), "u32", &[ty], move |v| top(v).map_or(u64::MAX, u64::from));
        holds(&format!("bfind.shiftamt.{ty} %d, %a;"), "u32", &[ty], move |v| {
            top(v).map_or(u64::MAX, |top| bits - 1 - u64::from(top))
        });
    }
    for (ty, bits) in [("b32", 32), ("b64", 64)] {
        let code = format!("bfi.{ty} %d, %a, %b, %c, %e;");
        holds(&code, ty, &[ty, ty, "u32", "u32"], move |v| {
            let (at, length) = (v[2] & 255, v[3] & 255);
            let of = |i: u64| if i >= at && i - at < length { v[0] >> (i - at) & 1 } else { v[1] >> i & 1 };
            (0..bits).map(|i| of(i) << i).sum()
        });
    }
}

#[test]
fn bytes_and_tables() {
    holds("prmt.b32 %d, %a, %b, %c;", "b32", &["b32", "b32", "b32"], |v| {
        let byte = |digit: u64| {
            let byte = (v[1] << 32 | v[0]) >> (8 * (digit & 7)) & 255;
            if digit & 8 == 0 { byte } else { 255 * (byte >> 7) }
        };
        (0..4).map(|i| byte(v[2] >> (4 * i) & 15) << (8 * i)).sum()
    });
    let words = ["b32", "b32", "b32"];
    holds("lop3.b32 %d, %a, %b, %c, 0x80;", "b32", &words, |v| v[0] & v[1] & v[2]);
    holds("lop3.b32 %d, %a, %b, %c, 0x96;", "b32", &words, |v| v[0] ^ v[1] ^ v[2]);
    // The manual's way to build a table: the operation on three constants.
    let table = |a: u64, b: u64, c: u64| (a & b | !c) & 0xff;
    let code = format!("lop3.b32 %d, %a, %b, %c, {};", table(0xf0, 0xcc, 0xaa));
    holds(&code, "b32", &words, |v| v[0] & v[1] | !v[2]);
}
