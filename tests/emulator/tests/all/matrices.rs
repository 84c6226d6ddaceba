//! Matrix products in the registers of a warp, and the loads into these.

use emulator::{Memory, Module, Problem};
use half::{bf16, f16};

use crate::common::{Random, arguments, launch, module, put, read_words, words};
use crate::rows::{check, special};

/// The bits of a number as an element of a factor.
fn bits(ty: &str, number: f32) -> u32 {
    match ty {
        "f16" => f16::from_f32(number).to_bits().into(),
        "bf16" => bf16::from_f32(number).to_bits().into(),
        _ => number.to_bits(),
    }
}

/// The register contents of a warp's threads, element by element, as the ISA places them.
fn fragments(
    ty: &str,
    of: impl Fn(usize, usize, usize) -> (usize, usize),
    registers: usize,
    at: impl Fn(usize, usize) -> f32,
) -> Vec<u32> {
    let each = if ty == "tf32" { 1 } else { 2 };
    let mut all = vec![];
    for lane in 0..32 {
        for register in 0..registers {
            let parts = (0..each).map(|part| {
                let (row, column) = of(lane / 4, lane % 4, register * each + part);
                bits(ty, at(row, column)) << (16 * part)
            });
            all.push(parts.fold(0, |word, part| word | part));
        }
    }
    all
}

/// A warp whose threads load their parts of `a`, `b` and `c`, multiply, and store their parts of
/// the result.
fn program(ty: &str, guard: &str) -> String {
    let shape = if ty == "tf32" { "m16n8k8" } else { "m16n8k16" };
    format!(
        ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)
        {{
        .reg .pred %p; .reg .b32 %t, %a<4>, %b<2>, %c<4>; .reg .b64 %a, %b, %c, %d;
        mov.u32 %t, %tid.x;
        ld.param.u64 %a, [a]; mad.wide.u32 %a, %t, 16, %a; ld.global.v4.b32 {{%a0, %a1, %a2, %a3}}, [%a];
        ld.param.u64 %b, [b]; mad.wide.u32 %b, %t, 8, %b; ld.global.v2.b32 {{%b0, %b1}}, [%b];
        ld.param.u64 %c, [c]; mad.wide.u32 %c, %t, 16, %c; ld.global.v4.b32 {{%c0, %c1, %c2, %c3}}, [%c];
        setp.eq.u32 %p, %t, 7;
        {guard} mma.sync.aligned.{shape}.row.col.f32.{ty}.{ty}.f32 {{%c0, %c1, %c2, %c3}}, {{%a0, %a1, %a2, %a3}}, {{%b0, %b1}}, {{%c0, %c1, %c2, %c3}};
        ld.param.u64 %d, [d]; mad.wide.u32 %d, %t, 16, %d; st.global.v4.b32 [%d], {{%c0, %c1, %c2, %c3}};
        ret;
        }}"
    )
}

/// Multiplies fragments of numbers; the result by row and column.
fn multiply(
    ty: &str,
    a: &dyn Fn(usize, usize) -> f32,
    b: &dyn Fn(usize, usize) -> f32,
    c: &dyn Fn(usize, usize) -> f32,
) -> Vec<Vec<f32>> {
    // With 16-bit elements, a thread has eight of the left factor and four of the right one; with
    // wide elements, half as many.
    let of_c = |group: usize, thread: usize, i: usize| (group + 8 * (i / 2), 2 * thread + i % 2);
    let a = match ty {
        "tf32" => fragments(ty, |group, thread, i| (group + 8 * (i % 2), thread + 4 * (i / 2)), 4, a),
        _ => fragments(ty, |group, thread, i| (group + 8 * (i / 2 % 2), 2 * thread + i % 2 + 8 * (i / 4)), 4, a),
    };
    let b = match ty {
        "tf32" => fragments(ty, |group, thread, i| (thread + 4 * i, group), 2, b),
        _ => fragments(ty, |group, thread, i| (2 * thread + i % 2 + 8 * (i / 2), group), 2, b),
    };
    let c = fragments("tf32", of_c, 4, c);
    let mut memory = Memory::new();
    let inputs = [a, b, c].map(|values| put(&mut memory, &words(&values)));
    let out = memory.allocate(4 * 128);
    let values = arguments(&[inputs[0], inputs[1], inputs[2], out]);
    let done = module(&program(ty, "")).launch(&mut memory, "k", launch(1, 32, 1), &values);
    done.unwrap_or_else(|fault| panic!("{fault}"));
    let mut result = vec![vec![0.0; 8]; 16];
    for (number, word) in read_words(&memory, out, 128).into_iter().enumerate() {
        let (row, column) = of_c(number / 4 / 4, number / 4 % 4, number % 4);
        result[row][column] = f32::from_bits(word);
    }
    result
}

