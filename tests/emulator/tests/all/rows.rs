//! Tests one instruction at a time: a kernel applies it to rows of operands, one in each thread,
//! with values that reveal mistakes.

use half::{bf16, f16};

use crate::common::{Random, arguments, launch, module};
use emulator::Memory;

/// Bits of a type.
pub fn width(ty: &str) -> usize {
    ty.trim_start_matches(|c: char| c.is_ascii_alphabetic()).trim_end_matches("x2").parse::<usize>().expect("a width")
        * if ty.ends_with("x2") { 2 } else { 1 }
}

/// Values of a type where instructions go wrong.
pub fn special(ty: &str) -> Vec<u64> {
    let float: &[f64] = &[
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        0.3,
        3.0,
        255.0,
        256.5,
        65504.0,
        -65520.0,
        1e9,
        -3e9,
        2147483648.0,
        4294967040.0,
        1e19,
        -1e19,
        1e-8,
        -6e-8,
        1e-40,
        1e38,
        -3e38,
        1e-300,
        1e300,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    match ty {
        "f16" => float.iter().map(|f| f16::from_f64(*f).to_bits().into()).chain([1, 0x83ff, 0x0400]).collect(),
        "bf16" => float.iter().map(|f| bf16::from_f64(*f).to_bits().into()).chain([1, 0x807f, 0x0080]).collect(),
        "f32" => float.iter().map(|f| (*f as f32).to_bits().into()).chain([1, 0x807f_ffff, 0x0080_0000]).collect(),
        "f64" => float.iter().map(|f| f.to_bits()).chain([1, 0x800f_ffff_ffff_ffff]).collect(),
        _ => {
            let top = 1u64 << (width(ty) - 1);
            let near = [0, 1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 0x80, 0xff, 0x100];
            let mut all: Vec<u64> = near.to_vec();
            all.extend(near.map(|v| top.wrapping_sub(v)));
            all.extend(near.map(|v| top.wrapping_add(v)));
            all.extend(near.map(|v| 0u64.wrapping_sub(v)));
            all.iter().map(|v| v & ones(width(ty))).collect()
        }
    }
}

pub fn ones(bits: usize) -> u64 {
    if bits == 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// A random value: any bits, or only a few of them set.
fn random(ty: &str, random: &mut Random) -> u64 {
    let bits = random.next();
    let value = match bits % 4 {
        0 => random.next() >> (bits >> 8 & 63),
        _ => random.next(),
    };
    value & ones(width(ty))
}

/// Inputs: all pairs of special values, and random ones.
pub fn inputs(types: &[&str]) -> Vec<Vec<u64>> {
    let mut source = Random(7);
    let mut rows: Vec<Vec<u64>> = vec![];
    let values: Vec<Vec<u64>> = types.iter().map(|ty| special(ty)).collect();
    let pairs = if types.len() > 1 { values[1].len() } else { 1 };
    for first in 0..values[0].len() {
        for second in 0..pairs {
            let pick = |index: usize, source: &mut Random| match index {
                0 => values[0][first],
                1 => values[1][second],
                _ => values[index][(source.next() >> 20) as usize % values[index].len()],
            };
            rows.push((0..types.len()).map(|index| pick(index, &mut source)).collect());
        }
    }
    for _ in 0..600 {
        rows.push(types.iter().map(|ty| random(ty, &mut source)).collect());
    }
    rows
}

/// The type that stores and loads a register of a type.
fn stored(ty: &str) -> String {
    format!("b{}", width(ty))
}

/// Runs `code` on `%a`, `%b`, `%c`, `%e` of the types given, for each row of inputs: the value of
/// `%d` of type `to`.
pub fn results(code: &str, to: &str, types: &[&str], rows: &[Vec<u64>]) -> Vec<u64> {
    // Registers of packed and brain floats are bits.
    let register = |ty: &str| if ty.starts_with("bf") || ty.ends_with("x2") { stored(ty) } else { ty.to_owned() };
    let names = ["a", "b", "c", "e"];
    let mut text = String::from(".visible .entry k(.param .u64 n, .param .u64 d");
    for name in &names[..types.len()] {
        text += &format!(", .param .u64 {name}");
    }
    text += ")\n{\n.reg .u64 %i, %n, %at, %s;\n.reg .u32 %t, %x, %y;\n.reg .pred %p, %q, %r;\n";
    text += &format!(".reg .{} %d;\n", register(to));
    for (name, ty) in names.iter().zip(types) {
        text += &format!(".reg .{} %{name};\n", register(ty));
    }
    text += "mov.u32 %t, %tid.x; mov.u32 %x, %ctaid.x; mov.u32 %y, %ntid.x; mad.lo.u32 %t, %x, %y, %t;\n";
    text += "cvt.u64.u32 %i, %t; ld.param.u64 %n, [n]; setp.ge.u64 %p, %i, %n; @%p ret;\n";
    for (name, ty) in names.iter().zip(types) {
        text += &format!("ld.param.u64 %at, [{name}]; mad.lo.u64 %at, %i, {}, %at;\n", width(ty) / 8);
        text += &format!("ld.global.{} %{name}, [%at];\n", stored(ty));
    }
    text += &format!("{code}\nld.param.u64 %at, [d]; mad.lo.u64 %at, %i, {}, %at;\n", width(to) / 8);
    text += &format!("st.global.{} [%at], %d;\nret;\n}}\n", stored(to));
    let mut memory = Memory::new();
    let out = memory.allocate(rows.len() * width(to) / 8);
    let mut values = vec![rows.len() as u64, out];
    for (index, ty) in types.iter().enumerate() {
        let bytes: Vec<u8> = rows.iter().flat_map(|row| row[index].to_le_bytes()[..width(ty) / 8].to_vec()).collect();
        values.push(memory.allocate(bytes.len()));
        memory.write(values[values.len() - 1], &bytes);
    }
    let grid = rows.len().div_ceil(128) as u32;
    let module = module(&text);
    module
        .launch(&mut memory, "k", launch(grid, 128, 3), &arguments(&values))
        .unwrap_or_else(|f| panic!("{f}\n{text}"));
    let bytes = memory.read(out, rows.len() * width(to) / 8).expect("each thread wrote");
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
    bytes.chunks_exact(width(to) / 8).map(word).collect()
}

/// Compares an instruction with a function of its operands' bits.
pub fn holds(code: &str, to: &str, types: &[&str], expected: impl Fn(&[u64]) -> u64) {
    let rows = inputs(types);
    check(code, to, types, &rows, expected);
}

/// As `holds`, of these operands.
pub fn check(code: &str, to: &str, types: &[&str], rows: &[Vec<u64>], expected: impl Fn(&[u64]) -> u64) {
    for (row, found) in rows.iter().zip(results(code, to, types, rows)) {
        let expected = expected(row) & ones(width(to));
        assert!(found == expected, "{code} of {row:x?}: {found:#x}, not {expected:#x}");
    }
}
