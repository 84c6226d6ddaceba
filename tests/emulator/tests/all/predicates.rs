//! Comparisons, and instructions that use their results.

use half::{bf16, f16};

use crate::rows::holds;

/// `setp` and `set` of a type, against a function of the comparison's name.
fn compares(ty: &str, names: &[&str], compare: impl Fn(&str, u64, u64) -> bool) {
    for name in names {
        let yes = |v: &[u64]| compare(name, v[0], v[1]);
        let number = "selp.u32 %d, 1, 0, %p;";
        holds(&format!("setp.{name}.{ty} %p, %a, %b; {number}"), "u32", &[ty, ty], |v| yes(v).into());
        holds(&format!("set.{name}.u32.{ty} %d, %a, %b;"), "u32", &[ty, ty], |v| if yes(v) { u64::MAX } else { 0 });
        if !ty.ends_with("f16") {
            let one = |v: &[u64]| if yes(v) { 0x3f80_0000 } else { 0 };
            holds(&format!("set.{name}.f32.{ty} %d, %a, %b;"), "f32", &[ty, ty], one);
        }
    }
}

#[test]
fn integers_compare() {
    fn by_name<T: Ord>(name: &str, a: T, b: T) -> bool {
        match name {
            "eq" => a == b,
            "ne" => a != b,
            "lt" | "lo" => a < b,
            "le" | "ls" => a <= b,
            "gt" | "hi" => a > b,
            _ => a >= b,
        }
    }
    let signed = ["eq", "ne", "lt", "le", "gt", "ge"];
    let unsigned = ["eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"];
    compares("s16", &signed, |name, a, b| by_name(name, a as i16, b as i16));
    compares("s32", &signed, |name, a, b| by_name(name, a as i32, b as i32));
    compares("s64", &signed, |name, a, b| by_name(name, a as i64, b as i64));
    for ty in ["u16", "u32", "u64"] {
        compares(ty, &unsigned, by_name);
    }
    for ty in ["b16", "b32", "b64"] {
        compares(ty, &["eq", "ne"], by_name);
    }
}

#[test]
fn floats_compare() {
    fn by_name(name: &str, a: f64, b: f64) -> bool {
        let nan = a.is_nan() || b.is_nan();
        match name {
            "num" => !nan,
            "nan" => nan,
            // Those that end in `u` are true for a NaN, the others are not.
            "equ" | "neu" | "ltu" | "leu" | "gtu" | "geu" => nan || by_name(&name[..2], a, b),
            _ if nan => false,
            "eq" => a == b,
            "ne" => a != b,
            "lt" => a < b,
            "le" => a <= b,
            "gt" => a > b,
            _ => a >= b,
        }
    }
    let names = ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"];
    compares("f32", &names, |name, a, b| {
        by_name(name, f32::from_bits(a as u32).into(), f32::from_bits(b as u32).into())
    });
    compares("f64", &names, |name, a, b| by_name(name, f64::from_bits(a), f64::from_bits(b)));
    compares("f16", &names, |name, a, b| {
        by_name(name, f16::from_bits(a as u16).to_f64(), f16::from_bits(b as u16).to_f64())
    });
    compares("bf16", &names, |name, a, b| {
        by_name(name, bf16::from_bits(a as u16).to_f64(), bf16::from_bits(b as u16).to_f64())
    });
}

#[test]
fn predicates_combine() {
    let words = ["u32", "u32"];
    let rest = "selp.u32 %x, 1, 0, %p; selp.u32 %y, 2, 0, %q; or.b32 %d, %x, %y;";
    let both = |p: bool, q: bool| u64::from(p) | u64::from(q) << 1;
    for (name, apply) in
        [("and", (|a, b| a & b) as fn(bool, bool) -> bool), ("or", |a, b| a | b), ("xor", |a, b| a ^ b)]
    {
        let setp = format!("setp.eq.u32 %r, %b, 2; setp.lt.{name}.u32 %p|%q, %a, %b, %r; {rest}");
        holds(&setp, "u32", &words, |v| both(apply(v[0] < v[1], v[1] == 2), apply(v[0] >= v[1], v[1] == 2)));
        let negated = format!("setp.eq.u32 %r, %b, 2; setp.lt.{name}.u32 %p|%q, %a, %b, !%r; {rest}");
        holds(&negated, "u32", &words, |v| both(apply(v[0] < v[1], v[1] != 2), apply(v[0] >= v[1], v[1] != 2)));
        let logic = format!(
            "setp.lt.u32 %p, %a, %b; setp.eq.u32 %q, %b, 2; {name}.pred %r, %p, %q; not.pred %q, %r;
            mov.pred %p, %r; {rest}"
        );
        holds(&logic, "u32", &words, |v| {
            let r = apply(v[0] < v[1], v[1] == 2);
            both(r, !r)
        });
    }
    holds(
        "setp.lt.u32 %p|%q, %a, %b; mov.pred %r, 1; and.pred %p, %p, %r; or.pred %q, %q, 0; \
        selp.u32 %x, 1, 0, %p; selp.u32 %y, 2, 0, %q; or.b32 %d, %x, %y;",
        "u32",
        &words,
        |v| both(v[0] < v[1], v[0] >= v[1]),
    );
}

#[test]
fn guards_choose_lanes() {
    let code = "setp.lt.u32 %p, %a, %b; mov.u32 %d, 7; @%p mov.u32 %d, %a; @!%p add.u32 %d, %d, %b;";
    holds(code, "u32", &["u32", "u32"], |v| if v[0] < v[1] { v[0] } else { v[1] + 7 });
    let branches = "setp.lt.u32 %p, %a, %b; @%p bra $less; mov.u32 %d, %b; bra.uni $end; $less: mov.u32 %d, %a; $end:";
    holds(branches, "u32", &["u32", "u32"], |v| v[0].min(v[1]));
    for ty in ["u16", "b32", "f32", "u64", "f64"] {
        let code = format!("setp.eq.u32 %p, %c, 1; selp.{ty} %d, %a, %b, %p;");
        holds(&code, ty, &[ty, ty, "u32"], |v| if v[2] == 1 { v[0] } else { v[1] });
    }
}