#[test]
fn products() {
    for (ty, depth) in [("f16", 16), ("bf16", 16), ("tf32", 8)] {
        let small = |row: usize, column: usize| ((row * 5 + column * 3 + row * column) % 7) as f32 - 3.0;
        let other = |row: usize, column: usize| ((row * 3 + column + row * column * 2) % 5) as f32 - 1.0;
        let found = multiply(ty, &small, &other, &small);
        for (row, found) in found.iter().enumerate() {
            for (column, found) in found.iter().enumerate() {
                let exact = (0..depth).fold(small(row, column), |sum, k| sum + small(row, k) * other(k, column));
                assert_eq!(*found, exact, "{ty} {row} {column}");
            }
        }
        // A NaN stays in its row and its column.
        let nan = |row: usize, column: usize| if (row, column) == (9, 5) { f32::NAN } else { 1.0 };
        let infinite = |row: usize, column: usize| if (row, column) == (2, 3) { f32::INFINITY } else { 1.0 };
        for (row, found) in multiply(ty, &nan, &infinite, &|_, _| 0.0).iter().enumerate() {
            for (column, found) in found.iter().enumerate() {
                match (row, column) {
                    (9, _) => assert!(found.is_nan()),
                    (_, 3) => assert_eq!(*found, f32::INFINITY),
                    _ => assert_eq!(*found, depth as f32),
                }
            }
        }
    }
}

/// Sums are ascending and rounded one by one.
#[test]
fn the_order_of_sums() {
    let big = |_: usize, k: usize| if k == 0 { 16_777_216.0 } else { 1.0 };
    let found = multiply("bf16", &big, &|_, _| 1.0, &|_, _| 0.0);
    assert_eq!(found[0][0], 16_777_216.0);
    let last = |_: usize, k: usize| if k == 15 { 16_777_216.0 } else { 1.0 };
    assert_eq!(multiply("bf16", &last, &|_, _| 1.0, &|_, _| 0.0)[0][0], 16_777_232.0);
    // The lower bits of a wide factor are ignored.
    let fine = |_: usize, _: usize| f32::from_bits(0x3f80_1fff);
    assert_eq!(multiply("tf32", &fine, &|_, _| 1.0, &|_, _| 0.0)[0][0], 8.0);
}

#[test]
fn all_lanes_are_needed() {
    let mut memory = Memory::new();
    let [a, b, c, d] = [512; 4].map(|bytes| put(&mut memory, &vec![0; bytes]));
    let module = module(&program("f16", "@!%p"));
    let fault =
        module.launch(&mut memory, "k", launch(1, 32, 1), &arguments(&[a, b, c, d])).expect_err("lane 7 is not there");
    assert!(matches!(fault.what, Problem::NotConverged { .. }), "{fault}");
    let few = crate::common::module(&program("f16", ""));
    let fault =
        few.launch(&mut memory, "k", launch(1, 24, 1), &arguments(&[a, b, c, d])).expect_err("a part of a warp");
    assert!(matches!(fault.what, Problem::NotConverged { .. }), "{fault}");
}

#[test]
fn matrices_from_shared_memory() {
    for (count, transposed) in [(1, false), (2, false), (4, false), (4, true), (1, true)] {
        let registers: Vec<String> = (0..count).map(|k| format!("%r{k}")).collect();
        let trans = if transposed { ".trans" } else { "" };
        let mut text = String::from(
            ".visible .entry k(.param .u64 out)
            {
            .shared .align 16 .b8 s[1024];
            .reg .b32 %t, %a, %v, %w, %r<4>; .reg .b64 %o;
            mov.u32 %t, %tid.x; shl.b32 %a, %t, 4; mov.u32 %v, s; add.u32 %a, %a, %v;
            shl.b32 %v, %t, 19; shl.b32 %w, %t, 3; or.b32 %v, %v, %w; add.u32 %v, %v, 0x10000;\n",
        );
        for k in 0..4 {
            text += &format!("st.shared.b32 [%a+{}], %v; add.u32 %v, %v, 0x20002;\n", 4 * k);
        }
        text += &format!(
            "bar.sync 0;\nldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{}}}, [%a];\n",
            registers.join(", ")
        );
        text += "ld.param.u64 %o, [out]; mad.wide.u32 %o, %t, 16, %o;\n";
        for (k, register) in registers.iter().enumerate() {
            text += &format!("st.global.b32 [%o+{}], {register};\n", 4 * k);
        }
        text += "ret;\n}\n";
        let mut memory = Memory::new();
        let out = put(&mut memory, &[0; 512]);
        module(&text)
            .launch(&mut memory, "k", launch(1, 32, 1), &arguments(&[out]))
            .unwrap_or_else(|fault| panic!("{fault}"));
        // Row `r` of all begins with the element 8 r.
        for (number, word) in read_words(&memory, out, 128).into_iter().enumerate() {
            let (lane, matrix) = (number / 4, number % 4);
            let element = |part: usize| {
                let (row, column) = (lane / 4, lane % 4 * 2 + part);
                let (row, column) = if transposed { (column, row) } else { (row, column) };
                (8 * (8 * matrix + row) + column) as u32
            };
            let expected = if matrix < count { element(1) << 16 | element(0) } else { 0 };
            assert_eq!(word, expected, "lane {lane} of matrix {matrix}, {count} of them, transposed: {transposed}");
        }
    }
}

/// Ties away from zero.
#[test]
fn to_eleven_bits() {
    let mut rows: Vec<Vec<u64>> = special("f32").into_iter().map(|bits| vec![bits]).collect();
    let mut random = Random(5);
    rows.extend((0..500).map(|_| vec![random.next() >> 32]));
    rows.extend([0x3f80_1000, 0x3f80_0fff, 0xbf80_3000, 0x7f7f_ffff].map(|bits| vec![bits]));
    check("cvt.rna.tf32.f32 %d, %a;", "b32", &["f32"], &rows, |row| {
        let exact = f64::from(f32::from_bits(row[0] as u32));
        if exact.is_nan() {
            return 0x7fff_ffff;
        }
        if exact.is_infinite() {
            return row[0];
        }
        // Below the normal numbers the last bit no longer shrinks.
        let unit = if exact == 0.0 { 1.0 } else { 2f64.powi((exact.abs().log2().floor() as i32).max(-126) - 10) };
        let near = (exact / unit).round() * unit;
        u64::from((near as f32).to_bits())
    });
}

/// Bytes past those that are read are zero.
#[test]
fn copies_that_read_less() {
    let text = "
        .visible .entry k(.param .u64 from, .param .u64 out)
        {
        .shared .align 16 .b8 s[512];
        .reg .pred %p; .reg .b32 %t, %a, %s, %n, %x<4>; .reg .b64 %f, %o;
        mov.u32 %t, %tid.x; shl.b32 %a, %t, 4; mov.u32 %s, s; add.u32 %s, %s, %a;
        setp.lt.u32 %p, %t, 5; selp.u32 %n, 16, 0, %p;
        ld.param.u64 %f, [from]; mad.wide.u32 %f, %t, 16, %f;
        ld.param.u64 %o, [out]; mad.wide.u32 %o, %t, 16, %o;
        cp.async.cg.shared.global [%s], [%f], 16, %n;
        cp.async.wait_all;
        ld.shared.v4.b32 {%x0, %x1, %x2, %x3}, [%s];
        st.global.v4.b32 [%o], {%x0, %x1, %x2, %x3};
        ret;
        }";
    let mut memory = Memory::new();
    // Threads that read nothing need no bytes.
    let from = put(&mut memory, &words(&(1..=20).collect::<Vec<u32>>()));
    let out = memory.allocate(512);
    module(text)
        .launch(&mut memory, "k", launch(1, 32, 1), &arguments(&[from, out]))
        .unwrap_or_else(|fault| panic!("{fault}"));
    let expected: Vec<u32> = (1..=20).chain([0; 108]).collect();
    assert_eq!(read_words(&memory, out, 128), expected);
}

#[test]
fn what_is_no_product_is_refused() {
    let line = |code: &str| {
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.entry k()\n{{\n.reg .b32 %r<8>; .reg .f32 %f<4>;\n{code}\nret;\n}}\n"
        );
        Module::parse(&text).map(|_| ())
    };
    let ends = "{%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, %f3};";
    assert!(line(&format!("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {ends}")).is_ok());
    for (modifiers, why) in [
        ("m16n8k16.row.col.f32.bf16.f16.f32", "two types"),
        ("m16n8k16.row.col.f32.tf32.tf32.f32", "`.f16`"),
        ("m16n8k16.row.row.f32.bf16.bf16.f32", "`.col`"),
        ("m16n8k8.row.col.f32.bf16.bf16.f32", "`.tf32`"),
    ] {
        let error = line(&format!("mma.sync.aligned.{modifiers} {ends}")).expect_err(modifiers);
        assert!(error.what.contains(why), "{error}");
    }
    let error = line("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1}, [%r2];").expect_err("too few registers");
    assert!(error.what.contains("4 elements"), "{error}");
}

/// Of two groups of copies, waiting for all but one makes the first arrive but not the second.
#[test]
fn groups_of_copies() {
    let text = |but: u32| {
        format!(
            ".visible .entry k(.param .u64 from, .param .u64 out)
            {{
            .shared .align 16 .b8 s[32];
            .reg .b32 %s, %x, %y; .reg .b64 %f, %o;
            ld.param.u64 %f, [from]; ld.param.u64 %o, [out]; mov.u32 %s, s;
            st.shared.b32 [%s], 7; st.shared.b32 [%s+16], 7;
            cp.async.cg.shared.global [%s], [%f], 16; cp.async.commit_group;
            cp.async.cg.shared.global [%s+16], [%f+16], 16; cp.async.commit_group;
            cp.async.wait_group {but};
            ld.shared.b32 %x, [%s]; ld.shared.b32 %y, [%s+16];
            st.global.b32 [%o], %x; st.global.b32 [%o+4], %y;
            cp.async.wait_all;
            ret;
            }}"
        )
    };
    for (but, expected) in [(0, [1, 5]), (1, [1, 7]), (2, [7, 7])] {
        let mut memory = Memory::new();
        let from = put(&mut memory, &words(&(1..=8).collect::<Vec<u32>>()));
        let out = memory.allocate(8);
        let done = module(&text(but)).launch(&mut memory, "k", launch(1, 1, 1), &arguments(&[from, out]));
        done.unwrap_or_else(|fault| panic!("{fault}"));
        assert_eq!(read_words(&memory, out, 2), expected, "all but {but}");
    }
}
